"""For which gangs nodes are asked, where whoever makes them would: those that lack nothing else.

Enters: cycles over a room, shapes of which nodes can be had and how long they take. Leaves: gangs that quota admits and
that have no room, nor are expected to have any before nodes could be there. Quota is what the queues are guaranteed
together, whether it is there or not; what is there limits it only where nothing more is to be had. Nothing is changed.
"""

from collections.abc import Callable, Mapping
from typing import Final

from autoscaler.core.batch import kept
from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.params import Order
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.waiting import Waiting

WANTING: Final = frozenset(
    {
        BatchReason.QUOTA,
        BatchReason.UNLENT,
        BatchReason.ROOM,
        BatchReason.FRAGMENTED,
        BatchReason.CORES,
        BatchReason.TOO_LARGE,
    }
)
"""Reasons that more nodes cure where guarantees allow the gang: with too little there nobody lends enough either."""

MOST_ASKING: Final = 8
"""Gangs that nodes are asked for at once, each for its whole width: who is first gets its nodes first (a guess)."""

MOST_LOOKED_AT: Final = 32
"""Gangs of which one look finds the expected start, the first of each form and queue that quota admits."""


def wanting(
    cycles: Cycles, takes_s: Mapping[str, float], may: Callable[[Waiting], bool], now_s: float
) -> list[Waiting]:
    """The gangs to ask nodes for now, who waits longest first; `takes_s` is how long nodes of a shape take.

    `may` says of a gang whether nodes may be asked for it at all. Each is judged with those before it counted.
    """
    room = cycles.room
    chosen: list[Waiting] = []
    asking = room.waits_for_nodes()
    free, looked_at = MOST_ASKING - len(asking), 0
    if free <= 0 or not takes_s:
        return chosen
    queues = {room.kept_for[name].queue for name in asking}
    blocked = {at for at in queues if room.tree.spec(at).order is Order.STRICT}
    leaves = (leaf for leaf in room.tree.leaves.values() if leaf not in blocked)
    firsts = [each for leaf in leaves for each in room.backlog.firsts_of(leaf)]
    for waiting in sorted(firsts, key=lambda each: (each.gang.created_s, each.rank)):
        if len(chosen) == free or looked_at == MOST_LOOKED_AT:
            break
        within_s = _takes_s(room, waiting, takes_s)
        if within_s is None or not may(waiting):
            continue
        looked_at += 1
        if _lacks_room(cycles, waiting, within_s, now_s):
            room.tree.add(waiting.queue, room.backlog.loads[waiting.brand])
            chosen.append(waiting)
    for waiting in chosen:
        room.tree.remove(waiting.queue, room.backlog.loads[waiting.brand])
    return chosen


def _takes_s(room: Room, waiting: Waiting, takes_s: Mapping[str, float]) -> float | None:
    """How long nodes of a gang's one shape take; None for shares, where none are made, or quota does not admit it."""
    load, form = room.backlog.loads[waiting.brand], waiting.gang.form
    if len(load.units) != 1 or form.topology.required is not None or form.has_shares:
        return None
    within_s = takes_s.get(room.params.shapes[load.units[0][0]].name)
    return within_s if within_s is not None and room.tree.promised(waiting.queue, load) else None


def _lacks_room(cycles: Cycles, waiting: Waiting, within_s: float, now_s: float) -> bool:
    """Whether a gang lacks room, and for longer than nodes take."""
    if cycles.why(waiting).reason not in WANTING:
        return False
    start = kept.expected_start(cycles.room, waiting, now_s, level=1, ebbs=kept.Ebbs.SURE)
    return start is None or start.at_s > now_s + within_s
