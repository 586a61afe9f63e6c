"""Everything of a cluster that warm pools rest on, followed by informers and read as one `World` per pool.

Enters: a client, where slots are, how nodes are labelled. Leaves: WarmPools, and of each the world as it is now; a call
whenever something changed. What cannot be read is None and never empty: without Karpenter's kinds there are no
NodePools to know, and slots work all the same. It decides nothing and writes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pods import Node, Taint
from autoscaler.adapters.kube.pool_feeds import Hearers, PoolFeeds, believed
from autoscaler.adapters.kube.pool_holder_pod import holder_seen
from autoscaler.adapters.kube.pool_left import Left, left_of
from autoscaler.adapters.kube.pool_nodes import NODE_POOL, claim_seen, node_pool_seen, node_seen
from autoscaler.adapters.kube.pool_objects import NodeClaim, PlacedPod, ToldEvent, WarmPoolObject
from autoscaler.adapters.kube.pool_places import Places, units_of
from autoscaler.adapters.kube.pool_readings import Readings
from autoscaler.adapters.kube.pool_signs import Signs
from autoscaler.adapters.kube.pool_slots import is_ours, slot_seen
from autoscaler.core.pool.params import PoolParams, PoolTier, SlotForm
from autoscaler.core.pool.shapes import lacking
from autoscaler.core.pool.world import ClaimSeen, ModelDemand, NodeSeen, SlotSeen, World
from autoscaler.ports import Clock


@dataclass(frozen=True, slots=True)
class PoolScope:
    """What is followed: where slots are, the label of nodes with the name of their NodePool, the slots' priority."""

    namespace: str
    node_pool_label: str
    priority_class: str


class PoolCluster:
    """What follows from the informers in `feeds`, which are to be run; `changed` is called in the event loop and must
    not wait."""

    def __init__(self, api: KubeApi, clock: Clock, scope: PoolScope, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._scope = scope
        self._changed = changed
        self._places = Places(scope.namespace)
        self._signs = Signs()
        self._slot_readings, self._node_readings, self._claim_readings = Readings(), Readings(), Readings()
        self._nodes_of: dict[str, set[str]] = defaultdict(set)
        self._claim_of: dict[str, str] = {}
        """Node -> its NodeClaim."""
        self._gated_s: dict[str, dict[str, float]] = {}
        """Node -> WarmPool -> since when it is gated there, or lacks what slots need."""
        hearers = Hearers(
            changed=changed, pod=self._on_pod, node=self._on_node, claim=self._on_claim, shortage=self._on_shortage,
            not_offered=self._on_not_offered, nomination=self._on_nomination,
        )  # fmt: skip
        self.feeds = PoolFeeds(api, clock, scope.namespace, hearers)

    @property
    def pools(self) -> Mapping[str, WarmPoolObject]:
        """The WarmPools by name, live."""
        return self.feeds.pools.items

    @property
    def pools_read(self) -> bool:
        """Whether `pools` are those that there are: they were listed once, or are known not to be served."""
        return self.feeds.pools.synced

    def class_value(self, name: str) -> int | None:
        """The value of a PriorityClass; of the default one for an empty name, 0 where there is none; else None."""
        if not name:
            return next((one.value for one in self.feeds.classes.items.values() if one.global_default), 0)
        found = self.feeds.classes.items.get(name)
        return None if found is None else found.value

    def preempts(self, name: str) -> bool:
        """Whether pods of a PriorityClass, of the default one for an empty name, take the place of lower ones; of a
        class that is not known it is taken for granted, as for any."""
        classes = self.feeds.classes.items
        default = next((one for one in classes.values() if one.global_default), None)
        found = classes.get(name) if name else default
        return found is None or found.preemption_policy != "Never"

    def taints_of(self, node_pool: str) -> tuple[Taint, ...]:
        """The taints that the nodes of a NodePool have for good, and at their start."""
        found = self.feeds.node_pools.items.get(node_pool)
        template = None if found is None else found.spec.template.spec
        return () if template is None else (*template.taints, *template.startup_taints)

    def lasting_taints_of(self, node_pool: str) -> tuple[Taint, ...]:
        """The taints that the nodes of a NodePool have for good."""
        found = self.feeds.node_pools.items.get(node_pool)
        return () if found is None else tuple(found.spec.template.spec.taints)

    def node_of(self, claim: str) -> str:
        """The node of a NodeClaim; empty where it has none yet, or is gone."""
        found = self.feeds.claims.items.get(claim)
        return "" if found is None else found.status.node_name

    def world(
        self,
        params: PoolParams,
        uid: str,
        *,
        demand: tuple[ModelDemand, ...] | None,
        serving_priority: int,
        now_s: float,
    ) -> World:
        """What is known of the pool whose WarmPool has this uid."""
        tiers = {tier.node_pool: tier for tier in params.tiers}
        form = params.slot
        karpenter = believed(self.feeds.claims) and believed(self.feeds.node_pools)
        known = believed(self.feeds.pods) and believed(self.feeds.nodes)
        slots = [self._slot(pod, form) for pod in self._places.slots(params.name, uid)] if known else None
        claims = node_pools = None
        if karpenter:
            claims = tuple(
                self._claim(claim, tiers[pool], params)
                for claim in self.feeds.claims.items.values()
                if (pool := claim.metadata.labels.get(NODE_POOL, "")) in tiers
            )
            node_pools = tuple(
                node_pool_seen(pool, form, params.name)
                for name, pool in self.feeds.node_pools.items.items()
                if name in tiers
            )
        priority = self.class_value(self._scope.priority_class) if believed(self.feeds.classes) else -10
        return World(
            slots=None if slots is None else tuple(slots),
            nodes=tuple(self._nodes_seen(params, now_s)) if known else None,
            claims=claims,
            node_pools=node_pools,
            demand=demand,
            troubles=self._signs.troubles(tiers, now_s),
            slot_priority=priority,
            serving_priority=serving_priority,
            taken=self._places.taken(params.name, uid),
            holders=tuple(holder_seen(pod, form.resource) for pod in self._places.holders(params.name, uid)),
        )

    def left(self, pool: str, uid: str) -> Left | None:
        """What there is of the WarmPool of this name and uid, whose spec need not be readable; None where pods were not
        read."""
        if not believed(self.feeds.pods):
            return None
        mine = self._places.slots(pool, uid), self._places.holders(pool, uid)
        return left_of(*mine, self._scope.node_pool_label, self._is_launched)

    def _is_launched(self, pod: PlacedPod) -> bool:
        """Whether the claim that a pod was nominated to has its node under way: its NodePool counts that already."""
        claim = self.feeds.claims.items.get(self._signs.nominated(pod.metadata.uid) or "")
        return claim is not None and any(c.type == "Launched" and c.status == "True" for c in claim.status.conditions)

    def _nodes_seen(self, params: PoolParams, now_s: float) -> Iterator[NodeSeen]:
        for tier in params.tiers:
            for name in self._nodes_of.get(tier.node_pool, ()):
                node = self.feeds.nodes.items.get(name)
                if node is None:
                    continue
                seen = self._node(node, tier, params)
                if seen.gating_taints or lacking(params.slot, seen) is not None:
                    self._gated_s.setdefault(name, {}).setdefault(params.name, now_s)
                elif name in self._gated_s:
                    self._gated_s[name].pop(params.name, None)
                yield seen

    def _node(self, node: Node, tier: PoolTier, params: PoolParams) -> NodeSeen:
        name, form = node.metadata.name, params.slot
        claim = self.feeds.claims.items.get(self._claim_of.get(name, ""))
        pool = self.feeds.node_pools.items.get(tier.node_pool)
        there = self._places.on_node(name, form.resource, params.name)
        gated_s = self._gated_s.get(name, {}).get(params.name)

        def read() -> NodeSeen:
            starting = () if pool is None else pool.spec.template.spec.startup_taints
            keys = {taint.key for taint in starting}
            return node_seen(node, tier, form, claim=claim, startup_taints=keys, there=there, gated_since_s=gated_s)

        return self._node_readings.of(name, params.name, (node, claim, pool, there, gated_s, tier, form), read)

    def _claim(self, claim: NodeClaim, tier: PoolTier, params: PoolParams) -> ClaimSeen:
        form = params.slot
        read = partial(claim_seen, claim, tier, form)
        return self._claim_readings.of(claim.metadata.name, params.name, (claim, tier, form), read)

    def _slot(self, pod: PlacedPod, form: SlotForm) -> SlotSeen:
        claim = self._signs.nominated(pod.metadata.uid)

        def read() -> SlotSeen:
            label, units = self._scope.node_pool_label, units_of(pod, form.resource)
            return slot_seen(pod, claim, label=label, units=units)

        return self._slot_readings.of(pod.metadata.key, "", (pod, claim, form), read)

    def _on_pod(self, change: Change[PlacedPod]) -> None:
        self._places.note(change)
        if change.new is None and change.old is not None:
            self._signs.on_gone(change.old.metadata.uid)
            self._slot_readings.forget(change.key)
        if any(pod is not None and self._matters(pod) for pod in (change.old, change.new)):
            self._changed()

    def _matters(self, pod: PlacedPod) -> bool:
        """Whether a pod is a slot, or on a node of a NodePool."""
        node = self.feeds.nodes.items.get(pod.spec.node_name)
        ours = is_ours(pod.metadata, self._scope.namespace)
        return ours or (node is not None and self._scope.node_pool_label in node.metadata.labels)

    def _on_node(self, change: Change[Node]) -> None:
        label = self._scope.node_pool_label
        if change.old is not None:
            before = change.old.metadata.labels.get(label, "")
            self._nodes_of[before].discard(change.key)
            if not self._nodes_of[before]:
                del self._nodes_of[before]
        if change.new is not None:
            self._nodes_of[change.new.metadata.labels.get(label, "")].add(change.key)
        else:
            self._gated_s.pop(change.key, None)
            self._node_readings.forget(change.key)
        if any(node is not None and label in node.metadata.labels for node in (change.old, change.new)):
            self._changed()

    def _on_claim(self, change: Change[NodeClaim]) -> None:
        self._signs.on_claim(change, self._clock.now())
        if change.old is not None and self._claim_of.get(change.old.status.node_name) == change.key:
            del self._claim_of[change.old.status.node_name]
        if change.new is None:
            self._claim_readings.forget(change.key)
        elif change.new.status.node_name:
            self._claim_of[change.new.status.node_name] = change.key
        self._changed()

    def _on_shortage(self, change: Change[ToldEvent]) -> None:
        if change.new is not None:
            self._signs.on_no_capacity(change.new, self._clock.now())
            self._changed()

    def _on_not_offered(self, change: Change[ToldEvent]) -> None:
        if change.new is not None:
            self._signs.on_not_offered(change.new, self._clock.now())
            self._changed()

    def _on_nomination(self, change: Change[ToldEvent]) -> None:
        if change.new is not None:
            self._signs.on_nominated(change.new)
        elif change.old is not None:
            # An event outlives its pod, by an hour mostly, and a list tells it anew after the pod is gone.
            about = change.old.involved_object
            pod = self.feeds.pods.items.get(f"{self._scope.namespace}/{about.name}")
            if pod is None or pod.metadata.uid != about.uid:
                self._signs.on_gone(about.uid)
