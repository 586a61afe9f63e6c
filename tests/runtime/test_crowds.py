"""Many workloads at once: slices leave turns to others, due times and first fits are spread, and nothing is lost."""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from autoscaler.core.forecast.training import REFIT_S
from autoscaler.ports import MetricSample
from autoscaler.runtime.checkpoints import AT_ONCE
from autoscaler.runtime.isolation import Isolation
from autoscaler.runtime.lanes import CROWD, MIN_GAP_S, SLICE, on_grid_s, phase_ratio
from autoscaler.runtime.steps import Arrival
from autoscaler.runtime.triggers import Cause
from tests.runtime.bench import Bench, running, target
from tests.runtime.fakes import Source, Store

pytestmark = pytest.mark.looptime(noop_cycles=1)

MANY = [f"team-{i % 7}/service-{i}" for i in range(120)]
FEW = MANY[: CROWD - 1]


def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that the core is stepped with."""
    seen: list[int] = []
    real = Isolation.step

    def counted(self, batch):
        seen.append(len(batch))
        return real(self, batch)

    monkeypatch.setattr(Isolation, "step", counted)
    return seen


async def test_a_crowd_is_looked_at_at_once_and_a_slice_in_a_turn() -> None:
    turn, begun = 0, Counter[int]()

    class Counted(Source):
        async def read(self, workload: str) -> MetricSample:
            begun[turn] += 1
            return await super().read(workload)

    async with running(*map(target, MANY)) as bench:
        bench.runtime._loop._gatherer._metrics = Counted(bench.clock, bench.scale)
        while begun.total() < len(MANY):
            turn += 1
            await asyncio.sleep(0)
        await bench.until(0.1)
    assert max(begun.values()) <= SLICE
    assert {e.decision.now_s for name in MANY for e in bench.stepped(name)} == {0.0}


async def test_a_crowd_whose_readings_come_together_is_stepped_a_slice_in_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = asyncio.Event()

    class Gated(Source):
        async def read(self, workload: str) -> MetricSample:
            await gate.wait()
            return await super().read(workload)

    async with running(*map(target, MANY)) as bench:
        bench.runtime._loop._gatherer._metrics = Gated(bench.clock, bench.scale)
        batches = sizes(monkeypatch)
        await bench.until(1.0)
        assert not batches
        gate.set()
        seen = [0]
        while sum(batches) < len(MANY):
            seen.append(len(batches))
            await asyncio.sleep(0)
        batches = list(batches)
    assert max(batches) <= SLICE
    assert set(range(len(batches))) <= set(seen), "a turn between any two slices"


async def test_what_falls_due_during_one_slice_is_done_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer's way to the task that waits for it takes three turns of the event loop, a page's from its socket too."""
    heard: list[int] = []
    async with running(*map(target, MANY)) as bench:
        await bench.until(1.0)
        loop, bell = bench.runtime._loop, asyncio.Event()
        lanes = [loop._lanes[name] for name in MANY[: 3 * SLICE]]
        found = [await loop._gatherer.look(lane.target, lane.known) for lane in lanes]
        batches = sizes(monkeypatch)
        counted = Isolation.step

        def stepped(self, batch):
            asyncio.get_running_loop().call_later(0, bell.set)
            return counted(self, batch)

        async def listen() -> None:
            while await bell.wait():
                bell.clear()
                heard.append(len(batches))

        monkeypatch.setattr(Isolation, "step", stepped)
        listening = asyncio.get_running_loop().create_task(listen())
        for lane, gathered in zip(lanes, found, strict=True):
            loop.steps.arrive(Arrival(lane, gathered, Cause.DUE))
        await bench.until(1.1)
        listening.cancel()
    assert batches == [SLICE] * 3
    assert heard == [1, 2, 3]


def dues(bench: Bench, after_s: float) -> Counter[float]:
    """How many were stepped at each instant after `after_s`."""
    return Counter(
        round(e.decision.now_s, 3) for name in MANY for e in bench.stepped(name) if e.decision.now_s > after_s
    )


async def test_after_a_common_start_a_crowd_falls_due_spread_over_the_tick_and_stays_so() -> None:
    async with running(*map(target, MANY)) as bench:
        await bench.until(11.0)
        for name in MANY:
            bench.runtime.put(target(name, max_replicas=19))  # an edit of all in one instant
        await bench.until(20.9)
    instants = dues(bench, 0.0)
    assert instants.pop(11.0) == len(MANY)
    slots = 5.0 / MIN_GAP_S
    assert max(instants.values()) <= 3 * len(MANY) / slots
    for name in MANY:
        times = [at_s for at_s, _ in bench.steps(name)]
        assert max(b - a for a, b in pairwise(times)) <= 5.0 + 1e-6, "never later than one tick"
        assert len(times) <= 7, "and but one step more for the start and the edit"


async def test_few_keep_their_own_beat() -> None:
    async with running(*map(target, FEW)) as bench:
        await bench.until(11.0)
    assert {tuple(at_s for at_s, _ in bench.steps(name)) for name in FEW} == {(0.0, 5.0, 10.0)}


@pytest.mark.parametrize("tick_s", [0.2, 1.0, 5.0, 30.0, 300.0])
def test_an_instant_of_the_grid_is_ahead_at_most_a_tick_away_and_the_same_from_everywhere(tick_s: float) -> None:
    for name in MANY[:20]:
        at_s = on_grid_s(name, 1000.0, tick_s)
        for early_s in (-0.001, 0.0, 0.003):
            following_s = on_grid_s(name, at_s + early_s, tick_s)
            assert following_s == pytest.approx(at_s + max(tick_s, MIN_GAP_S + early_s), abs=1e-6)
        for back_s in (0.05, 0.3, 0.9):
            ahead_s = on_grid_s(name, at_s - back_s * tick_s, tick_s) - (at_s - back_s * tick_s)
            assert MIN_GAP_S <= ahead_s <= tick_s + MIN_GAP_S


def test_names_are_spread_evenly() -> None:
    tenths = Counter(int(10 * phase_ratio(f"ns/{i}")) for i in range(10_000))
    assert set(tenths) == set(range(10))
    assert all(800 <= count <= 1200 for count in tenths.values())


async def restored(names: list[str]) -> list[float]:
    """Seconds from a restart to the instants from which workloads ask for their first fit."""
    async with running(*map(target, names)) as bench:
        await bench.until(12.0)
    async with running(*map(target, names), store=Store(bench.store.kept)) as again:
        await again.until(0.1)
        tracks = [again.runtime.table.track(row) for row in again.runtime.table.rows.values()]
        return sorted(track.fit_asked_s + REFIT_S for track in tracks)


async def test_a_crowd_that_is_restored_asks_for_its_fits_spread_over_a_while() -> None:
    waits_s = await restored(MANY)
    assert waits_s[0] >= 0.0
    assert 15.0 < waits_s[-1] <= 0.25 * len(MANY) + 0.1
    assert max(b - a for a, b in pairwise(waits_s)) < 3.0


async def test_few_that_are_restored_ask_at_once() -> None:
    assert set(await restored(FEW[:3])) == {float("-inf")}


async def test_new_readings_replace_those_that_wait_for_their_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that is slow to come round gets each workload once, with what is newest."""
    async with running(*map(target, FEW)) as bench:
        await bench.until(1.0)
        loop = bench.runtime._loop
        lane = loop._lanes[FEW[0]]
        old = await loop._gatherer.look(lane.target, lane.known)
        await bench.until(2.0)
        new = await loop._gatherer.look(lane.target, lane.known)
        assert old.readings is not None
        assert new.readings is not None
        batches = sizes(monkeypatch)
        loop.steps.arrive(Arrival(lane, old, Cause.EDITED))
        loop.steps.arrive(Arrival(lane, new, Cause.DUE))
        await bench.until(2.1)
    assert batches == [1]
    assert bench.steps(FEW[0])[-1] == (2.0, "EDITED"), "the newest readings, and why they were wanted first"


async def test_checkpoints_of_a_crowd_are_packed_with_turns_between_and_none_is_missing() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running(*map(target, MANY)) as bench:
        await bench.until(6.0)
        watching = asyncio.get_running_loop().create_task(other())
        packed = await bench.runtime.snapshot()
        watching.cancel()
    assert set(packed) == set(MANY)
    assert turns >= len(MANY) // AT_ONCE
