"""How long the next start of a replica takes, put together from parts that were measured of different starts.

Enters: seconds of past starts: of slots, from nothing to warm weights; of replicas on warm nodes; of replicas on new
nodes. Leaves: two quantiles and what they are of, or None where a part was never measured: that is not zero.

Stages of one slot are added within that slot's start. Of two parts that no start had both of, every pair of seconds is
one start: the exact distribution of the sum where they are independent. Quantiles that are added instead are those of
parts that are late together (Dhaene et al. 2002, doi:10.1016/S0167-6687(02)00134-8), and medians with a root of summed
squares want symmetric parts (Malcolm et al. 1959, doi:10.1287/opre.7.5.646): starts are neither.

What a step leaves behind is reckoned with starts that all take as long as nine of ten do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.core.pool.clock import LEAST_SAMPLES
from autoscaler.core.spread import Spread, spread

MOST: Final = 32
"""Starts of slots that are joined with those of replicas: coarser kinds of start speak with thousands."""

RECOVERED: Final = 1.6
"""Within so many times what is left of a start a step that nobody foresaw is to be over."""

HAIR: Final = 1e-9
"""What a number of slots, as a float, may be off."""

Seconds = tuple[float, ...]
"""What was measured of past starts, each 0 or more; empty where nothing was."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a pool has for the next replica: warm slots on the node that has most of them, as a pod fits on no two, and
    what starts like its next slot's took until warm."""

    warm: int
    slots_s: Seconds


@dataclass(frozen=True, slots=True)
class Started:
    """What whole starts of replicas of one model took, from the order to readiness."""

    warm_s: Seconds
    """On nodes that were there, with their image."""
    cold_s: Seconds
    """On new nodes."""


@dataclass(frozen=True, slots=True)
class Lead:
    """How long the next start takes. `slots` and `replicas` are the starts behind its two parts, `whole` those that
    were measured from beginning to end."""

    spread: Spread
    warm: bool
    slots: int = 0
    replicas: int = 0
    whole: int = 0


def thinned(seconds: Sequence[float]) -> Seconds:
    """At most `MOST` of many, shortest first, each the middle one of as many neighbours: the quantiles stay."""
    ranked = sorted(seconds)
    if len(ranked) <= MOST:
        return tuple(ranked)
    return tuple(ranked[int((at + 0.5) * len(ranked) / MOST)] for at in range(MOST))


def lead_ahead(started: Started, slots_s: Seconds, *, warm: bool) -> Lead | None:
    """The lead of the next replica: onto a `warm` slot, or by way of a new node; None while a part is not known.

    Whole starts speak for themselves from five on. With fewer no quantile is shorter than theirs, and none that needs
    a node is shorter than one that needs none.
    """
    if warm:
        count = len(started.warm_s)
        return Lead(spread(started.warm_s), warm=True, replicas=count) if count else None
    whole = len(started.cold_s)
    if whole >= LEAST_SAMPLES:
        return Lead(_longest(whole, started.cold_s, started.warm_s), warm=False, whole=whole)
    if not (slots_s and started.warm_s):
        return None
    pairs = [slot_s + replica_s for slot_s in slots_s for replica_s in started.warm_s]
    count = min(len(slots_s), len(started.warm_s))
    found = _longest(count, pairs, started.cold_s, started.warm_s)
    return Lead(found, warm=False, slots=len(slots_s), replicas=len(started.warm_s), whole=whole)


def _longest(count: int, *windows: Sequence[float]) -> Spread:
    """The longest of each quantile, empty windows left out; `count` is what stands behind it."""
    found = [spread(window) for window in windows if window]
    return Spread(max(each.p50_s for each in found), max(each.p90_s for each in found), count)


def enough_for(step_slots: float) -> int:
    """How many warm slots are enough for the queue of a step to be gone within `RECOVERED` times a start; `step_slots`
    is what the step asks for beyond what serves.

    While the warm slots start, in T, the queue grows by what the step asks for; afterwards what is warm beyond the step
    works it off. T + T step / (warm - step) <= RECOVERED T where warm >= step RECOVERED / (RECOVERED - 1): of a step of
    three slots eight, where three alone would serve it and never clear its queue. Noticing is no part of it.
    """
    return math.ceil(step_slots * RECOVERED / (RECOVERED - 1.0) - HAIR)
