"""Lead time: from the order of a replica to its readiness, as a measured distribution for each workload.

A start ends in one of three ways: its pod became ready (a sample), it was cancelled because the order was lowered, or
it failed. Starts still under way are censored samples: a lead time is at least the age of the oldest start.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from autoscaler.core.types import Alike, Readings, StartingReplica

PRIOR_S = 180.0
"""Lead time before anything was measured and without a prior: the middle of what peers report (100 s to minutes)."""

KEEP = 32
"""Samples kept: enough for a 90th percentile, few enough to follow a change of node or image."""

UNMEASURED_L99 = 6.0
"""Without samples a start keeps its credit for six priors: a prior is a guess, and so is this."""

MARGIN_L99 = 1.25
"""A start is late when it is a quarter older than the slowest of the last `KEEP` (a guess)."""


Start = tuple[float, str | None]
"""A start's identity: when it was ordered, and its name where it has one."""


class LeadTime(NamedTuple):
    """Quantiles in seconds; `samples` says how many measurements stand behind them."""

    l50_s: float
    l90_s: float
    l99_s: float
    samples: int


class Starts(NamedTuple):
    """What the starts of one workload did since the last sample, and those that still count.

    `credited` holds the age in seconds of each start that deserves credit, oldest first; `late` are older than L99,
    `unschedulable` were reported so. Where most are late together, and none that began since the oldest did has landed,
    starts take longer than they did: the late ones are `slow` and keep their credit; `replaced` were begun since the
    oldest was late.
    """

    finished_s: tuple[float, ...] = ()
    failed: int = 0
    cancelled: int = 0
    credited: tuple[float, ...] = ()
    late: int = 0
    unschedulable: int = 0
    slow: int = 0
    replaced: int = 0


_NONE = Starts()
_NAME = attrgetter("name")


@dataclass(slots=True)
class LeadTrack:
    """What is remembered of one workload's starts."""

    samples_s: list[float] = field(default_factory=list)
    """Another list when there is another sample: none is changed in place."""
    starting: tuple[StartingReplica, ...] = ()
    waited: set[Start] = field(default_factory=set)
    """Starts that were seen without a node."""
    placed_s: dict[Start, float] = field(default_factory=dict)
    """When such a start was first seen with one: its warm-up counts from there."""
    desired: int | None = None
    ready: int = 0
    pods: frozenset[str] | None = None
    landed_since_s: float = -math.inf
    """When the youngest start began that became ready (to a look)."""
    ranked: tuple[list[float], LeadTime] | None = field(default=None, init=False, compare=False, repr=False)
    """Samples, and what they say: most looks bring no other."""


def distribution(track: LeadTrack, prior_s: float | None, oldest_s: float) -> LeadTime:
    """Return the lead time now; `oldest_s` is the age of the oldest schedulable start (0 without one)."""
    prior = PRIOR_S if prior_s is None else prior_s
    count = len(track.samples_s)
    if not count:
        stretched = max(prior, oldest_s)
        return LeadTime(stretched, stretched, UNMEASURED_L99 * prior, 0)
    if track.ranked is None or track.ranked[0] is not track.samples_s:
        ranked = sorted(track.samples_s)
        l99 = MARGIN_L99 * ranked[-1] + 5.0
        track.ranked = track.samples_s, LeadTime(_rank(ranked, 0.5), _rank(ranked, 0.9), l99, count)
    return track.ranked[1]


def follow(track: LeadTrack, readings: Readings, prior_s: float | None) -> tuple[Starts, LeadTime]:
    """Match starts that are gone with pods that came, and return both what happened and the lead time now."""
    now_s, replicas = readings.now_s, readings.replicas
    if not (replicas.starting or track.starting or track.waited):  # nearly always
        _look(track, readings)
        return _NONE, distribution(track, prior_s, 0.0)
    _place(track, replicas.starting, now_s)
    finished, left = list[float](), 0
    if track.starting != replicas.starting:
        gone = list((Counter(_starts(track.starting)) - Counter(_starts(replicas.starting))).elements())
        finished, left = _match(gone, _newcomers(track, readings), track.placed_s)
    lowered = max(0, (track.desired or 0) - replicas.desired)
    cancelled = min(lowered, left)
    if finished:
        track.samples_s = (track.samples_s + finished)[-KEEP:]
        track.landed_since_s = max(track.landed_since_s, now_s - min(finished))
    schedulable, credited = list[float](), tuple[float, ...]()
    if replicas.starting:
        schedulable = [
            now_s - track.placed_s.get((s.since_s, s.name), s.since_s) for s in replicas.starting if not s.unschedulable
        ]
    lead = distribution(track, prior_s, max(schedulable, default=0.0))
    slow = replaced = 0
    if schedulable:
        credited = tuple(sorted([age for age in schedulable if age <= lead.l99_s], reverse=True))
    late = len(schedulable) - len(credited)
    if late > 1 and 2 * late > len(schedulable) and track.landed_since_s < now_s - max(schedulable):
        oldest_s = max(schedulable)
        slow, credited = late, tuple(sorted(schedulable, reverse=True))
        replaced = sum([age < oldest_s - lead.l99_s for age in schedulable])
        lead = _stretched(lead, oldest_s)
    _look(track, readings)
    if not (replicas.starting or finished or left):
        return _NONE, lead
    return (
        Starts(
            finished_s=tuple(finished),
            failed=left - cancelled,
            cancelled=cancelled,
            credited=credited,
            late=late,
            unschedulable=len(replicas.starting) - len(schedulable),
            slow=slow,
            replaced=replaced,
        ),
        lead,
    )


def _stretched(lead: LeadTime, oldest_s: float) -> LeadTime:
    """What starts take that are all late: they are expected now, as where nothing was measured, and for no longer."""
    longer_s = min(oldest_s, UNMEASURED_L99 * lead.l50_s)
    return lead._replace(l50_s=max(lead.l50_s, longer_s), l90_s=max(lead.l90_s, longer_s))


def _look(track: LeadTrack, readings: Readings) -> None:
    """Remember who serves and who starts."""
    replicas, pods = readings.replicas, readings.pods
    track.starting, track.desired, track.ready = replicas.starting, replicas.desired, replicas.ready
    if isinstance(pods, Alike):
        track.pods = pods.roster.name_set
    elif pods is not None:
        track.pods = frozenset(map(_NAME, pods))


def _newcomers(track: LeadTrack, readings: Readings) -> list[tuple[str | None, float]]:
    """Pods that were not there at the last sample, as (name, ready instant); by count when pods are not known."""
    if track.desired is None:
        return []
    if readings.pods is not None and track.pods is not None:
        new = [p for p in readings.pods if p.name not in track.pods]
        return sorted(
            ((p.name, readings.now_s if p.ready_since_s is None else p.ready_since_s) for p in new), key=lambda n: n[1]
        )
    return [(None, readings.now_s)] * max(0, readings.replicas.ready - track.ready)


def _starts(starting: tuple[StartingReplica, ...]) -> list[Start]:
    return [(s.since_s, s.name) for s in starting]


def _place(track: LeadTrack, starting: tuple[StartingReplica, ...], now_s: float) -> None:
    """Remember which starts wait for a node, and when one that waited has got it."""
    if not (starting or track.waited):
        return
    waiting = {(s.since_s, s.name) for s in starting if s.unschedulable}
    if not (waiting or track.waited):
        return
    present = set(_starts(starting))
    for start in (track.waited & present) - waiting:
        track.placed_s.setdefault(start, now_s)
    track.waited = (track.waited & present) | waiting


def _match(
    gone: list[Start], came: list[tuple[str | None, float]], placed_s: dict[Start, float]
) -> tuple[list[float], int]:
    """Pair starts with pods, by name first, then oldest first; return lead times and how many starts had no pod."""
    by_name = {name: at_s for name, at_s in came if name is not None}
    named = [start for start in gone if start[1] in by_name]
    pairs = [(start, by_name.pop(start[1])) for start in named if start[1] is not None]
    rest = sorted((start for start in gone if start not in named), key=lambda start: start[0])
    free = sorted(at_s for name, at_s in came if name is None or name in by_name)
    pairs += list(zip(rest, free, strict=False))
    finished = [max(at_s - placed_s.get(start, start[0]), 0.0) for start, at_s in pairs]
    for start in gone:
        placed_s.pop(start, None)
    return finished, max(0, len(rest) - len(free))


def _rank(ranked: list[float], level: float) -> float:
    return ranked[min(len(ranked) - 1, math.ceil(level * len(ranked)) - 1)]
