"""A gang that runs elsewhere than planned: its booking follows it.

Enters: a room, a gang, where it is. Leaves: the books as they are then, or nothing changed where somebody else is
booked there. Who places pods is not us: held to a set of nodes, more of them may land on one than were meant to.
"""

from collections.abc import Sequence

from autoscaler.core.batch.owners import Owner
from autoscaler.core.batch.placement import Spot
from autoscaler.core.batch.room import Room


def move(room: Room, gang: str, spots: Sequence[Spot]) -> bool:
    """Book a gang that holds GPUs on other nodes than before, as many units in all; what it left passes on.

    False, and nothing changed, where a node has not as many units that are free or kept for somebody. A gang on loan,
    or with shares, stays where it is booked: what it leaves would be nobody's to give.
    """
    ledger = room.ledger
    old = ledger.holdings[gang]
    wanted: dict[int, int] = {}
    for spot in spots:
        wanted[spot.node] = wanted.get(spot.node, 0) + spot.units
    had = {node: ledger.on_node[node].get(gang, 0) for node in wanted}
    free = {node: int(ledger.estate.free[node]) + int(ledger.owned[node, Owner.RESERVED]) for node in wanted}
    if old.lent or any(spot.share for spot in old.spots):
        return False
    if any(units > had[node] + free[node] for node, units in wanted.items()):
        return False
    ledger.release(gang)
    for node, units in wanted.items():
        take = min(units, int(ledger.estate.free[node]))
        ledger.estate.set_free(node, int(ledger.estate.free[node]) - take)
        short = units - take
        for kept in ledger.reservations.values():
            given = min(short, kept.held.get(node, 0))
            if given:
                ledger.use_held(kept, {node: given})
                short -= given
    ledger.book(gang, tuple(spots))
    ledger.take_spare(spots)
    room.changes += 1
    room.news += 1
    return True
