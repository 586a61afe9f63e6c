"""Gangs of one queue that came together and do not all fit: which of them start together, so that least stays idle.

Enters: the attempts of a cycle in which nobody else fits. Leaves: other starts in place of some of this cycle's, in the
books, or nothing changed. One after the other, a gang that leaves odd pieces starts before one that would have filled
them. Here they are chosen by counting slots in a few orders, and then placed with the largest pods of all first, which
finds what was counted (chain). What is best is worth most: units times importance, of the higher priority first.
Nobody is passed by a gang whose turn comes more than `reserve_after_s` after his own, and no other queue loses a start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from autoscaler.core.batch.attempts import Attempts
from autoscaler.core.batch.ledger import NO_LOAN
from autoscaler.core.batch.outcome import Admitted
from autoscaler.core.batch.params import Order
from autoscaler.core.batch.placement import Spot
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.slots import Member, Part, Slots
from autoscaler.core.batch.waiting import Waiting
from autoscaler.core.batch.widths import Taken

MOST_QUEUES: Final = 4
"""Queues that are looked at in one cycle, so that a cycle stays short (a guess)."""

MOST_LOOKED_AT: Final = 1024
"""Gangs that wait in these queues, and nodes that those have that started; a queue that has more is left as it is.

With as many a cycle takes some 15 ms longer.
"""


@dataclass(slots=True)
class Together:
    """The gangs of one queue and shape that came together."""

    attempts: Attempts
    queue: int
    shape: int
    started: list[Member]
    waiting: list[Member]
    units: dict[int, int] = field(default_factory=dict)
    """By node: what those that started would leave."""

    def improve(self, now_s: float) -> bool:
        """Start others in place of those that started, if that is worth more; whether it is."""
        estate = self.attempts.room.ledger.estate
        for member in self.started:
            for spot in member.spots:
                self.units[spot.node] = self.units.get(spot.node, 0) + spot.units
        most = estate.free_units(self.shape) + sum(self.units.values())
        self.waiting = [each for each in self.waiting if each.units <= most]
        if not self.waiting:
            return False
        plans = [self._plan(order) for order in self._orders()]
        best = max(plans, key=lambda plan: self._worth(list(plan)))
        if self._worth(list(best)) <= self._worth(self.started):
            return False
        places = self._places(best)
        if self._worth(list(places)) <= self._worth(self.started):
            return False
        self._restart(places, now_s)
        return True

    def _orders(self) -> Iterator[list[Member]]:
        """The larger first; and who is bound to a domain, then the largest pods, before who fills what is left."""
        members = sorted([*self.started, *self.waiting], key=lambda each: each.waiting.rank)
        yield sorted(members, key=lambda each: (-each.priority, -each.waiting.gang.importance, -each.units))
        yield sorted(
            members,
            key=lambda each: (
                -each.priority, -each.waiting.gang.importance, -each.wanted.levels[0], -each.wanted.pods[0][0],
                -each.units,
            ),
        )  # fmt: skip

    def _plan(self, order: Sequence[Member]) -> dict[Member, list[Part]]:
        """Who starts, and in which domains, if they are counted in one after the other."""
        room = self.attempts.room
        tree, loads = room.tree, room.backlog.loads
        slots, chosen, closed = self._slots(), dict[Member, list[Part]](), set[int]()
        for member in self.started:
            tree.remove(self.queue, loads[member.waiting.brand])
        for member in order:
            brand = member.waiting.brand
            if brand in closed:
                continue
            allowed = tree.verdict(self.queue, loads[brand]) is None
            parts = slots.put(member) if allowed else None
            if parts is None:
                closed.add(brand)
            else:
                tree.add(self.queue, loads[brand])
                chosen[member] = parts
        for member in chosen:
            tree.remove(self.queue, loads[member.waiting.brand])
        for member in self.started:
            tree.add(self.queue, loads[member.waiting.brand])
        return chosen

    def _slots(self) -> Slots:
        """The slots there were if none of these gangs had started."""
        estate = self.attempts.room.ledger.estate
        levels = {each.wanted.levels[0] for each in (*self.started, *self.waiting)}
        level, sizes = max(levels), np.array(estate.sizes, dtype=np.int64)
        free = estate.slots(level)[:, self.shape].copy()
        for node, units in self.units.items():
            before = estate.free_on(node)
            free[estate.domain[level][node]] += (before + units) // sizes - before // sizes
        within = {}
        for coarser in levels - {level}:
            within[coarser] = np.zeros(len(free), dtype=np.int64)
            within[coarser][estate.domain[level]] = estate.domain[coarser]
        return Slots(level, sizes, free, within)

    def _places(self, plan: dict[Member, list[Part]]) -> dict[Member, tuple[Spot, ...]]:
        """Where the gangs of a plan go, found on the nodes themselves; without those that cores, memory or odd sizes
        keep out. Nothing is changed.
        """
        room = self.attempts.room
        placer, estate = room.placer, room.ledger.estate
        version, level = estate.version, max(each.wanted.levels[0] for each in (*self.started, *self.waiting))
        for member in self.started:
            placer.give(member.spots, member.wanted)
        found: dict[Member, list[Spot]] = {member: [] for member in plan}
        for part in sorted((part for parts in plan.values() for part in parts), key=lambda each: -each.size):
            spots = found.get(part.member)
            mask = estate.masks[level][part.domain]
            if spots is not None and not placer.add(part.member.wanted, part.pod_set, part.pods, mask, spots):
                placer.give(tuple(spots), part.member.wanted)
                del found[part.member]
        for member, spots in found.items():
            placer.give(tuple(spots), member.wanted)
        for member in self.started:
            placer.retake(member.spots, member.wanted)
        estate.version = version
        return {member: tuple(spots) for member, spots in found.items()}

    def _restart(self, places: dict[Member, tuple[Spot, ...]], now_s: float) -> None:
        attempts = self.attempts
        names = {member.waiting.gang.name for member in self.started}
        attempts.admitted[:] = [each for each in attempts.admitted if each.gang not in names]
        for member in self.started:
            attempts.room.unstart(member.waiting, now_s)
        for member, spots in places.items():
            attempts.room.placer.retake(spots, member.wanted)
            attempts.admit(Taken(member.waiting, spots), NO_LOAN, BatchReason.FITS, now_s)

    def _worth(self, members: Sequence[Member]) -> tuple[float, ...]:
        """What gangs are worth together, by priority, the highest first."""
        worth = dict.fromkeys(sorted({-each.priority for each in (*self.started, *self.waiting)}), 0.0)
        for member in members:
            worth[-member.priority] += member.worth
        return tuple(worth.values())


def improve(attempts: Attempts, since: int, now_s: float) -> bool:
    """Choose anew among the gangs that started from the `since`-th admission on, and those that came with them."""
    room = attempts.room
    tree, backlog = room.tree, room.backlog
    by_queue: dict[str, list[Admitted]] = {}
    for admitted in attempts.admitted[since:]:
        by_queue.setdefault(admitted.queue, []).append(admitted)
    queues = looked_at = 0
    changed = False
    for name, started in by_queue.items():
        queue = tree.leaves[name]
        waiting = backlog.length(queue)
        size = waiting + sum(len(each.spots) for each in started)
        if not waiting or tree.spec(queue).order is Order.STRICT or looked_at + size > MOST_LOOKED_AT:
            continue
        queues, looked_at = queues + 1, looked_at + size
        for together in _together(attempts, queue, started):
            changed |= together.improve(now_s)
        if queues == MOST_QUEUES:
            break
    return changed


def _together(attempts: Attempts, queue: int, admitted: list[Admitted]) -> Iterator[Together]:
    """Of the gangs of a queue that started, and of those that wait, the ones whose turns lie together, by shape."""
    room = attempts.room
    started = [each for each in (_started(attempts, each) for each in admitted) if each is not None]
    waiting = [each for each in (_member(room, each) for each in room.backlog.in_queue(queue)) if each is not None]
    for shape in dict.fromkeys(each.shape for each in started):
        movable, near = _near(room, [e for e in started if e.shape == shape], [e for e in waiting if e.shape == shape])
        idle = room.ledger.estate.free_units(shape) > 0
        if movable and near and (idle or max(e.value for e in near) > min(e.value for e in movable)):
            yield Together(attempts, queue, shape, movable, near)


def _near(room: Room, started: list[Member], waiting: list[Member]) -> tuple[list[Member], list[Member]]:
    """Of each priority those that wait, by rank, whose turn comes up to `reserve_after_s` after the first one's; and of
    those that started, the ones that none of these would pass by more.
    """
    within_s = room.params.reserve_after_s
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    near: list[Member] = []
    for member in waiting:
        if member.turn_s <= first.setdefault(member.priority, member.turn_s) + within_s:
            last[member.priority] = member.turn_s
            near.append(member)
    movable = [each for each in started if each.turn_s >= last.get(each.priority, each.turn_s) - within_s]
    return movable, near


def _started(attempts: Attempts, admitted: Admitted) -> Member | None:
    """A gang that started on free room in this cycle, if others may start in its place."""
    room = attempts.room
    run = room.runs.all[admitted.gang]
    if admitted.reason is not BatchReason.FITS or admitted.gang in attempts.promised:
        return None
    spots = room.ledger.holdings[admitted.gang].spots
    if any(room.ledger.is_lacking(spot.node) for spot in spots):
        return None  # one that started on what is kept there took it since: what this one left would be no other's
    return _member(room, room.backlog.waiting_as(run.gang, run.queue, run.brand, run.rank), spots)


def _member(room: Room, waiting: Waiting, spots: tuple[Spot, ...] = ()) -> Member | None:
    """A gang of one width and one shape that is not shared, needs no single node, prefers none, and for which nothing
    is kept."""
    wanted = room.ask(waiting.brand)
    if wanted.scored or len(wanted.units) > 1 or len(wanted.levels) > 1 or wanted.levels[0] > len(room.placer.levels):
        return None
    if waiting.gang.elastic is not None or waiting.gang.name in room.ledger.reservations:
        return None
    load = room.backlog.loads[waiting.brand]
    worth = load.amounts[0] * waiting.gang.importance
    return Member(waiting, wanted, load.units[0][1], worth, spots)
