"""A workload's past out of a metrics store as the readings that a controller would have had, look by look.

Enters: rates, queues, requests in service and replicas on a regular grid, NaN where nothing is known. Leaves: looks
without decisions, for the core to decide on. A store keeps sums over replicas, not pods: each pod is given an equal
share, and what was completed is what came and is neither waiting nor being served.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from autoscaler.api.lines import Line, SeenReplicas
from autoscaler.core.columns import F64, Bools
from autoscaler.core.types import GatewayReading, Limits, PodReading
from autoscaler.hindsight.recording import Looked

MOST_LOOKS: Final = 10_500
"""A week of looks every minute; of a longer time, or a finer grid, neighbouring steps are taken together."""

WIDEST_S: Final = 120.0
"""Looks are never further apart: queues build and drain within minutes."""

CALM_RATIO: Final = 0.25
CALM_SIGMAS: Final = 3.0
CALM_WAIT_S: Final = 0.5
"""While what waits is less than arrives in half a second, replicas stay and arrivals change by less than a quarter, or
than three standard deviations of their count, steps are taken together: a decision on the same readings would be the
same."""


@dataclass(frozen=True, slots=True)
class Series:
    """What is known; arrays of shape (steps,). Gauges are means over the step, rates are per second over it."""

    workload: str
    start_s: float
    step_s: float
    arrivals_per_s: F64
    waiting: F64
    running: F64
    replicas: F64
    warmup_s: float | None = None
    """Measured from order to first request; None where it was not."""


@dataclass(slots=True)
class _Pods:
    """Requests completed and the beginning of each pod, oldest first."""

    done: list[float] = field(default_factory=list)
    since_s: list[float] = field(default_factory=list)

    def serve(self, now_s: float, count: int, completed: float) -> None:
        """Spread what was completed over the pods that were there, then let the youngest come or go."""
        for index in range(len(self.done)):
            self.done[index] += completed / len(self.done)
        del self.done[count:], self.since_s[count:]
        while len(self.done) < count:
            self.done.append(0.0)
            self.since_s.append(now_s)

    def readings(self, waiting: float, running: float) -> tuple[PodReading, ...]:
        """Every pod's page."""
        count = len(self.done)
        shares = [None if math.isnan(value) else value / count for value in (waiting, running)]
        return tuple(
            PodReading(f"pod-{index}", since_s, waiting=shares[0], running=shares[1], requests_total=done)
            for index, (done, since_s) in enumerate(zip(self.done, self.since_s, strict=True))
        )


def looks(series: Series, policy_json: bytes = b"{}") -> Iterator[Looked]:
    """One look at the end of every step, or of every few; steps of which replicas are not known have none."""
    pods, arrived, in_flight = _Pods(), 0.0, math.nan
    for part in _parts(series):
        count, rate = _mean(series.replicas[part]), _mean(series.arrivals_per_s[part])
        if math.isnan(count):
            continue
        now_s = series.start_s + part.stop * series.step_s
        waiting, running = _mean(series.waiting[part]), _mean(series.running[part])
        came = 0.0 if math.isnan(rate) else rate * (part.stop - part.start) * series.step_s
        arrived += came
        left = waiting + (0.0 if math.isnan(running) else running)
        grown = left - in_flight
        in_flight = left
        pods.serve(now_s, round(count), max(0.0, came - (0.0 if math.isnan(grown) else grown)))
        gateway = None if math.isnan(rate) else GatewayReading(None, arrived)
        seen = SeenReplicas(round(count), round(count), ())
        line = Line(
            now_s, series.workload, policy_json, seen, pods.readings(waiting, running), gateway, None, Limits()
        )  # fmt: skip
        yield Looked(line, None, b"", series.workload)


def _parts(series: Series) -> Iterator[slice]:
    """The steps of each look, in order: few while much happens, up to `WIDEST_S` while it is calm."""
    size = series.replicas.size
    widest = max(1, int(WIDEST_S / series.step_s))
    busy = min(widest, max(1, math.ceil(size / MOST_LOOKS)))
    calm = _calm(series)
    first = 0
    while first + busy <= size:
        last = first + busy
        while last < size and last - first < widest and calm[first + 1 : last + 1].all():
            last += 1
        yield slice(first, last)
        first = last


def _calm(series: Series) -> Bools:
    """Whether each step is like the one before, shape (steps,); what is not known is like nothing."""
    rate, held = series.arrivals_per_s, series.replicas
    allowed = np.maximum(CALM_RATIO * rate[:-1], CALM_SIGMAS * np.sqrt(rate[:-1] / series.step_s))
    empty = series.waiting <= CALM_WAIT_S * rate
    same = (np.abs(np.diff(rate)) <= allowed) & (held[1:] == held[:-1]) & empty[1:] & empty[:-1]
    return np.concatenate([[False], same])


def _mean(values: F64) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size * 2 >= values.size and known.size else math.nan
