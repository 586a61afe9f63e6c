"""What the core wants kept over a restart, spread over the statuses of the queues that it concerns, and back.

Enters: what `autoscaler.core.batch.durable` packs, or what statuses hold. Leaves: a part for each queue, small enough
for its object, or one pack for the core. Instants lose their fraction of a second on the way.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from autoscaler.api.batch_queue_status import (
    MOST_KEPT,
    MOST_PLACES,
    EvictionCount,
    KeptFor,
    Place,
    QueueMemory,
    ReservationKind,
)
from autoscaler.api.model_faults import first_fault
from autoscaler.api.schema import Spelling
from autoscaler.core.batch.durable import VERSION
from autoscaler.core.batch.ledger import Kind
from autoscaler.errors import InputError

_KINDS: Final = {Kind.PREEMPTION.name: ReservationKind.PREEMPTION, Kind.START.name: ReservationKind.START}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def spread(packed: Mapping[str, Any], queue_of: Mapping[str, str]) -> dict[str, QueueMemory]:
    """Each queue's part. `queue_of` tells the queue of each gang; what concerns a gang without one is forgotten."""
    kept: dict[str, list[KeptFor]] = {}
    counts: dict[str, list[EvictionCount]] = {}
    past = {name: (used, tuple(ratios)) for name, used, ratios in packed["queues"]}
    left_out: dict[str, int] = {}
    for gang, kind, made_s, start_s, plan in (*packed["reservations"], *packed["places"]):
        queue = queue_of.get(gang)
        if queue is None:
            continue
        mine = kept.setdefault(queue, [])
        if len(mine) == MOST_KEPT or len(plan) > MOST_PLACES:
            left_out[queue] = left_out.get(queue, 0) + 1
            continue
        places = tuple(Place(node=node, shape=shape, units=units) for node, shape, units in plan)
        mine.append(KeptFor(gang=gang, kind=_KINDS[kind], made_s=made_s, start_s=start_s, places=places))
    for gang, times in packed["evictions"]:
        queue = queue_of.get(gang)
        if queue is None:
            continue
        told = counts.setdefault(queue, [])
        if len(told) == MOST_KEPT:
            left_out[queue] = left_out.get(queue, 0) + 1
        else:
            told.append(EvictionCount(gang=gang, times=times))
    return {
        queue: QueueMemory(
            written_at_s=packed["at_s"],
            used_gpu_s=past.get(queue, (0.0, ()))[0],
            run_ratios=past.get(queue, (0.0, ()))[1],
            reservations=tuple(kept.get(queue, ())),
            evictions=tuple(counts.get(queue, ())),
            left_out=left_out.get(queue, 0),
        )
        for queue in sorted(past.keys() | kept.keys() | counts.keys())
    }


def gathered(memories: Mapping[str, QueueMemory], half_life_s: float, now_s: float) -> dict[str, Any]:
    """One pack for the core. What queues used is brought to the instant of the newest part by the half-life.

    A part that was written after `now_s` is of a clock that was ahead: its instants are put back by as much. Else who
    waits for a start that is a day away would be passed by all who are over by then.
    """
    memories = {name: _put_back(memory, memory.written_at_s - now_s) for name, memory in memories.items()}
    at_s = max((memory.written_at_s for memory in memories.values()), default=0.0)
    reservations = [
        [each.gang, _NAMES[each.kind], each.made_s, each.start_s, [[p.node, p.shape, p.units] for p in each.places]]
        for memory in memories.values()
        for each in memory.reservations
    ]
    queues = [
        [name, memory.used_gpu_s * 0.5 ** ((at_s - memory.written_at_s) / half_life_s), list(memory.run_ratios)]
        for name, memory in sorted(memories.items())
    ]
    evictions = [[each.gang, each.times] for memory in memories.values() for each in memory.evictions]
    return {
        "version": VERSION,
        "at_s": at_s,
        "reservations": sorted(reservations, key=lambda row: (row[2], row[0])),
        "queues": queues,
        "evictions": evictions,
        "places": [],  # they stand among the reservations
    }


def _put_back(memory: QueueMemory, ahead_s: float) -> QueueMemory:
    """The same as if a clock had not been ahead."""
    if ahead_s <= 0.0:
        return memory
    kept = tuple(
        each.model_copy(update={"made_s": max(0.0, each.made_s - ahead_s), "start_s": max(0.0, each.start_s - ahead_s)})
        for each in memory.reservations
    )
    return memory.model_copy(update={"written_at_s": memory.written_at_s - ahead_s, "reservations": kept})


def read_memory(status: Mapping[str, Any]) -> QueueMemory | None:
    """The memory in a BatchQueue's status; None where nothing was written yet.

    Raises InputError naming field and value where somebody else edited it.
    """
    memory = status.get("memory")
    if memory is None:
        return None
    try:
        return QueueMemory.model_validate_json(msgspec.json.encode(memory))
    except ValidationError as error:
        raise InputError(first_fault(error, QueueMemory, Spelling.CAMEL).after("status.memory")) from error
