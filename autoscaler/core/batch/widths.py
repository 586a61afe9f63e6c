"""As how wide a gang starts that may be wider or narrower: the widest for which there is quota and room now.

Enters: a room, a gang that waits, the place that was found for it as narrow as it may be. Leaves: a wider place, or the
same. Its turn is that of a gang as wide as it may be, so that nobody who goes before such a one is passed by a wider
start; and it takes only what such a one could have taken, so that what is kept for others stays theirs.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from autoscaler.core.batch.gangs import Gang
from autoscaler.core.batch.placement import Ask, Spot
from autoscaler.core.batch.reasons import BatchReason, Change
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.waiting import Waiting


class Taken(NamedTuple):
    """Room that was taken for a gang, as it starts there."""

    waiting: Waiting
    spots: tuple[Spot, ...]
    narrow: Change | None = None
    """What one more pod would have taken; None for a gang that is as wide as it may be."""


def take(room: Room, wanted: Ask, may: Callable[[tuple[Spot, ...]], bool] | None = None) -> tuple[Spot, ...] | None:
    """Take room where it is found and a gang `may` be there; None, and nothing taken, else."""
    spots = room.placer.take(wanted)
    if spots is not None and may is not None and not may(spots):
        room.placer.give(spots, wanted)
        return None
    return spots


def narrowest(waiting: Waiting, spots: tuple[Spot, ...]) -> Taken:
    """Room that was kept for a gang: nobody gives way, and no node is made, for more than the least."""
    elastic = waiting.gang.elastic
    if elastic is None or waiting.gang.width >= elastic.most:
        return Taken(waiting, spots)
    each = waiting.gang.form.pod_sets[elastic.pod_set]
    return Taken(waiting, spots, Change(BatchReason.LEAVING, each.shape, max(1, each.units)))


def widest(
    room: Room, waiting: Waiting, spots: tuple[Spot, ...], may: Callable[[tuple[Spot, ...]], bool] | None = None
) -> Taken:
    """Take as much for a gang as it may use and as is there, in place of `spots`, which were taken for the narrowest.

    Found by halving: of equal pods fewer fit wherever more do. Where sizes are odd, or cores and memory short, a still
    wider place may be missed; the one that is found is one.
    """
    gang, elastic = waiting.gang, waiting.gang.elastic
    assert elastic is not None, "a gang of one width"
    estate, placer, version = room.ledger.estate, room.placer, room.ledger.estate.version
    low, high = gang.width, _most_by_quota(room, waiting, elastic.most)
    while low < high:
        middle = (low + high + 1) // 2
        placer.give(spots, placer.ask(gang.form))
        wider = waiting.gang.at_width(middle)
        more = take(room, placer.ask(wider.form), may)
        if more is None:
            high, wider = middle - 1, gang
            more = take(room, placer.ask(gang.form), may)
            assert more is not None, "what was given back a moment ago is there"
        else:
            low = middle
        gang, spots = wider, more
    estate.version = version
    narrow = None if low >= elastic.most else _lacking(room, waiting, gang)
    if gang is waiting.gang:
        return Taken(waiting, spots, narrow)
    return Taken(replace(waiting, gang=gang, brand=room.brand(gang)), spots, narrow)


def _most_by_quota(room: Room, waiting: Waiting, most: int) -> int:
    """The widest that the quota of its queue allows a gang."""
    low, high = waiting.gang.width, most
    while low < high:
        middle = (low + high + 1) // 2
        if room.tree.verdict(waiting.queue, room.tree.load(waiting.gang.at_width(middle).form)) is None:
            low = middle
        else:
            high = middle - 1
    return low


def _lacking(room: Room, waiting: Waiting, gang: Gang) -> Change:
    """What one more pod than a gang starts with, whose room was taken, would have needed."""
    wider = gang.at_width(gang.width + 1)
    over = room.tree.verdict(waiting.queue, room.tree.load(wider.form))
    if over is not None and over.reason is BatchReason.LIMIT:
        return over
    assert gang.elastic is not None, "a gang of one width"
    each = gang.form.pod_sets[gang.elastic.pod_set]
    free = room.ledger.estate.free_units(room.tree.shapes[each.shape])
    if not each.share and free < each.units:  # told before what others hold: a quota counts what is there
        return Change(BatchReason.ROOM, each.shape, each.units - free)
    if over is not None:
        return over
    if gang.form.topology.required is not None:
        return Change(BatchReason.TOPOLOGY, gang.form.topology.required, sum(wider.form.units().values()))
    mine = room.ledger.estate.shape == room.tree.shapes[each.shape]
    if (each.cpu or each.memory_gib) and not each.share and (room.ledger.estate.free[mine] >= each.units).any():
        return Change(BatchReason.CORES, each.shape, each.units)
    return Change(BatchReason.FRAGMENTED, each.shape, max(1, each.units))
