"""Warm pools beside what else keeps nodes in Karpenter: static NodePools and CapacityBuffers, alpha and off unless
somebody turns them on."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.capacity.karpenter import CLAIMS, NODE_POOLS, Karpenter, condition, gpu_pod, node_pool
from tests.capacity.pools import MERGE, SETTINGS, Pool
from tests.cluster.conftest import CONFIG
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("karpenter"), pytest.mark.timeout(400)]

SLACK_S: Final = 120.0
"""How long anything may take on a loaded machine."""

BUFFER: Final = "autoscaling.x-k8s.io/v1beta1"
STORM_CLAIMS: Final = 30
"""So many more claims of a storm are made beside a WarmPool: half a minute of it."""


@pytest.fixture(scope="module")
def alpha_karpenter(shared_karpenter: Karpenter) -> Iterator[Karpenter]:
    """Karpenter with its alpha features on, and as it was afterwards."""
    _restart(shared_karpenter, "StaticCapacity=true,CapacityBuffer=true")
    yield shared_karpenter
    _restart(shared_karpenter, "")


@pytest.fixture(scope="module")
def alpha_controller(alpha_karpenter: Karpenter) -> Iterator[Controller]:
    apply_file(alpha_karpenter.plane, CONFIG / "rbac" / "warm-pools")
    with Controller(alpha_karpenter.plane, **SETTINGS) as made:
        made.wait_leading(SLACK_S)
        yield made


@pytest.fixture
def karpenter(alpha_karpenter: Karpenter, alpha_controller: Controller) -> Iterator[Karpenter]:
    """Both, without faults; NodePools and nodes go afterwards."""
    alpha_karpenter.fail()
    yield alpha_karpenter
    alpha_karpenter.fail()
    for path in (NODE_POOLS, CLAIMS):
        alpha_karpenter.plane.call("DELETE", path)


def static(name: str, nodes: int, **given: Any) -> dict[str, Any]:
    """A NodePool that keeps so many nodes, whoever wants them."""
    return node_pool(name, replicas=nodes, **given)


def wait_warm(pool: Pool, slots: int) -> None:
    wait_for(lambda: pool.warm == slots, SLACK_S, f"{slots} warm slots of {pool.name}", every_s=0.2)


def test_a_storm_of_static_replicas_without_capacity_gets_no_slot_of_ours(karpenter: Karpenter) -> None:
    """Karpenter asks for them over and over. While it does it launches nothing else, so that the slot of the next tier
    waits as well; none is tried where there is no free node, and the one that waits is served when the storm is over.
    """
    karpenter.fail({"instanceType": "h100-8x"})
    karpenter.plane.apply(static("storm", 2))
    wait_for(lambda: len(karpenter.created("storm")) >= 4, SLACK_S, "claims that come and go", every_s=0.2)
    karpenter.plane.apply(node_pool("calm", ["a100-8x"]))
    pool = Pool(karpenter.plane, "storm", ("h100", "storm"), ("a100", "calm"), minSlots=1)
    storm = len(karpenter.created("storm")) + STORM_CLAIMS
    wait_for(lambda: len(pool.slots) == 1, SLACK_S, "a slot", every_s=0.2)
    wait_for(lambda: "no capacity: h100" in pool.told("CapacityAvailable")[1], SLACK_S, "word of it", every_s=0.2)
    wait_for(lambda: len(karpenter.created("storm")) >= storm, SLACK_S, "a storm that goes on", every_s=0.5)
    karpenter.plane.call("PATCH", f"{NODE_POOLS}/storm", {"spec": {"replicas": 0}}, MERGE)
    wait_warm(pool, 1)
    assert {slot["spec"]["nodeSelector"]["karpenter.sh/nodepool"] for slot in pool.slots} == {"calm"}
    assert len(pool.ordered()) == 1, "none was tried where there is no free node"
    edits = karpenter.plane.audited(verb="patch", resource="nodepools", user=ACCOUNT)
    assert not [one for one in edits if one["objectRef"]["name"] in {"storm", "calm"}], "nobody's NodePool is edited"
    pool.delete()


def test_free_nodes_of_a_static_nodepool_are_warmed_and_no_more_are_waited_for(karpenter: Karpenter) -> None:
    karpenter.plane.apply(static("kept", 1))
    wait_for(lambda: len(karpenter.nodes("kept")) == 1, SLACK_S, "its node", every_s=0.2)
    pool = Pool(karpenter.plane, "kept", ("h100", "kept"), minSlots=2)
    wait_warm(pool, 1)
    wait_for(lambda: pool.told("NodePoolsUsable")[0] == "False", SLACK_S, "word of it", every_s=0.2)
    assert "spec.tiers[0].nodePoolRef: NodePool 'kept' is static (spec.replicas: 1)" in pool.told("NodePoolsUsable")[1]
    assert len(pool.ordered()) == 1
    karpenter.plane.call("PATCH", f"{NODE_POOLS}/kept", {"spec": {"replicas": 2}}, MERGE)
    wait_warm(pool, 2)
    wait_for(lambda: pool.told("NodePoolsUsable")[0] == "True", SLACK_S, "nothing to say any more", every_s=0.2)
    pool.delete()


def test_a_disruption_budget_over_slots_does_not_keep_static_nodes_from_going(karpenter: Karpenter) -> None:
    """Karpenter drains by eviction, which the budget refuses; a slot is deleted by its owner, which it cannot."""
    karpenter.plane.apply(static("shrunk", 1))
    pool = Pool(karpenter.plane, "shrunk", ("h100", "shrunk"), minSlots=1)
    wait_warm(pool, 1)
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "headroom-slots"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"headroom.dev/pool": "shrunk"}}},
    }  # fmt: skip
    karpenter.plane.apply(budget)
    try:
        karpenter.plane.call("PATCH", f"{NODE_POOLS}/shrunk", {"spec": {"replicas": 0}}, MERGE)
        wait_for(lambda: not karpenter.nodes("shrunk"), SLACK_S, "the node to go", every_s=0.2)
    finally:
        karpenter.plane.kubectl("delete", "pdb", "all", "-n", "headroom-slots")
    assert len(pool.ordered()) == 1, "and no slot waits for a node that does not come"
    pool.delete()


def test_a_buffer_that_says_that_it_is_there_warms_nothing_until_its_gpus_come(karpenter: Karpenter) -> None:
    """Its condition counts nodes on their way: without GPUs, and so of no use to a replica."""
    plane = karpenter.plane
    plane.apply(node_pool("buffered", stages={"hold": "gpus"}, startup_taints=["readiness.k8s.io/gpu"]))
    spec = gpu_pod("unused", "default", "buffered", gpus=8)["spec"]
    plane.apply({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "chunk", "namespace": "default"},
        "template": {"spec": spec},
    })  # fmt: skip
    plane.apply({
        "apiVersion": BUFFER, "kind": "CapacityBuffer", "metadata": {"name": "beside", "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "chunk"}, "replicas": 1},
    })  # fmt: skip

    def buffer() -> dict[str, Any]:
        found: dict[str, Any] = plane.call("GET", f"/apis/{BUFFER}/namespaces/default/capacitybuffers/beside")
        return found

    wait_for(lambda: len(karpenter.nodes("buffered")) == 1, SLACK_S, "the buffer's node", every_s=0.2)
    wait_for(lambda: condition(buffer(), "Provisioning").get("status") == "True", SLACK_S, "its word", every_s=0.2)
    pool = Pool(plane, "buffered", ("h100", "buffered"), minSlots=1)
    wait_for(lambda: len(pool.slots) == 1 and "targetSlots" in pool.status, SLACK_S, "a slot that waits", every_s=0.2)
    (node,) = karpenter.nodes("buffered")
    assert "nvidia.com/gpu" not in node["status"]["allocatable"]
    assert (pool.warm, pool.told("Ready")[0]) == (0, "False")
    for each in karpenter.nodes("buffered"):
        plane.kubectl("annotate", "node", each["metadata"]["name"], "stage.headroom.dev/hold-")
    wait_warm(pool, 1)
    plane.kubectl("delete", "capacitybuffer", "beside", "-n", "default")
    pool.delete()


def _restart(karpenter: Karpenter, gates: str) -> None:
    karpenter.process.kill()
    karpenter.gates = gates
    karpenter.start()
