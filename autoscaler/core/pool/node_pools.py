"""NodePools that are ours: those that are missing, and safe fields that differ from their tier.

Enters: the view of a pool that manages its NodePools, and when each was edited. Leaves: NodePools to make and fields to
patch. Templates and requirements are never edited, for that drifts healthy nodes; nothing is deleted. Whoever sets a
field back, or refuses it, is met ever more seldom; another limit in the tier is written at once.
"""

from collections.abc import Iterator
from typing import Final

from autoscaler.core.doubling import doubled
from autoscaler.core.pool.intents import CreateNodePool, PatchNodePool
from autoscaler.core.pool.params import PoolTier
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import Edited, PoolState
from autoscaler.core.pool.view import View

AGAIN_S: Final = 5.0
"""A NodePool is written again no sooner; each time after twice as long."""

AGAIN_MOST_S: Final = 3600.0

REMEMBER_S: Final = 2 * AGAIN_MOST_S
"""What was written so long ago and is as it was written has settled."""


def mended(view: View, state: PoolState) -> Iterator[CreateNodePool | PatchNodePool]:
    """What makes them as their tiers have them."""
    if not view.params.managed or view.world.node_pools is None:
        return
    seen = {pool.name: pool for pool in view.world.node_pools}
    for tier in view.params.tiers:
        pool = seen.get(tier.node_pool)
        if pause_s(tier, state.edited.get(tier.node_pool), view.now_s):
            continue
        if pool is None:
            kind, reason = tier.capacity_type, PoolReason.NODE_POOL_MISSING
            yield CreateNodePool(tier.node_pool, tier.name, kind, tier.max_gpus, tier.max_nodes, reason)
            continue
        if pool.deleting or not pool.ours:
            continue
        if (pool.limit_gpus, pool.limit_nodes) != (tier.max_gpus, tier.max_nodes):
            lifts = (
                tier.max_gpus is None and pool.limit_gpus is not None,
                tier.max_nodes is None and pool.limit_nodes is not None,
            )
            yield PatchNodePool(pool.name, tier.max_gpus, tier.max_nodes, 0, PoolReason.LIMITS, *lifts)
        elif pool.drifted_budget != 0:
            yield PatchNodePool(pool.name, tier.max_gpus, tier.max_nodes, 0, PoolReason.DRIFT)


def pause_s(tier: PoolTier, edited: Edited | None, now_s: float) -> float:
    """For how long a tier's NodePool is not written again, because it was with the limits that the tier has now."""
    if edited is None or edited.limits != (tier.max_gpus, tier.max_nodes):
        return 0.0
    return max(0.0, edited.at_s + doubled(AGAIN_S, edited.times - 1, AGAIN_MOST_S) - now_s)
