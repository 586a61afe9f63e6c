"""What the limits of NodePools and tiers leave, less all that was asked for there and has no node yet.

Enters: the view, the state, a tier. Leaves: GPUs and nodes. Slots and what holds places for gangs share one limit, so
each is reckoned with the other's: a NodePool says only what its nodes hold, and a node comes minutes after its pod.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from autoscaler.core.pool.intents import CreateHolder, CreateSlot
from autoscaler.core.pool.params import PoolTier
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import View
from autoscaler.core.pool.world import NodePoolSeen


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


def held(view: View, tier: PoolTier, more: Sequence[CreateHolder] = ()) -> Amount:
    """What holds places for gangs and has no node yet, with what this look makes; a node each, as it may be."""
    units = [each.units for each in view.world.holders if each.tier == tier.name and each.node is None]
    units += [each.units for each in more if each.tier == tier.name]
    return Amount(sum(units) / view.params.slot.parts, len(units))


def ordered(view: View, state: PoolState, tier: PoolTier, more: Sequence[CreateSlot]) -> Amount:
    """Slots without a node, whether they are wanted still or not, and orders not seen yet; `more` are this look's."""
    at = view.params.tiers.index(tier)
    slots = int(np.count_nonzero(~view.slots.bound & (view.slots.tier == at)))
    slots += sum(each.tier == tier.name for each in state.ordered.values())
    slots += sum(each.tier == tier.name for each in more)
    return Amount(slots * view.params.slot.gpus, slots)
