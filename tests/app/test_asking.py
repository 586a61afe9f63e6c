"""Whose pages are asked: of pods that serve or served, and of the gateway in front, as claims and pods change."""

import asyncio

import pytest
from msgspec.structs import replace

from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.membership import cut_off
from autoscaler.adapters.kube.meta import Condition
from autoscaler.adapters.kube.pods import ContainerStatus, Pod, PodStatus
from autoscaler.core.types import ReplicaReading
from autoscaler.errors import InputError
from autoscaler.settings.parts import Gateway
from tests.app.scene import GATEWAY, KEY, NOON, REF, Scene, claim, pod

pytestmark = pytest.mark.looptime(noop_cycles=1)


async def test_only_ready_pods_of_the_target_are_asked_and_those_that_go_no_more() -> None:
    scene = Scene()
    scene.cluster.add(pod("a", "127.0.0.5"), pod("b", "127.0.0.6", ready=False))
    scene.claimed(claim(engine="sglang", metrics_path="/m"))
    (asked,) = scene.pages.targets.values()
    assert isinstance(asked, ScrapeTarget)
    assert (asked.ip, asked.port, asked.path, asked.profile) == ("127.0.0.5", 8000, "/m", "sglang")
    scene.cluster.members.note(Change("prod/a", pod("a"), None))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        scene.workloads.on_pods(KEY)
        await asyncio.sleep(0.1)
        running.cancel()
    assert scene.pages.targets == {}


async def test_a_pod_that_served_is_asked_for_as_long_as_it_runs() -> None:
    scene = Scene()
    scene.cluster.add(pod("a", "127.0.0.5"), pod("b", "127.0.0.6", ready=False))
    scene.claimed(claim())
    scene.cluster.members.note(Change("prod/a", pod("a"), pod("a", "127.0.0.5", ready=False)))
    scene.claimed(claim())
    assert [(t.pod, t.ready_since_s) for t in scene.pages.targets.values() if isinstance(t, ScrapeTarget)] == [
        ("a", None)
    ], "b never served"
    left = pod("a", ready=False)
    over = Pod(left.metadata, left.spec, PodStatus("Failed", "127.0.0.5"))
    scene.cluster.members.note(Change("prod/a", pod("a"), over))
    scene.claimed(claim())
    assert scene.pages.targets == {}


async def test_a_thousand_changes_of_pods_are_one_look() -> None:
    scene = Scene()
    scene.claimed(claim())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        for index in range(1000):
            scene.cluster.add(pod(f"p{index}", f"127.1.{index // 250}.{index % 250 + 1}"))
            scene.workloads.on_pods(KEY)
        await asyncio.sleep(0.1)
        running.cancel()
    assert len(scene.pages.targets) == 1000
    assert [await anext(scene.news.changes())] == [KEY]


async def test_the_gateways_pods_are_asked_for_every_workload_behind_it() -> None:
    scene = Scene(edge=GATEWAY)
    scene.cluster.everything = [pod("g", "127.0.0.9", namespace="edge", app="epp"), pod("x", namespace="edge", app="y")]
    scene.claimed(claim(gateway="edge"))
    fronting = [t for t in scene.pages.targets.values() if isinstance(t, GatewayTarget)]
    assert [(t.ip, t.port, t.namespace, t.pool) for t in fronting] == [("127.0.0.9", 9090, "prod", "chat")]
    gone = scene.cluster.everything[0]
    scene.workloads.on_gateway(Change(gone.metadata.key, gone, None))
    assert not [t for t in scene.pages.targets.values() if isinstance(t, GatewayTarget)]


async def test_a_gateways_pod_that_is_not_ready_any_more_is_asked_as_long_as_it_runs() -> None:
    """Left out, its queue would look served; asked and silent, it is unknown."""
    scene = Scene(edge=GATEWAY)
    was, starts = (pod(name, f"127.0.0.{n}", namespace="edge", app="epp") for n, name in ((8, "g"), (9, "h")))
    scene.cluster.everything = [was, pod("h", "127.0.0.9", ready=False, namespace="edge", app="epp")]
    scene.claimed(claim(gateway="edge"))
    scene.workloads.on_gateway(Change("edge/g", was, replace(was, status=pod("g", ready=False).status)))
    scene.claimed(claim(gateway="edge", max_replicas="9"))
    assert [t.pod for t in scene.pages.targets.values()] == ["g"], "h never served"
    over = replace(was.metadata, deletion_timestamp=NOON)
    scene.workloads.on_gateway(Change("edge/g", was, replace(was, metadata=over)))
    assert scene.pages.targets == {}
    scene.workloads.on_gateway(Change("edge/h", None, starts))
    assert [t.pod for t in scene.pages.targets.values()] == ["h"]


async def test_a_pod_whose_node_is_lost_when_it_is_met_is_asked_and_is_no_start() -> None:
    """The control plane says that it is not ready; its containers were when the node was last heard."""
    scene = Scene()
    met = pod("a", ready=False)
    lost = replace(met, status=replace(met.status, container_statuses=(ContainerStatus("engine", ready=True),)))
    scene.cluster.add(lost)
    scene.claimed(claim())
    assert [t.pod for t in scene.pages.targets.values()] == ["a"]
    assert scene.cluster.members.reading(REF, 1) == ReplicaReading(1, 0)
    gated = (Condition("Ready", "False", "ReadinessGatesNotReady", last_transition_time=NOON),)
    waits = replace(lost, status=replace(lost.status, conditions=gated))
    assert not cut_off(waits)


async def test_metric_names_of_a_policys_own_are_forgotten_with_the_policy() -> None:
    scene = Scene()
    scene.cluster.add(pod("a"))
    scene.claimed(claim(engine="custom", metrics_waiting="my_queue"))
    assert list(scene.pages.profiles) == ["custom of prod/chat"]
    scene.claimed(claim())
    assert scene.pages.profiles == {}
    scene.claimed(claim(engine="custom", metrics_waiting="my_queue"))
    scene.claimed(None)
    assert scene.pages.profiles == {}


async def test_a_claim_that_goes_takes_its_target_and_its_pages_with_it() -> None:
    scene = Scene(edge=GATEWAY)
    scene.cluster.add(pod("a"))
    scene.cluster.everything = [pod("g", "127.0.0.9", namespace="edge", app="epp")]
    scene.claimed(claim(gateway="edge"))
    scene.claimed(None)
    assert (scene.driver.targets, scene.pages.targets, dict(scene.workloads.driven)) == ({}, {}, {})


async def test_a_gateway_whose_selector_cannot_be_read_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match="label selector"):
        Scene(edge=Gateway(namespace="edge", selector="app in (a)", port=1))


async def test_the_prometheus_that_a_policy_names_stands_behind_its_pods_and_follows_its_edits() -> None:
    scene = Scene()
    scene.claimed(claim(prometheus="main"))
    assert scene.pages.endpoints == {KEY: "main"}
    scene.claimed(claim())
    assert scene.pages.endpoints == {KEY: None}
