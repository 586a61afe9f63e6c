"""What real Karpenter does and says of GPU nodes that come, come late, do not come, or are taken."""

from typing import Any, Final

import pytest

from tests.capacity.karpenter import CLAIMS, NODE_POOLS, Karpenter, condition, gpu_pod, node_pool
from tests.cluster.processes import wait_for

pytestmark = [pytest.mark.real, pytest.mark.needs("karpenter"), pytest.mark.timeout(240)]

SLACK_S: Final = 120.0
"""How long anything may take on a loaded machine."""


def pod(karpenter: Karpenter, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = karpenter.plane.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    return found


def wait_running(karpenter: Karpenter, namespace: str, name: str) -> dict[str, Any]:
    wait_for(lambda: pod(karpenter, namespace, name)["status"].get("phase") == "Running", SLACK_S, f"{name} to run")
    return pod(karpenter, namespace, name)


def test_a_pod_waits_for_a_node_until_its_gpus_are_registered_and_it_was_found_ready(
    karpenter: Karpenter, pods: str
) -> None:
    held = node_pool("late", stages={"hold": "gpus"}, startup_taints=["readiness.k8s.io/gpu"])
    karpenter.plane.apply(held)
    karpenter.plane.apply(gpu_pod("chat", pods, "late"))
    lacks = {"StartupTaintsExist", "ResourceNotRegistered"}
    wait_for(lambda: _waits_for(karpenter, "late") in lacks, SLACK_S, "a claim that waits for its node's GPUs")
    assert "nodeName" not in pod(karpenter, pods, "chat")["spec"]
    (node,) = karpenter.nodes("late")
    assert "nvidia.com/gpu" not in node["status"]["allocatable"]
    karpenter.plane.kubectl("annotate", "node", node["metadata"]["name"], "stage.headroom.dev/hold-")
    running = wait_running(karpenter, pods, "chat")
    assert running["spec"]["nodeName"] == node["metadata"]["name"]
    wait_for(lambda: _is(karpenter, "late", "Initialized"), SLACK_S, "an initialized claim")
    told = [e["message"] for e in karpenter.events("Pod", "Nominated") if e["involvedObject"]["namespace"] == pods]
    (claim,) = karpenter.claims("late")
    assert f"Pod should schedule on: nodeclaim/{claim['metadata']['name']}" in told
    assert claim["status"]["capacity"]["nvidia.com/gpu"] == "8"


def test_a_claim_without_capacity_is_deleted_with_an_event_and_asked_for_again(karpenter: Karpenter, pods: str) -> None:
    karpenter.fail({"instanceType": "h100-8x"})
    karpenter.plane.apply(node_pool("out"))
    karpenter.plane.apply(gpu_pod("chat", pods, "out"))
    wait_for(lambda: len(_shortages(karpenter, "out")) >= 2, SLACK_S, "two claims without capacity")
    first, second = _shortages(karpenter, "out")[:2]
    name = first["involvedObject"]["name"]
    assert (first["type"], first["metadata"]["namespace"]) == ("Warning", "default")
    assert first["message"] == (
        f"NodeClaim {name} event: insufficient capacity, no capacity: "
        "h100-8x/zone-a/on-demand, h100-8x/zone-b/on-demand"
    )
    assert first["involvedObject"]["name"] != second["involvedObject"]["name"], "each claim is another object"
    assert not [c for c in karpenter.claims("out") if condition(c, "Launched").get("status") == "True"]


def test_a_zone_without_capacity_is_passed_over(karpenter: Karpenter, pods: str) -> None:
    karpenter.fail({"zone": "zone-a"})
    karpenter.plane.apply(node_pool("zonal"))
    karpenter.plane.apply(gpu_pod("chat", pods, "zonal", gpus=8))
    wait_running(karpenter, pods, "chat")
    (node,) = karpenter.nodes("zonal")
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"
    assert _shortages(karpenter, "zonal") == []


def test_a_launch_that_fails_otherwise_keeps_its_claim_and_says_why(karpenter: Karpenter, pods: str) -> None:
    karpenter.fail(launch_error="not allowed to launch")
    karpenter.plane.apply(node_pool("refused"))
    karpenter.plane.apply(gpu_pod("chat", pods, "refused"))

    def launched() -> dict[str, Any]:
        return next((condition(claim, "Launched") for claim in karpenter.claims("refused")), {})

    wait_for(lambda: launched().get("reason") == "LaunchFailed", SLACK_S, "a failed launch")
    assert (launched()["status"], launched()["message"]) == ("Unknown", "not allowed to launch")
    assert _shortages(karpenter, "refused") == []


def test_a_spot_node_that_is_taken_is_tainted_drained_and_gone(karpenter: Karpenter, pods: str) -> None:
    karpenter.plane.apply(node_pool("taken", capacity_types=["spot"]))
    karpenter.plane.apply(gpu_pod("chat", pods, "taken"))
    wait_running(karpenter, pods, "chat")
    (node,) = karpenter.nodes("taken")
    (claim,) = karpenter.claims("taken")
    name = claim["metadata"]["name"]
    karpenter.plane.call("DELETE", f"{CLAIMS}/{name}")
    wait_for(lambda: "karpenter.sh/disrupted" in _taints(karpenter, node), SLACK_S, "the taint")
    wait_for(lambda: not karpenter.nodes("taken") and not karpenter.claims("taken"), SLACK_S, "the node to go")


def test_a_node_that_does_not_join_leaves_a_claim_that_is_launched_and_no_more(karpenter: Karpenter, pods: str) -> None:
    """Karpenter gives it up after a quarter of an hour, which is more than a test has."""
    karpenter.plane.apply({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "never"},
        "spec": {"nodeRegistrationDelay": "2h"},
    })  # fmt: skip
    absent = node_pool("absent")
    absent["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "never"
    karpenter.plane.apply(absent)
    karpenter.plane.apply(gpu_pod("chat", pods, "absent"))
    wait_for(lambda: _is(karpenter, "absent", "Launched"), SLACK_S, "a launched claim")
    (claim,) = karpenter.claims("absent")
    assert condition(claim, "Registered")["status"] == "Unknown"
    assert karpenter.nodes("absent") == []
    joined = node_pool("joined")
    karpenter.plane.apply(joined)
    karpenter.plane.apply(gpu_pod("other", pods, "joined"))
    wait_running(karpenter, pods, "other")

    def word(pool: str) -> dict[str, Any]:
        return condition(karpenter.plane.call("GET", f"{NODE_POOLS}/{pool}"), "NodeRegistrationHealthy")

    wait_for(lambda: word("joined").get("status") == "True", SLACK_S, "Karpenter's word of nodes that join")
    assert word("absent").get("status") != "True"


def _waits_for(karpenter: Karpenter, pool: str) -> str:
    """Why a claim of a pool is not initialized; empty before it was registered."""
    registered = [one for one in karpenter.claims(pool) if condition(one, "Registered").get("status") == "True"]
    return next((str(condition(one, "Initialized").get("reason", "")) for one in registered), "")


def _is(karpenter: Karpenter, pool: str, kind: str) -> bool:
    return any(condition(claim, kind).get("status") == "True" for claim in karpenter.claims(pool))


def _shortages(karpenter: Karpenter, pool: str) -> list[dict[str, Any]]:
    found = karpenter.events("NodeClaim", "InsufficientCapacityError")
    ours = [event for event in found if event["involvedObject"]["name"].startswith(f"{pool}-")]
    return sorted(ours, key=lambda event: str(event["metadata"]["creationTimestamp"]))


def _taints(karpenter: Karpenter, node: dict[str, Any]) -> list[str]:
    found = karpenter.plane.call("GET", f"/api/v1/nodes/{node['metadata']['name']}")
    return [taint["key"] for taint in found["spec"].get("taints", ())]
