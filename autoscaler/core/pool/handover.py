"""Which slot gives way to which waiting replica, where that is chosen here and not by the scheduler.

Enters: the view and what the workloads want. Leaves: marks to set and to take away, and marked slots to delete. A slot
is marked first and deleted at the next look, when the mark is seen and the replica still waits: of two controllers, and
of two bursts, one finds the mark of the other. Nothing here makes a slot.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from autoscaler.core.columns import Bools
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.intents import DeleteSlot, MarkSlot
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.view import NOWHERE, View
from autoscaler.core.pool.world import ModelDemand

LEASE_S: Final = 120.0
"""A mark whose replica does not come is taken away after this long (a guess)."""


def handed_over(view: View, good: Bools, going: Bools) -> Iterator[MarkSlot | DeleteSlot]:
    """The marks and deletions of one look; `good` are the slots that count, `going` those deleted already."""
    slots = view.slots
    leased = slots.where((slots.stage == Stage.LEASED) & ~going)
    waiting = {each.workload: each for each in view.world.demand or () if each.waiting and not each.uses_claims}
    marked: dict[str, int] = defaultdict(int)
    for at in leased:
        seen = slots.seen[at]
        workload = seen.lease or ""
        each = waiting.get(workload)
        wanted = 0 if each is None else each.waiting * each.slots_per_replica
        expired = seen.leased_s is not None and view.now_s - seen.leased_s > LEASE_S
        if marked[workload] >= wanted or expired:
            yield MarkSlot(seen.name, seen.uid, None, PoolReason.LEASE_ENDED)
            continue
        marked[workload] += 1
        if view.params.choose:
            yield DeleteSlot(seen.name, seen.uid, PoolReason.HANDED_OVER)
    if view.params.choose and waiting:
        yield from _marks(view, good, waiting, marked)


def _marks(view: View, good: Bools, waiting: dict[str, ModelDemand], marked: dict[str, int]) -> Iterator[MarkSlot]:
    """Marks for replicas that have none yet, the slots of one replica all on one node."""
    free = _by_node(view, good)
    for workload, each in sorted(waiting.items()):
        if each.model not in view.params.models:
            continue
        for _ in range(each.waiting - marked[workload] // each.slots_per_replica):
            chosen = next((group for group in free if len(group) >= each.slots_per_replica), None)
            if chosen is None:
                break
            for at in chosen[: each.slots_per_replica]:
                seen = view.slots.seen[at]
                yield MarkSlot(seen.name, seen.uid, workload, PoolReason.LEASED)
            del chosen[: each.slots_per_replica]


def _by_node(view: View, good: Bools) -> list[list[int]]:
    """Warm slots by node: nodes that stay before those that go, then the longest warm first."""
    slots, nodes = view.slots, view.nodes
    groups: dict[int, list[int]] = defaultdict(list)
    warm = good & (slots.stage == Stage.WEIGHTS_WARM) & slots.current & (slots.node != NOWHERE)
    for at in slots.where(warm):
        groups[int(slots.node[at])].append(at)

    def order(group: list[int]) -> tuple[bool, bool, float, str]:
        node = nodes.seen[int(slots.node[group[0]])]
        since_s = min(float(slots.since_s[at]) for at in group)
        return node.drifted, node.ends_s is not None, since_s, node.name

    return sorted(groups.values(), key=order)
