"""The pods that hold the places of a gang's pods: how many, how large, under which names.

Enters: what a gang asks for, a tier, the terms. Leaves: pods to make, the same each time. It knows nothing of what is
there already.
"""

import hashlib
from typing import Final

from autoscaler.core.pool.intents import CreateHolder
from autoscaler.core.pool.params import GangTerms, PoolTier
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import GangAsk

OUTLIVES_S: Final = 600.0
"""A pod that holds a place ends by itself once it was on a node for a request's whole time and so long besides: nobody
else may live then. The deadline of a pod runs from its start: one that waits for a node has none."""


def holders_of(pool: str, ask: GangAsk, tier: PoolTier, terms: GangTerms) -> list[CreateHolder]:
    """All pods that hold the places of a gang."""
    each = [alike for alike in ask.pods for _ in range(alike.pods)]
    return [
        CreateHolder(
            name, tier.name, tier.node_pool, ask.gang, ask.uid, one.units, one.cpu, one.memory_gib,
            terms.timeout_s + OUTLIVES_S, PoolReason.GANG, one.selector,
        )
        for name, one in zip(names_of(pool, ask), each, strict=True)
    ]  # fmt: skip


def names_of(pool: str, ask: GangAsk) -> list[str]:
    """The names of these pods: the same each time, so that one that is made twice is one; others for another form."""
    digest = hashlib.sha256(repr((ask.uid, ask.shape, ask.pods)).encode()).hexdigest()[:10]
    return [f"{pool}-gang-{digest}-{at}" for at in range(pods_of(ask))]


def pods_of(ask: GangAsk) -> int:
    """How many pods a gang has."""
    return sum(each.pods for each in ask.pods)


def units_of(ask: GangAsk) -> int:
    """How many units of the pool's resource they ask for together."""
    return sum(each.pods * each.units for each in ask.pods)
