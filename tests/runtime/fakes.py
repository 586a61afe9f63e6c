"""Fakes over the live driver's ports. Each answers at once unless it is told to hang, to fail or to conflict."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.types import GatewayReading, PodReading, ReplicaReading
from autoscaler.ports import Clock, Fault, MetricSample, Patch, PortError, ReplicaSample
from autoscaler.runtime.clock import ScaledClock


class Source:
    """Metrics of workloads with a steady load; `queued`, `hangs` and `fails` are set by the test."""

    def __init__(self, clock: Clock, scale: "Scale") -> None:
        self.clock = clock
        self.scale = scale
        self.queued: dict[str, float] = {}
        self.hangs: set[str] = set()
        self.fails: set[str] = set()
        self.reads: list[tuple[float, str]] = []

    async def read(self, workload: str) -> MetricSample:
        self.reads.append((self.clock.now(), workload))
        if workload in self.hangs:
            await asyncio.Event().wait()
        if workload in self.fails:
            raise PortError(Fault.UNAVAILABLE, "connection refused")
        now_s = self.clock.now()
        pods = tuple(
            PodReading(f"p{i}", 0.0, 0.0, 0.0, 2.0, now_s, now_s * 100, now_s * 10, 0.2)
            for i in range(self.scale.replicas.get(workload, 2))
        )
        queued = self.queued.get(workload, 0.0)
        return MetricSample(now_s, pods, GatewayReading(queued, 2.0 * now_s))


class Scale:
    """``/scale`` of workloads with 2 replicas to begin with, all ready; answers to patches are set by the test."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.replicas: dict[str, int] = {}
        self.answers: list[Patch | Fault | PortError | str] = []
        """What the next patches get: an outcome, an error, a PortError of that fault, or "hang"; applied when empty."""
        self.patches: list[tuple[float, str, int, int]] = []
        self.fails: set[str] = set()
        self.reads = 0

    async def read(self, workload: str) -> ReplicaSample:
        self.reads += 1
        if workload in self.fails:
            raise PortError(Fault.DENIED, "403 forbidden")
        count = self.replicas.get(workload, 2)
        return ReplicaSample(self.clock.now(), ReplicaReading(count, count))

    async def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
        self.patches.append((round(self.clock.now(), 6), workload, seen_replicas, replicas))
        answer = self.answers.pop(0) if self.answers else Patch.APPLIED
        if answer == "hang":
            await asyncio.Event().wait()
        if isinstance(answer, PortError):
            raise answer
        if isinstance(answer, Fault):
            raise PortError(answer, "stream reset")
        assert isinstance(answer, Patch)
        if answer is Patch.APPLIED:
            self.replicas[workload] = replicas
        return answer


class Pushes:
    """A watch that the test pushes names into; `broken` is raised once before anything else."""

    def __init__(self) -> None:
        self.names: asyncio.Queue[str] = asyncio.Queue()
        self.broken: PortError | None = None
        self.opened = 0

    async def changes(self) -> AsyncIterator[str]:
        self.opened += 1
        broken, self.broken = self.broken, None
        if broken is not None:
            raise broken
        while True:
            yield await self.names.get()


@dataclass
class Lines:
    """A sink in memory."""

    lines: list[bytes] = field(default_factory=list)
    fails: bool = False
    hangs: bool = False

    async def write(self, lines: Sequence[bytes]) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise PortError(Fault.UNAVAILABLE, "disk full")
        self.lines.extend(lines)


@dataclass
class Store:
    """A store in memory."""

    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    saves: list[float] = field(default_factory=list)
    fails: bool = False
    hangs: bool = False

    async def load(self) -> Mapping[str, dict[str, Any]]:
        if self.fails:
            raise PortError(Fault.DENIED, "403 forbidden")
        return dict(self.kept)

    async def save(self, checkpoints: Mapping[str, dict[str, Any]]) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise PortError(Fault.DENIED, "403 forbidden")
        self.saves.append(asyncio.get_running_loop().time())
        self.kept = dict(checkpoints)


class NoFits:
    """Refuses to fit."""

    async def fit(self, request: FitRequest) -> FittedModel:
        raise PortError(Fault.INVALID, "not fitted here")


class NoWatch:
    """Never pushes anything."""

    async def changes(self) -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield ""


def clock() -> ScaledClock:
    """The event loop's virtual time, from 0 on."""
    return ScaledClock(1.0)
