"""When a reading contradicts what the last decision assumed, so that its workload must be stepped before it is due.

Pure: a decision and two readings in, a cause or None out. It looks for contradictions only; what to do about one is the
core's business, and a step on a false alarm changes nothing.
"""

import math
from dataclasses import dataclass
from enum import Enum

from autoscaler.core.types import Decision, Readings

FIRST_WAITING = 0.5
"""Requests; half of one, because a fluid model and averaged gauges show fractions that are nobody's wait."""

DEMAND_SIGMAS = 3.0
"""Arrivals above the plan by three standard deviations of a Poisson count: 1 in 700 looks is a false alarm."""


class Cause(Enum):
    """Why a workload was stepped."""

    DUE = "due"
    FIRST_WAITING = "first request waits"
    DEMAND = "demand over planned capacity"
    POD_READY = "pod ready"
    POD_LOST = "pod lost"
    START_LOST = "start failed"
    START_STUCK = "start without a node"
    SCALE_EDITED = "replica count changed by someone else"
    EDITED = "limits, mode or policy edited"
    UNFROZEN = "freeze ended"
    SUPERSEDED = "patch superseded"
    READ_BACK = "patch of unknown outcome read back"


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a decision took for granted."""

    decision: Decision
    readings: Readings

    @property
    def replica_rps(self) -> float | None:
        """Requests/s of one replica that the decision reckoned with; None while uncalibrated."""
        for step in self.decision.trace:
            for name, value in step.evidence:
                if name == "replica_rps" and isinstance(value, (int, float)):
                    return float(value)
        return None


def contradiction(assumed: Assumed, now: Readings) -> Cause | None:
    """The first cause for a step that `now` gives, or None while everything is as `assumed`."""
    then, decision = assumed.readings, assumed.decision
    old, new = then.replicas, now.replicas
    if now.limits != then.limits:
        return Cause.EDITED
    if new.desired not in {decision.seen_replicas, decision.replicas}:
        return Cause.SCALE_EDITED
    if new.ready > old.ready:
        return Cause.POD_READY
    if new.ready < min(old.ready, new.desired):
        return Cause.POD_LOST
    if _stuck(now) > _stuck(then):
        return Cause.START_STUCK
    if new.desired >= decision.seen_replicas and _starts_gone(then, now):
        return Cause.START_LOST
    if (_waiting(now) or 0.0) >= FIRST_WAITING > (_waiting(then) or 0.0):
        return Cause.FIRST_WAITING
    return Cause.DEMAND if _over_plan(assumed, now) else None


def _stuck(readings: Readings) -> int:
    return sum(start.unschedulable for start in readings.replicas.starting)


def _starts_gone(then: Readings, now: Readings) -> bool:
    """Whether a start of `then` is neither starting nor ready any more (only asked while nothing became ready)."""
    left = {(start.name, start.since_s) for start in now.replicas.starting}
    return any((start.name, start.since_s) not in left for start in then.replicas.starting)


def _waiting(readings: Readings) -> float | None:
    """Requests that wait for capacity, wherever; None where neither pods nor gateway said."""
    parts = [pod.waiting for pod in readings.pods or ()]
    if readings.gateway is not None:
        parts.append(readings.gateway.queued)
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _over_plan(assumed: Assumed, now: Readings) -> bool:
    """Whether more requests arrived since the decision than its replicas were planned to serve."""
    rps, before, after = assumed.replica_rps, assumed.readings.gateway, now.gateway
    if rps is None or before is None or after is None:
        return False
    if before.requests_total is None or after.requests_total is None:
        return False
    planned = rps * assumed.decision.replicas * (now.now_s - assumed.readings.now_s)
    arrived = after.requests_total - before.requests_total
    return planned > 0 and arrived > planned + DEMAND_SIGMAS * math.sqrt(planned)
