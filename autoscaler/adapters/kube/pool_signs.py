"""What Karpenter says in passing: claims that came to nothing, and the claim that a slot will be placed on.

Enters: changes of NodeClaims, Events. Leaves: troubles by NodePool, nominations by pod. A claim without capacity is
deleted at once, so that lists never show it: both its deletion and the event about it are remembered here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pool_nodes import NODE_POOL, domain_of, is_launched
from autoscaler.adapters.kube.pool_objects import NodeClaim, ToldEvent
from autoscaler.adapters.kube.pool_slots import epoch_s
from autoscaler.core.pool.params import Domain, PoolTier
from autoscaler.core.pool.world import Sign, Trouble

NO_CAPACITY: Final = "reason=InsufficientCapacityError"
NOT_OFFERED: Final = "reason=NoCompatibleInstanceTypes"
NOMINATED: Final = "reason=Nominated,involvedObject.kind=Pod"
"""Field selectors of Karpenter's events (kubernetes-sigs/karpenter:pkg/events/reason.go)."""

REMEMBER_S: Final = 600.0
"""Signs are told for this long; the core counts each once."""

_CLAIM: Final = re.compile(r"nodeclaim/([-.a-z0-9]+)")


@dataclass(frozen=True, slots=True)
class _Told:
    sign: Sign
    claim: str
    node_pool: str
    at_s: float


class Signs:
    """The memory of both; ten minutes of it."""

    def __init__(self) -> None:
        self._told: dict[tuple[Sign, str], _Told] = {}
        self._claims: dict[str, NodeClaim] = {}
        """Claims as they were last seen, kept a while after they are gone: an event may come later than a deletion."""
        self._gone_s: dict[str, float] = {}
        self._nominated: dict[str, str] = {}

    def on_claim(self, change: Change[NodeClaim], now_s: float) -> None:
        """A NodeClaim came, changed or went."""
        old, new = change.old, change.new
        if new is not None:
            self._claims[change.key] = new
            self._gone_s.pop(change.key, None)
        elif old is not None:
            self._gone_s[change.key] = now_s
            if not is_launched(old):
                self._note(Sign.CLAIM_GONE, change.key, old.metadata.labels.get(NODE_POOL, ""), now_s)
        self._forget(now_s)

    def on_no_capacity(self, event: ToldEvent, now_s: float) -> None:
        """Karpenter said that a claim could not be had."""
        at = event.last_timestamp or event.event_time or event.first_timestamp
        at_s, name = epoch_s(at) or now_s, event.involved_object.name
        if name and now_s - at_s < REMEMBER_S:
            held = self._claims.get(name)
            # A claim's name is its NodePool's and five letters; one that was never seen says no more than that.
            pool = name.rpartition("-")[0] if held is None else held.metadata.labels.get(NODE_POOL, "")
            self._note(Sign.INSUFFICIENT, name, pool, at_s)

    def on_not_offered(self, event: ToldEvent, now_s: float) -> None:
        """Karpenter said that a NodePool has nothing left to launch; it says so anew while that is so."""
        at = event.last_timestamp or event.event_time or event.first_timestamp
        at_s, pool = epoch_s(at) or now_s, event.involved_object.name
        if pool and now_s - at_s < REMEMBER_S:
            self._note(Sign.NOT_OFFERED, f"{pool} at {at_s:.0f}", pool, at_s)

    def on_nominated(self, event: ToldEvent) -> None:
        """Karpenter said on which claim it will place a pod."""
        found = _CLAIM.search(event.message)
        if found is not None and event.involved_object.uid:
            self._nominated[event.involved_object.uid] = found[1]

    def on_gone(self, uid: str) -> None:
        """A pod is gone."""
        self._nominated.pop(uid, None)

    def nominated(self, uid: str) -> str | None:
        """The claim that a pod was nominated to last."""
        return self._nominated.get(uid)

    def troubles(self, tiers: Mapping[str, PoolTier], now_s: float) -> tuple[Trouble, ...]:
        """The signs of the last minutes about claims of these tiers, by NodePool."""
        self._forget(now_s)
        found = []
        for told in self._told.values():
            tier = tiers.get(told.node_pool)
            if tier is not None:
                claim = self._claims.get(told.claim)
                where = Domain(tier.sku, "", tier.capacity_type) if claim is None else domain_of(claim, tier)
                found.append(Trouble(told.sign, told.claim, told.at_s, where))
        return tuple(found)

    def _note(self, sign: Sign, claim: str, node_pool: str, at_s: float) -> None:
        self._told.setdefault((sign, claim), _Told(sign, claim, node_pool, at_s))

    def _forget(self, now_s: float) -> None:
        for key in [key for key, told in self._told.items() if now_s - told.at_s > REMEMBER_S]:
            del self._told[key]
        for name in [name for name, at_s in self._gone_s.items() if now_s - at_s > REMEMBER_S]:
            del self._gone_s[name]
            self._claims.pop(name, None)
