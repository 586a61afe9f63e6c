"""Shadow mode behind the live driver: a scripted human scales, Headroom decides and records, and counts beside it."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autoscaler.api.modes import Mode
from autoscaler.app.guard import Guard
from autoscaler.app.shadowing import Shadowing, Watched
from autoscaler.core.params import Params
from autoscaler.fitting.fit import fit
from autoscaler.hindsight.ledger import Ledger
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.records import Stepped
from autoscaler.runtime.refit import InlineFitter
from autoscaler.runtime.supervisor import Ports, Runtime
from autoscaler.runtime.target import Target
from autoscaler.sim.embedded import EmbeddedCluster, EmbeddedMetrics, EmbeddedScale
from autoscaler.sim.plant import Plant, PlantSpec
from autoscaler.sim.score import attainment
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup
from tests.runtime.fakes import Lines, Store

NAME = "prod/chat"
LENGTH_S = 5400
PARAMS = Params(max_replicas=30, tick_s=15.0, warmup_prior_s=60.0)

pytestmark = pytest.mark.looptime(noop_cycles=1)


def plant() -> Plant:
    """Eight requests/s that double in the minutes 10 to 20; a replica serves two."""
    rates = np.full(LENGTH_S, 8.0)
    rates[600:1200] = 16.0
    counts = np.random.default_rng(3).poisson(rates).astype(np.float64)
    return Plant(PlantSpec(2.0, Warmup(60.0)), Traffic("chat", 1.0, counts, "test"))


def human(now_s: float) -> int:
    """Sees the queue at minute 12 and buys far too much for the rest of the day."""
    return 5 if now_s < 720 else 12


class Scene:
    def __init__(self, store: Store | None = None) -> None:
        self.clock = ScaledClock(1.0)
        self.plant = plant()
        self.cluster = EmbeddedCluster({NAME: self.plant}, self.clock)
        ports = Ports(
            self.clock, EmbeddedMetrics(self.cluster), EmbeddedScale(self.cluster), self.cluster, Lines(), Lines(),
            Store(), InlineFitter(fit),
        )  # fmt: skip
        self.runtime = Runtime(ports)
        self.store = store or Store()
        self.shadowing = self.counting()

    def counting(self) -> Shadowing:
        guard = Guard(self.clock)
        return Shadowing(
            table=self.runtime.table, store=self.store, clock=self.clock, leading=lambda: True, guard=guard
        )

    async def play(self, mode: Callable[[float], Mode], until_s: float = LENGTH_S) -> None:
        stop = asyncio.Event()
        self.runtime.put(Target(NAME, PARAMS, Mode.SHADOW))

        async def listen() -> None:
            with self.runtime.recorder.feed() as feed:
                async for entry in feed:
                    if isinstance(entry, Stepped):
                        self.shadowing.take([Watched(entry, mode(entry.decision.now_s), 1)])

        async def scale() -> None:
            while True:
                self.plant.order(human(self.clock.now()))
                await self.clock.sleep_until(self.clock.monotonic() + 30.0)

        async with asyncio.TaskGroup() as group:
            group.create_task(listen())
            group.create_task(self.runtime.run(stop))
            others = [group.create_task(self.cluster.run()), group.create_task(scale())]
            await self.clock.sleep_until(until_s - 10.0)
            stop.set()
            for other in others:
                other.cancel()


@pytest.mark.slow
async def test_a_human_who_buys_too_late_and_too_much_is_told_what_both_cost() -> None:
    """What is told of what happened is what the plant itself counted; the model reproduces it; ours is cheaper."""
    scene = Scene()
    await scene.play(lambda _: Mode.SHADOW)
    told = scene.shadowing.estimate(NAME)
    assert told is not None
    assert told.to_s is not None
    timeline, end_s = scene.plant.timeline(), scene.plant.now_s
    begun = int(told.to_s - told.counted_s - told.missing_s)
    held = (timeline.ready + timeline.warming)[begun:].sum() / 3600
    assert told.observed.held_hours == pytest.approx(held, rel=0.03)
    late = (1 - attainment(scene.plant.serving.waits(end_s), 10.0)) * scene.plant.traffic.window(0.0, end_s).total
    assert told.observed.late == pytest.approx(late, rel=0.1)
    assert told.late_error_ratio is not None
    assert told.late_error_ratio < 0.02
    assert told.doubt is None
    assert told.saved_hours is not None
    assert told.saved_hours > 3.0
    assert told.text.startswith("On ")


@pytest.mark.slow
async def test_the_sums_are_kept_in_the_store_and_taken_up_by_the_next_leader() -> None:
    first = Scene()
    await first.play(lambda _: Mode.SHADOW, until_s=1500.0)
    before = first.shadowing.estimate(NAME)
    await first.shadowing.keep()
    second = Scene(first.store)
    await second.shadowing.restore()
    await second.play(lambda _: Mode.SHADOW, until_s=1200.0)
    after = second.shadowing.estimate(NAME)
    assert before is not None
    assert after is not None
    assert after.from_s == before.from_s
    assert after.counted_s > before.counted_s > 600.0


async def test_while_headroom_acts_itself_nothing_is_estimated() -> None:
    scene = Scene()
    await scene.play(lambda now_s: Mode.ACTIVE if now_s > 900 else Mode.SHADOW, until_s=1200.0)
    assert scene.shadowing.told(NAME) is None


@pytest.mark.parametrize(
    "kept", [{"version": 7}, {**Ledger().pack(), "missing_s": 10**400}], ids=["of another build", "no float holds it"]
)
async def test_sums_that_cannot_be_read_begin_anew_and_end_nothing(kept: dict[str, Any]) -> None:
    store = Store()
    await store.save({NAME: kept})
    scene = Scene(store)
    await scene.shadowing.restore()
    await scene.play(lambda _: Mode.SHADOW, until_s=900.0)
    assert scene.shadowing.estimate(NAME) is not None


async def test_a_workload_without_a_row_is_passed_over() -> None:
    scene = Scene()
    assert scene.runtime.table.rows == {}
    assert scene.shadowing.told(NAME) is None
