"""What a controller knows of simulated pods: pages up to a second old, and pods whose page was not read yet."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest

from autoscaler.core.params import Params
from autoscaler.core.types import Decision, GatewayReading, PodReading, Readings, ReplicaReading, StartingReplica
from autoscaler.sim.recorded import RecordedPolicy
from loadtests.run import pages
from loadtests.run.pages import ByPages, Pages


def shown(now_s: float, names: tuple[str, ...] = ("a", "b")) -> Readings:
    """What the plant shows at once: each pod has completed ten requests for each second so far."""
    pods = tuple(PodReading(name, 0.0, waiting=1.0, running=2.0, requests_total=10.0 * now_s) for name in names)
    return Readings(now_s, ReplicaReading(len(names), len(names)), pods, GatewayReading(3.0, 100.0))


def totals(readings: Readings) -> dict[str, float | None]:
    return {pod.name: pod.requests_total for pod in readings.pods or ()}


def known(until_s: float = 0.0) -> Pages:
    """Pages of two pods that were read each tenth of a second up to `until_s`."""
    read = Pages(np.random.default_rng(0))
    for step in range(round(10 * until_s) + 1):
        read.known(shown(step / 10))
    return read


def test_pods_that_were_there_before_the_controller_are_silent_until_their_turn() -> None:
    read = known()
    seen = [read.known(shown(step / 10)) for step in range(1, 11)]
    assert seen[0].pods is None, "nothing is known of any of them"
    assert seen[0].now_s == 0.1
    first = next(readings for readings in seen if readings.pods is not None)
    assert sorted(totals(first).values(), key=str) == [pytest.approx(first.now_s * 10, abs=1.0), None]
    assert None not in totals(seen[-1]).values(), "a second later each has had its turn"


def test_each_page_is_read_once_a_second_and_two_pods_at_two_instants() -> None:
    read = known(1.0)
    seen = [totals(read.known(shown(step / 10))) for step in range(10, 111)]
    news = {
        name: [at for at in range(1, 101) if seen[at][name] != seen[at - 1][name]] for name in ("a", "b")
    }  # fmt: skip
    assert all(len(at) == 10 for at in news.values())
    assert all(later - earlier == 10 for at in news.values() for earlier, later in pairwise(at))
    assert {at % 10 for at in news["a"]} != {at % 10 for at in news["b"]}
    assert all(seen[at]["a"] == pytest.approx(10.0 + at) for at in news["a"])


def test_what_is_known_is_of_the_instant_of_the_newest_page() -> None:
    read = known(1.0)
    seen = [read.known(shown(step / 10)).now_s for step in range(10, 111)]
    assert all(0 <= step / 10 - now_s < 1.0 for step, now_s in zip(range(10, 111), seen, strict=True))
    newest = sorted(set(seen))
    assert len(newest) in {20, 21}, "two pods, ten seconds"
    assert all(later - earlier == pytest.approx(1.0) for earlier, later in zip(newest, newest[2:], strict=False))


def test_the_first_pods_are_read_when_they_are_said_to_be_and_others_at_any_instant() -> None:
    read = Pages(np.random.default_rng(0), (0.25, 0.75))
    seen = [read.known(shown(step / 20, ("a", "b", "c"))).now_s for step in range(60)]
    fractions = sorted({round(now_s % 1.0, 3) for now_s in seen if now_s > 1.0})
    assert len(fractions) == 3
    assert {0.25, 0.75} < set(fractions)


@pytest.mark.parametrize(("share", "told"), [(1.0, None), (0.0, 50.0)], ids=["looked-at-first", "read-first"])
def test_a_pod_that_has_just_become_ready_is_there_and_its_page_may_come_after_the_look(
    share: float, told: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "FIRST_LATE", share)
    read = known(4.9)
    found = read.known(shown(5.0, ("a", "b", "c")))
    assert [pod.name for pod in found.pods or ()] == ["a", "b", "c"]
    assert totals(found)["c"] == told
    assert found.now_s <= 5.0 if told is None else found.now_s == 5.0
    assert totals(read.known(shown(5.1, ("a", "b", "c"))))["c"] in {51.0, told}, "it was asked for in that instant"
    assert totals(read.known(shown(6.1, ("a", "b", "c"))))["c"] != told


@pytest.mark.parametrize(("lost", "apart_s"), [(0.0, 5.0), (1.0, 4.0)], ids=["page-first", "look-first"])
def test_a_tick_ends_with_the_page_of_its_instant_or_with_the_one_before(
    lost: float, apart_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick of five seconds that misses its page by a hair is one of four: it counts from the page before."""
    monkeypatch.setattr(pages, "RACE_LOST", lost)
    decided = list[Decision]()

    def quiet(decision: Decision, then: Readings, now: Readings) -> bool:
        if not decided or decision is not decided[-1]:
            decided.append(decision)
        return False

    policy = ByPages(RecordedPolicy(Params(max_replicas=4), 0.1, contradicts=quiet), Pages(np.random.default_rng(0)))
    for step in range(400):
        policy.decide(shown(step / 10, ("a",)))
    ends = [decision.now_s for decision in decided]
    assert [later - earlier for earlier, later in pairwise(ends[1:])] == pytest.approx([apart_s] * (len(ends) - 2))
    assert len(ends) >= 8


@pytest.mark.parametrize("origin_s", [0.0, 1_795_000_007.3], ids=["the plant's clock", "a clock that began long ago"])
def test_nothing_is_looked_at_where_nothing_can_have_changed(origin_s: float) -> None:
    """One pod, read at .25 of each second: a look at each page, at the end of each tick, and as replicas change."""
    decided = RecordedPolicy(Params(max_replicas=4), 0.01, contradicts=lambda *_: False)
    policy, woken = ByPages(decided, Pages(np.random.default_rng(0), (0.25,)), origin_s), list[float]()
    for step in range(1, 1201):
        now_s, ready = step / 100, 1 + (step > 840)
        if policy.wakes(now_s, (ready, ready, 0)):
            woken.append(now_s)
            policy.decide(shown(now_s, ("a", "b")[:ready]))
    assert woken[0] == 0.01, "nothing is known yet"
    assert [at_s for at_s in woken if 1.0 < at_s < 8.0] == [1.25, 2.25, 3.25, 4.25, 5.0, 5.25, 6.25, 7.25]
    later = [at_s for at_s in woken if 8.3 < at_s < 9.3]
    assert (later[0], later[-1]) == (8.41, 9.25), "as it becomes ready, and each of the two in its turn"
    assert len(later) in {3, 4}


@dataclass
class Seeing:
    """A policy that keeps what it is shown and orders nothing."""

    seen: list[Readings] = field(default_factory=list)
    due_s: float = np.inf

    def look(self, readings: Readings, *, due: bool) -> int:
        self.seen.append(readings)
        return readings.replicas.desired


def test_all_instants_are_of_the_controllers_clock() -> None:
    seeing = Seeing()
    policy = ByPages(seeing, Pages(np.random.default_rng(0), (0.25,)), 1007.0)  # type: ignore[arg-type]
    policy.decide(shown(19.3, ("a",)))
    starting = replace(shown(20.26, ("a",)), replicas=ReplicaReading(2, 1, (StartingReplica(18.0, "b"),)))
    policy.decide(starting)
    told = seeing.seen[1]
    assert told.now_s == pytest.approx(1027.25)
    assert [pod.ready_since_s for pod in told.pods or ()] == [1007.0]
    assert told.replicas == ReplicaReading(2, 1, (StartingReplica(1025.0, "b"),))


def test_no_gateway_stands_before_the_pods_and_an_outage_is_no_pod_that_went() -> None:
    read = known(1.0)
    assert read.known(shown(1.1)).gateway is None
    out = read.known(replace(shown(1.2), pods=None))
    assert out.pods is None
    after = read.known(shown(1.3))
    assert None not in totals(after).values()
    assert after.now_s >= out.now_s, "instants never go back"


def test_that_no_pod_is_there_is_known_at_once() -> None:
    read = known(1.0)
    found = read.known(shown(1.15, ()))
    assert found.pods == ()
    assert found.now_s == pytest.approx(1.15)


def test_a_pod_that_is_gone_is_told_of_no_more() -> None:
    read = known(1.0)
    assert totals(read.known(shown(2.1, ("b",)))) == {"b": 21.0}
