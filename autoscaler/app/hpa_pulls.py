"""One HPA from one number that it is told to the next: what it sees, what it remembers, what it sets.

Enters: a number with the HPA and the target of that instant, and what was known of the HPA before. Leaves: what is
known after it. Nothing is kept here.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from autoscaler.adapters.kube.hpas import Asking, asking, scaled_to_zero
from autoscaler.adapters.kube.scaling import Hpa, Target
from autoscaler.api.claims import Claim
from autoscaler.core.hpa.counts import Seen
from autoscaler.core.hpa.limits import longest_s
from autoscaler.core.hpa.memory import Memory, scaled
from autoscaler.core.hpa.preview import Outcome, evaluate
from autoscaler.core.hpa.spec import Autoscaler, windows_s
from autoscaler.errors import InputError
from autoscaler.record.hpa import limit_codes

SAME_EVALUATION_S: Final = 3.0
"""Between a number that is told and the instant that HPA writes down for the scaling it led to, whole seconds."""


@dataclass(frozen=True, slots=True)
class Pull:
    """A number that was told, and what HPA saw when it asked."""

    claim: Claim
    metric: str
    value: int
    at_s: float
    """Monotonic."""
    now_s: float
    hpa: Hpa | None
    target: Target | None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one HPA after a pull."""

    uid: str
    since_s: float
    pull: Pull
    asking: Asking
    seen: Seen
    memory: Memory
    outcome: Outcome
    limits: tuple[str, ...]
    """Codes of what keeps it from the number."""
    last_scale: datetime | None


def evaluated(before: Known | None, pull: Pull) -> Known | None:
    """What is known after a pull; None where its HPA cannot be previewed."""
    fresh = read(pull.hpa, pull.target, pull.metric)
    if fresh is None:
        return None
    hpa, asked, seen = fresh
    autoscaler, memory, since_s = asked.autoscaler, Memory(), pull.at_s
    if before is not None and before.uid == hpa.metadata.uid:
        memory, since_s = _after_scaling(before, hpa, seen, pull), before.since_s
    outcome, memory = evaluate(autoscaler, seen, [pull.value * 1000], memory, pull.at_s)
    limits = limit_codes(outcome, replicas_for(autoscaler, pull.value))
    return Known(hpa.metadata.uid, since_s, pull, asked, seen, memory, outcome, limits, hpa.status.last_scale_time)


def read(hpa: Hpa | None, target: Target | None, metric: str) -> tuple[Hpa, Asking, Seen] | None:
    """An HPA that asks for our metric, and what it sees of its target."""
    if hpa is None or target is None or target.spec.replicas is None:
        return None
    try:
        asked = asking(hpa, metric)
    except InputError:
        return None
    if asked is None:
        return None
    seen = Seen(target.spec.replicas, target.status.replicas or 0, scaled_to_zero=scaled_to_zero(hpa))
    return hpa, asked, seen


def _after_scaling(known: Known, hpa: Hpa, seen: Seen, pull: Pull) -> Memory:
    """The memory with what HPA has scaled since the last pull."""
    last = hpa.status.last_scale_time
    if last is None or last == known.last_scale:
        return known.memory
    before, after = hpa.status.current_replicas, hpa.status.desired_replicas
    if before == after:
        before, after = known.outcome.current, seen.spec_replicas
    age_s = max(0.0, pull.now_s - last.timestamp())
    gap_s = pull.at_s - known.pull.at_s
    # The evaluation that scaled had just been told a number; its own instant is known to the second only.
    at_s = known.pull.at_s if abs(gap_s - age_s) <= SAME_EVALUATION_S else pull.at_s - age_s
    return scaled(known.memory, known.asking.autoscaler.behavior, before, after, at_s)


def replicas_for(autoscaler: Autoscaler, value: int) -> int:
    """The count that a number comes to."""
    metric = autoscaler.metrics[0]
    assert metric is not None, "the first metric is ours"
    return math.ceil(value * 1000 / metric.target_milli)


def horizon_s(autoscaler: Autoscaler) -> float:
    """How far back an HPA remembers."""
    behavior = autoscaler.behavior
    periods = (0,) if behavior is None else (longest_s(behavior.up), longest_s(behavior.down))
    return float(max(*windows_s(autoscaler), *periods))
