"""Everything of a cluster that warm pools rest on, followed by informers and read as one `World` per pool.

Enters: a client, where slots are, how nodes are labelled. Leaves: WarmPools, and of each the world as it is now; a call
whenever something changed. What cannot be read is None and never empty: without Karpenter's kinds there are no
NodePools to know, and slots work all the same. It decides nothing and writes nothing.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.informer import Change, Informer, InformerTimes, Resource
from autoscaler.adapters.kube.pods import Node, Taint
from autoscaler.adapters.kube.pool_nodes import NODE_POOL, claim_seen, node_pool_seen, node_seen
from autoscaler.adapters.kube.pool_objects import (
    NodeClaim,
    NodePool,
    PlacedPod,
    PriorityClass,
    ToldEvent,
    WarmPoolObject,
)
from autoscaler.adapters.kube.pool_places import Places
from autoscaler.adapters.kube.pool_readings import Readings
from autoscaler.adapters.kube.pool_signs import NO_CAPACITY, NOMINATED, NOT_OFFERED, Signs
from autoscaler.adapters.kube.pool_slots import pool_of, slot_seen
from autoscaler.adapters.kube.retry import BackoffBounds
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.core.pool.params import PoolParams, PoolTier
from autoscaler.core.pool.world import ClaimSeen, ModelDemand, NodeSeen, SlotSeen, World
from autoscaler.ports import Clock

KARPENTER: Final = "/apis/karpenter.sh/v1"

LOOK_S: Final = 0.02
"""Between two looks whether everything is listed."""

BELIEVED_S: Final = 5.0
"""What was read is believed for so long after the server stopped answering."""

TIMES: Final = InformerTimes(backoff=BackoffBounds(cap_s=4.0))


@dataclass(frozen=True, slots=True)
class PoolScope:
    """What is followed: where slots are, the label of nodes with the name of their NodePool, the slots' priority."""

    namespace: str
    node_pool_label: str
    priority_class: str


@dataclass(frozen=True, slots=True)
class Reread:
    """A reading that was asked for: informers, and how many lists each had completed by then."""

    wanted: tuple[tuple[Informer[Any], int], ...]


class PoolCluster:
    """The informers and what follows from them. `run` once; `changed` is called in the event loop and must not wait."""

    def __init__(self, api: KubeApi, clock: Clock, scope: PoolScope, changed: Callable[[], None]) -> None:
        self._api = api
        self._clock = clock
        self._scope = scope
        self._changed = changed
        self._places = Places(scope.namespace)
        self._signs = Signs()
        self._slot_readings, self._node_readings, self._claim_readings = Readings(), Readings(), Readings()
        self._nodes_of: dict[str, set[str]] = defaultdict(set)
        self._claim_of: dict[str, str] = {}
        """Node -> its NodeClaim."""
        self._gated_s: dict[str, float] = {}
        follow = self._follow
        self._pools: Informer[WarmPoolObject] = follow(f"/apis/{GROUP}/{VERSION}/warmpools", WarmPoolObject)
        self._pods: Informer[PlacedPod] = follow("/api/v1/pods", PlacedPod, self._on_pod)
        self._nodes: Informer[Node] = follow("/api/v1/nodes", Node, self._on_node)
        self._claims: Informer[NodeClaim] = follow(f"{KARPENTER}/nodeclaims", NodeClaim, self._on_claim)
        self._node_pools: Informer[NodePool] = follow(f"{KARPENTER}/nodepools", NodePool)
        self._classes: Informer[PriorityClass] = follow("/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass)
        self._shortages: Informer[ToldEvent] = follow(
            "/api/v1/events", ToldEvent, self._on_shortage, selector=NO_CAPACITY
        )
        self._withdrawals: Informer[ToldEvent] = follow(
            "/api/v1/events", ToldEvent, self._on_not_offered, selector=NOT_OFFERED
        )
        self._nominations: Informer[ToldEvent] = follow(
            f"/api/v1/namespaces/{scope.namespace}/events", ToldEvent, self._on_nomination, selector=NOMINATED
        )

    @property
    def pools(self) -> Mapping[str, WarmPoolObject]:
        """The WarmPools by name, live."""
        return self._pools.items

    async def run(self) -> None:
        """Follow everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._all():
                group.create_task(informer.run(), name="pool informer")

    async def wait_synced(self) -> None:
        """Return once everything was listed, or is known not to be served, or may not be read."""
        while any(not informer.synced and not informer.denied for informer in self._all()):
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    async def relist(self) -> None:
        """Read everything anew, and return when what is held is what the server had after this call."""
        wanted = {informer: informer.lists for informer in self._all() if not informer.absent}
        for informer in wanted:
            informer.relist()
        while any(i.lists <= lists and not i.absent and not i.denied for i, lists in wanted.items()):
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    def reread(self) -> Reread:
        """Ask for everything that is written for pools to be listed anew; `is_read` says when that was done."""
        written = [i for i in (self._pods, self._claims, self._node_pools) if not (i.absent or i.denied)]
        wanted = tuple((informer, informer.lists) for informer in written)
        for informer in written:
            informer.relist()
        return Reread(wanted)

    def is_read(self, asked: "Reread") -> bool:
        """Whether what is held is what the server had after it was asked for."""
        return all(i.lists > lists or i.absent or i.denied for i, lists in asked.wanted)

    def problems(self) -> tuple[str, ...]:
        """What cannot be followed now, and why; what is not served is no problem."""
        return tuple(str(i.error) for i in self._all() if i.error is not None)

    def class_value(self, name: str) -> int | None:
        """The value of a PriorityClass; of the default one for an empty name, 0 where there is none; else None."""
        if not name:
            return next((one.value for one in self._classes.items.values() if one.global_default), 0)
        found = self._classes.items.get(name)
        return None if found is None else found.value

    def taints_of(self, node_pool: str) -> tuple[Taint, ...]:
        """The taints that the nodes of a NodePool have for good, and at their start."""
        found = self._node_pools.items.get(node_pool)
        template = None if found is None else found.spec.template.spec
        return () if template is None else (*template.taints, *template.startup_taints)

    def node_of(self, claim: str) -> str:
        """The node of a NodeClaim; empty where it has none yet, or is gone."""
        found = self._claims.items.get(claim)
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
        karpenter = _believed(self._claims) and _believed(self._node_pools)
        known = _believed(self._pods) and _believed(self._nodes)
        slots = [self._slot(pod) for pod in self._places.slots(params.name, uid)] if known else None
        claims = node_pools = None
        if karpenter:
            claims = tuple(
                self._claim(claim, tiers[pool], params)
                for claim in self._claims.items.values()
                if (pool := claim.metadata.labels.get(NODE_POOL, "")) in tiers
            )
            node_pools = tuple(
                node_pool_seen(pool, form, params.name)
                for name, pool in self._node_pools.items.items()
                if name in tiers
            )
        priority = self.class_value(self._scope.priority_class) if _believed(self._classes) else -10
        return World(
            slots=None if slots is None else tuple(slots),
            nodes=tuple(self._nodes_seen(params, now_s)) if known else None,
            claims=claims,
            node_pools=node_pools,
            demand=demand,
            troubles=self._signs.troubles(tiers, now_s),
            slot_priority=priority,
            serving_priority=serving_priority,
        )

    def _nodes_seen(self, params: PoolParams, now_s: float) -> Iterator[NodeSeen]:
        for tier in params.tiers:
            for name in self._nodes_of.get(tier.node_pool, ()):
                node = self._nodes.items.get(name)
                if node is None:
                    continue
                seen = self._node(node, tier, params)
                if seen.gating_taints:
                    self._gated_s.setdefault(name, now_s)
                else:
                    self._gated_s.pop(name, None)
                yield seen

    def _node(self, node: Node, tier: PoolTier, params: PoolParams) -> NodeSeen:
        name, form = node.metadata.name, params.slot
        claim = self._claims.items.get(self._claim_of.get(name, ""))
        pool, there = self._node_pools.items.get(tier.node_pool), self._places.on_node(name, form.resource)
        gated_s = self._gated_s.get(name)

        def read() -> NodeSeen:
            starting = () if pool is None else pool.spec.template.spec.startup_taints
            keys = {taint.key for taint in starting}
            return node_seen(node, tier, form, claim=claim, startup_taints=keys, there=there, gated_since_s=gated_s)

        return self._node_readings.of(name, params.name, (node, claim, pool, there, gated_s, tier, form), read)

    def _claim(self, claim: NodeClaim, tier: PoolTier, params: PoolParams) -> ClaimSeen:
        form = params.slot
        read = partial(claim_seen, claim, tier, form)
        return self._claim_readings.of(claim.metadata.name, params.name, (claim, tier, form), read)

    def _slot(self, pod: PlacedPod) -> SlotSeen:
        claim = self._signs.nominated(pod.metadata.uid)
        return self._slot_readings.of(pod.metadata.key, "", (pod, claim), partial(slot_seen, pod, claim))

    def _on_pod(self, change: Change[PlacedPod]) -> None:
        self._places.note(change)
        if change.new is None and change.old is not None:
            self._signs.on_gone(change.old.metadata.uid)
            self._slot_readings.forget(change.key)
        if any(pod is not None and self._matters(pod) for pod in (change.old, change.new)):
            self._changed()

    def _matters(self, pod: PlacedPod) -> bool:
        """Whether a pod is a slot, or on a node of a NodePool."""
        node = self._nodes.items.get(pod.spec.node_name)
        return pool_of(pod) is not None or (node is not None and self._scope.node_pool_label in node.metadata.labels)

    def _on_node(self, change: Change[Node]) -> None:
        label = self._scope.node_pool_label
        if change.old is not None:
            self._nodes_of[change.old.metadata.labels.get(label, "")].discard(change.key)
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

    def _all(self) -> tuple[Informer[Any], ...]:
        return (
            self._pools, self._pods, self._nodes, self._claims, self._node_pools, self._classes, self._shortages,
            self._withdrawals, self._nominations,
        )  # fmt: skip

    def _follow(
        self,
        path: str,
        kind: type[Any],
        heard: Callable[[Change[Any]], None] | None = None,
        *,
        selector: str = "",
    ) -> Informer[Any]:
        resource = Resource(path, kind, field_selector=selector)
        return Informer(self._api, resource, self._clock, heard or partial(_news, self._changed), times=TIMES)


def _news(changed: Callable[[], None], _: Change[Any]) -> None:
    changed()


def _believed(informer: Informer[Any]) -> bool:
    """Whether what an informer holds is the truth of now, as far as can be known."""
    if informer.absent or informer.denied or not informer.synced:
        return False
    return informer.cut_off_s() <= BELIEVED_S and math.isfinite(informer.staleness_s())
