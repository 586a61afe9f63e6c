"""The live driver over fakes on virtual time, and what it recorded."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from autoscaler.core.params import Params
from autoscaler.core.scale.sharing import Budgets
from autoscaler.ports import ModelFitter, Watch
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.records import Entry, Stepped
from autoscaler.runtime.supervisor import Bounds, Ports, Runtime
from autoscaler.runtime.target import Target
from tests.runtime.fakes import Lines, NoFits, Pushes, Scale, Source, Store

A = "prod/chat"
B = "prod/code"


def target(name: str = A, **given: Any) -> Target:
    """A target with a tick of 5 s that is content with its 2 replicas, unless given otherwise."""
    outside = {key: given.pop(key) for key in ("mode", "limits", "tier", "gpus_per_replica") if key in given}
    return Target(name, Params(**({"min_replicas": 2, "max_replicas": 20, "tick_s": 5.0} | given)), **outside)


@dataclass
class Bench:
    """Everything around one live driver."""

    clock: ScaledClock
    runtime: Runtime
    source: Source
    scale: Scale
    pushes: Pushes
    audit: Lines
    journal: Lines
    store: Store
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    entries: list[Entry] = field(default_factory=list)

    async def until(self, at_s: float) -> None:
        """Let virtual time pass."""
        await self.clock.sleep_until(at_s)

    def stepped(self, name: str = A) -> list[Stepped]:
        """Every step of a workload."""
        return [e for e in self.entries if isinstance(e, Stepped) and e.decision.workload == name]

    def steps(self, name: str = A) -> list[tuple[float, str]]:
        """(data time, cause) of every step of a workload."""
        return [(round(e.decision.now_s, 6), e.cause.name) for e in self.stepped(name)]

    def states(self, signal: str) -> list[str]:
        """The state of a signal at every step of the first workload."""
        return [next(state for name, state, _ in e.view.signals if name == signal) for e in self.stepped()]

    def told(self, kind: str) -> list[dict[str, Any]]:
        """The journal's lines of a kind, ``act`` or ``note``."""
        return [line for line in map(json.loads, self.journal.lines) if line["kind"] == kind]

    def outcomes(self) -> list[tuple[float, str]]:
        """(time, outcome) of every act."""
        return [(round(act["now_s"], 3), act["outcome"]) for act in self.told("act")]


@asynccontextmanager
async def running(
    *targets: Target,
    store: Store | None = None,
    fitter: ModelFitter | None = None,
    watch: Watch | None = None,
    bounds: Bounds | None = None,
    may_write: Callable[[], bool] = lambda: True,
    heard: Mapping[str, dict[str, Any]] | None = None,
    budgets: Budgets | None = None,
) -> AsyncIterator[Bench]:
    """The driver at work; it is stopped, and has shut down, when the block ends."""
    clock = ScaledClock(1.0)
    scale, pushes, audit, journal = Scale(clock), Pushes(), Lines(), Lines()
    source, kept = Source(clock, scale), store or Store()
    ports = Ports(clock, source, scale, watch or pushes, audit, journal, kept, fitter or NoFits())
    bench = Bench(
        clock, Runtime(ports, bounds, may_write=may_write, budgets=budgets), source, scale, pushes, audit, journal, kept
    )
    bench.runtime.restore_from(heard or {})
    for each in targets:
        bench.runtime.put(each)

    async def listen() -> None:
        with bench.runtime.recorder.feed() as feed:
            async for entry in feed:
                bench.entries.append(entry)

    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        live = group.create_task(bench.runtime.run(bench.stop), name="driver")
        try:
            yield bench
        finally:
            bench.stop.set()
            await asyncio.wait({live})
