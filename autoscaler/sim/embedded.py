"""Plants behind the live driver's ports: an embedded cluster whose time is the clock's, for demonstrations and tests.

Enters: one plant per workload, each with its own traffic. Leaves: samples, patches with their precondition, and a push
to the watch at every step of a plant. Whoever asks first at an instant moves the plants there, so what is read at an
instant does not depend on which task came first. It knows nothing of who asks.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from autoscaler.core.types import Readings
from autoscaler.ports import Clock, Fault, MetricSample, Patch, PortError, ReplicaSample
from autoscaler.sim.plant import Plant, Span

EARLY_S = 1e-3
"""An instant this near has come: a scaled clock's timers wake by rounding a little before their time."""


@dataclass(slots=True)
class _Site:
    """One workload's plant and what the outside world does to it."""

    plant: Plant
    refusals: tuple[Span, ...] = ()
    cut_until_s: float = float("-inf")
    sample: Readings | None = field(default=None)

    def read(self) -> Readings:
        """The plant's readings at its own instant, made once per instant."""
        if self.sample is None:
            self.sample = self.plant.readings(self.plant.now_s)
        return self.sample


class EmbeddedCluster:
    """The plants in step with `clock`, whose `now` starts at 0 with them. `refusals`: spans in which patches fail."""

    def __init__(
        self, plants: Mapping[str, Plant], clock: Clock, refusals: Mapping[str, tuple[Span, ...]] | None = None
    ) -> None:
        self._clock = clock
        refused = refusals or {}
        self._sites = {name: _Site(plant, refused.get(name, ())) for name, plant in plants.items()}
        self._bell = asyncio.Event()
        self._changed: dict[str, None] = {}

    @property
    def done(self) -> bool:
        """Whether every plant's traffic is used up."""
        return all(site.plant.done for site in self._sites.values())

    async def run(self) -> None:
        """Advance every plant as its time comes; return when all traffic is used up."""
        while not self.done:
            for name in self._sites:
                self._advance(name)
            pending = [s.plant.now_s + s.plant.traffic.step_s for s in self._sites.values() if not s.plant.done]
            if pending:
                await self._clock.sleep_until(self._clock.monotonic() + min(pending) - self._clock.now())

    def cut_metrics(self, workload: str, seconds: float) -> None:
        """Let nobody read the workload's metrics for `seconds` of the clock. KeyError for an unknown workload."""
        self._sites[workload].cut_until_s = self._clock.now() + seconds

    def plant(self, workload: str) -> Plant:
        """The plant of one workload, for whoever scores it. KeyError for an unknown workload."""
        return self._sites[workload].plant

    def readings(self, workload: str) -> Readings:
        """What there is to read at this instant. Raises PortError for an unknown workload."""
        if workload not in self._sites:
            raise PortError(Fault.INVALID, f"the embedded cluster has no workload {workload!r}")
        self._advance(workload)
        return self._sites[workload].read()

    def metrics(self, workload: str) -> MetricSample:
        """The metrics at this instant. Raises PortError while they are cut or in the plant's outages."""
        readings = self.readings(workload)
        cut = self._clock.now() < self._sites[workload].cut_until_s
        if cut or (readings.pods is None and readings.gateway is None):
            raise PortError(Fault.UNAVAILABLE, f"the metrics of {workload} do not answer")
        pods = None if readings.pods is None else tuple(readings.pods)
        return MetricSample(readings.now_s, pods, readings.gateway, readings.latency)

    def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
        """Order `replicas` if the plant still has `seen_replicas`. Raises PortError for an unknown workload."""
        self.readings(workload)
        site = self._sites[workload]
        now_s = site.plant.now_s
        if any(from_s <= now_s < to_s for from_s, to_s in site.refusals):
            return Patch.REFUSED
        if site.plant.desired != seen_replicas:
            return Patch.CONFLICT
        site.plant.order(replicas)
        site.sample = None
        return Patch.APPLIED

    async def changes(self) -> AsyncIterator[str]:
        """Names of workloads whose plant moved; each once, however often it moved since it was last told."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            while self._changed:
                name = next(iter(self._changed))
                del self._changed[name]
                yield name

    def _advance(self, name: str) -> None:
        site = self._sites[name]
        until_s = self._clock.now() + EARLY_S
        step_s = site.plant.traffic.step_s
        moved = False
        while not site.plant.done and site.plant.now_s + step_s <= until_s:
            site.plant.advance()
            moved = True
        if moved:
            site.sample = None
            self._changed[name] = None
            self._bell.set()


class EmbeddedMetrics:
    """The metric source of an embedded cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    async def read(self, workload: str) -> MetricSample:
        """The metrics at this instant. Raises PortError while they cannot be read."""
        return self._cluster.metrics(workload)


class EmbeddedScale:
    """The ``/scale`` of an embedded cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    async def read(self, workload: str) -> ReplicaSample:
        """The replicas at this instant. Raises PortError for an unknown workload."""
        readings = self._cluster.readings(workload)
        return ReplicaSample(readings.now_s, readings.replicas)

    async def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
        """Order replicas under the precondition."""
        return self._cluster.patch(workload, seen_replicas, replicas)
