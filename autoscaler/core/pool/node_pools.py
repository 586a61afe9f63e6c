"""NodePools that are ours: those that are missing, and safe fields that differ from their tier.

Enters: the view of a pool that manages its NodePools. Leaves: NodePools to make and fields to patch. Templates and
requirements are never edited, for that drifts healthy nodes; nothing is deleted.
"""

from collections.abc import Iterator

from autoscaler.core.pool.intents import CreateNodePool, PatchNodePool
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.view import View


def mended(view: View) -> Iterator[CreateNodePool | PatchNodePool]:
    """What makes them as their tiers have them."""
    if not view.params.managed or view.world.node_pools is None:
        return
    seen = {pool.name: pool for pool in view.world.node_pools}
    for tier in view.params.tiers:
        pool = seen.get(tier.node_pool)
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
