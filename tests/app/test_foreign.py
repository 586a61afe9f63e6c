"""GPUs of pods that are nobody's replicas: counted from when they are bound until they end."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace as evolve

import pytest
from msgspec.structs import replace

from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.pods import Pod
from autoscaler.api.claims import Claim
from autoscaler.app.foreign import Foreign
from autoscaler.runtime.clock import ScaledClock
from tests.app.scene import KEY, REF, claim, pod

pytestmark = pytest.mark.looptime(noop_cycles=1)

GROUP = {"leaderworkerset.sigs.k8s.io/name": "chat", "leaderworkerset.sigs.k8s.io/worker-index": "3"}


class Bench:
    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.told: list[Mapping[str, int]] = []
        self.foreign = Foreign(
            gpu_resources=("nvidia.com/gpu",), driven=lambda: self.claims, tell=self.told.append,
            clock=ScaledClock(1.0), slots="headroom-slots",
        )  # fmt: skip

    def see(self, *pods: Pod) -> None:
        for one in pods:
            self.foreign.on_pod(Change(one.metadata.key, None, one))


def bound(made: Pod, phase: str = "Running") -> Pod:
    """On a node; the scene's pods hold two GPUs."""
    return replace(made, spec=replace(made.spec, node_name="n1"), status=replace(made.status, phase=phase))


async def test_pods_of_claims_are_ours_and_all_others_are_foreign_by_namespace() -> None:
    bench = Bench()
    bench.see(bound(pod("a")), bound(pod("b", namespace="dev")), bound(pod("c", namespace="dev")))
    assert bench.foreign.gpus() == {"prod": 2, "dev": 4}
    bench.claims[KEY] = claim()
    assert bench.foreign.gpus() == {"dev": 4}
    bench.claims[KEY] = evolve(claim(), ref=evolve(REF, kind="StatefulSet"))
    assert bench.foreign.gpus() == {"prod": 2, "dev": 4}, "of the same name, and not its pods"


async def test_the_workers_of_a_claimed_group_are_ours() -> None:
    bench = Bench()
    worker = bound(pod("chat-0-3"))
    bench.see(replace(worker, metadata=replace(worker.metadata, labels=GROUP)))
    assert bench.foreign.gpus() == {"prod": 2}
    bench.claims[KEY] = evolve(claim(), ref=evolve(REF, kind="LeaderWorkerSet"))
    assert bench.foreign.gpus() == {}


async def test_a_pod_holds_gpus_from_its_node_to_its_end() -> None:
    bench = Bench()
    for made, held in ((pod("a"), {}), (bound(pod("a")), {"prod": 2}), (bound(pod("a"), "Succeeded"), {})):
        bench.see(made)
        assert bench.foreign.gpus() == held
    bench.see(bound(pod("a")))
    bench.foreign.on_pod(Change("prod/a", bound(pod("a")), None))
    assert bench.foreign.gpus() == {}


async def test_it_is_told_when_it_changed_and_then_only() -> None:
    bench = Bench()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bench.foreign.run())
        for at_s in range(6):
            if at_s == 2:
                bench.see(bound(pod("a")))
            await asyncio.sleep(1.0)
        task.cancel()
    assert bench.told == [{"prod": 2}]


async def test_a_warm_slot_takes_nothing_from_a_budget_and_a_pod_that_poses_as_one_does() -> None:
    bench = Bench()
    labels = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat"}
    for namespace, expected in (("headroom-slots", {}), ("dev", {"dev": 2})):
        slot = bound(pod("chat-0", namespace=namespace))
        bench.see(replace(slot, metadata=replace(slot.metadata, labels=labels)))
        assert bench.foreign.gpus() == expected
