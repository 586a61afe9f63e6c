"""What is told of a gang that waits: its place, why, what would let it start, and when that is expected.

Enters: cycles over a room. Leaves: an outlook; nothing is changed. The first of a queue is placed on what is expected
to be left; who stands behind is counted only: gangs of its shape that are no further back in their own queues go first.
"""

from collections.abc import Iterator
from dataclasses import replace

from autoscaler.core.batch import kept
from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.kept import Ebbs
from autoscaler.core.batch.ledger import Kind
from autoscaler.core.batch.outcome import Awaited, Outlook
from autoscaler.core.batch.params import Order
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.starts import fluid
from autoscaler.core.batch.waiting import Waiting


def outlook(cycles: Cycles, name: str, now_s: float) -> Outlook | None:
    """The outlook of a gang; None for one that does not wait."""
    room = cycles.room
    if name in room.kept_for:
        kept_for, queue = room.ledger.reservations[name], room.kept_for[name].gang.queue
        reason = BatchReason.NODES if kept_for.kind is Kind.NODES else BatchReason.LEAVING
        return Outlook(name, queue, 1, reason, (), kept_for.start_s, kept_for.start_s)
    waiting = room.backlog.waiting.get(name)
    if waiting is None:
        return None
    mine = [each.gang.name for each in room.backlog.in_queue(waiting.queue)]
    position = mine.index(name) + 1
    verdict = cycles.why(waiting)
    behind = position > 1 and room.tree.spec(waiting.queue).order is Order.STRICT
    p50_s, p90_s = (_start_s(cycles, waiting, position, now_s, level) for level in (0, 1))
    unebbed_s = _start_s(cycles, waiting, position, now_s, 0, ebbs=False) if room.ebbing else p50_s
    if p50_s is not None and p90_s is not None:
        p90_s = max(p50_s, p90_s)
    reason = BatchReason.BEHIND if behind else verdict.reason
    ebbs = p50_s is not None and unebbed_s != p50_s
    awaits = tuple(_awaited(room, waiting, now_s)) if position == 1 else ()
    told = Outlook(name, waiting.gang.queue, position, reason, verdict.changes, p50_s, p90_s, awaits=awaits)
    return replace(told, ebbs=True, unebbed_s=unebbed_s) if ebbs else told


def _awaited(room: Room, waiting: Waiting, now_s: float) -> Iterator[Awaited]:
    """What of the expected place of a gang is on nodes that are on their way."""
    nodes = room.ledger.estate.nodes
    is_any = any(node.due_s is not None for node in nodes)
    start = kept.expected_start(room, waiting, now_s, level=0, ebbs=Ebbs.USUAL) if is_any else None
    for at, units in sorted(start.plan.items()) if start is not None else ():
        if (due_s := nodes[at].due_s) is not None:
            yield Awaited(nodes[at].name, nodes[at].shape, units, due_s)


def _start_s(
    cycles: Cycles, waiting: Waiting, position: int, now_s: float, level: int, *, ebbs: bool = True
) -> float | None:
    room = cycles.room
    load = room.backlog.loads[waiting.brand]
    counted = Ebbs.NONE if not ebbs else Ebbs.SURE if level else Ebbs.USUAL
    first = kept.expected_start(room, waiting, now_s, level=level, ebbs=counted)
    if first is None or position == 1:
        return None if first is None else first.at_s
    shape, units = load.counted[0]
    ahead = units
    for leaf in room.tree.leaves.values():
        for each in room.backlog.in_queue(leaf)[: position if leaf != waiting.queue else position - 1]:
            ahead += sum(number for at, number in room.backlog.loads[each.brand].counted if at == shape)
    ends = [
        (at_s, number)
        for at_s, name in kept.expected_ends(room, now_s, level)
        for at, number in room.runs.all[name].load.counted
        if at == shape
    ]
    lasts_s = room.backlog.brands[waiting.brand].expected_s * room.runs.ratios(waiting.queue)[level]
    flow = sum(number for _, number in ends) / lasts_s if lasts_s > 0 else 0.0
    ends += [
        (each.at_s, room.tree.grains[shape] * number)
        for each in kept.coming(room, counted, now_s, level)
        for node, number in each.units
        if int(room.ledger.estate.shape[node]) == shape
    ]
    counted_s = fluid([ahead], ends, room.unused(shape), flow, now_s)[0]
    return max(first.at_s, counted_s)
