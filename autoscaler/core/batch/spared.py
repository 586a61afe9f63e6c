"""Gangs that were asked to leave, whose objects never said so, and that need not leave any more.

Enters: a room and such a gang. Leaves: whether whom it was for does without it; the gang runs on, in the books at once.
That no object says that it leaves is the caller's to know.
"""

from autoscaler.core.batch.kept import NOTHING, is_coming, is_there
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.running import Running


def is_done_without(room: Room, run: Running, now_s: float) -> bool:
    """Whether the gang for which a whole one leaves has a place without it, or wants none any more."""
    name = run.leaves_for
    if name is None or run.lost or name in room.backlog.waiting:
        return False
    held = sum(spot.units for spot in room.ledger.holdings.get(run.name, NOTHING).spots)
    if held != sum(units for _, units in run.load.units):
        return False
    if name not in room.kept_for:
        return True
    reservation = room.ledger.reservations[name]
    if run.is_counted_on(room.params.stuck_s, now_s):
        return False
    return is_there(room, reservation) or is_coming(room, reservation, now_s)


def go_on(room: Room, run: Running, lease_until_s: float, now_s: float) -> None:
    """It counts again, beyond a limit as well, as if it had not been asked, and is left alone until an instant.

    It gave way to nobody, so that it may claim its share from whom it was asked for as from anybody.
    """
    if run.leaves_for is not None and run.exchanges:
        room.exchanges.undo(run.name, run.leaves_for)
    room.evictions[run.name] = run.evictions
    if not run.evictions:
        del room.evictions[run.name]
    room.runs.go_on(run, lease_until_s)
    room.count(run.queue, run.load, 1, now_s)
    room.backlog.touch(run.queue)
    room.news += 1
