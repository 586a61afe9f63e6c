"""What is left for the gangs of one look: of what they may have, of the pool's GPU budget, of a tier.

Enters: the view, slots that hold GPUs and this look's orders of them, what requests that stand lack still. Leaves:
whether so much more may be held, and whether a pod may ask for capacity. What a request lacks still goes to none that
is to be begun, however long that gang waits: one that holds a part and can never have the rest would hold it in vain.
Of those that hold a part who waits longer comes first, or each would keep the last place from the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from autoscaler.core.pool import breaker
from autoscaler.core.pool.circuits import Position
from autoscaler.core.pool.intents import CreateHolder, CreateSlot
from autoscaler.core.pool.limits import Amount, asked_beside, held, left, ordered
from autoscaler.core.pool.params import GangTerms, PoolTier
from autoscaler.core.pool.placing import PROBE_EVERY_S
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.sizing import SLOT_ROUNDING
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import View


@dataclass(slots=True)
class GangRoom:
    """GPUs that one gang takes are gone for the next."""

    view: View
    state: PoolState
    standing: int
    """Slots that hold GPUs or will."""
    orders: tuple[CreateSlot, ...]
    makes: list[CreateHolder] = field(default_factory=list)
    """What this look makes for gangs."""
    lacking: dict[str, list[CreateHolder]] = field(default_factory=dict)
    """By uid of each gang, in the order of the requests: what is to be made still of one that stands."""

    def may_hold(self, uid: str, units: int, terms: GangTerms) -> bool:
        """Whether so much more may be held for a gang, beside what others have and will have."""
        there = sum(each.units for each in self.view.world.holders) + sum(each.units for each in self.makes)
        return not self.is_beyond(there + units + sum(each.units for each in self._others_lack(uid)), terms)

    def is_beyond(self, units: int, terms: GangTerms) -> bool:
        """Whether so many units for gangs are more than they may have, or with the slots than the whole pool may."""
        params = self.view.params
        gpus = units / params.slot.parts
        slots = (self.standing + len(self.orders)) * params.slot.gpus
        most = params.max_gpus
        return gpus > terms.max_gpus or (most is not None and slots + gpus > most + SLOT_ROUNDING)

    def fits(self, uid: str, tier: PoolTier, units: int, pods: int) -> bool:
        """Whether the limits of a tier leave a gang so much, beside what is asked for there and has no node yet."""
        world, parts = self.view.world, self.view.params.slot.parts
        pool = next((each for each in world.node_pools or () if each.name == tier.node_pool), None)
        if pool is None:
            # Whose nodes are on their way is not known either: a gang can wait until it is.
            return world.node_pools is None and tier.max_gpus is None and tier.max_nodes is None
        beside = left(pool, tier).less(asked_beside(self.view, tier))
        lacking = [each.units for each in self._others_lack(uid) if each.tier == tier.name]
        room = beside.less(held(self.view, tier, self.makes)).less(ordered(self.view, self.state, tier, self.orders))
        room = room.less(Amount(sum(lacking) / parts, len(lacking)))
        # Karpenter keeps the limit of a NodePool, however many pods share a node; another one nobody else keeps.
        is_kept = tier.max_nodes is None or (pool.limit_nodes is not None and pool.limit_nodes <= tier.max_nodes)
        nodes = beside.nodes > 0 if is_kept else pods <= room.nodes
        return nodes and units / parts <= room.gpus

    def may_probe(self, tier: PoolTier) -> bool:
        """Whether a tier is half-open and nothing asks there already, nor has just asked while every tier is out."""
        if self.stands(tier) is not Position.HALF_OPEN:
            return False
        if held(self.view, tier, self.makes).nodes or ordered(self.view, self.state, tier, self.orders).nodes:
            return False
        if any(self.stands(each) is Position.CLOSED for each in self.view.params.tiers):
            return True
        this_look = self.orders or any(each.reason is PoolReason.PROBE for each in self.makes)
        return not this_look and self.view.now_s - self.state.created_s >= PROBE_EVERY_S

    def stands(self, tier: PoolTier) -> Position:
        """Whether a tier has capacity, as far as it is known."""
        return breaker.position(self.state.circuits, tier, None, self.view.now_s)

    def _others_lack(self, uid: str) -> Iterable[CreateHolder]:
        """What is to be made for others before anything is for this one."""
        order = list(self.lacking)
        before = order[: order.index(uid)] if self.lacking[uid] else order
        return (each for other in before if other != uid for each in self.lacking[other])
