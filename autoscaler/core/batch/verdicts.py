"""Why a gang that does not start waits: a quota, units, whole nodes, a domain, or no hope at all.

Enters: a room and a gang that waits in it. Leaves: what is missing, and how much of it. Nothing is changed but memory.
"""

from dataclasses import replace

from autoscaler.core.batch.memory import Memory
from autoscaler.core.batch.placement import Ask
from autoscaler.core.batch.reasons import BatchReason, Change, Verdict
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.starts import could_ever, left_by_others
from autoscaler.core.batch.waiting import Waiting


def why(room: Room, memory: Memory, waiting: Waiting) -> Verdict:
    """Why a gang that does not start waits."""
    ledger, load = room.ledger, room.backlog.loads[waiting.brand]
    change = room.tree.verdict(waiting.queue, load)
    scarce = any(room.unused(shape) < counted for shape, counted in load.counted)
    if change is not None and not (change.reason is BatchReason.QUOTA and scarce):
        is_guaranteed = change.reason is BatchReason.UNLENT and room.tree.promised(waiting.queue, load)
        if is_guaranteed and not _fits_ever(room, memory.ever, waiting.brand):
            return _no_room(room, memory, waiting.brand)  # what is guaranteed is not there
        return Verdict(change.reason, (change,))
    own = ledger.reservations.get(waiting.gang.name)
    held = {} if own is None else {node: units for node, units in own.held.items() if units}
    if not held:
        return _no_room(room, memory, waiting.brand)
    opened = ledger.estate.widen(held)
    verdict = _lacking(room, waiting.brand, memory.ever)
    ledger.estate.narrow(opened, held)
    return verdict


def _no_room(room: Room, memory: Memory, brand: int) -> Verdict:
    """Why a brand that its quota allows has no room; found out once for as long as no room is gained."""
    version = room.ledger.estate.version
    known = memory.verdicts.get(brand)
    if known is None or known[0] != version:
        known = memory.verdicts[brand] = (version, _lacking(room, brand, memory.ever))
    return known[1]


def _lacking(room: Room, brand: int, ever: dict[int, bool]) -> Verdict:
    """Why a brand has no room. `ever` remembers by brand whether an empty cluster would hold it."""
    wanted, estate = room.ask(brand), room.ledger.estate
    names = estate.shape_names
    required = wanted.form.topology.required
    if not _fits_ever(room, ever, brand):
        within = "" if required is None else f" in one {required}"
        if wanted.vector and could_ever(room.ledger, room.placer, _plain(room, wanted)):
            within += " with the cores and memory that its pods ask for,"
        left = left_by_others(room.ledger)
        beyond = {shape: units - int(left[estate.shape == shape].sum()) for shape, units in wanted.units.items()}
        more = {shape: f", {units} more than they have," for shape, units in beyond.items() if units > 0}
        short = tuple(
            Change(BatchReason.TOO_LARGE, f"{names[shape]}{more.get(shape, within)}", max(1, units))
            for shape, units in wanted.units.items()
        )
        return Verdict(BatchReason.TOO_LARGE, short)
    missing = tuple(
        Change(BatchReason.ROOM, names[shape], units - estate.free_units(shape))
        for shape, units in wanted.units.items()
        if units > estate.free_units(shape)
    )
    if missing:
        return Verdict(BatchReason.ROOM, missing)
    if wanted.vector and _has_room(room, _plain(room, wanted)):
        cores = [Change(BatchReason.CORES, names[shape], max(1, units)) for shape, units in wanted.units.items()]
        return Verdict(BatchReason.CORES, tuple(cores))
    if required is not None:
        units = max(1, sum(wanted.units.values()))
        return Verdict(BatchReason.TOPOLOGY, (Change(BatchReason.TOPOLOGY, required, units),))
    largest, _, shape, _ = wanted.pods[0]
    return Verdict(BatchReason.FRAGMENTED, (Change(BatchReason.FRAGMENTED, names[shape], max(1, largest)),))


def _fits_ever(room: Room, ever: dict[int, bool], brand: int) -> bool:
    """Whether nodes would hold a brand if no gang were there; found out once."""
    if brand not in ever:
        ever[brand] = could_ever(room.ledger, room.placer, room.ask(brand))
    return ever[brand]


def _plain(room: Room, wanted: Ask) -> Ask:
    """The same without cores and memory."""
    sets = tuple(replace(each, cpu=0.0, memory_gib=0.0) for each in wanted.form.pod_sets)
    return room.placer.ask(replace(wanted.form, pod_sets=sets))


def _has_room(room: Room, wanted: Ask) -> bool:
    """Whether there is room now."""
    estate, placer, version = room.ledger.estate, room.placer, room.ledger.estate.version
    spots = placer.take(wanted)
    if spots is not None:
        placer.give(spots, wanted)
    estate.version = version
    return spots is not None
