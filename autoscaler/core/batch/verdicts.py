"""What a gang lacks that its quota allows: units, whole nodes, a domain, or any hope.

Enters: a room and a brand without room. Leaves: the kind of room that is missing, and how much. Nothing is changed.
"""

from autoscaler.core.batch.reasons import BatchReason, Change, Verdict
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.starts import could_ever


def lacking(room: Room, brand: int, ever: dict[int, bool]) -> Verdict:
    """Why a brand has no room. `ever` remembers by brand whether an empty cluster would hold it."""
    wanted, estate = room.ask(brand), room.ledger.estate
    names = estate.shape_names
    if brand not in ever:
        ever[brand] = could_ever(room.ledger, room.placer, wanted)
    if not ever[brand]:
        short = tuple(Change(BatchReason.TOO_LARGE, names[shape], units) for shape, units in wanted.units.items())
        return Verdict(BatchReason.TOO_LARGE, short)
    missing = tuple(
        Change(BatchReason.ROOM, names[shape], units - estate.free_units(shape))
        for shape, units in wanted.units.items()
        if units > estate.free_units(shape)
    )
    if missing:
        return Verdict(BatchReason.ROOM, missing)
    required = wanted.form.topology.required
    if required is not None:
        return Verdict(BatchReason.TOPOLOGY, (Change(BatchReason.TOPOLOGY, required, sum(wanted.units.values())),))
    largest, _, shape, _ = wanted.pods[0]
    return Verdict(BatchReason.FRAGMENTED, (Change(BatchReason.FRAGMENTED, names[shape], largest),))
