"""The world of a pool as it is followed: whole, without Karpenter, while it cannot be read, and after a doubt."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.pool_cluster import PoolCluster, PoolScope
from autoscaler.adapters.kube.writing import rfc3339
from autoscaler.core.pool.params import PoolParams
from autoscaler.core.pool.world import AskedOf, Sign, Trouble, World
from autoscaler.runtime.clock import WallClock
from tests.kube.clients import client
from tests.kube.clients import until as once
from tests.kube.fakeserver import Connection, FakeServer, Request, status
from tests.kube.pools import FORM, T0, TIER, at

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
POOLS: Final = "/apis/headroom.dev/v1alpha1/warmpools"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
EVENTS: Final = "/api/v1/events"
SLOT_EVENTS: Final = "/api/v1/namespaces/prod/events"
PLAIN: Final = (PODS, NODES, POOLS, CLASSES, EVENTS, SLOT_EVENTS)

LABELS: Final = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat", "headroom.dev/tier": "first"}
OWNER: Final = [{"kind": "WarmPool", "name": "chat", "uid": "pool-uid", "controller": True}]
ON_GPU: Final = {"karpenter.sh/nodepool": "gpu"}
WITHIN_S: Final = 20.0
"""Eight watches are opened first, and the machine may be busy."""

SCOPE: Final = PoolScope("prod", "karpenter.sh/nodepool", "headroom-slot")
PARAMS: Final = PoolParams(name="chat", tiers=(TIER,), models=("chat",), content="c1", slot=FORM)


async def until(holds: Callable[[], object]) -> None:
    await once(holds, WITHIN_S)


@dataclass
class Scene:
    server: FakeServer
    cluster: PoolCluster
    heard: list[int] = field(default_factory=list)

    def world(self) -> World:
        return self.cluster.world(PARAMS, "pool-uid", demand=(), serving_priority=0, now_s=T0 + 30)

    def troubles(self) -> tuple[Trouble, ...]:
        """Signs are of the wall clock's now."""
        now_s = WallClock().now()
        return self.cluster.world(PARAMS, "pool-uid", demand=(), serving_priority=0, now_s=now_s).troubles

    def slot(self, name: str = "chat-0", **parts: Any) -> None:
        """A slot; the fake server's one namespace is where slots are."""
        metadata = {"labels": LABELS, "ownerReferences": OWNER, "creationTimestamp": at(0)}
        self.server.put(name, path=PODS, metadata=metadata, **parts)

    def node(self, name: str = "n0", **parts: Any) -> None:
        metadata = {"namespace": "", "labels": ON_GPU, "creationTimestamp": at(0)} | parts.pop("metadata", {})
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "4"}}
        self.server.put(name, path=NODES, metadata=metadata, status=ready, **parts)


@asynccontextmanager
async def scene(*, karpenter: bool = True) -> AsyncIterator[Scene]:
    """A followed cluster with a priority class and nothing else."""
    async with FakeServer() as server, client(server.url) as api:
        server.objects |= {path: {} for path in (*PLAIN, *((CLAIMS, NODE_POOLS) if karpenter else ()))}
        server.put("headroom-slot", path=CLASSES, metadata={"namespace": ""}, value=-10)
        async with following(server, api) as made:
            yield made


@asynccontextmanager
async def following(server: FakeServer, api: KubeApi) -> AsyncIterator[Scene]:
    heard: list[int] = []
    cluster = PoolCluster(api, WallClock(), SCOPE, lambda: heard.append(1))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(cluster.feeds.run())
        await cluster.feeds.wait_synced()
        yield Scene(server, cluster, heard)
        task.cancel()


async def test_a_slot_tells_its_nodepool_and_its_units_of_the_resource_that_is_wanted_now() -> None:
    async with scene() as seen:
        seen.slot(spec={"nodeSelector": ON_GPU, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]})
        await until(lambda: seen.world().slots)
        (slot,) = seen.world().slots or ()
        assert (slot.node_pool, slot.units) == ("gpu", 2)
        sliced = replace(PARAMS, slot=replace(FORM, resource="nvidia.com/mig-3g.40gb"))
        world = seen.cluster.world(sliced, "pool-uid", demand=(), serving_priority=0, now_s=T0 + 30)
        assert [each.units for each in world.slots or ()] == [0]


async def test_the_world_is_put_together_from_all_that_is_followed() -> None:
    async with scene() as it:
        it.server.put("chat", path=POOLS, metadata={"namespace": ""}, spec={})
        it.node()
        it.slot(spec={"nodeName": "n0", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]})
        it.slot("chat-1")
        it.server.put("gpu-abcde", path=CLAIMS, metadata={"namespace": "", "labels": ON_GPU}, status={"nodeName": "n0"})
        it.server.put("gpu", path=NODE_POOLS, metadata={"namespace": ""}, spec={"limits": {"nodes": "3"}})
        await until(lambda: it.cluster.pools and len(it.world().slots or ()) == 2 and it.world().node_pools)
        world = it.world()
        assert {slot.name: slot.node for slot in world.slots or ()} == {"chat-0": "n0", "chat-1": None}
        ((node,), (claim,), (pool,)) = world.nodes or (), world.claims or (), world.node_pools or ()
        assert (node.name, node.units, node.free_units, node.claim) == ("n0", 4, 2, "gpu-abcde")
        assert (claim.node, pool.limit_nodes, world.slot_priority) == ("n0", 3, -10)
        assert it.cluster.node_of("gpu-abcde") == "n0"


async def test_a_list_of_warm_pools_that_is_refused_when_somebody_begins_is_no_empty_list() -> None:
    async with FakeServer() as server, client(server.url) as api:
        server.objects |= {path: {} for path in PLAIN}
        refused = {POOLS}

        async def answer(request: Request, connection: Connection) -> None:
            if request.path in refused:
                await status(403, "Forbidden", "headroom cannot list warmpools")(request, connection)
            else:
                await server.honest(request, connection)

        server.always = answer
        server.put("chat", path=POOLS, metadata={"namespace": ""}, spec={})
        async with following(server, api) as it:
            assert (dict(it.cluster.pools), it.cluster.pools_read) == ({}, False)
            assert any("403" in words for words in it.cluster.feeds.problems())
            refused.clear()
            it.cluster.feeds.pools.relist()
            await until(lambda: it.cluster.pools_read)
            assert list(it.cluster.pools) == ["chat"]


async def test_without_karpenter_slots_and_nodes_are_known_and_node_pools_are_not() -> None:
    async with scene(karpenter=False) as it:
        it.node()
        it.slot()
        await until(lambda: it.world().slots)
        world = it.world()
        assert (world.claims, world.node_pools) == (None, None), "unknown, which is not none"
        assert len(world.nodes or ()) == 1


async def test_pods_of_a_pool_that_cannot_be_read_say_what_they_ask_of_a_nodepool_until_a_node_is_under_way() -> None:
    two = {"nodeSelector": ON_GPU, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}}}]}
    mig = {"nodeSelector": ON_GPU, "containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "7"}}}]}
    async with scene() as it:
        it.slot(spec=two)
        it.slot("chat-1", spec={**two, "nodeName": "n0"})
        it.slot("chat-2", spec=two, status={"phase": "Failed"})
        held = {"labels": {**LABELS, "headroom.dev/gang-uid": "g1"}, "ownerReferences": OWNER}
        it.server.put("held", path=PODS, metadata=held, spec=mig)
        theirs = {"labels": LABELS, "ownerReferences": [{**OWNER[0], "uid": "an older pool of the name"}]}
        it.server.put("old", path=PODS, metadata=theirs, spec=two)
        await until(lambda: (left := it.cluster.left("chat", "pool-uid")) is not None and left.holders and left.asked)
        await until(lambda: it.cluster.left("chat", "pool-uid").asked[0].nodes == 2)  # type: ignore[union-attr]
        left = it.cluster.left("chat", "pool-uid")
        assert left is not None
        assert left.asked == (AskedOf("gpu", 9.0, 2),), "what a unit is a part of is not known: it counts whole"
        assert [(each.gang_uid, each.units, each.node) for each in left.holders] == [("g1", 7, None)]
        uid = next(slot.uid for slot in it.world().slots or () if slot.name == "chat-0")
        words = "Pod should schedule on: nodeclaim/gpu-abcde"
        it.server.put("e1", path=SLOT_EVENTS, message=words, involvedObject={"name": "chat-0", "uid": uid})
        launched = {"conditions": [{"type": "Launched", "status": "True"}]}
        it.server.put("gpu-abcde", path=CLAIMS, metadata={"namespace": "", "labels": ON_GPU}, status=launched)
        await until(lambda: it.cluster.left("chat", "pool-uid").asked == (AskedOf("gpu", 7.0, 1),))  # type: ignore[union-attr]


async def test_names_that_other_pods_have_where_slots_are_are_taken() -> None:
    async with scene() as it:
        it.slot()
        theirs = {"labels": LABELS, "ownerReferences": [{**OWNER[0], "uid": "an older pool of the name"}]}
        it.server.put("chat-1", path=PODS, metadata=theirs)
        it.server.put("chat-2", path=PODS)
        await until(lambda: it.world().taken == {"chat-1", "chat-2"})
        assert [slot.name for slot in it.world().slots or ()] == ["chat-0"]


async def test_a_node_that_lacks_what_slots_need_says_since_when_to_each_pool_that_needs_it() -> None:
    async with scene() as it:
        it.node()
        await until(lambda: it.world().nodes)

        def since_s(params: PoolParams, now_s: float) -> float | None:
            (node,) = it.cluster.world(params, "pool-uid", demand=(), serving_priority=0, now_s=now_s).nodes or ()
            return node.unusable_since_s

        newer = replace(PARAMS, name="code", slot=replace(FORM, min_driver=(580,)))
        assert [since_s(params, T0 + 30 + n) for n, params in enumerate((newer, PARAMS, newer))] == [
            None,
            None,
            T0 + 30,
        ]
        it.node(metadata={"labels": ON_GPU | {"nvidia.com/cuda.driver-version.full": "580.65.06"}})
        await until(lambda: since_s(newer, T0 + 40) is None)


async def test_a_nomination_and_a_shortage_are_heard() -> None:
    async with scene() as it:
        it.slot()
        await until(lambda: it.world().slots)
        uid = (it.world().slots or ())[0].uid
        slot, now_s = {"name": "chat-0", "uid": uid}, WallClock().now()
        words = "Pod should schedule on: nodeclaim/gpu-abcde"
        it.server.put("e1", path=SLOT_EVENTS, message=words, involvedObject=slot)
        it.server.put("e2", path=EVENTS, involvedObject={"name": "gpu-abcde"}, lastTimestamp=rfc3339(now_s))
        await until(it.troubles)
        assert [(t.sign, t.claim) for t in it.troubles()] == [(Sign.INSUFFICIENT, "gpu-abcde")]
        it.slot(status={"phase": "Pending"})
        await until(lambda: (it.world().slots or ())[0].claim == "gpu-abcde")


async def test_a_nomination_that_is_told_after_its_pod_is_gone_is_forgotten_with_its_event_and_no_other_is() -> None:
    async with scene() as it:
        it.slot()
        await until(lambda: it.world().slots)
        standing = (it.world().slots or ())[0].uid
        words = "Pod should schedule on: nodeclaim/gpu-abcde"
        for event, about in (
            ("e1", {"name": "chat-0", "uid": standing}),
            ("e2", {"name": "chat-0", "uid": "an older pod of the name"}),
            ("e3", {"name": "chat-9", "uid": "a pod that is gone"}),
        ):
            it.server.put(event, path=SLOT_EVENTS, message=words, involvedObject=about)
        await until(lambda: len(it.cluster._signs._nominated) == 3)
        for event in ("e1", "e2", "e3"):
            it.server.delete(event, path=SLOT_EVENTS)
        it.server.put("last", path=SLOT_EVENTS, message=words, involvedObject={"name": "last", "uid": "last"})
        await until(lambda: it.cluster._signs.nominated("last"))
        assert it.cluster._signs._nominated.keys() == {standing, "last"}


async def test_a_node_pool_is_forgotten_with_its_last_node() -> None:
    async with scene() as it:
        for number in range(3):
            it.node(f"n{number}", metadata={"labels": {"karpenter.sh/nodepool": f"pool-{number}"}})
        await until(lambda: len(it.cluster._nodes_of) == 3)
        for number in range(3):
            it.server.delete(f"n{number}", path=NODES)
        it.node("last")
        await until(lambda: "gpu" in it.cluster._nodes_of)
        assert dict(it.cluster._nodes_of) == {"gpu": {"last"}}


async def test_a_claim_that_came_and_went_between_two_looks_is_a_sign_all_the_same() -> None:
    async with scene() as it:
        it.server.put("gpu-abcde", path=CLAIMS, metadata={"namespace": "", "labels": ON_GPU})
        await until(lambda: it.world().claims)
        it.server.delete("gpu-abcde", path=CLAIMS)
        await until(lambda: not it.world().claims)
        assert [(t.sign, t.claim) for t in it.troubles()] == [(Sign.CLAIM_GONE, "gpu-abcde")]


async def test_what_was_never_read_is_unknown_and_not_empty() -> None:
    async with FakeServer() as server, client(server.url) as api:
        server.objects |= {path: {} for path in PLAIN if path != PODS}
        server.always = status(503, "ServiceUnavailable", "later")
        cluster = PoolCluster(
            api, WallClock(), PoolScope("prod", "karpenter.sh/nodepool", "headroom-slot"), lambda: None
        )
        world = cluster.world(PARAMS, "pool-uid", demand=None, serving_priority=0, now_s=T0)
        assert (world.slots, world.nodes, world.claims, world.node_pools) == (None, None, None, None)
        assert cluster.left("chat", "pool-uid") is None


async def test_a_missing_priority_class_is_none_and_the_default_one_counts_for_pods_without() -> None:
    async with scene() as it:
        assert it.cluster.class_value("") == 0
        it.server.delete("headroom-slot", path=CLASSES)
        it.server.put("usual", path=CLASSES, metadata={"namespace": ""}, value=100, globalDefault=True)
        await until(lambda: it.world().slot_priority is None)
        assert it.cluster.class_value("") == 100
        assert it.cluster.class_value("unheard-of") is None


async def test_after_a_doubt_a_pool_is_read_only_when_everything_was_listed_anew() -> None:
    async with scene() as it:
        asked = it.cluster.feeds.reread()
        assert not it.cluster.feeds.is_read(asked)
        await until(lambda: it.cluster.feeds.is_read(asked))
        assert not it.cluster.feeds.is_read(it.cluster.feeds.reread())


async def test_slots_and_pods_on_pool_nodes_are_news_and_other_pods_are_none() -> None:
    async with scene() as it:
        it.node()
        await until(lambda: it.heard and it.world().nodes)
        it.heard.clear()
        it.server.put("elsewhere", path=PODS, spec={"nodeName": "another"})
        it.server.put("theirs", path=PODS, spec={"nodeName": "n0"})
        await until(lambda: (it.world().nodes or ())[0].foreign_pods == 1)
        assert len(it.heard) == 1


async def test_the_taints_of_a_node_pool_are_those_of_its_template() -> None:
    async with scene() as it:
        assert it.cluster.taints_of("gpu") == ()
        template = {"spec": {"taints": [{"key": "team"}], "startupTaints": [{"key": "starting"}]}}
        it.server.put("gpu", path=NODE_POOLS, metadata={"namespace": ""}, spec={"template": template})
        it.node(spec={"taints": [{"key": "starting"}]})
        await until(lambda: it.cluster.taints_of("gpu") and it.world().nodes)
        assert [taint.key for taint in it.cluster.taints_of("gpu")] == ["team", "starting"]
        assert (it.world().nodes or ())[0].gating_taints == ("starting",)


async def test_whether_pods_of_a_class_preempt_is_read_of_it_and_of_the_default_one() -> None:
    async with scene() as seen:
        never: dict[str, Any] = {"value": 1000, "preemptionPolicy": "Never"}
        seen.server.put("meek", path=CLASSES, metadata={"namespace": ""}, **never)
        await until(lambda: seen.cluster.class_value("meek") == 1000)
        assert [seen.cluster.preempts(name) for name in ("meek", "", "not-there")] == [False, True, True]
        seen.server.put("usual", path=CLASSES, metadata={"namespace": ""}, globalDefault=True, **never)
        await until(lambda: seen.cluster.class_value("usual") == 1000)
        assert seen.cluster.preempts("") is False
