"""What is kept of a workload's step for KEDA: the count, the demand where all of it is known, and since when blind.

Enters: a step of the driver. Leaves: a value that is replaced as a whole, so that any thread may read it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from autoscaler.core.observe.freshness import nobody_serves
from autoscaler.core.types import Readings
from autoscaler.runtime.records import Stepped

DEMAND: Final = ("arrivals", "queue")
"""Signals of which one at least must be read for a count to mean anything."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is kept of a step; `at_s` is monotonic."""

    at_s: float
    seen: int
    replicas: int
    demand: int | None
    """Requests in flight and waiting; None while a part of them is not known."""
    blind_s: float
    """Since demand was read, at the time of the step; infinite where it never was, 0 while all replicas start."""


def step_of(entry: Stepped, at_s: float, *, gateway: bool) -> Step:
    """What is kept of `entry`; with a `gateway` its queue is a part of the demand."""
    readings, decision = entry.readings, entry.decision
    blind_s = 0.0 if _warms_up(readings) else _blind_s(entry.view.signals)
    return Step(at_s, decision.seen_replicas, decision.replicas, _demand(readings, gateway=gateway), blind_s)


def _warms_up(readings: Readings) -> bool:
    """Whether all that was ordered is still starting: there is nothing to read yet, which is nobody's fault."""
    replicas = readings.replicas
    return readings.pods == () and replicas.ready == 0 and len(replicas.starting) >= replicas.desired > 0


def _blind_s(signals: Iterable[tuple[str, str, float | None]]) -> float:
    """Seconds since any signal of demand was read: 0 while one is."""
    known = [(state, age_s) for signal, state, age_s in signals if signal in DEMAND and age_s is not None]
    if any(state == "fresh" for state, _ in known):
        return 0.0
    return min((age_s for _, age_s in known), default=math.inf)


def _demand(readings: Readings, *, gateway: bool) -> int | None:
    """Requests in flight and waiting, whole; None while a part of them is not known."""
    total = 0.0
    if gateway:
        queued = None if readings.gateway is None else readings.gateway.queued
        if queued is None:
            return None
        total += queued
    if readings.pods is None or (not readings.pods and not nobody_serves(readings)):
        return None
    for pod in readings.pods:
        if pod.waiting is None or pod.running is None:
            return None
        total += pod.waiting + pod.running
    return math.ceil(total) if math.isfinite(total) else None  # each part is finite, and their sum need not be
