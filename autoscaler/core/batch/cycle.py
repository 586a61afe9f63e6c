"""One cycle of admission: who starts, who leaves for whom, and for whom room is kept. Deterministic; bounded work.

In order: gangs whose reservation is whole start. Then the tournament's winner is tried again and again, each one whole
or not at all; who does not fit steps aside, so that others pass, unless the queue is strict. Then the longest-waiting
heads look for victims. Last, the oldest head that waits for room gets a reservation at its expected start (EASY), one
for each shape; from then on others pass it only where they do not delay it.
"""

import heapq
import math
from dataclasses import dataclass, field
from typing import Final

from autoscaler.core.batch import kept, victims
from autoscaler.core.batch.backlog import Waiting
from autoscaler.core.batch.ledger import Kind, Reservation
from autoscaler.core.batch.loans import worth
from autoscaler.core.batch.outcome import Admitted, Cycle, Evicted, Spots
from autoscaler.core.batch.placement import Spot
from autoscaler.core.batch.reasons import BatchReason, Verdict
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.tree import MILLIONTHS, Load
from autoscaler.core.batch.verdicts import lacking
from autoscaler.core.batch.victims import Books

FOR_ROOM: Final = frozenset({BatchReason.QUOTA, BatchReason.ROOM, BatchReason.FRAGMENTED, BatchReason.TOPOLOGY})
"""Reasons that an end of others cures."""

MAX_VAIN: Final = 2
"""Searches in vain in one cycle for each that may succeed: they are quicker, and the next cycle goes on with others."""

SEARCH_AGAIN_S: Final = 2.0
"""After a search for victims in vain, for a gang within what its queue is guaranteed."""

SEARCH_SHARE_AGAIN_S: Final = 60.0
"""The same for one that only has a fair share to claim (both a guess: leases and shares move slowly)."""


@dataclass(slots=True)
class Memory:
    """What cycles found out and need not find out again, until what they depend on has changed."""

    no_room: dict[int, int] = field(default_factory=dict)
    """By brand: the version of the estate in which it had no room."""
    kept_units: list[int] = field(default_factory=list)
    """By shape: units held for expected starts and units that serving would lend, for the same version."""
    asked_back: tuple[int, int] = (-1, -1)
    """The state of the books at which those aside were last asked back."""
    verdicts: dict[int, tuple[int, Verdict]] = field(default_factory=dict)
    """By brand: the version of the estate, and why it had no room in it."""
    ever: dict[int, bool] = field(default_factory=dict)
    """By brand: whether it fits an empty cluster."""
    epoch: int = -1
    closed: set[int] = field(default_factory=set)
    """Brands without room, as long as no room is gained."""
    version: int = -1
    """Of the estate, for which that holds."""
    reviewed: tuple[int, float] = (-1, -math.inf)
    """The room's news, and when reservations were last gone through."""
    kept_at: dict[str, float] = field(default_factory=dict)
    """By gang: when its expected start was last found."""
    searched: dict[str, float] = field(default_factory=dict)
    """By gang that searched for victims in vain: when to search again."""


class Cycles:
    """Runs cycles over a room."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._memory = Memory()
        self._admitted: list[Admitted] = []
        self._evicted: list[Evicted] = []

    def cycle(self, now_s: float) -> Cycle:
        """What is to be done now."""
        room, memory = self.room, self._memory
        self._admitted, self._evicted = [], []
        if memory.epoch != room.epoch:
            self._memory = memory = Memory(epoch=room.epoch, searched=memory.searched)
            room.expect()
        if memory.reviewed != (room.news, now_s):
            memory.reviewed = (room.news, now_s)
            self._reservations(now_s)
        self._ask_back()
        # A cycle that admitted many leaves searches to the next one, so that none is long.
        more = self._admissions(now_s) or len(self._admitted) > room.params.max_admissions // 4
        if not more:
            more = not self._searches(now_s)
        if not more:
            self._keep_starts(now_s)
        return Cycle(tuple(self._admitted), tuple(self._evicted), more)

    def _ask_back(self) -> None:
        """Those aside whose obstacle may be gone are tried again; equal ones are asked about once."""
        closed, loads = self._closed(), self.room.backlog.loads
        if self._memory.asked_back != (self.room.changes, self._memory.version):
            self.room.backlog.come_back(lambda brand: brand not in closed and not self._scarce(loads[brand]))
            self._memory.asked_back = (self.room.changes, self._memory.version)

    def _admissions(self, now_s: float) -> bool:
        """Admit one after another; True where the bound ended it."""
        room = self.room
        while len(self._admitted) < room.params.max_admissions:
            waiting = None if self._all_closed() else room.backlog.best()
            if waiting is None:
                return False
            if not self._try(waiting, now_s):
                room.backlog.step_aside(waiting)
        return not self._all_closed() and room.backlog.best() is not None

    def _all_closed(self) -> bool:
        """Whether nobody who waits can have room, so that nobody need be asked."""
        closed, population = self._closed(), self.room.backlog.population
        return len(closed) >= len(population) and population.keys() <= closed

    def _try(self, waiting: Waiting, now_s: float) -> bool:
        """Admit a gang, if quota and room allow it."""
        room, memory, brand = self.room, self._memory, waiting.brand
        load, estate = room.backlog.loads[brand], room.ledger.estate
        own = room.ledger.reservations.get(waiting.gang.name)
        if own is None and (brand in self._closed() or self._scarce(load)):
            # What no room can hold closes the brand for all queues; quota would speak of one.
            self._closed().add(brand)
            return False
        if room.tree.verdict(waiting.queue, load) is not None:
            return False
        if memory.no_room.get(brand) != estate.version:
            spots = room.placer.take(room.ask(brand))
            if spots is not None:
                self._admit(waiting, spots, {}, BatchReason.FITS, now_s)
                return True
            memory.no_room[brand] = estate.version
        if self._widely(waiting, own, now_s):
            return True
        if own is None:
            self._closed().add(brand)
        return False

    def _closed(self) -> set[int]:
        """Brands that were found to have no room since room was last gained."""
        memory, version = self._memory, self.room.ledger.estate.version
        if memory.version != version:
            memory.version, memory.kept_units = version, kept.units_for_starts(self.room)
            memory.closed.clear()
        return memory.closed

    def _scarce(self, load: Load) -> bool:
        """Whether there are not even as many units, those included that could be used for a while."""
        estate, more = self.room.ledger.estate, self._memory.kept_units
        return any(estate.free_units(shape) + more[shape] < units for shape, units in load.units)

    def _widely(self, waiting: Waiting, own: Reservation | None, now_s: float) -> bool:
        """Admit a gang on what is kept for it, on what it would give back in time, or on what serving lends."""
        room = self.room
        if own is not None and self._with(waiting, own, BatchReason.RESERVED, now_s):
            return True
        brand = room.backlog.brands[waiting.brand]
        starts = [each for each in room.ledger.reservations.values() if each.kind is Kind.START and each is not own]
        end_s = now_s + brand.expected_s * room.runs.ratios(waiting.queue)[1] if starts else now_s
        for other in starts:
            if end_s <= other.start_s and self._with(waiting, other, BatchReason.BACKFILL, now_s):
                return True
        return brand.lendable and self._borrow(waiting, now_s)

    def _with(self, waiting: Waiting, reservation: Reservation, reason: BatchReason, now_s: float) -> bool:
        """Try with what a reservation holds; what is used of it comes back to it when the gang ends."""
        ledger = self.room.ledger
        extra = {node: units for node, units in reservation.held.items() if units}
        if not extra:
            return False
        opened = ledger.widen(extra)
        spots = self.room.placer.take(self.room.ask(waiting.brand))
        used = ledger.narrow(opened, extra)
        if spots is None:
            return False
        ledger.use_held(reservation, used)
        self._admit(waiting, spots, {}, reason, now_s)
        return True

    def _borrow(self, waiting: Waiting, now_s: float) -> bool:
        """Try with what serving lends of the gang's one shape."""
        room = self.room
        units = room.backlog.loads[waiting.brand].units
        shape = room.params.shapes[units[0][0]].name
        bound = room.bounds.get(shape)
        restart_s = room.params.restart_s if waiting.gang.restart_s is None else waiting.gang.restart_s
        if bound is None or len(units) > 1 or not worth(waiting.gang, bound, restart_s):
            return False
        ledger = room.ledger
        lent = sum(
            number
            for holding in ledger.holdings.values()
            for node, number in holding.lent.items()
            if ledger.estate.nodes[node].shape == shape
        )
        idle = {at: n for at, n in ledger.lendable().items() if ledger.estate.nodes[at].shape == shape}
        opened = ledger.widen(idle)
        spots = room.placer.take(room.ask(waiting.brand))
        if spots is not None:
            free = opened[1]
            used = {spot.node: 0 for spot in spots}
            for spot in spots:
                used[spot.node] += spot.units
            borrowed = sum(max(0, units - free.get(node, units)) for node, units in used.items())
            if lent + borrowed > bound.units:
                room.placer.give(spots, room.ask(waiting.brand))
                spots = None
        taken = ledger.narrow(opened, idle)
        if spots is None:
            return False
        self._admit(waiting, spots, taken, BatchReason.LOAN, now_s)
        return True

    def _admit(
        self, waiting: Waiting, spots: tuple[Spot, ...], lent: dict[int, int], reason: BatchReason, now_s: float
    ) -> None:
        room = self.room
        name = waiting.gang.name
        room.ledger.book(name, spots, lent)
        if name in room.ledger.reservations:
            room.ledger.unreserve(name)
        counts = room.kept_for.pop(name, None) is None
        room.started(waiting, now_s, now_s, on_loan=bool(lent), counts=counts)
        self._memory.searched.pop(name, None)
        nodes = room.ledger.estate.nodes
        where = tuple(Spots(nodes[s.node].name, nodes[s.node].shape, s.pod_set, s.pods) for s in spots)
        self._admitted.append(Admitted(name, waiting.gang.queue, where, reason, sum(lent.values())))

    def _no_room(self, brand: int) -> Verdict:
        """Why a brand that its quota allows has no room; found out once for as long as no room is gained."""
        version, memory = self.room.ledger.estate.version, self._memory
        known = memory.verdicts.get(brand)
        if known is None or known[0] != version:
            known = memory.verdicts[brand] = (version, lacking(self.room, brand, memory.ever))
        return known[1]

    def _reservations(self, now_s: float) -> None:
        """Start gangs whose reservation is whole; let go of what cannot become whole."""
        room = self.room
        for name, reservation in list(room.ledger.reservations.items()):
            waiting = room.kept_for.get(name)
            if waiting is not None:
                if reservation.whole and reservation.plan:
                    self._start_kept(waiting, reservation, now_s)
                elif not kept.is_coming(room, reservation, now_s):
                    room.keep_no_more(name, now_s)
            elif name not in room.backlog.waiting:
                room.ledger.unreserve(name)  # its gang was not seen again
            elif reservation.whole and reservation.plan:
                waiting = room.backlog.waiting[name]
                load = room.backlog.loads[waiting.brand]
                if room.tree.verdict(waiting.queue, load) is not None or not self._with(
                    waiting, reservation, BatchReason.RESERVED, now_s
                ):
                    room.ledger.unreserve(name)

    def _start_kept(self, waiting: Waiting, reservation: Reservation, now_s: float) -> None:
        ledger = self.room.ledger
        if reservation.spots:
            ledger.use_held(reservation, reservation.plan)
            for spot in reservation.spots:
                if spot.cpu or spot.memory_gib:
                    ledger.estate.spare[spot.node] -= (spot.cpu, spot.memory_gib)
            self._admit(waiting, reservation.spots, {}, BatchReason.RESERVED, now_s)
        elif not self._with(waiting, reservation, BatchReason.RESERVED, now_s):
            self.room.keep_no_more(waiting.gang.name, now_s)

    def _searches(self, now_s: float) -> bool:
        """Heads that may make others leave look for victims, the longest-waiting first; False where the bound ended it.

        Where one found some, the next of its queue looks in the same cycle.
        """
        room, memory = self.room, self._memory
        heads = [(each.gang.created_s, each.rank, each.gang.name) for each in room.backlog.heads()]
        heapq.heapify(heads)
        found = vain = 0
        while heads and vain < MAX_VAIN * room.params.max_searches:
            _, _, name = heapq.heappop(heads)
            waiting = room.backlog.waiting.get(name)
            if waiting is None or now_s < memory.searched.get(name, -math.inf):
                continue
            if self.why(waiting).reason is BatchReason.TOO_LARGE:
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

    def why(self, waiting: Waiting) -> Verdict:
        """Why a gang that does not start waits."""
        room, ledger = self.room, self.room.ledger
        load = room.backlog.loads[waiting.brand]
        change = room.tree.verdict(waiting.queue, load)
        scarce = any(ledger.estate.free_units(shape) < units for shape, units in load.units)
        if change is not None and not (change.reason is BatchReason.QUOTA and scarce):
            return Verdict(change.reason, (change,))
        own = ledger.reservations.get(waiting.gang.name)
        held = {} if own is None else {node: units for node, units in own.held.items() if units}
        if not held:
            return self._no_room(waiting.brand)
        opened = ledger.widen(held)
        verdict = lacking(room, waiting.brand, self._memory.ever)
        ledger.narrow(opened, held)
        return verdict

    def _search(self, waiting: Waiting, now_s: float) -> bool:
        """Make room for a gang, if that is its right and pays; whether it starts, or will."""
        room, name = self.room, waiting.gang.name
        load = room.backlog.loads[waiting.brand]
        books = Books(room.tree, room.ledger, room.placer, room.runs, room.exchanges, room.params.max_evictions)
        spec = room.tree.spec(waiting.queue)
        if room.tree.within(waiting.queue, load) and self._unkept(name) and self._try(waiting, now_s):
            return True
        found = victims.plan(books, waiting, load, room.ask(waiting.brand), now_s)
        waited_s = max(0.0, now_s - waiting.gang.created_s)
        owed = waited_s >= spec.grace_s
        if found is None or not found.victims or not (owed or self._pays(waiting, found, now_s)):
            within = room.tree.within(waiting.queue, load)
            self._memory.searched[name] = now_s + (SEARCH_AGAIN_S if within else SEARCH_SHARE_AGAIN_S)
            return False
        room.ledger.unreserve(name)
        plan: dict[int, int] = {}
        for spot in found.spots:
            plan[spot.node] = plan.get(spot.node, 0) + spot.units
        last_s = now_s + max(victim.run.gang.notice_s for victim in found.victims)
        room.ledger.reserve(Reservation(name, Kind.PREEMPTION, plan, now_s, last_s, {}, found.spots))
        for victim in found.victims:
            self._evicted.append(room.evict(victim.run, victim.reason, name, now_s))
        room.keep_for(waiting, now_s)
        return True

    def _unkept(self, name: str) -> bool:
        """Let go of starts that are starts for gangs beyond their guarantee: one within its own goes before."""
        room = self.room
        starts = [each.gang for each in room.ledger.reservations.values() if each.kind is Kind.START]
        beyond = []
        for other in starts:
            waiting = room.backlog.waiting.get(other)
            load = None if waiting is None else room.backlog.loads[waiting.brand]
            if waiting is None or load is None or other == name or room.tree.within(waiting.queue, load):
                continue
            beyond.append(other)
            room.ledger.unreserve(other)
        return bool(beyond)

    def _pays(self, waiting: Waiting, found: victims.Plan, now_s: float) -> bool:
        """Whether waiting for what ends, or for a node that is due, would cost more than the victims' work."""
        load = self.room.backlog.loads[waiting.brand]
        start = kept.expected_start(self.room, waiting, now_s, level=0)
        if start is None:
            return True
        return found.cost_gpu_s < load.amounts[0] / MILLIONTHS * (start.at_s - now_s)

    def _keep_starts(self, now_s: float) -> None:
        """Keep, or find, one reservation at the expected start for each shape."""
        room = self.room
        covered: set[int] = set()
        shapes = len(room.params.shapes)
        for name, reservation in list(room.ledger.reservations.items()):
            if reservation.kind is not Kind.START or name not in room.backlog.waiting:
                continue
            waiting = room.backlog.waiting[name]
            covered.update(shape for shape, _ in room.backlog.loads[waiting.brand].units)
            late = now_s >= reservation.start_s or not reservation.plan
            if late and self._memory.kept_at.get(name) != now_s:
                self._keep_start(waiting, now_s, reservation.made_s)
        for waiting in sorted(room.backlog.heads(), key=lambda each: (each.gang.created_s, each.rank)):
            if max(0.0, now_s - waiting.gang.created_s) < room.params.reserve_after_s or len(covered) == shapes:
                return
            mine = {shape for shape, _ in room.backlog.loads[waiting.brand].units}
            if mine.isdisjoint(covered) and self.why(waiting).reason in FOR_ROOM:
                covered |= mine
                self._keep_start(waiting, now_s, now_s)

    def _keep_start(self, waiting: Waiting, now_s: float, made_s: float) -> None:
        room = self.room
        self._memory.kept_at[waiting.gang.name] = now_s
        start = kept.expected_start(self.room, waiting, now_s, level=0)
        room.ledger.unreserve(waiting.gang.name)
        if start is not None:
            reservation = Reservation(waiting.gang.name, Kind.START, start.plan, made_s, start.at_s)
            room.ledger.reserve(reservation)
