"""The composition root of the demonstration: plants behind the live driver's ports, on a clock that may run faster.

Enters: workloads with their traffic and policies. Leaves: a session whose entries are all that a page or a terminal
draws from, and a run per workload for whoever compares it. It wires rooms that must not know each other and decides
nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from autoscaler.core.params import Params
from autoscaler.core.view import view
from autoscaler.errors import InputError
from autoscaler.ports import ModelFitter, RecordSink
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.fit_process import ProcessFitter
from autoscaler.runtime.records import Entry, Feed
from autoscaler.runtime.supervisor import Ports, Runtime
from autoscaler.runtime.target import Target
from autoscaler.runtime.unkept import Forgetful, Nowhere
from autoscaler.sim.embedded import EmbeddedCluster, EmbeddedMetrics, EmbeddedScale
from autoscaler.sim.plant import Plant, PlantSpec
from autoscaler.sim.serving import ServingModel
from autoscaler.sim.simulate import Run
from autoscaler.sim.traffic import Traffic

POLICY = "headroom"


@dataclass(frozen=True, slots=True)
class DemoWorkload:
    """One workload of a demonstration; `serving` must be fresh, and None means the fluid model."""

    name: str
    """As ``namespace/name``, unique within the session."""
    traffic: Traffic
    spec: PlantSpec
    params: Params
    serving: ServingModel | None = None


class DemoSession:
    """A live driver over an embedded cluster. Made by `demo_session`; `run` it once, in a task beside its readers."""

    def __init__(
        self, workloads: Sequence[DemoWorkload], clock: ScaledClock, fitter: ModelFitter, audit: RecordSink
    ) -> None:
        self.workloads = {workload.name: workload for workload in workloads}
        if not workloads or len(self.workloads) < len(workloads):
            raise InputError(f"demo: workloads are {[w.name for w in workloads]}; give one or more, each name once")
        self._clock = clock
        plants = {w.name: Plant(w.spec, w.traffic, w.serving) for w in workloads}
        self._cluster = EmbeddedCluster(plants, clock)
        self._runtime = Runtime(
            Ports(
                clock=clock,
                metrics=EmbeddedMetrics(self._cluster),
                scale=EmbeddedScale(self._cluster),
                watch=self._cluster,
                audit=audit,
                journal=Nowhere(),
                store=Forgetful(),
                fitter=fitter,
            )
        )
        for workload in workloads:
            self._runtime.put(Target(workload.name, workload.params))
        self._stop = asyncio.Event()

    @property
    def speed(self) -> float:
        """Data seconds per wall second."""
        return self._clock.speed

    @property
    def now_s(self) -> float:
        """Data seconds since the session was made."""
        return self._clock.now()

    async def run(self) -> None:
        """Play until all traffic is used up or `stop` is called, then shut down in order."""
        async with asyncio.TaskGroup() as group:
            live = group.create_task(self._runtime.run(self._stop), name="runtime")
            played = group.create_task(self._cluster.run(), name="cluster")
            stopped = group.create_task(self._stop.wait(), name="stop")
            await asyncio.wait({live, played, stopped}, return_when=asyncio.FIRST_COMPLETED)
            self._stop.set()
            played.cancel()

    def stop(self) -> None:
        """End the session; `run` returns once it has shut down."""
        self._stop.set()

    def cut_metrics(self, workload: str, seconds: float) -> None:
        """Let the workload's metrics go silent for `seconds` of data time. KeyError for an unknown workload."""
        self._cluster.cut_metrics(workload, seconds)

    async def entries(self) -> AsyncIterator[tuple[Entry, ...]]:
        """Steps, acts and notes as the live driver records them, those that are there at one moment together."""
        with self._runtime.recorder.feed() as feed:
            async for entry in feed:
                yield (entry, *_rest(feed))

    def played(self, workload: str) -> Run | None:
        """The workload's run so far, its traffic cut to it; None before the first step. KeyError for an unknown one."""
        given, plant = self.workloads[workload], self._cluster.plant(workload)
        if plant.now_s <= 0:
            return None
        seen = view(self._runtime.table, workload)
        coverage = None if seen is None else seen.coverage_ratio
        traffic = given.traffic.window(0.0, plant.now_s)
        return Run(POLICY, traffic, given.spec, plant.timeline(), plant.serving.waits(plant.now_s), coverage)


@asynccontextmanager
async def demo_session(
    workloads: Sequence[DemoWorkload],
    *,
    speed: float,
    audit: RecordSink | None = None,
    fitter: ModelFitter | None = None,
) -> AsyncIterator[DemoSession]:
    """A session whose data time starts now and runs `speed` times as fast as the wall's.

    Models are fitted in a child process unless another `fitter` is given. Raises InputError for workloads that cannot
    be played and ValueError for a speed that is not positive.
    """
    sink = audit if audit is not None else Nowhere()
    if fitter is not None:
        yield DemoSession(workloads, ScaledClock(speed), fitter, sink)
        return
    async with ProcessFitter() as child:
        yield DemoSession(workloads, ScaledClock(speed), child, sink)


def _rest(feed: Feed) -> tuple[Entry, ...]:
    """What else is in the feed right now."""
    return tuple(iter(feed.take, None))
