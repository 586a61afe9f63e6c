"""The count that one metric asks for, before any limit.

Enters: a metric with its target, its value, what HPA sees of the target. Leaves: the count, with and without tolerance.
Source: kubernetes/kubernetes v1.36, pkg/controller/podautoscaler/replica_calculator.go; with `Value` the ready pods
count, and none while none is ready (kubernetes/kubernetes#130130).
"""

import math
from dataclasses import dataclass
from typing import Final

from autoscaler.core.hpa.spec import Basis, Metric

MOST_MILLI: Final = 2**63 - 1
"""A value beyond what HPA's integers hold is the largest of them."""

MOST_REPLICAS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Seen:
    """The target as HPA reads it."""

    spec_replicas: int
    """On ``/scale``."""
    status_replicas: int
    """What its controller counts, ready or not."""
    ready_pods: int | None = None
    """Running and ready; None where its selector matches no pod at all."""
    scaled_to_zero: bool = False
    """Whether HPA itself has brought it to zero, and may wake it (feature gate HPAScaleToZero)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one metric asks for."""

    wanted: int
    """What the value comes to."""
    replicas: int
    """What HPA makes of it: the present count where the two are close."""


def proposal(metric: Metric, value_milli: int, seen: Seen, tolerances: tuple[float, float]) -> Proposal | None:
    """The count for a value of zero or more; None where HPA cannot compute one."""
    usage = float(min(value_milli, MOST_MILLI))
    if metric.basis is Basis.AVERAGE_VALUE:
        wanted = _whole(usage / metric.target_milli)
        ratio = _over(usage, float(metric.target_milli) * seen.status_replicas)
        return Proposal(wanted, seen.status_replicas if _within(ratio, tolerances) else wanted)
    ratio = usage / metric.target_milli
    if seen.spec_replicas == 0:
        return Proposal(_whole(ratio), _whole(ratio))
    if _within(ratio, tolerances):
        wanted = seen.spec_replicas if seen.ready_pods is None else _whole(ratio * seen.ready_pods)
        return Proposal(wanted, seen.spec_replicas)
    if seen.ready_pods is None:
        return None
    wanted = _whole(ratio * seen.ready_pods)
    return Proposal(wanted, wanted)


def _over(usage: float, divisor: float) -> float:
    """The quotient, infinite or not a number over zero as in Go: neither is ever close to a target."""
    if divisor:
        return usage / divisor
    return math.inf if usage else math.nan


def _within(ratio: float, tolerances: tuple[float, float]) -> bool:
    down, up = tolerances
    return 1.0 - down <= ratio <= 1.0 + up


def _whole(count: float) -> int:
    return min(math.ceil(count), MOST_REPLICAS)
