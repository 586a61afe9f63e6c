"""Slots of domains, and gangs counted into them whole: how many pods of each size have room, on whichever nodes.

Enters: what gangs ask for, slots by domain and size. Leaves: which pods of a gang go to which domain; the slots that
are left. Nodes, quotas and the order of gangs are others' business.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.batch.placement import Ask, Spot
from autoscaler.core.batch.waiting import Waiting
from autoscaler.core.columns import I64


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A gang of those that came together."""

    waiting: Waiting
    wanted: Ask
    units: int
    worth: float
    """Millionths of reference GPUs times importance."""
    spots: tuple[Spot, ...] = ()
    """Where it started in this cycle; empty for one that waits."""

    @property
    def priority(self) -> int:
        """The gang's."""
        return self.waiting.gang.priority

    @property
    def shape(self) -> int:
        """Its one shape."""
        return self.wanted.pods[0][2]

    @property
    def turn_s(self) -> float:
        """When it came, as its queue counts it."""
        return self.waiting.rank[1]

    @property
    def value(self) -> tuple[int, float]:
        """What goes before what, GPU by GPU."""
        return self.waiting.gang.priority, self.waiting.gang.importance


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of one set of a gang in one domain."""

    member: Member
    size: int
    pods: int
    pod_set: int
    domain: int


@dataclass(slots=True)
class Slots:
    """Slots by domain and size of one shape, while gangs are put there by counting."""

    level: int
    """Of the domains: the finest that one of the gangs has to stay within."""
    sizes: I64
    free: I64
    """Shape (domains, sizes)."""
    within: dict[int, I64]
    """By coarser level: the domain that each of these domains lies in."""

    def put(self, member: Member) -> list[Part] | None:
        """Count a gang in, whole, where it leaves the least room beside it; None, and nothing changed, without room."""
        wanted = member.wanted
        level = wanted.levels[0]
        if level == self.level:
            (need,) = wanted.need.values()
            able = np.flatnonzero((self.free >= need).all(axis=1))
            if not able.size:
                return None
            at = int(able[np.argmin(self.free[able, 0])])
            self.free[at] -= need
            return [Part(member, size, pods, pod_set, at) for size, pods, _, pod_set in wanted.pods]
        inside = self.within[level]
        room = np.bincount(inside, weights=self.free[:, 0])
        for domain in np.argsort(room, kind="stable").tolist():
            if room[domain] >= member.units:
                rows = np.flatnonzero(inside == domain)
                free = self.free[rows]
                parts = self._spread(member, rows, free)
                if parts is not None:
                    self.free[rows] = free
                    return parts
        return None

    def _spread(self, member: Member, rows: I64, free: I64) -> list[Part] | None:
        """Count a gang into some domains, those with least room first; `free` is theirs, and changes."""
        parts = []
        for size, pods, _, pod_set in member.wanted.pods:
            below = size.bit_length()
            each = size // self.sizes[:below]
            room = (free[:, :below] // each).min(axis=1)
            order = np.argsort(free[:, 0], kind="stable")
            upto = np.minimum(np.cumsum(room[order]), pods)
            if not upto.size or upto[-1] < pods:
                return None
            taken = np.diff(upto, prepend=0)
            free[order, :below] -= taken[:, None] * each
            parts += [
                Part(member, size, number, pod_set, int(rows[at]))
                for at, number in zip(order.tolist(), taken.tolist(), strict=True)
                if number
            ]
        return parts
