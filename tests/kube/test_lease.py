"""Who may write: one process at most, whatever happens to machines, network, clocks and Lease; and soon somebody."""

import asyncio
import json
import time
from contextlib import closing
from itertools import pairwise
from typing import Any

import looptime
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autoscaler.adapters.kube.lease import Elector
from autoscaler.adapters.kube.lease_object import Holder
from autoscaler.runtime.clock import WallClock
from tests.kube.apis import Apis, Ill, Reply, serving
from tests.kube.machines import FATES, LATE_S, LEASE, Blow, Contest, Net

virtual = pytest.mark.looptime(noop_cycles=1)

HEALED_S = 40.0
COLD_S = 15.0
GRACEFUL_S = 2.0
FREE: dict[str, Any] = {}
"""The Lease as a manifest makes it: nobody ever held it."""
NETS = [net for net in Net if net not in {Net.FINE, Net.LATE}]


def played(contest: Contest, blows: list[Blow], until_s: float) -> Contest:
    with closing(looptime.new_event_loop(noop_cycles=1)) as loop:
        loop.run_until_complete(contest.play(blows, until_s))
    return contest


def leads_at(contest: Contest) -> list[tuple[float, int]]:
    """(when, which machine) of every lead, in order."""
    return sorted((round(at_s, 2), machine.number) for machine in contest.machines for at_s in machine.led)


BLOWS = st.lists(
    st.builds(
        Blow,
        at_s=st.floats(0.0, HEALED_S - 0.1).map(lambda x: round(x, 2)),
        machine=st.integers(0, 2),
        kind=st.sampled_from([net for net in Net if net is not Net.FINE]) | st.sampled_from(FATES),
        for_s=st.floats(0.1, 12.0).map(lambda x: round(x, 2)),
    ),
    max_size=14,
)


@st.composite
def troubles(draw: st.DrawFn) -> list[Blow]:
    """Blows of which none outlives the time to heal."""
    return [Blow(b.at_s, b.machine, b.kind, min(b.for_s, HEALED_S - b.at_s)) for b in draw(BLOWS)]


def law(blows: list[Blow], lease: dict[str, Any] | None) -> None:
    contest = Contest(3, lease=lease)
    leaders: list[int] = []

    async def play() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(contest.play(blows, HEALED_S + LATE_S + COLD_S + 1.0))
            await asyncio.sleep(HEALED_S + LATE_S + COLD_S)
            leaders.extend(contest.leaders())

    with closing(looptime.new_event_loop(noop_cycles=1)) as loop:
        loop.run_until_complete(play())
    assert contest.seen == [], "two might have written"
    assert len(leaders) == 1, "15 s after the last trouble somebody leads"


LOST_THEN_FROZEN = [Blow(20.0, 0, Net.DEAF, 3.0), Blow(21.0, 0, "freeze", 12.0), Blow(25.0, 1, "delete lease", 0.1)]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blows=troubles(), lease=st.sampled_from([FREE, None]))
@example(blows=LOST_THEN_FROZEN, lease=FREE)
@example(blows=[Blow(5.0, 1, "delete lease", 0.1), Blow(4.5, 0, Net.LOST, 12.0)], lease=FREE)
@example(blows=[Blow(5.0, 1, "erase holder", 0.1), Blow(4.5, 0, Net.LOST, 12.0)], lease=FREE)
@example(blows=[Blow(5.0 + m, m, "clock", 12.0 * (m - 1)) for m in range(3)], lease=FREE)
def test_there_are_never_two_who_may_write_and_in_the_end_there_is_one(
    blows: list[Blow], lease: dict[str, Any] | None
) -> None:
    law(blows, lease)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blows=troubles(), lease=st.sampled_from([FREE, None]))
@pytest.mark.timeout(300)
def test_there_are_never_two_who_may_write_in_300_troubled_runs(
    blows: list[Blow], lease: dict[str, Any] | None
) -> None:
    law(blows, lease)


def test_a_lease_that_nobody_ever_held_is_taken_at_once() -> None:
    contest = played(Contest(3, lease=FREE), [], 8.0)
    [(at_s, _)] = leads_at(contest)
    assert at_s < 0.1


def test_a_missing_lease_is_made_and_waited_for_because_its_deletion_may_be_news_to_its_leader() -> None:
    contest = played(Contest(3), [], 15.0)
    [(at_s, _)] = leads_at(contest)
    assert 10.0 <= at_s <= 11.1


@pytest.mark.parametrize("at_s", [20.0, 20.7, 21.4])
def test_a_graceful_stop_hands_over_within_two_seconds(at_s: float) -> None:
    contest = played(Contest(2, lease=FREE), [Blow(at_s, 0, "stop", 0.0), Blow(at_s, 1, "stop", 0.0)], 23.0)
    first, second = leads_at(contest)[:2]
    assert first[0] < 0.1
    assert at_s < second[0] <= at_s + GRACEFUL_S


def test_a_release_is_taken_up_by_the_one_who_waits() -> None:
    contest = Contest(2, lease=FREE)
    played(contest, [Blow(0.0, 1, Net.LOST, 1.0), Blow(20.0, 0, "stop", 0.0)], 23.0)
    (_, first), (at_s, second) = leads_at(contest)
    assert (first, second) == (0, 1)
    assert 20.0 < at_s <= 21.1


@pytest.mark.parametrize(
    "kind", ["kill", "freeze", Net.CUT, Net.LOST, Net.DEAF, Net.HTML_500, Net.HTML_200, Net.TOO_MANY, Net.ASTRAY]
)
def test_a_leader_that_is_gone_is_followed_within_15_s_and_not_before_its_lead_is_over(kind: Net | str) -> None:
    contest = played(Contest(2, lease=FREE), [Blow(0.0, 1, Net.LOST, 1.0), Blow(20.0, 0, kind, 30.0)], 40.0)
    (_, first), (at_s, _) = leads_at(contest)
    assert first == 0
    assert 27.0 <= at_s <= 20.0 + COLD_S
    assert contest.seen == []


def test_a_retry_after_of_an_hour_does_not_keep_the_lead_vacant_for_one() -> None:
    blows = [Blow(0.0, 1, Net.LOST, 1.0), Blow(20.0, 0, "freeze", 30.0), Blow(20.0, 1, Net.TOO_MANY, 9.0)]
    _, (at_s, second) = leads_at(played(Contest(2, lease=FREE), blows, 40.0))
    assert second == 1
    assert at_s <= 20.0 + COLD_S


@pytest.mark.parametrize("kind", NETS)
def test_trouble_shorter_than_the_deadline_costs_no_lead(kind: Net) -> None:
    contest = played(Contest(2, lease=FREE), [Blow(20.0, m, kind, 4.0) for m in (0, 1)], 50.0)
    assert len(leads_at(contest)) == 1


def test_clocks_minutes_apart_and_jumping_change_nothing() -> None:
    contest = Contest(3, lease=FREE)
    contest.machines[0].wall_s, contest.machines[1].wall_s = 300.0, -300.0
    played(contest, [Blow(10.0 + 5 * m, m, "clock", 3.0 * m) for m in range(3)], 60.0)
    assert len(leads_at(contest)) == 1
    assert contest.seen == []


def test_a_lease_deleted_under_its_leader_is_made_again_without_a_change_of_lead() -> None:
    contest = played(Contest(3, lease=FREE), [Blow(20.0 + t, 0, "delete lease", 0.0) for t in (0.0, 1.3, 9.0)], 60.0)
    assert len(leads_at(contest)) == 1
    assert contest.apis.objects[LEASE]["spec"]["leaseTransitions"] == 1


def test_a_holder_erased_by_hand_stays_the_leader_and_writes_itself_back() -> None:
    contest = played(Contest(3, lease=FREE), [Blow(20.0, 0, "erase holder", 0.0)], 60.0)
    [(_, leader)] = leads_at(contest)
    assert contest.apis.objects[LEASE]["spec"]["holderIdentity"] == f"machine-{leader}-1"


def test_somebody_who_keeps_touching_the_lease_does_not_keep_a_dead_leader_alive() -> None:
    touches = [Blow(20.0 + second, 0, "touch lease", 0.0) for second in range(20)]
    contest = Contest(2, lease=FREE)
    played(contest, [Blow(0.0, 1, Net.LOST, 1.0), Blow(20.0, 0, "freeze", 30.0), *touches], 40.0)
    assert [machine for _, machine in leads_at(contest)] == [0, 1]


def test_every_lead_is_another_term() -> None:
    contest = played(
        Contest(3, lease=FREE), [Blow(10.0 * n, m, "stop", 0.0) for n in range(1, 5) for m in range(3)], 45.0
    )
    leads = leads_at(contest)
    assert len(leads) >= 5
    assert all(later[0] - earlier[0] > 1.0 for earlier, later in pairwise(leads))
    assert contest.apis.objects[LEASE]["spec"]["leaseTransitions"] == len(leads)


# One elector


def elector(contest: Contest, machine: int = 0, identity: str = "pod-a", **times: float) -> Elector:
    host = contest.machines[machine]
    return Elector(
        host, namespace="headroom", name="headroom", identity=identity, address="10.0.0.7:8080", clock=host, **times
    )


@virtual
async def test_the_lease_says_who_holds_it_where_since_when_in_utc_and_keeps_what_is_not_ours() -> None:
    contest = Contest(2, lease=FREE)
    contest.apis.edit(
        LEASE, metadata=contest.apis.objects[LEASE]["metadata"] | {"annotations": {"team": "x"}}, spec={"strategy": "y"}
    )
    first, second = elector(contest), elector(contest, 1, "pod-b")
    await first.campaign()
    kept = contest.apis.objects[LEASE]
    assert kept["metadata"]["annotations"] == {"team": "x", "headroom.dev/address": "10.0.0.7:8080"}
    assert kept["spec"] == {
        "strategy": "y",
        "holderIdentity": "pod-a",
        "leaseDurationSeconds": 10,
        "acquireTime": "2027-01-15T08:00:00.004000Z",
        "renewTime": "2027-01-15T08:00:00.004000Z",
        "leaseTransitions": 1,
    }
    async with asyncio.timeout(1.0):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second.campaign(), 0.5)
    assert second.holder == Holder("pod-a", "10.0.0.7:8080", 1.8e9 + 0.004)
    assert (first.may_write(), second.may_write()) == (True, False)
    assert await first.release()
    assert "headroom.dev/address" not in contest.apis.objects[LEASE]["metadata"]["annotations"]
    assert first.holder is None


@virtual
async def test_before_the_lead_and_after_it_nothing_may_be_written() -> None:
    contest = Contest(1, lease=FREE)
    machine, candidate = contest.machines[0], elector(contest)
    assert not candidate.may_write()
    await candidate.campaign()
    assert candidate.remaining_s() == pytest.approx(7.0 - 0.004)
    machine.net = Net.LOST
    await candidate.hold()
    assert machine.monotonic() == pytest.approx(1000.0 + 7.0, abs=0.02)
    assert not candidate.may_write()
    assert candidate.error is not None


@virtual
async def test_a_process_thawed_after_its_deadline_may_not_write_from_its_first_instruction_on() -> None:
    contest = Contest(1, lease=FREE)
    machine, candidate = contest.machines[0], elector(contest)
    await candidate.campaign()
    async with asyncio.TaskGroup() as group:
        group.create_task(candidate.hold())
        await asyncio.sleep(5.0)
        assert candidate.may_write()
        machine.freeze(8.0)
        await asyncio.sleep(7.99)
        assert not candidate.may_write()


@virtual
async def test_a_machine_that_was_hibernated_wakes_without_the_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the loop's clock, which stood still, it would have led for seven seconds more, beside the next leader."""
    read, slept = time.clock_gettime, {"s": 0.0}
    monkeypatch.setattr(time, "clock_gettime", lambda c: read(c) + (slept["s"] if c == time.CLOCK_BOOTTIME else 0.0))
    api = Contest(1, lease=FREE).machines[0]
    elector = Elector(api, namespace="headroom", name="headroom", identity="a", address="", clock=WallClock())
    await elector.campaign()
    assert elector.may_write()
    slept["s"] = 3600.0
    assert not elector.may_write()
    assert elector.remaining_s() == 0.0


@virtual
async def test_a_lead_that_another_has_taken_ends_at_the_next_renewal() -> None:
    contest = Contest(1, lease=FREE)
    machine, candidate = contest.machines[0], elector(contest)
    await candidate.campaign()
    contest.apis.edit(LEASE, spec=contest.apis.objects[LEASE]["spec"] | {"holderIdentity": "x", "leaseTransitions": 2})
    await candidate.hold()
    assert machine.monotonic() <= 1000.0 + 2.1
    assert not candidate.may_write()


@virtual
async def test_a_predecessor_of_the_same_name_is_waited_for_like_any_other() -> None:
    contest = Contest(1, lease=FREE)
    await elector(contest).campaign()
    machine = contest.machines[0]
    began_s = machine.monotonic()
    await elector(contest).campaign()
    assert machine.monotonic() - began_s >= 10.0


@virtual
async def test_a_claim_whose_answer_was_lost_is_known_again() -> None:
    contest = Contest(1, lease=FREE)
    machine, candidate = contest.machines[0], elector(contest)
    asyncio.get_running_loop().call_later(0.003, setattr, machine, "net", Net.DEAF)
    asyncio.get_running_loop().call_later(1.0, setattr, machine, "net", Net.FINE)
    await candidate.campaign()
    assert machine.monotonic() <= 1000.0 + 4.0
    assert candidate.term == 2


@virtual
async def test_a_holder_with_a_longer_lease_is_given_its_time() -> None:
    contest = Contest(
        1, lease={"holderIdentity": "old", "renewTime": "2027-01-15T08:00:00.0Z", "leaseDurationSeconds": 30}
    )
    await elector(contest).campaign()
    assert 30.0 <= contest.machines[0].monotonic() - 1000.0 <= 31.1


@virtual
async def test_a_lease_made_anew_is_not_free_for_whoever_saw_its_holder() -> None:
    contest = Contest(2, lease=FREE)
    first, second = elector(contest), elector(contest, 1, "pod-b")
    await first.campaign()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(second.campaign())
        await asyncio.sleep(0.1)
        contest.apis.put(LEASE, {"kind": "Lease", "spec": {}})
        await asyncio.sleep(7.0)
        assert not waiting.done()
        await waiting
        assert not first.may_write()


@virtual
async def test_an_empty_object_is_no_free_lease() -> None:
    contest = Contest(2, lease=FREE)
    first, second = elector(contest), elector(contest, 1, "pod-b")
    await first.campaign()
    contest.apis.ills = [Ill.EMPTY_200]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.campaign(), 5.0)
    assert not second.may_write()


@virtual
async def test_a_claim_that_is_answered_with_the_lease_of_another_is_no_lead() -> None:
    contest = Contest(2, lease=FREE)
    first, second = elector(contest), elector(contest, 1, "pod-b")
    await first.campaign()
    theirs = Reply(200, json.dumps(contest.apis.objects[LEASE]).encode())
    contest.apis.put(LEASE, {"kind": "Lease", "spec": {}})
    contest.apis.replies["PATCH"] = theirs
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.campaign(), 1.0)
    assert not second.may_write()
    assert second.error is not None
    assert "shows another holder" in str(second.error)


@virtual
async def test_an_elector_that_has_led_claims_the_lease_no_more() -> None:
    candidate = elector(Contest(1, lease=FREE))
    await candidate.campaign()
    await candidate.release()
    with pytest.raises(ValueError, match="has led before"):
        await candidate.campaign()


@virtual
async def test_a_renewal_confirmed_after_the_release_began_gives_no_lead_back() -> None:
    contest = Contest(1, lease=FREE)
    candidate = elector(contest)
    await candidate.campaign()
    async with asyncio.TaskGroup() as group:
        holding = group.create_task(candidate.hold())
        asked = len(contest.apis.asked)
        while len(contest.apis.asked) == asked:  # noqa: ASYNC110 # the instant at which a renewal is on its way
            await asyncio.sleep(0.001)
        assert await candidate.release()
        assert not candidate.may_write()
        await holding
        assert not candidate.may_write()
    assert contest.apis.objects[LEASE]["spec"]["holderIdentity"] == ""


@virtual
async def test_a_release_that_gets_no_answer_gives_up_in_time() -> None:
    contest = Contest(1, lease=FREE)
    machine, candidate = contest.machines[0], elector(contest)
    await candidate.campaign()
    machine.net = Net.LOST
    assert not await candidate.release()
    assert machine.monotonic() <= 1000.0 + 2.1
    assert not candidate.may_write()


@virtual
async def test_a_lost_lead_is_not_taken_from_its_successor_by_a_release() -> None:
    contest = Contest(2, lease=FREE)
    first, second = elector(contest), elector(contest, 1, "pod-b")
    await first.campaign()
    contest.machines[0].net = Net.LOST
    await first.hold()
    await second.campaign()
    contest.machines[0].net = Net.FINE
    assert await first.release()
    assert second.may_write()
    assert contest.apis.objects[LEASE]["spec"]["holderIdentity"] == "pod-b"


@virtual
async def test_a_proxy_that_answers_404_to_everything_is_not_asked_in_a_busy_loop() -> None:
    contest = Contest(1, lease=FREE)
    candidate = elector(contest)
    await candidate.campaign()
    contest.machines[0].net = Net.ASTRAY
    await candidate.hold()
    assert 5 < contest.machines[0].calls < 60


@pytest.mark.parametrize(
    "times",
    [{"renew_s": 0.0}, {"renew_s": 7.0}, {"deadline_s": 10.0}, {"lease_s": 6.0}],
    ids=["no renewals", "renewed at the deadline", "deadline at the lease's end", "lease shorter than the deadline"],
)
def test_times_that_make_no_election_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="they must increase"):
        elector(Contest(1), 0, "pod-a", **times)


# Over a real socket, in real time


@pytest.mark.parametrize(
    "ill", [Ill.HTML_500, Ill.HTML_200, Ill.EMPTY_200, Ill.TOO_MANY, Ill.FORBIDDEN, Ill.HANG, Ill.CLOSE]
)
async def test_a_leader_stops_writing_within_its_deadline_whatever_the_server_says(ill: Ill) -> None:
    apis, clock = Apis(), WallClock()
    apis.put(LEASE, {"kind": "Lease", "spec": {}})
    async with serving(apis) as api:
        candidate = Elector(
            api, namespace="headroom", name="headroom", identity="a", address="", clock=clock,
            lease_s=0.6, renew_s=0.1, deadline_s=0.4,
        )  # fmt: skip
        await candidate.campaign()
        apis.ills = [ill] * 1000
        began_s = clock.monotonic()
        await candidate.hold()
        assert clock.monotonic() - began_s <= 0.6
        assert not candidate.may_write()
        assert candidate.error is not None
