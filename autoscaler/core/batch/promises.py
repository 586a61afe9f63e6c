"""Reservations over time: who starts on a whole one, which can no longer become whole, and for whom one is made.

Enters: the attempts of one cycle. Leaves: starts and reservations, already in the books. For each shape the oldest head
that waits for room holds one at its expected start (EASY); those of who preempts are made where victims are found.
"""

from typing import Final

from autoscaler.core.batch import kept, places
from autoscaler.core.batch.attempts import Attempts
from autoscaler.core.batch.kept import Ebbs
from autoscaler.core.batch.ledger import NO_LOAN, Kind, Reservation
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.verdicts import why
from autoscaler.core.batch.waiting import Waiting
from autoscaler.core.batch.widths import narrowest

FOR_ROOM: Final = frozenset(
    {BatchReason.QUOTA, BatchReason.ROOM, BatchReason.FRAGMENTED, BatchReason.CORES, BatchReason.TOPOLOGY}
)
"""Reasons that an end of others cures."""

FOR_SERVING: Final = frozenset({BatchReason.UNLENT, BatchReason.TOO_LARGE})
"""Reasons that serving cures which leaves GPUs, where nothing else does."""


def review(attempts: Attempts, now_s: float) -> bool:
    """Start gangs whose reservation is whole; let go of what cannot become whole. False where a bound ended it."""
    room = attempts.room
    if not places.keep(room, attempts.memory, now_s):
        return False
    for name, reservation in list(room.ledger.reservations.items()):
        if len(attempts.admitted) >= room.params.max_admissions:
            return False
        waiting = room.kept_for.get(name)
        if waiting is not None and reservation.kind is Kind.NODES:
            attempts.start_anywhere(waiting, reservation, now_s)
        elif waiting is not None:
            if kept.is_there(room, reservation):
                _start_kept(attempts, waiting, reservation, now_s)
            elif not kept.is_coming(room, reservation, now_s):
                room.keep_no_more(name, now_s)
        elif name in room.runs.lost:
            continue
        elif name not in room.backlog.waiting:
            room.ledger.unreserve(name)  # its gang was not seen again
        elif reservation.whole and reservation.plan:
            waiting = room.backlog.waiting[name]
            load = room.backlog.loads[waiting.brand]
            if room.tree.verdict(waiting.queue, load) is not None or not attempts.start_on(
                waiting, reservation, BatchReason.RESERVED, now_s
            ):
                room.ledger.unreserve(name)
    return True


def _start_kept(attempts: Attempts, waiting: Waiting, reservation: Reservation, now_s: float) -> None:
    ledger = attempts.room.ledger
    if waiting.gang.form.has_shares:
        # Whole devices were kept for it: it takes as much of them as it asked for.
        ledger.take_spare(reservation.spots, -1)
        reservation.spots = ()
    if reservation.spots:
        ledger.use_held(reservation, reservation.plan)
        ledger.take_spare(reservation.spots)  # its booking's; what was kept goes back with the reservation
        attempts.admit(narrowest(waiting, reservation.spots), NO_LOAN, BatchReason.RESERVED, now_s)
    elif not attempts.start_on(waiting, reservation, BatchReason.RESERVED, now_s):
        attempts.room.keep_no_more(waiting.gang.name, now_s)


def keep_starts(attempts: Attempts, now_s: float) -> None:
    """Keep, or find, one reservation at the expected start for each shape."""
    room, memory = attempts.room, attempts.memory
    covered: set[int] = set()
    shapes = len(room.params.shapes)
    for name, reservation in list(room.ledger.starts.items()):
        if name not in room.backlog.waiting:
            continue
        waiting = room.backlog.waiting[name]
        covered.update(shape for shape, _ in room.backlog.loads[waiting.brand].units)
        late = now_s >= reservation.start_s or not reservation.plan
        if late and memory.kept_at.get(name) != now_s:
            if room.ebbing:
                memory.let_down.add(name)
            _keep_start(attempts, waiting, now_s, reservation.made_s)
    if len(covered) == shapes:
        return
    for waiting in sorted(room.backlog.heads(), key=lambda each: (each.gang.created_s, each.rank)):
        if max(0.0, now_s - waiting.gang.created_s) < room.params.reserve_after_s or len(covered) == shapes:
            return
        mine = {shape for shape, _ in room.backlog.loads[waiting.brand].units}
        if mine.isdisjoint(covered) and _keeps_one(attempts, waiting, now_s):
            covered |= mine


def _keeps_one(attempts: Attempts, waiting: Waiting, now_s: float) -> bool:
    """Whether a gang has the reservation of its shapes: one that lacks room, expected or not; and one that lacks what
    only serving may leave, where that is expected."""
    room, memory = attempts.room, attempts.memory
    reason = why(room, memory, waiting).reason
    if reason in FOR_ROOM:
        _keep_start(attempts, waiting, now_s, now_s)
        return True
    if reason not in FOR_SERVING or _counted(attempts, waiting) is Ebbs.NONE:
        return False
    _keep_start(attempts, waiting, now_s, now_s)
    return waiting.gang.name in room.ledger.starts


def _counted(attempts: Attempts, waiting: Waiting) -> Ebbs:
    """How much of what serving is expected to leave a reservation counts on. Who waited by it in vain counts on it no
    more: it may be expected again and again, and others would pass for ever."""
    trusts = attempts.room.ebbing and waiting.gang.name not in attempts.memory.let_down
    return Ebbs.SURE if trusts else Ebbs.NONE


def _keep_start(attempts: Attempts, waiting: Waiting, now_s: float, made_s: float) -> None:
    room = attempts.room
    attempts.memory.kept_at[waiting.gang.name] = now_s
    ebbs = _counted(attempts, waiting)
    start = kept.expected_start(room, waiting, now_s, level=0, ebbs=ebbs, in_whole_units=True)
    room.ledger.unreserve(waiting.gang.name)
    if start is not None:
        reservation = Reservation(waiting.gang.name, Kind.START, start.plan, made_s, start.at_s)
        room.ledger.reserve(reservation)
