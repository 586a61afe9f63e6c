"""Which slot gives way to which waiting replica, where that is chosen here and not by the scheduler.

Enters: the view and what the workloads want. Leaves: marks to set and to take away, and marked slots to delete. A slot
is marked first and deleted at the next look, when the mark is seen and the replica still waits: of two controllers, and
of two bursts, one finds the mark of the other. A replica may wait for something else than GPUs: where slots gave way
and as many replicas wait as before, the next one gives way ever later. Nothing here makes a slot.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from autoscaler.core.columns import Bools
from autoscaler.core.doubling import doubled
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.intents import DeleteSlot, MarkSlot
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import Handed, PoolState
from autoscaler.core.pool.view import NOWHERE, View
from autoscaler.core.pool.world import ModelDemand, World

LEASE_S: Final = 120.0
"""A mark whose replica does not come is taken away after this long (a guess)."""

AT_ONCE: Final = 2
"""Slots that give way for each one that waits without a pause between: a node may be taken away before the bind."""

PAUSE_MOST_S: Final = 3600.0
"""The longest pause before another one gives way to replicas that wait all the same."""


def handed_over(view: View, state: PoolState, good: Bools, going: Bools) -> Iterator[MarkSlot | DeleteSlot]:
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
    heeded = {name: each for name, each in waiting.items() if not pause_s(state.handed.get(name), each, view.now_s)}
    if view.params.choose and heeded:
        yield from _marks(view, good, heeded, marked)


def pause_s(handed: Handed | None, each: ModelDemand, now_s: float) -> float:
    """For how long no further slot gives way to a workload, because slots did and as many of its replicas wait."""
    more = 0 if handed is None else handed.slots - AT_ONCE * handed.waiting * each.slots_per_replica
    if handed is None or more < 0:
        return 0.0
    pause = doubled(LEASE_S, more // each.slots_per_replica, PAUSE_MOST_S)
    return max(0.0, handed.at_s + pause - now_s)


def still(handed: Mapping[str, Handed], world: World) -> dict[str, Handed]:
    """What is remembered of slots that gave way: nothing once fewer replicas wait than did. What was not read stays."""
    if world.demand is None:
        return dict(handed)
    waiting = {each.workload: each.waiting for each in world.demand}
    return {
        name: replace(each, waiting=waiting[name])
        for name, each in handed.items()
        if waiting.get(name, 0) >= max(1, each.waiting)
    }


def handed_to(view: View, state: PoolState, gone: Iterable[int]) -> dict[str, Handed]:
    """What is remembered once the slots at these places have given way as well."""
    waiting = {each.workload: each.waiting for each in view.world.demand or ()}
    out = dict(state.handed)
    for workload, slots in Counter(view.slots.seen[at].lease or "" for at in gone).items():
        before = out.get(workload)
        out[workload] = Handed(view.now_s, waiting.get(workload, 0), slots + (0 if before is None else before.slots))
    return out


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
