"""Shares of GPU budgets in the live driver: who grows, who gives way, who waits, and that no budget is exceeded."""

from contextlib import closing
from dataclasses import replace
from functools import cache

import looptime
import numpy as np
import pytest

from autoscaler.api.modes import Mode, Tier
from autoscaler.core.params import KnownEvent, Params
from autoscaler.core.reasons import Reason
from autoscaler.core.scale.sharing import Budgets, share
from autoscaler.core.types import Limits
from autoscaler.runtime import budgets as room
from autoscaler.runtime.actuator import Outcome
from autoscaler.runtime.budgets import EVERY_S, GRACE_S, PEAK_S, Peak
from autoscaler.runtime.supervisor import Bounds
from autoscaler.sim.plant import Plant
from autoscaler.sim.traffic import Traffic
from tests.runtime.bench import A, B, Bench, running, target
from tests.runtime.plants import Embedded, spec

virtual = pytest.mark.looptime(noop_cycles=1)

LIMITED = Outcome.LIMITED.value
CHAT, BATCH = "prod/chat", "prod/batch"
GPUS, ONSET_S, END_S = 22, 600, 1500


def flow(name: str, before_rps: float, after_rps: float) -> Traffic:
    """Poisson arrivals whose rate changes once."""
    rates = np.full(END_S, before_rps)
    rates[ONSET_S:] = after_rps
    arrivals = np.random.default_rng(len(name)).poisson(rates).astype(np.float64)
    return Traffic(name=name, step_s=1.0, arrivals=arrivals, source="test")


@cache
def contest() -> Embedded:
    """Scavenging work that fills most of the cluster when critical work comes to need two thirds of it."""

    async def play() -> Embedded:
        plants = {
            CHAT: Plant(spec(60.0), flow(CHAT, 3.0, 11.0)),
            BATCH: Plant(spec(60.0), flow(BATCH, 12.0, 12.0)),
        }
        embedded = Embedded.make(plants, Params(max_replicas=40, tick_s=5.0, warmup_prior_s=60.0))
        embedded.budgets, embedded.tiers = Budgets(GPUS), {CHAT: Tier.CRITICAL, BATCH: Tier.SCAVENGER}
        await embedded.drive(END_S - 1.0, CHAT, BATCH)
        return embedded

    with closing(looptime.new_event_loop(noop_cycles=1)) as loop:
        return loop.run_until_complete(play())


def ordered(name: str) -> np.ndarray:
    return np.asarray(contest().cluster.plant(name).timeline().desired)


def test_the_budget_holds_at_every_second_of_a_contest() -> None:
    assert (ordered(CHAT) + ordered(BATCH)).max() <= GPUS


def test_critical_work_gets_what_it_needs_and_scavenging_work_makes_room_at_the_pace_of_shrinking() -> None:
    chat, batch = ordered(CHAT), ordered(BATCH)
    assert chat[ONSET_S - 1] <= 8
    assert batch[ONSET_S - 1] >= 12
    assert chat[-60:].min() >= 12
    assert batch[-60:].max() <= GPUS - 12
    assert (batch[ONSET_S + 50 :] >= batch[ONSET_S:-50] // 2).all(), "no faster than by half in a minute of bins"


def test_who_gives_way_says_which_budget_has_how_many_gpus_and_who_has_them() -> None:
    told = [s for s in contest().steps(BATCH) if s.decision.reason is Reason.BUDGET]
    assert told
    evidence = dict(told[-1].decision.trace[-1].evidence)
    assert isinstance(evidence["budget_words"], str)
    assert evidence["budget_words"].startswith(f"the cluster has {GPUS} GPUs, ")
    assert evidence["budget_words"].endswith(" of them go to critical work")


def test_nothing_swings_while_the_contest_lasts() -> None:
    settled = ordered(BATCH)[ONSET_S + 300 :]
    assert np.count_nonzero(np.diff(np.sign(np.diff(settled)[np.diff(settled) != 0]))) <= 2


def replicas(bench: Bench) -> tuple[int, int]:
    return bench.scale.replicas.get(A, 2), bench.scale.replicas.get(B, 2)


@virtual
async def test_nobody_grows_before_all_are_known_and_then_floors_are_shared_fairly() -> None:
    async with running(target(min_replicas=6), target(B, min_replicas=6), budgets=Budgets(9)) as bench:
        await bench.until(0.1)
        assert bench.outcomes() == [(0.0, LIMITED), (0.0, LIMITED)]
        await bench.until(1.0)
    assert replicas(bench) == (5, 4)
    assert bench.steps() == [(0.0, "DUE"), (0.2, "EDITED")]
    first, second = bench.stepped()
    assert [step.reason for step in first.decision.trace] == [Reason.NO_SIGNAL, Reason.FLOOR]
    assert dict(second.decision.trace[-1].evidence)["budget_words"] == "the cluster has 9 GPUs, shared by 2 workloads"


@virtual
async def test_importance_decides_between_floors_that_do_not_fit() -> None:
    async with running(
        target(min_replicas=6, tier=Tier.SCAVENGER), target(B, min_replicas=6, tier=Tier.CRITICAL), budgets=Budgets(8)
    ) as bench:
        await bench.until(1.0)
    assert replicas(bench) == (2, 6)


@virtual
async def test_a_replica_of_eight_gpus_counts_as_eight() -> None:
    async with running(target(min_replicas=6, gpus_per_replica=8), budgets=Budgets(None, {"prod": 39})) as bench:
        await bench.until(1.0)
    assert bench.scale.replicas[A] == 4
    assert "namespace prod has 39 GPUs" in bench.audit.lines[-1].decode()


@virtual
async def test_what_strangers_hold_is_no_room_to_grow_into_and_its_end_is() -> None:
    async with running(target(min_replicas=6), budgets=Budgets(None, {"prod": 8})) as bench:
        bench.runtime.foreign({"prod": 4, "dev": 9})
        await bench.until(1.0)
        assert bench.scale.replicas[A] == 4
        assert "namespace prod has 8 GPUs, 4 of them are held by pods not scaled here" in bench.audit.lines[-1].decode()
        bench.runtime.foreign({"dev": 9})
        await bench.until(2.0)
        assert bench.scale.replicas[A] == 6
        bench.runtime.foreign({"prod": 7})
        await bench.until(20.0)
    assert bench.scale.replicas[A] == 6, "nobody who serves gives way to a stranger"


@virtual
async def test_one_without_gpus_and_one_in_another_namespace_know_no_budget() -> None:
    other = "dev/chat"
    budgets = Budgets(None, {"prod": 2})
    async with running(target(min_replicas=6, gpus_per_replica=0), target(other, min_replicas=6), budgets=budgets) as b:
        await b.until(0.1)
        assert (b.scale.replicas[A], b.scale.replicas[other]) == (6, 6)
        await b.until(6.0)
    assert all(e.readings.limits == Limits() for name in (A, other) for e in b.stepped(name))


@virtual
async def test_an_order_on_its_way_counts_as_held_until_it_is_known_not_to_have_been_carried_out() -> None:
    async with running(target(), target(B), budgets=Budgets(10), bounds=Bounds(patch_s=3.0)) as bench:
        await bench.until(6.0)
        bench.scale.answers = ["hang"]
        bench.runtime.put(target(min_replicas=6))
        await bench.until(7.0)
        bench.runtime.put(target(B, min_replicas=9))
        await bench.until(8.0)
        assert replicas(bench) == (2, 4), "6 of 10 may have been ordered"
        bench.runtime.put(target(min_replicas=2))
        await bench.until(8.9)
        assert replicas(bench) == (2, 4), "a step in between knows no better"
        await bench.until(11.0)
    assert replicas(bench) == (2, 8), "it was read back: nothing had been ordered"


@virtual
async def test_a_target_that_cannot_be_read_holds_the_others_up_only_so_long_and_counts_as_its_minimum() -> None:
    async with running(target(min_replicas=3), target(B, min_replicas=9), budgets=Budgets(8)) as bench:
        bench.scale.fails = {A}
        await bench.until(GRACE_S - 0.1)
        assert replicas(bench)[1] == 2
        await bench.until(GRACE_S + 1.0)
        assert replicas(bench)[1] == 5


@virtual
async def test_what_one_that_is_removed_held_is_shared_again() -> None:
    async with running(target(min_replicas=6), target(B, min_replicas=6), budgets=Budgets(8)) as bench:
        await bench.until(1.0)
        assert replicas(bench) == (4, 4)
        bench.runtime.remove(A)
        await bench.until(2.0)
    assert replicas(bench)[1] == 6


@virtual
@pytest.mark.parametrize("mode", [Mode.PAUSED, Mode.SHADOW])
async def test_one_that_nobody_may_scale_keeps_what_it_has_and_its_decisions_know_no_budget(mode: Mode) -> None:
    async with running(target(min_replicas=6, mode=mode), target(B, min_replicas=9), budgets=Budgets(8)) as bench:
        bench.scale.replicas[A] = 5
        await bench.until(1.0)
    assert replicas(bench) == (5, 3)
    assert all(e.readings.limits == Limits() for e in bench.stepped())


@virtual
async def test_what_a_paused_one_holds_is_left_to_it_and_others_shrink_into_the_rest() -> None:
    async with running(target(mode=Mode.PAUSED), target(B, min_replicas=4), budgets=Budgets(8)) as bench:
        bench.scale.replicas = {A: 6, B: 4}
        await bench.until(150.0)
    assert replicas(bench) == (6, 2)


@virtual
async def test_one_whose_demand_is_unknown_keeps_what_it_has_even_from_critical_work() -> None:
    async with running(
        target(tier=Tier.SCAVENGER), target(B, min_replicas=6, tier=Tier.CRITICAL), budgets=Budgets(8)
    ) as bench:
        bench.source.fails, bench.scale.replicas[A] = {A}, 5
        await bench.until(150.0)
    assert replicas(bench) == (5, 3)


@virtual
async def test_the_words_of_a_decision_are_those_of_now_although_its_limit_is_the_same() -> None:
    async with running(target(min_replicas=6), target(B, min_replicas=6), budgets=Budgets(8)) as bench:
        await bench.until(3.0)
        bench.scale.replicas["prod/new"] = 0
        bench.runtime.put(target("prod/new", min_replicas=0))
        await bench.until(6.0)
    words = [dict(e.decision.trace[-1].evidence)["budget_words"] for e in bench.stepped()[1:]]
    assert words == [f"the cluster has 8 GPUs, shared by {count} workloads" for count in (2, 3)]


@virtual
async def test_one_that_may_not_grow_reserves_nothing_it_cannot_take() -> None:
    async with running(
        target(min_replicas=6, mode=Mode.PAUSED_SCALE_OUT, tier=Tier.CRITICAL),
        target(B, min_replicas=9),
        budgets=Budgets(8),
    ) as bench:
        await bench.until(1.0)
    assert replicas(bench) == (2, 6)


@virtual
async def test_a_lower_budget_of_its_own_stays_in_force() -> None:
    own = Limits(budget_replicas=3, budget_words="three are yours")
    async with running(target(min_replicas=6, limits=own), budgets=Budgets(20)) as bench:
        await bench.until(1.0)
    assert bench.scale.replicas[A] == 3
    assert "three are yours" in bench.audit.lines[-1].decode()


@virtual
async def test_a_known_event_is_a_floor_like_any_other() -> None:
    event = KnownEvent(0.0, 60.0, floor=7)
    async with running(target(events=(event,)), target(B, min_replicas=3), budgets=Budgets(10)) as bench:
        await bench.until(1.0)
    assert replicas(bench) == (7, 3)


@virtual
async def test_the_last_replica_of_one_that_could_not_wake_again_is_not_shared_away() -> None:
    idle = target(min_replicas=0, idle_after_s=1e9)
    async with running(idle, target(B, min_replicas=0, tier=Tier.CRITICAL), budgets=Budgets(8)) as bench:
        bench.source.queued[B] = 500.0
        await bench.until(900.0)
    assert replicas(bench)[0] >= 1
    assert sum(replicas(bench)) <= 8


def counted(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> list[float]:
    """The instants at which shares are computed."""
    rounds: list[float] = []

    def noted(claims, budgets):
        rounds.append(bench.clock.now())
        return share(claims, budgets)

    monkeypatch.setattr(room, "share", noted)
    return rounds


@virtual
async def test_where_there_is_room_nothing_is_shared_again_and_nobody_is_stepped_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = KnownEvent(20.0, 40.0, floor=3)
    async with running(target(events=(event,)), target(B), budgets=Budgets(50)) as bench:
        rounds = counted(monkeypatch, bench)
        await bench.until(61.0)
    assert len(rounds) <= 2
    assert [cause for _, cause in bench.steps(B)] == ["DUE", "EDITED", *["DUE"] * 12]
    assert bench.scale.replicas[A] == 3, "growth by one was within the room it had"


@virtual
async def test_while_somebody_is_refused_shares_are_computed_again_only_when_a_claim_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(target(min_replicas=6), target(B, min_replicas=6), budgets=Budgets(8)) as bench:
        await bench.until(6.0)
        rounds = counted(monkeypatch, bench)
        await bench.until(44.0)
        assert rounds == []
        bench.scale.replicas[B] = 3
        await bench.until(46.0)
        assert rounds


@virtual
async def test_shares_are_computed_at_most_every_200_ms_however_many_contend(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"prod/{i}" for i in range(30)]
    async with running(*(target(name, min_replicas=9) for name in names), budgets=Budgets(100)) as bench:
        rounds = counted(monkeypatch, bench)
        for millisecond in range(1, 3000, 7):
            await bench.until(millisecond / 1000)
            name = names[millisecond % 30]
            bench.runtime.put(target(name, min_replicas=5 + millisecond % 4))
    assert len(rounds) <= 3.0 / EVERY_S + 1
    assert min(np.diff(rounds)) >= EVERY_S - 1e-6
    assert sum(bench.scale.replicas.get(name, 2) for name in names) <= 100


@virtual
async def test_an_order_beyond_a_limit_that_was_lowered_since_is_not_sent() -> None:
    async with running(target(min_replicas=6)) as bench:
        await bench.until(1.0)
        (first,) = bench.stepped()
        actuator, now = bench.runtime._actuator, target(min_replicas=6)
        for limits in (Limits(quota_replicas=5), Limits(budget_replicas=5)):
            assert actuator.objection(replace(now, limits=limits), first.decision, True) is Outcome.LIMITED
        for limits in (Limits(quota_replicas=6), Limits(budget_replicas=6), Limits()):
            assert actuator.objection(replace(now, limits=limits), first.decision, True) is None
        fewer = replace(first.decision, seen_replicas=9, replicas=7)
        assert actuator.objection(replace(now, limits=Limits(budget_replicas=5)), fewer, True) is None


def test_a_want_counts_as_its_highest_of_the_last_one_to_two_minutes() -> None:
    peak = Peak()
    story = [(0.0, 3), (10.0, 9), (59.0, 2), (60.0, 1), (119.0, 1), (120.0, 1), (400.0, 2)]
    assert [peak.note(value, at_s) for at_s, value in story] == [3, 9, 9, 9, 9, 1, 2]
    assert PEAK_S == 60.0
