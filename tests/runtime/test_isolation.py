"""A bug that one workload provokes stops that workload and no other: in the core, around it, and in an adapter."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest

from autoscaler.core import engine, traces
from autoscaler.core.capacity import throughput
from autoscaler.core.demand import budget, episodes, peaks
from autoscaler.core.forecast import forecaster, onset
from autoscaler.core.observe import history
from autoscaler.core.params import Params
from autoscaler.core.scale import bounds
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, GatewayReading, PodReading, Readings, ReplicaReading
from autoscaler.ports import Fault, MetricSample, Patch, RefusedError
from autoscaler.record import memories
from autoscaler.runtime import lanes, records, steps
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.isolation import BatchResult, Bug, Isolation
from autoscaler.runtime.steps import QUARANTINE_S, Arrival
from autoscaler.runtime.supervisor import Catching
from autoscaler.runtime.triggers import Cause
from tests.runtime.bench import A, B, running, target
from tests.runtime.fakes import Scale, Source

pytestmark = pytest.mark.looptime(noop_cycles=1)

BAD = "prod/bad"
"""The first row of every table here, so that a planted bug knows it by its row."""


def plant(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, *, when: Callable[..., bool], after: bool = False
) -> None:
    """Make a function of the core raise `when` it is called with these arguments, before or after its own work."""
    real = getattr(module, name)

    def buggy(*args: Any, **kwargs: Any) -> Any:
        hit = when(*args, **kwargs)
        if hit and not after:
            raise ZeroDivisionError("a bug")
        made = real(*args, **kwargs)
        if hit:
            raise ZeroDivisionError("a bug")
        return made

    monkeypatch.setattr(module, name, buggy)


def has_bad(_columns: object, rows: np.ndarray, *_: object, **__: object) -> bool:
    return 0 in rows


async def test_one_workload_that_raises_is_noted_and_tried_again_a_minute_later_while_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(target(BAD, min_replicas=6), target(A), target(B, min_replicas=6)) as bench:
        await bench.until(7.0)
        bench.runtime.table.track(0).lead.samples_s = [50.0]
        with monkeypatch.context() as planted:
            plant(planted, budget, "spend", when=has_bad)
            await bench.until(75.0)
        await bench.until(141.0)
    assert [at_s for at_s, _ in bench.steps(A)] == [5.0 * i for i in range(29)]
    assert [at_s for at_s, _ in bench.steps(B)] == [5.0 * i for i in range(29)]
    # 0 and 5 went well; 10 raised, and so did 70, a minute later; 130 was after the bug had gone.
    assert [at_s for at_s, _ in bench.steps(BAD)] == [0.0, 5.0, 130.0, 135.0, 140.0]
    notes = [(n["now_s"], n["workload"]) for n in bench.told("note") if n["event"] == "a step raised"]
    assert notes == [(10.0, BAD), (10.0 + QUARANTINE_S, BAD)]
    assert bench.told("note")[0]["message"].startswith("ZeroDivisionError: a bug (test_isolation.py:")
    assert bench.stepped(BAD)[2].view.warmup_samples == 0, "it was started afresh"


async def test_neither_events_nor_edits_touch_a_workload_that_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(target(BAD), target(A)) as bench:
        await bench.until(1.0)
        plant(monkeypatch, budget, "spend", when=has_bad)
        bench.runtime.put(target(BAD, min_replicas=6))
        await bench.until(10.0)
        bench.pushes.names.put_nowait(BAD)
        bench.runtime.put(target(BAD, min_replicas=7))
        await bench.until(50.0)
    assert [n["now_s"] for n in bench.told("note") if n["workload"] == BAD] == [1.0]
    assert [at_s for at_s, name in bench.source.reads if name == BAD] == [0.0, 1.0]


async def test_one_that_raised_and_can_be_read_no_more_is_looked_at_on_and_that_is_known_of_the_driver() -> None:
    """Its last decision grows old; a driver whose loop stands still looks at nothing."""
    async with running(target()) as bench:
        await bench.until(6.0)
        assert bench.runtime.blind_age_s == math.inf, "it was read"
        loop = bench.runtime._loop
        bench.scale.fails.add(A)
        loop.steps.quarantine(loop._lanes[A], Bug("KeyError: 'x'"))
        await bench.until(1200.0)
        assert bench.steps()[-1][0] < 10.0
        assert bench.runtime.blind_age_s <= 5.0


async def test_one_that_can_never_be_read_excuses_no_driver_that_reads_others_and_decides_nothing() -> None:
    async with running(target(), target(B)) as bench:
        await bench.until(6.0)
        loop = bench.runtime._loop
        for name, until_s, least_s, most_s in ((B, 400.0, math.inf, math.inf), (A, 800.0, 0.0, 5.0)):
            bench.scale.fails.add(name)
            loop.steps.quarantine(loop._lanes[name], Bug("KeyError: 'x'"))
            await bench.until(until_s)
            assert least_s <= bench.runtime.blind_age_s <= most_s


async def test_readings_that_were_on_their_way_when_it_raised_are_not_stepped() -> None:
    async with running(target(BAD)) as bench:
        await bench.until(1.0)
        loop = bench.runtime._loop
        lane = loop._lanes[BAD]
        gathered = await loop._gatherer.look(lane.target, lane.known)
        loop.steps.quarantine(lane, Bug("KeyError: 'x'"))
        loop.steps.arrive(Arrival(lane, gathered, Cause.EDITED))
        await bench.until(2.0)
    assert [at_s for at_s, _ in bench.steps(BAD)] == [0.0]


async def test_a_patch_that_is_refused_while_its_workload_is_left_alone_loses_it_no_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What may pass is asked again within a tick, and that look would have found nobody to step it."""
    async with running(target(BAD, min_replicas=6), target(A)) as bench:

        async def late(*_: object) -> Patch:
            await bench.clock.sleep_until(2.0)
            raise RefusedError(Fault.TIMEOUT, "not sent")

        monkeypatch.setattr(bench.scale, "patch", late)
        await bench.until(1.0)
        loop = bench.runtime._loop
        loop.steps.quarantine(loop._lanes[BAD], Bug("KeyError: 'x'"))
        await bench.until(72.0)
    assert [at_s for at_s, _ in bench.steps(BAD)][:2] == [0.0, 1.0 + QUARANTINE_S]


async def test_a_culprit_that_does_not_raise_again_is_found_at_its_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bug needs an interval, and stepped again with the same readings it has none."""

    def in_a_new_interval(_columns: object, rows: np.ndarray, dt_s: np.ndarray, *_: object) -> bool:
        return bool(0 in rows and dt_s[rows.tolist().index(0)] > 0)

    async with running(target(BAD), target(A), target(B)) as bench:
        await bench.until(7.0)
        plant(monkeypatch, budget, "spend", when=in_a_new_interval)
        await bench.until(41.0)
    found = [(n["now_s"], n["workload"]) for n in bench.told("note") if n["event"] == "a step raised"]
    assert found == [(10.0, None), (15.0, BAD)]
    for name in (A, B):
        assert [at_s for at_s, _ in bench.steps(name)] == [5.0 * i for i in range(9)]


async def test_a_decision_that_cannot_be_recorded_is_not_acted_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, steps, "view", when=lambda _table, name: name == BAD)
    async with running(target(BAD, min_replicas=6), target(A, min_replicas=6)) as bench:
        await bench.until(3.0)
    assert [patch[1] for patch in bench.scale.patches] == [A]
    assert [n["workload"] for n in bench.told("note") if n["event"] == "a step raised"] == [BAD]


async def test_a_memory_that_cannot_be_recorded_stops_no_workload_and_makes_it_forget_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "MEMORY_S", 30.0)
    plant(monkeypatch, records, "memory_line", when=lambda name, *_: name == BAD)
    async with running(target(BAD), target(A)) as bench:
        await bench.until(91.0)
    assert bench.steps(BAD) == bench.steps(A) == [(5.0 * i, "DUE") for i in range(19)]
    assert sorted(patch[1] for patch in bench.scale.patches) == sorted([BAD, A])
    notes = [n["message"] for n in bench.told("note") if (n["event"], n["workload"]) == ("a step raised", BAD)]
    assert len(notes) == 3
    assert notes[0].startswith("ZeroDivisionError: a bug (")
    assert notes[0].endswith("its memory is not in the audit")
    kept = [msgspec.json.decode(line)["workload"] for line in bench.audit.lines if line.startswith(memories.PREFIX)]
    assert kept == [A, A, A]


async def test_an_adapter_that_raises_what_it_must_not_stops_one_workload() -> None:
    class Odd(Source):
        async def read(self, workload: str) -> MetricSample:
            if workload == BAD:
                raise KeyError("pod")
            return await super().read(workload)

    async with running(target(BAD), target(A)) as bench:
        bench.runtime._loop._gatherer._metrics = Odd(bench.clock, bench.scale)
        await bench.until(11.0)
    assert len(bench.steps(A)) == 3
    (note,) = [n for n in bench.told("note") if n["workload"] == BAD]
    assert "ExceptionGroup" in note["message"]


async def test_a_scale_client_that_raises_what_it_must_not_leaves_an_unknown_outcome() -> None:
    class Odd(Scale):
        async def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
            raise KeyError("spec")

    async with running(target(min_replicas=6)) as bench:
        bench.runtime._actuator._scale = Odd(bench.clock)
        await bench.until(0.1)
    (act,) = bench.told("act")
    assert (act["outcome"], act["message"].partition(" (")[0]) == ("unknown", "KeyError: 'spec'")


STAGES: dict[str, tuple[ModuleType, str]] = {
    "history": (history, "absorb"),
    "capacity": (throughput, "learn"),
    "onset": (onset, "update"),
    "objective": (budget, "spend"),
    "episodes": (episodes, "follow"),
    "residency": (peaks, "note_work"),
    "forecast": (forecaster, "advance"),
    "failed starts": (bounds, "note_starts"),
    "bounds' memory": (bounds, "note"),
    "soft bounds": (bounds, "soft"),
}
EVERY_S, FAULT_AT, TURNS = 5.0, 30, 45
LOADS = {A: 6.0, B: 1.5, BAD: 3.0}
"""Requests/s of workloads with four pods of 2 requests/s each."""


@dataclass
class Twin:
    """A table of three workloads, stepped together with the readings of steady loads."""

    table: Table = field(default_factory=Table.empty)
    decided: list[dict[str, Decision]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in (BAD, A, B):
            self.table.put(name, Params(tick_s=EVERY_S, warmup_prior_s=60.0))
        self.isolation = Isolation(self.table, Catching(), ScaledClock())

    def step(self, turn: int) -> BatchResult:
        now_s = turn * EVERY_S
        batch = [(name, readings(now_s, load_rps)) for name, load_rps in LOADS.items()]
        result = self.isolation.step(batch)
        self.decided.append(result.decisions)
        return result

    def counted(self, name: str) -> float:
        return float(self.table.history.count[self.table.rows[name]].sum())


@cache
def undisturbed() -> Twin:
    twin = Twin()
    for turn in range(TURNS):
        twin.step(turn)
    return twin


def readings(now_s: float, load_rps: float) -> Readings:
    served = load_rps * now_s
    pods = tuple(
        PodReading(f"p{k}", 0.0, 0.0, None, load_rps / 2, served / 4, served * 100, served * 20, 0.1) for k in range(4)
    )
    return Readings(now_s, ReplicaReading(4, 4), pods, GatewayReading(0.0, served))


@pytest.mark.parametrize("after", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize(("module", "name"), STAGES.values(), ids=STAGES.keys())
async def test_what_a_fault_in_any_stage_leaves_to_the_others(
    module: ModuleType, name: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty, sound = Twin(), undisturbed()
    for turn in range(TURNS):
        with monkeypatch.context() as planted:
            if turn == FAULT_AT:
                plant(planted, module, name, when=has_bad, after=after)
            result = faulty.step(turn)
        if turn != FAULT_AT:
            assert not result.bugs
        elif module is forecaster:
            assert result.unclaimed is not None, "stepped again, no bin closes, and nothing is forecast"
        else:
            assert set(result.bugs) == {BAD}
    for workload in (A, B):
        lost = sound.counted(workload) - faulty.counted(workload)
        assert 0.0 <= lost <= LOADS[workload] * EVERY_S + 1e-3, "no arrival twice, none of another interval lost"
        mine, theirs = ([d[workload].replicas for d in twin.decided[FAULT_AT:]] for twin in (faulty, sound))
        assert mine == theirs


async def test_a_fault_behind_all_stages_leaves_the_others_exactly_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_bad(stepped: traces.Stepped) -> bool:
        return 0 in stepped.rows

    faulty, sound = Twin(), undisturbed()
    for turn in range(TURNS):
        with monkeypatch.context() as planted:
            if turn == FAULT_AT:
                plant(planted, traces, "decisions", when=of_bad)
            faulty.step(turn)
    for workload in (A, B):
        assert faulty.counted(workload) == sound.counted(workload)
        assert [d[workload] for d in faulty.decided] == [d[workload] for d in sound.decided]


async def test_a_batch_of_one_is_not_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def always(_table: object, batch: list[object]) -> bool:
        calls.append(len(batch))
        return True

    plant(monkeypatch, engine, "step", when=always)
    result = Twin().isolation.step([(A, readings(0.0, 1.0))])
    assert calls == [1]
    assert set(result.bugs) == {A}
