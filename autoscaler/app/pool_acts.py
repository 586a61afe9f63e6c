"""What is done of what a look at a warm pool wants: all of it, in order, as far as outcomes are known.

Enters: intents. Leaves: what became of each that was begun, and the counts of that. When a pool is looked at is not
known here.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from autoscaler.adapters.kube.pool_slot_pod import Errand, PoolRef
from autoscaler.adapters.kube.pool_writer import Became, PoolWriter
from autoscaler.app.pool_specs import Compiled
from autoscaler.app.pool_telling import Done
from autoscaler.core.pool.intents import CreateSlot, DeleteSlot, Intent, MarkNodeEnds
from autoscaler.record.pool_status import PoolCounts

AT_ONCE: Final = 8
"""Writes on their way at the same time."""


async def carried_out(writer: PoolWriter, intents: Sequence[Intent], compiled: Compiled) -> list[Done]:
    """Do all of it, some at once, in the order in which it was decided; stop where an outcome is unknown."""
    errand = Errand(PoolRef(compiled.params.name, compiled.uid), compiled.spec, compiled.params.slot)
    done: list[Done] = []
    for together in batches(intents):
        async with asyncio.TaskGroup() as group:
            tasks = [
                (intent, group.create_task(writer.carry_out(intent, errand), name=type(intent).__name__))
                for intent in together
            ]
        done += [Done(intent, task.result()) for intent, task in tasks]
        if any(each.outcome.became is Became.UNKNOWN for each in done):
            break
    return done


def counted(counts: PoolCounts, done: Sequence[Done]) -> PoolCounts:
    """The counts with what was done."""
    refused = sum(each.outcome.became is Became.REFUSED for each in done)
    ordered = sum(isinstance(each.intent, CreateSlot) and each.outcome.became is Became.DONE for each in done)
    slots = [each for each in done if isinstance(each.intent, DeleteSlot) and not each.intent.of_gang]
    deleted = sum(each.outcome.became is Became.DONE for each in slots)
    return replace(
        counts,
        ordered=counts.ordered + ordered,
        deleted=counts.deleted + deleted,
        refused=counts.refused + refused,
    )


def batches(intents: Sequence[Intent]) -> Iterator[Sequence[Intent]]:
    """What is done together, in order; a slot that is kept off nodes whose slots say that these end comes once they
    were asked to: the scheduler may place it sooner than that is done."""
    begin = 0
    for at, intent in enumerate(intents):
        marked = at > begin and isinstance(intent, CreateSlot) and intent.apart and _has_marks(intents[begin:at])
        if at - begin == AT_ONCE or marked:
            yield intents[begin:at]
            begin = at
    if begin < len(intents):
        yield intents[begin:]


def _has_marks(intents: Sequence[Intent]) -> bool:
    return any(isinstance(each, MarkNodeEnds) for each in intents)
