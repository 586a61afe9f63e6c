"""What HPA remembers between two evaluations, and all that a restart of its controller makes it forget.

Enters: recommendations and scalings with their instants, in seconds of any one clock. Leaves: the same memory, grown
only where nothing in it is outdated. Source: kubernetes/kubernetes v1.36, pkg/controller/podautoscaler/horizontal.go
(stabilizeRecommendation, stabilizeRecommendationWithBehaviors, storeScaleEvent).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from autoscaler.core.hpa.spec import Behavior, Rules

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What all metrics together asked for at an instant, before stabilisation."""

    at_s: float
    replicas: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """A change that HPA made itself, by so many replicas in one direction."""

    at_s: float
    replicas: int
    outdated: bool = False
    """Beyond every policy's period when another came: the next one takes its place."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one HPA."""

    recommendations: tuple[Recommendation, ...] | None = None
    """None before its first evaluation."""
    ups: tuple[Scaling, ...] = ()
    downs: tuple[Scaling, ...] = ()


def begun(memory: Memory, replicas: int, now_s: float) -> Memory:
    """The memory at an evaluation: at the first one it holds the count that was found."""
    if memory.recommendations is not None:
        return memory
    return replace(memory, recommendations=(Recommendation(now_s, replicas),))


def recommended(memory: Memory, made: Recommendation, outdated: Callable[[Recommendation], bool]) -> Memory:
    """The memory with a recommendation more, in the place of the last one that is outdated."""
    kept = memory.recommendations or ()
    return replace(memory, recommendations=_put(kept, [outdated(old) for old in kept], made))


def scaled(memory: Memory, behavior: Behavior | None, before: int, after: int, at_s: float) -> Memory:
    """The memory after HPA changed the count; without a behavior it keeps none of that."""
    if behavior is None or before == after:
        return memory
    if after > before:
        return replace(memory, ups=_stored(memory.ups, behavior.up, Scaling(at_s, after - before)))
    return replace(memory, downs=_stored(memory.downs, behavior.down, Scaling(at_s, before - after)))


def moved(events: Sequence[Scaling], period_s: float, now_s: float) -> int:
    """Replicas moved within the last `period_s`."""
    return sum(event.replicas for event in events if event.at_s > now_s - period_s)


def _stored(events: tuple[Scaling, ...], rules: Rules, made: Scaling) -> tuple[Scaling, ...]:
    cutoff_s = made.at_s - max((policy.period_s for policy in rules.policies), default=0)
    marked = tuple(replace(e, outdated=True) if e.at_s < cutoff_s else e for e in events)
    return _put(marked, [event.outdated for event in marked], made)


def _put(kept: tuple[Kept, ...], outdated: Sequence[bool], made: Kept) -> tuple[Kept, ...]:
    places = [place for place, is_old in enumerate(outdated) if is_old]
    if not places:
        return (*kept, made)
    return (*kept[: places[-1]], made, *kept[places[-1] + 1 :])
