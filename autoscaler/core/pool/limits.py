"""What the limits of NodePools and tiers leave, less all that was asked for there and has no node yet.

Enters: the view, the state, a tier. Leaves: GPUs and nodes. Slots and what holds places for gangs share one limit, and
so do pools of one NodePool, so each is reckoned with the others': a NodePool says only what its nodes hold, and a node
comes minutes after its pod.
Where NodePools cannot be read, or there are none, the nodes that stand are counted themselves: a tier's own limits hold
all the same.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.gang_pods import names_of, units_of
from autoscaler.core.pool.intents import CreateHolder, CreateSlot
from autoscaler.core.pool.params import PoolTier
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import View
from autoscaler.core.pool.world import AskedOf, NodePoolSeen


@dataclass(frozen=True, slots=True)
class Amount:
    """Physical GPUs, and nodes; infinite where nothing limits them."""

    gpus: float
    nodes: float

    def less(self, other: "Amount") -> Self:
        """What is left of it, not less than nothing."""
        return type(self)(max(0.0, self.gpus - other.gpus), max(0.0, self.nodes - other.nodes))


def left(pool: NodePoolSeen, tier: PoolTier) -> Amount:
    """What the limits of both leave beside the nodes that stand; nothing of a static NodePool, which launches none."""
    if pool.static_nodes is not None:
        return Amount(0.0, 0.0)
    gpus = min((limit for limit in (pool.limit_gpus, tier.max_gpus) if limit is not None), default=math.inf)
    nodes = min((limit for limit in (pool.limit_nodes, tier.max_nodes) if limit is not None), default=math.inf)
    return Amount(gpus, nodes).less(Amount(pool.used_gpus, pool.used_nodes))


def asked_beside(view: View, tier: PoolTier) -> Amount:
    """What other WarmPools ask of a tier's NodePool and has no node yet."""
    theirs = [each for each in view.world.beside if each.node_pool == tier.node_pool]
    return Amount(sum(each.gpus for each in theirs), sum(each.nodes for each in theirs))


def asked(view: View, state: PoolState, makes: Sequence[CreateHolder] = ()) -> tuple[AskedOf, ...]:
    """What this pool asks of NodePools and no node was launched for yet. `state` has the orders of this look, `makes`
    are the pods that it has made for gangs."""
    out, seen = [], {slot.name for slot in view.slots.seen}
    waits = ~view.slots.bound & (view.slots.stage == Stage.REQUESTED)
    for at, tier in enumerate(view.params.tiers):
        slots = int(np.count_nonzero(waits & (view.slots.tier == at)))
        slots += sum(each.tier == tier.name for name, each in state.ordered.items() if name not in seen)
        gangs = held(view, tier, makes)
        if slots or gangs.nodes:
            out.append(AskedOf(tier.node_pool, slots * view.params.slot.gpus + gangs.gpus, slots + int(gangs.nodes)))
    return tuple(out)


def left_beside_nodes(view: View, tier: PoolTier) -> Amount:
    """What a tier's own limits leave beside the nodes that stand, where nobody says what the NodePool holds or allows.

    A node that does not say its GPUs yet counts for what was promised of it, else for one slot's.
    """
    at, count = view.params.tiers.index(tier), view.params.slot.count
    nodes = [view.nodes.seen[place] for place in np.flatnonzero(view.nodes.tier == at).tolist()]
    told = [(each.expected_units if each.units is None else each.units, each.parts) for each in nodes]
    gpus = sum((count if units is None else units) / parts for units, parts in told)
    return left(NodePoolSeen(tier.node_pool, used_gpus=gpus, used_nodes=len(nodes)), tier)


def held(view: View, tier: PoolTier, more: Sequence[CreateHolder] = ()) -> Amount:
    """What holds places for gangs and has no node yet, with what this look makes; a node each, as it may be."""
    units = [each.units for each in view.world.holders if each.tier == tier.name and each.node is None]
    units += [each.units for each in more if each.tier == tier.name]
    return Amount(sum(units) / view.params.slot.parts, len(units))


def held_gpus(view: View) -> float:
    """Physical GPUs whose places are held for gangs, with or without a node."""
    return sum(each.units for each in view.world.holders if not each.over) / view.params.slot.parts


def kept_gpus(view: View, state: PoolState) -> float:
    """Physical GPUs of the pool's budget that are no slot's: places that are held for gangs, and what a request that
    holds some lacks still. A slot in that place would have the others given back, with the nodes that came for them."""
    there = [each for each in view.world.holders if not each.over]
    lacking = 0
    for ask in view.world.asks or ():
        names, before = frozenset(names_of(view.params.name, ask)), state.gave_back.get(ask.uid)
        mine = [each.units for each in there if each.name in names]
        if mine and not ask.starts and (before is None or view.now_s >= before.until_s):
            lacking += units_of(ask) - sum(mine)
    return held_gpus(view) + lacking / view.params.slot.parts


def ordered(view: View, state: PoolState, tier: PoolTier, more: Sequence[CreateSlot]) -> Amount:
    """Slots without a node, whether they are wanted still or not, and orders not seen yet; `more` are this look's."""
    at = view.params.tiers.index(tier)
    slots = int(np.count_nonzero(~view.slots.bound & (view.slots.tier == at)))
    slots += sum(each.tier == tier.name for each in state.ordered.values())
    slots += sum(each.tier == tier.name for each in more)
    return Amount(slots * view.params.slot.gpus, slots)


def slots_left(view: View, state: PoolState, waiting: Mapping[int, int]) -> dict[int, int]:
    """Tier -> slots that limits of NodePools and tiers let it launch, less what is held for gangs and what is `waiting`
    there for a launch; a tier without limits is absent. Of a static NodePool there is no more than its free nodes.

    Where NodePools cannot be read, launched slots count until they are bound: their nodes are in nobody's sum before.
    """
    pools = {pool.name: pool for pool in view.world.node_pools or ()}
    out: dict[int, int] = {}
    for at, tier in enumerate(view.params.tiers):
        pool = pools.get(tier.node_pool)
        if pool is not None:
            room = left(pool, tier).less(asked_beside(view, tier)).less(held(view, tier))
            slots = _slots(view, room) - waiting.get(at, 0)
        elif view.world.node_pools is None:
            room = left_beside_nodes(view, tier).less(asked_beside(view, tier)).less(held(view, tier))
            slots = _slots(view, room.less(ordered(view, state, tier, ())))
        else:
            continue  # there is no such NodePool, and the tier is not usable
        if math.isfinite(slots):
            out[at] = max(0, int(slots))
    return out


def _slots(view: View, room: Amount) -> float:
    """Whole slots within an amount, a node each where nodes are few; infinite where nothing limits them."""
    slots = min(room.gpus / view.params.slot.gpus, room.nodes)
    return math.floor(slots + 1e-9) if math.isfinite(slots) else slots
