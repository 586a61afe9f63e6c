"""One gang that waits, and the gangs of one queue in buckets of equal ones, each by rank.

Enters: gangs with their ranks. Leaves: the first of each bucket. Who waits no more is passed over, and let go of when
there are many such. Which queue goes first is the backlog's business.
"""

import math
from dataclasses import dataclass, field
from heapq import heapify, heappop
from typing import Final

from autoscaler.core.batch.gangs import Gang
from autoscaler.core.batch.tree import Load

SWEPT: Final = 64
"""Gangs that went from behind others of a queue before they are let go of; as many as wait there, if they are more."""

Rank = tuple[int, float, int]
"""Priority (negative), when it came as its queue counts it, order of arrival: smaller goes first."""


@dataclass(slots=True)
class Waiting:
    """One gang that waits."""

    gang: Gang
    queue: int
    brand: int
    """Of the narrowest that it may start: whether it may start at all is this brand's question."""
    rank: Rank
    widest: Load
    """What it takes as wide as it may be. It has its turn when a gang of that size has: who goes before it goes first.
    """
    waits: bool = False
    """Whether it is in the backlog: an entry of a bucket is told from one of before without looking for its name."""

    def is_for(self, gang: Gang, queue: int, brand: int) -> bool:
        """Whether a gang, seen again, has the same place."""
        mine = (self.queue, self.brand, self.gang.priority, self.gang.created_s, self.gang.elastic)
        return mine == (queue, brand, gang.priority, gang.created_s, gang.elastic)


Place = tuple[Rank, int, Waiting]
"""A gang in a heap, by rank; the number tells apart entries of one gang, of which some may be of before."""


@dataclass(slots=True)
class Buckets:
    """The gangs of one queue, equal ones in one bucket."""

    buckets: dict[int, list[Place]] = field(default_factory=dict)
    """By brand: its gangs by rank; those that do not wait any more are passed over."""
    ready: list[Place] = field(default_factory=list)
    """The first of each bucket that may be tried, and some that are passed over: of those aside, or that wait no more.
    Nobody stands here before the first of his own bucket does."""
    aside: dict[int, None] = field(default_factory=dict)
    """Buckets whose first did not fit."""
    used_log: float = -math.inf
    gone: int = 0
    """Gangs that were dropped from among the others since they were last swept out."""
    sweeps_at: int = SWEPT


def sweep(queue: Buckets) -> None:
    """Let go of gangs that wait no more behind others that do: each keeps what is known of it in memory."""
    queue.buckets = {brand: [each for each in bucket if each[2].waits] for brand, bucket in queue.buckets.items()}
    queue.ready = [each for each in queue.ready if each[2].waits]
    for heap in (*queue.buckets.values(), queue.ready):
        heapify(heap)
    queue.gone, queue.sweeps_at = 0, max(SWEPT, sum(map(len, queue.buckets.values())))


def first_of(queue: Buckets, brand: int) -> Place | None:
    """The first of a bucket; those before it that wait no more are let go of."""
    bucket = queue.buckets.get(brand)
    while bucket:
        first = bucket[0]
        if first[2].waits:
            return first
        heappop(bucket)
    queue.buckets.pop(brand, None)
    return None
