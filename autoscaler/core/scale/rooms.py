"""Rooms that several share: GPUs left under each budget, filled replica by replica until they are full.

Enters: members, each under one or two budgets, with counts and goals. Leaves: counts that are max-min fair in GPUs. It
knows neither importance nor floors: whoever fills does so group by group.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Key = str | None
"""A budget: a namespace's name, or None for the cluster's."""


class Member(Protocol):
    """Whoever takes GPUs, some per replica, out of the budgets over it."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """The budgets over it, at least one."""
        ...

    @property
    def gpus_per_replica(self) -> int:
        """1 or more."""
        ...

    @property
    def held(self) -> int:
        """Replicas it has already: it keeps them before an equal gets as many, so that nothing moves for a tie."""
        ...


@dataclass(slots=True)
class Rooms:
    """GPUs left under each budget; below zero where it is exceeded."""

    gpus: dict[Key, int]

    def take(self, member: Member, replicas: int) -> None:
        """Take that many replicas, whether there is room or not."""
        for key in member.keys:
            self.gpus[key] -= replicas * member.gpus_per_replica

    def refusing(self, member: Member) -> tuple[Key, ...]:
        """The budgets that have no room for another replica."""
        return tuple(key for key in member.keys if self.gpus[key] < member.gpus_per_replica)

    def fill(self, members: Sequence[Member], have: Sequence[int], goals: Sequence[int]) -> list[int]:
        """Raise each count from `have` to its goal one replica at a time, first whoever then has the fewest GPUs.

        Among equals a replica that is held comes first, then the earlier member's. A goal below what one has is reached
        already.
        """
        counts = list(have)
        asking = [i for i in range(len(members)) if counts[i] < goals[i]]
        if self._takes_all([(members[i], goals[i] - counts[i]) for i in asking]):
            return [max(count, goal) for count, goal in zip(counts, goals, strict=True)]
        line = [(*_turn(members[i], counts[i] + 1), i) for i in asking]
        heapq.heapify(line)
        while line:
            i = line[0][-1]
            if self.refusing(members[i]):
                heapq.heappop(line)
                continue
            self.take(members[i], 1)
            counts[i] += 1
            if counts[i] < goals[i]:
                heapq.heapreplace(line, (*_turn(members[i], counts[i] + 1), i))
            else:
                heapq.heappop(line)
        return counts

    def _takes_all(self, asked: Sequence[tuple[Member, int]]) -> bool:
        """Take all that is asked for if there is room for all of it."""
        left = Rooms(self.gpus.copy())
        for member, replicas in asked:
            left.take(member, replicas)
        if min(left.gpus.values()) < 0:
            return False
        self.gpus = left.gpus
        return True


def _turn(member: Member, replicas: int) -> tuple[int, bool]:
    """When a member's next replica comes: by the GPUs it then has, and after those that are held."""
    return replicas * member.gpus_per_replica, replicas > member.held
