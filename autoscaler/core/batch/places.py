"""The places of gangs that lost GPUs, kept for them while what is left of them leaves.

Enters: a room, and what earlier cycles tried. Leaves: reservations, already in the books: nobody who comes after such a
gang takes what it leaves, or what is mended meanwhile. To look for a place takes up to 5 ms where 2,500 nodes have GPUs
and too few cores, and a zone that fails has hundreds of gangs look: one cycle looks for some of them only.
"""

from typing import Final

from autoscaler.core.batch import kept
from autoscaler.core.batch.ledger import Kind, Reservation
from autoscaler.core.batch.memory import Memory, Tried
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.running import Running

MOST_LOOKS: Final = 32
"""In one cycle."""

AGAIN_S: Final = 30.0
"""After a look in vain, where no GPU was gained since: cores or memory may have been."""


def keep(room: Room, memory: Memory, now_s: float) -> bool:
    """Keep, or find, a place for each; False where some have not been looked at once, which others must not forestall.

    Who had none is looked at again once there is more room, the longest ago first. It is kept no more once nobody
    counts on the gang's going.
    """
    ledger, lost = room.ledger, room.runs.lost
    memory.tried = {name: tried for name, tried in memory.tried.items() if name in lost}
    seek = list[Running]()
    for run in list(lost.values()):
        known = ledger.reservations.get(run.name)
        if room.is_overdue(run, now_s):
            ledger.unreserve(run.name)
        elif known is None or not _can_be_whole(room, known, room.waits_as(run)):
            seek.append(run)
            if known is not None and known.plan:
                memory.tried.pop(run.name, None)
    new = [run for run in seek if run.name not in memory.tried]
    again = [run for run in seek if run.name in memory.tried and _may_differ(room, memory.tried[run.name], run, now_s)]
    again.sort(key=lambda run: memory.tried[run.name].at_s)
    for run in [*new, *again][:MOST_LOOKS]:
        start = kept.start_again(room, run, now_s)
        ledger.unreserve(run.name)
        if start is None:
            memory.tried[run.name] = Tried(now_s, ledger.estate.version, _usable_units(room, run))
        else:
            ledger.reserve(Reservation(run.name, Kind.START, start.plan, now_s, start.at_s))
    return len(new) <= MOST_LOOKS


def _may_differ(room: Room, tried: Tried, run: Running, now_s: float) -> bool:
    """Whether a look may find what the last one did not."""
    gained = (tried.version, tried.usable_units) != (room.ledger.estate.version, _usable_units(room, run))
    return gained or now_s >= tried.at_s + AGAIN_S


def _usable_units(room: Room, run: Running) -> int:
    """Units that a gang leaves on nodes that may be used."""
    holding, nodes = room.ledger.holdings.get(run.name, kept.NOTHING), room.ledger.estate.nodes
    return sum(spot.units for spot in holding.spots if nodes[spot.node].usable)


def _can_be_whole(room: Room, reservation: Reservation, brand: int) -> bool:
    """Whether a reservation is of a whole gang still, on nodes that may be used."""
    units = sum(room.ask_in_whole_units(brand).units.values())
    nodes = room.ledger.estate.nodes
    return sum(reservation.plan.values()) >= units and all(nodes[at].usable for at in reservation.plan)
