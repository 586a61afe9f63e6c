"""Gangs that may make others leave look for victims: who searches, when again, and whether what is found is worth it.

Enters: the attempts of one cycle. Leaves: evictions, already in the books, with what is kept for whom they are. Which
gangs are victims is found in `victims`.
"""

import heapq
import math
from dataclasses import dataclass, field
from typing import Final

from autoscaler.core.batch import kept, victims
from autoscaler.core.batch.attempts import Attempts
from autoscaler.core.batch.ledger import Kind, Reservation
from autoscaler.core.batch.outcome import Evicted
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.tree import MILLIONTHS
from autoscaler.core.batch.trial import Books, Plan
from autoscaler.core.batch.verdicts import why
from autoscaler.core.batch.waiting import Waiting

MAX_VAIN: Final = 2
"""Searches in vain in one cycle for each that may succeed: they are quicker, and the next cycle goes on with others."""

SEARCH_AGAIN_S: Final = 2.0
"""After a search for victims in vain, for a gang within what its queue is guaranteed."""

SEARCH_SHARE_AGAIN_S: Final = 60.0
"""The same for one that only has a fair share to claim (both a guess: leases and shares move slowly)."""


@dataclass(slots=True)
class Searches:
    """Searches in one cycle."""

    attempts: Attempts
    evicted: list[Evicted] = field(default_factory=list)
    ends: list[tuple[float, str]] | None = None
    """The first expected ends of what runs, the earliest first; found when somebody asks."""

    def run(self, now_s: float) -> bool:
        """Heads that may make others leave look for victims, the longest-waiting first; False where the bound ended it.

        Where one found some, the next of its queue looks in the same cycle.
        """
        room, memory = self.attempts.room, self.attempts.memory
        again = memory.searched
        heads = [
            (each.gang.created_s, each.rank, name)
            for each in room.backlog.heads()
            if (name := each.gang.name) not in again or now_s >= again[name]
        ]
        heapq.heapify(heads)
        found = vain = 0
        while heads and vain < MAX_VAIN * room.params.max_searches:
            _, _, name = heapq.heappop(heads)
            waiting = room.backlog.waiting.get(name)
            if waiting is None or now_s < memory.searched.get(name, -math.inf):
                continue
            if why(room, memory, waiting).reason is BatchReason.TOO_LARGE:
                continue
            if found >= room.params.max_searches:
                return False
            if not self._search(waiting, now_s):
                vain += 1
            else:
                found += 1
                for each in room.backlog.heads_of(waiting.queue):
                    heapq.heappush(heads, (each.gang.created_s, each.rank, each.gang.name))
        return True

    def _search(self, waiting: Waiting, now_s: float) -> bool:
        """Make room for a gang, if that is its right and pays; whether it starts, or will."""
        room, name = self.attempts.room, waiting.gang.name
        load = room.backlog.loads[waiting.brand]
        books = Books(room.tree, room.ledger, room.placer, room.runs, room.exchanges, room.params.max_evictions)
        # What others gave up for a guarantee is not to make a gang wider.
        is_owed = room.tree.within(waiting.queue, load) and self._unkept(name)
        if is_owed and self.attempts.start(waiting, now_s, widens=False):
            return True
        found = victims.plan(books, waiting, load, room.ask_in_whole_units(waiting.brand), now_s)
        if (
            found is None
            or not found.victims
            or not (self._owed(waiting, found, now_s) or self._pays(waiting, found, now_s))
        ):
            within = room.tree.within(waiting.queue, load)
            self.attempts.memory.searched[name] = now_s + (SEARCH_AGAIN_S if within else SEARCH_SHARE_AGAIN_S)
            return False
        room.ledger.unreserve(name)
        plan: dict[int, int] = {}
        for spot in found.spots:
            plan[spot.node] = plan.get(spot.node, 0) + spot.units
        last_s = now_s + max(victim.run.gang.notice_s for victim in found.victims)
        room.ledger.reserve(Reservation(name, Kind.PREEMPTION, plan, now_s, last_s, {}, found.spots))
        for victim in found.victims:
            self.evicted.append(room.evict(victim.run, victim.reason, name, now_s))
        room.keep_for(waiting, now_s)
        return True

    def _unkept(self, name: str) -> bool:
        """Let go of starts that are starts for gangs beyond their guarantee: one within its own goes before."""
        room = self.attempts.room
        beyond = []
        for other in list(room.ledger.starts):
            waits = room.backlog.waiting.get(other) or room.runs.lost.get(other)
            if waits is None or other == name or room.tree.within(waits.queue, room.backlog.loads[waits.brand]):
                continue
            beyond.append(other)
            room.ledger.unreserve(other)
        return bool(beyond)

    def _owed(self, waiting: Waiting, found: Plan, now_s: float) -> bool:
        """Whether the gang's right does not depend on what it costs; a fair share is never worth more than is lost, and
        nobody is stopped where a node is there before the victims would be gone."""
        room, waited_s = self.attempts.room, max(0.0, now_s - waiting.gang.created_s)
        fair = any(victim.reason is BatchReason.FAIR_SHARE for victim in found.victims)
        if fair or waited_s < room.tree.spec(waiting.queue).grace_s:
            return False
        if room.tree.verdict(waiting.queue, room.backlog.loads[waiting.brand]) is not None:
            return True  # it is others' quota that is in the way
        return not kept.comes_by(room, waiting, now_s + max(each.run.gang.notice_s for each in found.victims), now_s)

    def _pays(self, waiting: Waiting, found: Plan, now_s: float) -> bool:
        """Whether waiting for what ends, or for a node that is due, would cost more than the victims' work."""
        room = self.attempts.room
        if self.ends is None:
            self.ends = kept.first_ends(room, now_s)
        a_second = waiting.gang.importance * room.backlog.loads[waiting.brand].amounts[0] / MILLIONTHS
        return not kept.has_room_by(room, waiting, now_s + found.cost_gpu_s / a_second, self.ends, now_s)
