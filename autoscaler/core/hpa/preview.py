"""One evaluation of an HPA, and how a number that stays the same makes its way through many.

Enters: settings, what HPA sees, one value per metric, its memory. Leaves: the count that it sets and each limit on the
way. Source: kubernetes/kubernetes v1.36, pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler,
computeReplicasForMetrics).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.core.hpa.counts import Proposal, Seen, proposal
from autoscaler.core.hpa.limits import Limit, bounded, longest_s, stabilised
from autoscaler.core.hpa.memory import Memory, begun, scaled
from autoscaler.core.hpa.spec import Autoscaler, tolerances, windows_s

FAR_S: Final = 7200.0
"""No further is looked ahead: the longest window is 3600 s and the longest period 1800 s."""

PASSING: Final = frozenset({Limit.UP_WINDOW, Limit.DOWN_WINDOW, Limit.UP_POLICIES, Limit.DOWN_POLICIES})
"""Limits that time alone lifts."""

Values = Sequence[int | None]
"""Per metric its value in thousandths; None where HPA gets none."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit that moved the count."""

    limit: Limit
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an evaluation comes to."""

    current: int
    replicas: int
    """What HPA sets; as `current` where it sets nothing."""
    bounds: tuple[Bound, ...] = ()
    """In the order in which they were applied."""


def evaluate(
    autoscaler: Autoscaler, seen: Seen, values: Values, memory: Memory, now_s: float
) -> tuple[Outcome, Memory]:
    """What HPA sets at `now_s`, and its memory afterwards but for the scaling itself, which `scaled` adds.

    The first metric is the one of interest: where another asks for more, that is a bound.
    """
    current = seen.spec_replicas
    memory = begun(memory, current, now_s)
    wakes = seen.scaled_to_zero and (autoscaler.minimum > 0 or any(autoscaler.metrics))
    if current == 0 and not wakes:
        return Outcome(0, 0, (Bound(Limit.AT_ZERO, 0, 0),)), memory
    if current > autoscaler.maximum:
        return Outcome(current, autoscaler.maximum, (Bound(Limit.MAX, current, autoscaler.maximum),)), memory
    if 0 < current < autoscaler.minimum:
        return Outcome(current, autoscaler.minimum, (Bound(Limit.MIN, current, autoscaler.minimum),)), memory
    bounds, wanted = _wanted(autoscaler, seen, values)
    if wanted is None:
        return Outcome(current, current, tuple(bounds)), memory
    count, memory = stabilised(wanted, current, autoscaler, memory, now_s)
    if count != wanted:
        bounds.append(Bound(Limit.UP_WINDOW if count < wanted else Limit.DOWN_WINDOW, wanted, count))
    settled, limit = bounded(count, current, autoscaler, memory, now_s)
    if current == 0 and settled < autoscaler.minimum:
        settled, limit = autoscaler.minimum, Limit.MIN
    if limit is not None:
        bounds.append(Bound(limit, count, settled))
    return Outcome(current, settled, tuple(bounds)), memory


def ahead(
    autoscaler: Autoscaler, seen: Seen, values: Values, memory: Memory, now_s: float
) -> Iterator[tuple[float, Outcome]]:
    """The evaluations from `now_s` on that change the count while the values stay: seconds until each, and it.

    Pods are taken to be there as soon as they are asked for. It ends where nothing can move any more.
    """
    up_s, down_s = windows_s(autoscaler)
    rules = () if autoscaler.behavior is None else (autoscaler.behavior.up, autoscaler.behavior.down)
    quiet_s = max(up_s, down_s, *(longest_s(r) for r in rules), 0) + 2 * autoscaler.controller.sync_s
    at_s, changed_s = 0.0, 0.0
    while at_s <= min(changed_s + quiet_s, FAR_S):
        outcome, memory = evaluate(autoscaler, seen, values, memory, now_s + at_s)
        if outcome.replicas != outcome.current:
            memory = scaled(memory, autoscaler.behavior, outcome.current, outcome.replicas, now_s + at_s)
            ready = None if outcome.replicas == 0 else outcome.replicas
            seen = Seen(outcome.replicas, outcome.replicas, ready, outcome.replicas == 0)
            changed_s = at_s
            yield at_s, outcome
        elif not any(bound.limit in PASSING for bound in outcome.bounds):
            return
        at_s += autoscaler.controller.sync_s


def _wanted(autoscaler: Autoscaler, seen: Seen, values: Values) -> tuple[list[Bound], int | None]:
    """The largest count of all metrics, None where too few of them can be computed; and what bound the first's."""
    close = tolerances(autoscaler)
    made: list[Proposal | None] = [
        None if metric is None or value is None else proposal(metric, value, seen, close)
        for metric, value in zip(autoscaler.metrics, values, strict=True)
    ]
    known = [one.replicas for one in made if one is not None]
    most = max(known, default=0)
    first = made[0] if made else None
    if not known or (len(known) < len(made) and most < seen.spec_replicas):
        wanted = most if first is None else first.wanted
        return [Bound(Limit.NO_METRIC, wanted, seen.spec_replicas)], None
    bounds = []
    if first is not None and first.replicas != first.wanted:
        bounds.append(Bound(Limit.TOLERANCE, first.wanted, first.replicas))
    if first is None or most > first.replicas:
        bounds.append(Bound(Limit.OTHER_METRIC, most if first is None else first.replicas, most))
    return bounds, most
