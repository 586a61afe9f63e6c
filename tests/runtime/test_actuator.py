"""What becomes of decisions: conflicts, refusals, silence, cancellation and modes, on virtual time."""

from dataclasses import replace

import pytest

from autoscaler.api.modes import Mode
from autoscaler.ports import Fault, Patch, RefusedError
from autoscaler.runtime.actuator import Outcome
from autoscaler.runtime.lanes import phase_ratio
from autoscaler.runtime.supervisor import Bounds
from tests.runtime.bench import A, B, running, target

pytestmark = pytest.mark.looptime(noop_cycles=1)

WANTS_SIX = target(min_replicas=6)
"""Its policy's minimum makes the first step order 6 where 2 stand."""


async def test_a_decision_is_patched_with_the_count_it_saw() -> None:
    async with running(WANTS_SIX) as bench:
        await bench.until(6.0)
    assert bench.scale.patches == [(0.0, A, 2, 6)]
    assert bench.outcomes() == [(0.0, "applied")]


async def test_a_conflict_supersedes_the_decision_and_steps_the_workload_at_once() -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [Patch.CONFLICT]
        bench.scale.replicas[A] = 2
        await bench.until(0.1)
        bench.scale.replicas[A] = 3  # somebody else's edit, which the first patch ran into
        await bench.until(4.0)
    assert bench.steps() == [(0.0, "DUE"), (0.2, "SUPERSEDED")]
    assert bench.scale.patches == [(0.0, A, 2, 6), (0.2, A, 3, 6)]
    assert bench.outcomes() == [(0.0, "superseded"), (0.2, "applied")]


async def test_a_target_whose_every_patch_is_a_conflict_is_asked_as_seldom_as_one_that_refuses() -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [Patch.CONFLICT] * 100
        await bench.until(20.0)
    wait_s = 2.0 * (1.0 + phase_ratio(A))
    instants = (0.0, 0.2, 0.2 + wait_s, 0.2 + 3 * wait_s, 5.2 + 3 * wait_s, 10.2 + 3 * wait_s)
    assert {outcome for _, outcome in bench.outcomes()} == {"superseded"}
    assert [at_s for at_s, _ in bench.outcomes()] == pytest.approx(instants, abs=0.01)


LATER = RefusedError(Fault.UNAVAILABLE, "429 Too Many Requests")


@pytest.mark.parametrize(
    "refusal",
    [Patch.REFUSED, RefusedError(Fault.DENIED, "403 Forbidden"), RefusedError(Fault.INVALID, "422: at most 4")],
    ids=["without a word", "a right that lacks", "a count that is not allowed"],
)
async def test_a_refusal_that_will_not_pass_is_not_repeated_before_the_next_tick(refusal: Patch | RefusedError) -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [refusal, refusal]
        await bench.until(11.0)
    assert bench.outcomes() == [(0.0, "refused"), (5.0, "refused"), (10.0, "applied")]


async def test_a_refusal_that_may_pass_is_decided_anew_soon_then_later_and_then_with_every_tick() -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [LATER] * 6
        for tenth in range(1, 200):
            await bench.until(tenth / 10)
            bench.pushes.names.put_nowait(A)  # news that contradict nothing make it no more often
    soon_s = 1.0 + phase_ratio(A)
    instants = (0.0, soon_s, 3 * soon_s, 7 * soon_s, 7 * soon_s + 5, 7 * soon_s + 10)
    assert {outcome for _, outcome in bench.outcomes()} == {"refused"}
    assert [at_s for at_s, _ in bench.outcomes()] == pytest.approx(instants, abs=0.01)
    assert {cause for _, cause in bench.steps()} == {"DUE"}


async def test_after_a_patch_that_was_applied_the_next_refusal_is_the_first_again() -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [LATER, LATER]
        await bench.until(6.0)
        assert [outcome for _, outcome in bench.outcomes()] == ["refused", "refused", "applied"]
        bench.scale.answers = [LATER]
        bench.runtime.put(target(min_replicas=7))
        await bench.until(9.0)
    at_s = [at_s for at_s, _ in bench.outcomes()]
    assert at_s[4] - at_s[3] == pytest.approx(1.0 + phase_ratio(A), abs=0.01)


async def test_a_crowd_that_is_refused_in_one_instant_comes_back_spread() -> None:
    names = [f"prod/m{number}" for number in range(20)]
    async with running(*(target(name, min_replicas=6) for name in names)) as bench:
        bench.scale.answers = [LATER] * len(names)
        await bench.until(4.0)
    again = [at_s for at_s, outcome in bench.outcomes() if outcome == "applied"]
    assert len(again) == len(names)
    assert all(1.0 <= at_s <= 2.0 + 1e-6 for at_s in again)
    assert max(again) - min(again) > 0.5


async def test_a_workload_that_is_gone_when_its_patch_is_refused_is_not_looked_at_again() -> None:
    async with running(WANTS_SIX, target(B)) as bench:
        honest = bench.scale.patch

        async def late(workload: str, seen_replicas: int, replicas: int) -> Patch:
            if workload == B:
                return await honest(workload, seen_replicas, replicas)
            await bench.scale.clock.sleep_until(bench.scale.clock.monotonic() + 1.0)
            raise RefusedError(Fault.TIMEOUT, "not sent")

        bench.scale.patch = late  # type: ignore[method-assign]
        await bench.until(0.1)
        bench.runtime.remove(A)
        await bench.until(12.0)
    assert [outcome for _, outcome in bench.outcomes()] == ["refused"]
    assert bench.steps(B)[-1][0] == 10.0, "the loop lives"


async def test_of_workloads_that_went_after_a_patch_that_did_nothing_no_name_is_kept() -> None:
    names = [f"prod/m{number}" for number in range(30)]
    async with running(*(target(name, min_replicas=6) for name in names), bounds=Bounds(patch_s=2.0)) as bench:
        bench.scale.answers = [*[LATER] * 10, *[Fault.UNAVAILABLE] * 10, *["hang"] * 10]
        await bench.until(0.1)
        assert sum(bench.runtime._actuator.unknown(name) for name in names) == 10
        for name in names:
            bench.runtime.remove(name)
        await bench.until(3.0)
        kept = bench.runtime._actuator._unknown | bench.runtime._actuator._refused_for_now
    assert {outcome for _, outcome in bench.outcomes()} == {"refused", "unknown"}
    assert len(bench.outcomes()) == 30
    assert kept == set()


async def test_a_refusal_keeps_the_words_of_the_server_and_blocks_nothing() -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [RefusedError(Fault.DENIED, "403 Forbidden: may not patch deployments/scale")]
        await bench.until(6.0)
    refused, applied = bench.told("act")
    assert refused["outcome"] == "refused"
    assert refused["message"] == "403 Forbidden: may not patch deployments/scale"
    assert applied["outcome"] == "applied"


async def test_after_an_unknown_outcome_nothing_is_patched_until_the_target_was_read_back() -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [Fault.UNAVAILABLE]
        await bench.until(0.1)
        reads = bench.scale.reads
        bench.scale.fails = {A}
        await bench.until(12.0)
        bench.scale.fails = set()
        await bench.until(16.0)
    assert reads == 1
    assert [patch[0] for patch in bench.scale.patches] == [0.0, 15.2]
    assert bench.outcomes() == [
        (0.0, "unknown"),
        (0.2, "the target could not be read"),
        (5.2, "the target could not be read"),
        (10.2, "the target could not be read"),
        (15.2, "applied"),
    ]


async def test_a_server_that_leaves_every_outcome_unknown_is_asked_no_more_often_than_one_that_refuses() -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [Fault.UNAVAILABLE] * 50
        await bench.until(60.0)
        asked = [at_s for at_s, *_ in bench.scale.patches]
        bench.scale.answers = []
        await bench.until(66.0)
    later_s = 1.0 + phase_ratio(A)
    assert asked[:4] == pytest.approx([0.0, 0.2, 0.2 + 2 * later_s, 0.2 + 2 * later_s + 4 * later_s], abs=0.01)
    assert len(asked) <= 4 + 60 / 5.0, "one in a tick from then on"
    assert bench.outcomes()[-1][1] == "applied", "and it is asked again when it is well"


async def test_a_patch_that_was_applied_although_nobody_answered_is_not_ordered_twice() -> None:
    async with running(WANTS_SIX) as bench:
        bench.scale.answers = [Fault.TIMEOUT]
        await bench.until(0.1)
        bench.scale.replicas[A] = 6  # it had arrived
        await bench.until(16.0)
    assert len(bench.scale.patches) == 1
    assert bench.steps()[1] == (0.2, "READ_BACK")


async def test_while_a_patch_hangs_later_decisions_wait_and_then_see_the_target_anew() -> None:
    async with running(WANTS_SIX, bounds=Bounds(patch_s=7.0)) as bench:
        bench.scale.answers = ["hang"]
        await bench.until(8.0)
    assert [patch[0] for patch in bench.scale.patches] == [0.0, 7.0]
    assert bench.outcomes() == [(5.0, "an earlier patch is on its way"), (7.0, "unknown"), (7.0, "applied")]


async def test_a_patch_cancelled_on_the_way_is_recorded_as_unknown() -> None:
    async with running(WANTS_SIX, bounds=Bounds(patch_s=60.0, acting_s=3.0)) as bench:
        bench.scale.answers = ["hang"]
        await bench.until(1.0)
    (act,) = bench.told("act")
    assert (act["outcome"], act["message"], act["now_s"]) == ("unknown", "cancelled on the way", 4.0)


async def test_a_patch_that_ends_while_the_driver_stops_is_waited_for() -> None:
    async with running(WANTS_SIX, bounds=Bounds(patch_s=2.0, acting_s=3.0)) as bench:
        bench.scale.answers = ["hang"]
        await bench.until(1.0)
    (act,) = bench.told("act")
    assert (act["outcome"], act["message"], act["now_s"]) == ("unknown", "no answer within 2 s", 2.0)


async def test_a_decision_nobody_got_to_in_time_is_not_acted_upon() -> None:
    async with running(target()) as bench:
        await bench.until(1.0)
        actuator = bench.runtime._loop._actuator
        bench.runtime.put(WANTS_SIX)
        await bench.until(6.0)
        decision = next(e.decision for e in bench.stepped() if e.decision.replicas == 6)
        assert actuator.objection(WANTS_SIX, decision, target_readable=True) is None
        await bench.until(17.0)
        assert actuator.objection(WANTS_SIX, decision, target_readable=True) is Outcome.EXPIRED


MAY = {
    Mode.SHADOW: (False, False),
    Mode.ACTIVE: (True, True),
    Mode.PAUSED: (False, False),
    Mode.PAUSED_SCALE_IN: (True, False),
    Mode.PAUSED_SCALE_OUT: (False, True),
}


@pytest.mark.parametrize(("mode", "may"), MAY.items(), ids=[mode.value for mode in MAY])
async def test_each_mode_decides_and_records_and_acts_as_far_as_it_may(mode: Mode, may: tuple[bool, bool]) -> None:
    more, fewer = target(min_replicas=6, mode=mode), target(min_replicas=1, max_replicas=1, mode=mode)
    for wanted, allowed in zip((more, fewer), may, strict=True):
        async with running(wanted) as bench:
            await bench.until(0.1)
        assert [e.decision.verdict.name for e in bench.stepped()] == ["SCALE"]
        assert len(bench.scale.patches) == allowed
        assert bench.told("act")[0]["outcome"] == ("applied" if allowed else "not acted upon in this mode")


async def test_what_keda_acts_on_is_decided_and_recorded_and_never_patched() -> None:
    async with running(replace(target(min_replicas=6), told=True)) as bench:
        await bench.until(0.1)
    assert [e.decision.verdict.name for e in bench.stepped()] == ["SCALE"]
    assert bench.scale.patches == []
    assert bench.told("act")[0]["outcome"] == "told to KEDA, which acts"


def test_every_mode_is_in_the_table() -> None:
    assert set(MAY) == set(Mode)
