"""Builders with defaults for simulator tests: traffic, plants and scripted policies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autoscaler.core.types import Readings
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup


def make_traffic(arrivals: Sequence[float], *, step_s: float = 1.0, onsets_s: tuple[float, ...] = ()) -> Traffic:
    return Traffic("w", step_s, np.array(arrivals, dtype=np.float64), "test", onsets_s=onsets_s)


def make_spec(*, capacity_rps: float = 10.0, warmup_s: float = 60.0, **overrides: object) -> PlantSpec:
    fields: dict[str, object] = {"capacity_rps": capacity_rps, "warmup": Warmup(warmup_s), **overrides}
    return PlantSpec(**fields)  # type: ignore[arg-type]  # overrides are the spec's own fields


@dataclass
class Script:
    """A policy that follows `plan(now_s)` and remembers what it saw."""

    plan: Callable[[float], int]
    tick_s: float = 1.0
    name: str = "script"
    seen: list[Readings] = field(default_factory=list)

    def decide(self, readings: Readings) -> int:
        self.seen.append(readings)
        return self.plan(readings.now_s)


def hold(replicas: int) -> Script:
    return Script(lambda _: replicas)
