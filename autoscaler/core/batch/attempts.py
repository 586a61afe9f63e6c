"""The start of one gang, whole or not at all: on free room, on room that is kept, or on what serving lends.

Enters: a room and a gang that waits. Leaves: an admission, already in the books, or nothing changed. In which order
gangs are tried, and who makes way for whom, is decided elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autoscaler.core.batch import widths
from autoscaler.core.batch.ledger import NO_LOAN, Reservation
from autoscaler.core.batch.loans import worth
from autoscaler.core.batch.memory import Memory
from autoscaler.core.batch.outcome import Admitted, Spots
from autoscaler.core.batch.placement import Spot, new
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.shares import barred_for
from autoscaler.core.batch.waiting import Waiting
from autoscaler.core.batch.widths import Taken


@dataclass(slots=True)
class Attempts:
    """Tries gangs in one cycle."""

    room: Room
    memory: Memory
    admitted: list[Admitted] = field(default_factory=list)
    promised: set[str] = field(default_factory=set)
    """Of them those that room was kept for."""

    def start(self, waiting: Waiting, now_s: float, *, widens: bool = True) -> bool:
        """Admit a gang, if quota and room allow it; as narrow as it may be unless it `widens`."""
        room, memory, brand = self.room, self.memory, waiting.brand
        load, estate = room.backlog.loads[brand], room.ledger.estate
        own = room.ledger.reservations.get(waiting.gang.name)
        if own is None and (brand in memory.closed(room) or memory.scarce(room, load)):
            # What no room can hold closes the brand for all queues; quota would speak of one.
            memory.closed(room).add(brand)
            return False
        if room.tree.verdict(waiting.queue, load) is not None:
            return False
        if memory.no_room.get(brand) != estate.version:
            taken = self._take(waiting, widens=widens)
            if taken is not None:
                self.admit(taken, NO_LOAN, BatchReason.FITS, now_s)
                return True
            memory.no_room[brand] = estate.version
        if self._widely(waiting, own, now_s, widens=widens):
            return True
        if own is None:
            memory.closed(room).add(brand)
        return False

    def _widely(self, waiting: Waiting, own: Reservation | None, now_s: float, *, widens: bool) -> bool:
        """Admit a gang on what is kept for it, on what it would give back in time, or on what serving lends."""
        room = self.room
        if own is not None and self.start_on(waiting, own, BatchReason.RESERVED, now_s, widens=widens):
            return True
        brand = room.backlog.brands[waiting.brand]
        starts = [each for each in room.ledger.starts.values() if each is not own]
        end_s = now_s + brand.expected_s * room.runs.ratios(waiting.queue)[1] if starts else now_s
        for other in starts:
            if end_s > other.start_s:
                continue
            if self.start_on(waiting, other, BatchReason.BACKFILL, now_s, widens=widens):
                return True
        return brand.lendable and self._borrow(waiting, now_s)

    def start_anywhere(self, waiting: Waiting, reservation: Reservation, now_s: float) -> None:
        """Try with what is free, and with what a reservation holds besides."""
        if self.start_on(waiting, reservation, BatchReason.RESERVED, now_s, widens=False):
            return
        taken = None if any(reservation.held.values()) else self._take(waiting, widens=False)
        if taken is not None:
            self.admit(taken, NO_LOAN, BatchReason.FITS, now_s)

    def start_on(
        self, waiting: Waiting, reservation: Reservation, reason: BatchReason, now_s: float, *, widens: bool = True
    ) -> bool:
        """Try with what a reservation holds; what is used of it comes back to it when the gang ends."""
        ledger = self.room.ledger
        extra = {node: units for node, units in reservation.held.items() if units}
        shares = waiting.gang.form.has_shares and reservation.gang == waiting.gang.name
        lifted = barred_for(ledger, reservation) if shares else ()
        if not extra and not lifted:
            return False
        opened = ledger.estate.widen(extra)
        for node in lifted:
            ledger.estate.bar_shares(node, barred=False)
        taken = self._take(waiting, widens=widens)
        for node in lifted:
            ledger.estate.bar_shares(node, barred=True)
        used = ledger.estate.narrow(opened, extra)
        if taken is None:
            return False
        ledger.use_held(reservation, used)
        self.admit(taken, NO_LOAN, reason, now_s)
        return True

    def _take(
        self, waiting: Waiting, may: Callable[[tuple[Spot, ...]], bool] | None = None, *, widens: bool = True
    ) -> Taken | None:
        """Take room for a gang from what the estate offers now, where it `may` be there; None where it has none.

        One that may be wider than it waits is taken room for as wide as quota and room allow; but one for which others
        left starts as it was counted.
        """
        wanted = self.room.ask(waiting.brand)
        spots = self.room.placer.take(wanted) if may is None else widths.take(self.room, wanted, may)
        if spots is None:
            return None
        if waiting.gang.elastic is None:
            return Taken(waiting, spots)
        if not widens or waiting.gang.name in self.room.kept_for:
            return widths.narrowest(waiting, spots)
        return widths.widest(self.room, waiting, spots, may)

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
        opened = ledger.estate.widen(idle)
        free = opened[1]

        def may(spots: tuple[Spot, ...]) -> bool:
            used = {spot.node: 0 for spot in spots}
            for spot in spots:
                used[spot.node] += spot.units
            borrowed = [max(0, units - free.get(node, units)) for node, units in used.items()]
            return lent + sum(borrowed) <= bound.units and not any(units % bound.slot_units for units in borrowed)

        taken = self._take(waiting, may)
        borrows = ledger.estate.narrow(opened, idle)
        if taken is None:
            return False
        self.admit(taken, borrows, BatchReason.LOAN, now_s)
        return True

    def admit(self, taken: Taken, lent: Mapping[int, int], reason: BatchReason, now_s: float) -> None:
        """Book what was taken for a gang; it starts."""
        room = self.room
        waiting, spots = taken.waiting, taken.spots
        name = waiting.gang.name
        room.ledger.book(name, spots, lent)
        counts = room.kept_for.pop(name, None) is None
        if name in room.ledger.reservations:
            room.unreserve(name)
            self.promised.add(name)
        room.started(waiting, now_s, now_s, on_loan=bool(lent), counts=counts)
        self.memory.searched.pop(name, None)
        where = room.ledger.estate.where
        told = tuple(
            [new(Spots, (*where[node], pod_set, pods, device)) for node, pod_set, pods, _, _, _, device, _ in spots]
        )
        units = sum(lent.values()) if lent else 0
        self.admitted.append(new(Admitted, (name, waiting.gang.queue, told, reason, units, taken.narrow)))
