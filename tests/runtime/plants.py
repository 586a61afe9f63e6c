"""The live driver over plants on virtual time."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autoscaler.api.modes import Tier
from autoscaler.core.params import Params
from autoscaler.core.scale.sharing import Budgets
from autoscaler.fitting.fit import fit
from autoscaler.ports import ModelFitter
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.records import Entry, Stepped
from autoscaler.runtime.refit import InlineFitter
from autoscaler.runtime.supervisor import Ports, Runtime
from autoscaler.runtime.target import Target
from autoscaler.sim.embedded import EmbeddedCluster, EmbeddedMetrics, EmbeddedScale
from autoscaler.sim.plant import Plant, PlantSpec, Span
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup
from tests.runtime.fakes import Lines, Store

NAME = "prod/chat"


def burst(low_rps: float = 4.0, high_rps: float = 20.0, onset_s: int = 900, length_s: int = 2400) -> Traffic:
    """A steady load that grows five times within a second and stays; Poisson counts from a fixed seed."""
    rates = np.full(length_s, low_rps)
    rates[onset_s:] = high_rps
    arrivals = np.random.default_rng(1).poisson(rates).astype(np.float64)
    return Traffic(name="burst", step_s=1.0, arrivals=arrivals, source="test", onsets_s=(float(onset_s),))


def spec(warmup_s: float = 180.0, capacity_rps: float = 1.0) -> PlantSpec:
    return PlantSpec(capacity_rps=capacity_rps, warmup=Warmup(warmup_s))


@dataclass
class Embedded:
    """One cluster, and as many drivers after each other as a test wants."""

    clock: ScaledClock
    cluster: EmbeddedCluster
    params: Params
    store: Store = field(default_factory=Store)
    audit: Lines = field(default_factory=Lines)
    entries: list[Entry] = field(default_factory=list)
    budgets: Budgets = field(default_factory=Budgets)
    tiers: dict[str, Tier] = field(default_factory=dict)
    fitter: ModelFitter = field(default_factory=lambda: InlineFitter(fit))

    @classmethod
    def make(
        cls, plants: Mapping[str, Plant], params: Params, refusals: Mapping[str, tuple[Span, ...]] | None = None
    ) -> "Embedded":
        clock = ScaledClock(1.0)
        return cls(clock, EmbeddedCluster(plants, clock, refusals), params)

    async def drive(self, until_s: float, *names: str) -> None:
        """Start a driver that finds what the last one left in the store, and stop it at `until_s`."""
        ports = Ports(
            self.clock,
            EmbeddedMetrics(self.cluster),
            EmbeddedScale(self.cluster),
            self.cluster,
            self.audit,
            Lines(),
            self.store,
            self.fitter,
        )
        runtime, stop = Runtime(ports, budgets=self.budgets), asyncio.Event()
        for name in names or (NAME,):
            runtime.put(Target(name, self.params, tier=self.tiers.get(name, Tier.NORMAL)))

        async def listen() -> None:
            with runtime.recorder.feed() as feed:
                async for entry in feed:
                    self.entries.append(entry)

        async with asyncio.TaskGroup() as group:
            group.create_task(listen())
            group.create_task(runtime.run(stop))
            played = group.create_task(self.cluster.run())
            await self.clock.sleep_until(until_s)
            stop.set()
            played.cancel()

    def steps(self, name: str = NAME) -> list[Stepped]:
        return [e for e in self.entries if isinstance(e, Stepped) and e.decision.workload == name]
