"""Every intent as the request it becomes: bare pods of the restricted kind, uids on deletions, safe fields only."""

import json
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.pods import Taint
from autoscaler.adapters.kube.pool_slot_pod import slot_pod
from autoscaler.adapters.kube.pool_writer import Became, PoolWriter
from autoscaler.core.pool.intents import (
    CreateNodePool,
    CreateSlot,
    DeleteClaim,
    DeleteSlot,
    Intent,
    MarkNodeEnds,
    MarkSlot,
    PatchNodePool,
)
from autoscaler.core.pool.params import CapacityType
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.ports import Fault
from autoscaler.runtime.clock import WallClock
from tests.kube.pools import MAKING, Server, errand

CREATE = CreateSlot("chat-0", "first", "gpu", None, "c1", 3600.4, PoolReason.REFILL)
DELETE = DeleteSlot("chat-0", "uid-0", PoolReason.SURPLUS)
CLAIM = DeleteClaim("gpu-abcde", "uid-c", "gpu", PoolReason.LATE_GPU)
SLOTS = "/api/v1/namespaces/slots/pods"


def writer(server: Server, *, may_write: bool = True, node: str = "") -> PoolWriter:
    taints = (Taint("team", "ml", "NoSchedule"),)
    return PoolWriter(
        server, WallClock(), MAKING, may_write=lambda: may_write, taints_of=lambda _: taints, node_of=lambda _: node
    )


async def carried_out(intent: Intent, server: Server | None = None, node: str = "", **spec: Any) -> Server:
    server = server or Server()
    outcome = await writer(server, node=node).carry_out(intent, errand(**spec))
    assert outcome.became is Became.DONE, outcome.words
    return server


def made(**spec: Any) -> dict[str, Any]:
    pod = slot_pod(CREATE, errand(**spec), MAKING, ())
    found: dict[str, Any] = pod["spec"]
    return found


async def test_a_pod_of_a_pool_that_cannot_be_read_is_deleted_by_name_and_uid_or_the_refusal_is_told() -> None:
    server = Server()
    assert (await writer(server).delete(DELETE)).became is Became.DONE
    assert server.requests == [("DELETE", f"{SLOTS}/chat-0", {"preconditions": {"uid": "uid-0"}})]
    server.faults = [KubeError(Fault.DENIED, "403", status=403)]
    assert (await writer(server).delete(DELETE)).became is Became.REFUSED


async def test_a_slot_is_a_bare_pod_of_the_pools_own_by_name_label_and_owner() -> None:
    ((method, path, pod),) = (await carried_out(CREATE)).requests
    assert (method, path) == ("POST", SLOTS)
    assert pod["metadata"]["name"] == "chat-0"
    assert pod["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat", "headroom.dev/tier": "first",
    }  # fmt: skip
    assert pod["metadata"]["annotations"] == {"headroom.dev/content": "c1"}
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("WarmPool", "pool-uid", True)
    spec = pod["spec"]
    assert (spec["priorityClassName"], spec["terminationGracePeriodSeconds"]) == ("headroom-slot", 0)
    assert spec["activeDeadlineSeconds"] == 3600
    assert spec["nodeSelector"] == {"karpenter.sh/nodepool": "gpu"}
    assert spec["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "ScheduleAnyway"
    assert {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"} in spec["tolerations"]
    assert not any("key" not in toleration for toleration in spec["tolerations"]), "never of every taint"


async def test_a_slot_says_that_its_node_ends_and_one_that_is_made_apart_goes_on_no_node_with_such_a_slot() -> None:
    ((method, path, patch),) = (await carried_out(MarkNodeEnds("chat-0", "uid-0", PoolReason.RETIRED))).requests
    assert (method, path) == ("PATCH", f"{SLOTS}/chat-0")
    assert patch == {"metadata": {"uid": "uid-0", "labels": {"headroom.dev/node-ends": "true"}}}
    assert "affinity" not in made()
    apart = slot_pod(replace(CREATE, apart=True), errand(), MAKING, ())["spec"]["affinity"]["podAntiAffinity"]
    (term,) = apart["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {
        "labelSelector": {
            "matchLabels": {"app.kubernetes.io/managed-by": "headroom"},
            "matchExpressions": [{"key": "headroom.dev/node-ends", "operator": "Exists"}],
        },
        "topologyKey": "kubernetes.io/hostname",
    }


async def test_a_slot_for_a_zone_is_pinned_to_it() -> None:
    pinned = CreateSlot("chat-0", "first", "gpu", "b", "c1", 3600.0, PoolReason.REFILL)
    spec = slot_pod(pinned, errand(), MAKING, ())["spec"]
    assert spec["nodeSelector"]["topology.kubernetes.io/zone"] == "b"
    assert "topologySpreadConstraints" not in spec


def test_a_slot_pulls_each_image_once_fetches_weights_and_then_holds_its_gpus() -> None:
    models = [
        {"name": "chat", "image": "r.example.com/vllm:v1", "weights": "hf://example/chat"},
        {"name": "code", "image": "r.example.com/vllm:v1", "weights": "s3://models/code"},
        {"name": "small", "image": "r.example.com/other:v1"},
    ]
    spec = made(models=models, cache={"hostPath": "/nvme", "mountPath": "/mnt/cache"})
    names = [(c["name"], c["image"]) for c in spec["initContainers"]]
    assert names == [
        ("pull-0", "r.example.com/vllm:v1"), ("pull-1", "r.example.com/other:v1"), ("fetch-0", "fetch:1"),
        ("fetch-1", "fetch:1"),
    ]  # fmt: skip
    assert spec["initContainers"][2]["args"] == ["hf://example/chat", "/mnt/cache/chat"]
    assert spec["initContainers"][3]["args"] == ["s3://models/code", "/mnt/cache/code"]
    (hold,) = spec["containers"]
    assert (hold["image"], hold["resources"]["limits"]) == ("pause:1", {"nvidia.com/gpu": "2"})


def test_a_slot_is_within_the_restricted_standard_but_for_its_cache() -> None:
    spec = made()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert "envFrom" not in container
    assert [volume["name"] for volume in spec["volumes"]] == ["headroom-cache"]
    assert made(cache={"claim": "weights"})["volumes"][0]["persistentVolumeClaim"] == {"claimName": "weights"}
    assert "volumes" not in made(cache=None, models=[{"name": "chat", "image": "r.example.com/vllm:v1"}])


async def test_deletions_name_the_uid_and_a_pod_that_is_gone_is_no_trouble() -> None:
    server = Server()
    server.faults = [KubeError(Fault.INVALID, "conflict", status=409), KubeError(Fault.INVALID, "gone", status=404)]
    for _ in range(3):
        await carried_out(DELETE, server)
    assert server.requests == [("DELETE", f"{SLOTS}/chat-0", {"preconditions": {"uid": "uid-0"}})] * 3


async def test_a_slot_that_is_there_already_is_not_made_twice() -> None:
    server = Server()
    server.faults = [KubeError(Fault.INVALID, "it is there", status=409, reason="AlreadyExists")]
    await carried_out(CREATE, server)
    assert len(server.requests) == 1


async def test_a_slot_that_a_contended_quota_turned_away_was_not_made() -> None:
    server = Server()
    words = "409 Conflict: Operation cannot be fulfilled on resourcequotas gpus: the object has been modified"
    server.faults = [KubeError(Fault.INVALID, words, status=409, reason="Conflict")]
    outcome = await writer(server).carry_out(CREATE, errand())
    assert (outcome.became, outcome.words) == (Became.REFUSED, words)


async def test_a_mark_is_written_onto_the_pod_that_was_seen_and_taken_away_again() -> None:
    server = await carried_out(MarkSlot("chat-0", "uid-0", "prod/chat", PoolReason.LEASED))
    await carried_out(MarkSlot("chat-0", "uid-0", None, PoolReason.LEASE_ENDED), server)
    (_, path, marked), (_, _, cleared) = server.requests
    assert path == f"{SLOTS}/chat-0"
    assert marked["metadata"]["uid"] == "uid-0"
    assert marked["metadata"]["annotations"]["headroom.dev/lease"] == "prod/chat"
    assert float(marked["metadata"]["annotations"]["headroom.dev/leased-at"]) > 0
    assert cleared["metadata"]["annotations"] == {"headroom.dev/lease": None, "headroom.dev/leased-at": None}


async def test_a_claim_goes_only_after_one_more_look_at_its_node() -> None:
    server = Server()
    slot = {"metadata": {"name": "chat-0", "namespace": "slots", "labels": {
        "app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat"}}}  # fmt: skip
    daemon = {"metadata": {"name": "d", "ownerReferences": [{"kind": "DaemonSet", "controller": True}]}}
    server.body = json.dumps({"items": [slot, daemon]}).encode()
    await carried_out(CLAIM, server, node="n0")
    (listed, _, _), (method, path, body) = server.requests
    assert (listed, server.queries[0]) == ("GET", {"fieldSelector": "spec.nodeName=n0"})
    assert (method, path) == ("DELETE", "/apis/karpenter.sh/v1/nodeclaims/gpu-abcde")
    assert body == {"preconditions": {"uid": "uid-c"}}


async def test_a_claim_whose_node_runs_somebody_elses_pod_stays() -> None:
    server = Server()
    server.body = json.dumps({"items": [{"metadata": {"name": "theirs", "namespace": "prod"}}]}).encode()
    outcome = await writer(server, node="n0").carry_out(CLAIM, errand())
    assert outcome.became is Became.REFUSED
    assert "prod/theirs runs on n0; the node is left alone" in outcome.words
    assert [method for method, _, _ in server.requests] == ["GET"]


async def test_a_claim_goes_though_pods_that_have_ended_are_still_named_with_its_node() -> None:
    """As a Job's are for as long as it is there; its slots went, and nobody would name the claim again."""
    server = Server()
    pods = [{"metadata": {"name": f"job-{at}", "namespace": "prod"}, "status": {"phase": phase}}
            for at, phase in enumerate(("Succeeded", "Failed"))]  # fmt: skip
    server.body = json.dumps({"items": pods}).encode()
    await carried_out(CLAIM, server, node="n0")
    assert [method for method, _, _ in server.requests] == ["GET", "DELETE"]


async def test_a_claim_whose_node_has_a_slot_of_another_pool_stays() -> None:
    server = Server()
    slot = {"metadata": {"name": "bulk-0", "namespace": "slots", "labels": {
        "app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "bulk"}}}  # fmt: skip
    server.body = json.dumps({"items": [slot]}).encode()
    outcome = await writer(server, node="n0").carry_out(CLAIM, errand())
    assert outcome.became is Became.REFUSED
    assert "slots/bulk-0 runs on n0; the node is left alone" in outcome.words


MANAGED: dict[str, Any] = {
    "managed": True,
    "tiers": [
        {"name": "first", "shape": "h100", "zones": ["a", "b"], "instanceTypes": ["p5.48xlarge", "p5e.48xlarge"],
         "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}},
    ],
}  # fmt: skip
MAKE = CreateNodePool("chat-first", "first", CapacityType.SPOT, 16, 2, PoolReason.NODE_POOL_MISSING)
PATCH = PatchNodePool("chat-first", 8, None, 0, PoolReason.LIMITS)


async def test_a_node_pool_is_made_whole_held_against_drift_and_limited() -> None:
    server = await carried_out(MAKE, **MANAGED)
    ((method, path, pool),) = server.requests
    assert (method, path) == ("PATCH", "/apis/karpenter.sh/v1/nodepools/chat-first")
    assert server.queries == [{"fieldManager": "headroom", "force": "false"}]
    assert server.kinds == ["application/apply-patch+yaml"]
    spec, template = pool["spec"], pool["spec"]["template"]["spec"]
    assert spec["limits"] == {"nvidia.com/gpu": "16", "nodes": "2"}
    assert {"nodes": "0", "reasons": ["Drifted"]} in spec["disruption"]["budgets"]
    assert spec["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert template["expireAfter"] == "Never"
    assert {r["key"]: r["values"] for r in template["requirements"]} == {
        "karpenter.sh/capacity-type": ["spot"], "topology.kubernetes.io/zone": ["a", "b"],
        "node.kubernetes.io/instance-type": ["p5.48xlarge", "p5e.48xlarge"],
    }  # fmt: skip
    assert pool["metadata"]["labels"]["headroom.dev/pool"] == "chat"


async def test_an_edit_has_the_safe_fields_and_never_the_template() -> None:
    server = await carried_out(PATCH, **MANAGED)
    ((_, _, pool),) = server.requests
    assert server.queries == [{"fieldManager": "headroom-limits", "force": "true"}]
    assert set(pool["spec"]) == {"limits", "disruption"}
    assert set(pool["spec"]["disruption"]) == {"budgets"}
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": "8"}


async def test_a_limit_that_its_tier_has_not_is_taken_away_whoever_set_it() -> None:
    """Applying an object without it takes away nothing that another field manager has set."""
    lift = replace(PATCH, lifts_nodes=True)
    server = await carried_out(lift, **MANAGED)
    (method, path, gone), (_, _, applied) = server.requests
    assert (method, path) == ("PATCH", "/apis/karpenter.sh/v1/nodepools/chat-first")
    assert gone == {"spec": {"limits": {"nodes": None}}}
    assert server.kinds == ["application/merge-patch+json", "application/apply-patch+yaml"]
    assert applied["spec"]["limits"] == {"nvidia.com/gpu": "8"}


@pytest.mark.parametrize(
    ("error", "became"),
    [
        pytest.param(KubeError(Fault.TIMEOUT, "no answer"), Became.UNKNOWN, id="no answer"),
        pytest.param(KubeError(Fault.UNAVAILABLE, "504", status=504), Became.UNKNOWN, id="a server that gave up"),
        pytest.param(KubeError(Fault.UNAVAILABLE, "429", status=429), Became.REFUSED, id="too many requests"),
        pytest.param(KubeError(Fault.DENIED, "403", status=403), Became.REFUSED, id="no right"),
        pytest.param(KubeError(Fault.INVALID, "422", status=422), Became.REFUSED, id="an admission policy"),
    ],
)
async def test_no_answer_is_unknown_and_a_no_is_a_refusal(error: KubeError, became: Became) -> None:
    server = Server()
    server.faults = [error]
    outcome = await writer(server).carry_out(CREATE, errand())
    assert (outcome.became, outcome.words, outcome.sent) == (became, str(error), True)


async def test_a_request_that_never_left_is_no_doubt() -> None:
    unsent = KubeError(Fault.UNAVAILABLE, "no connection")
    unsent.sent = False
    server = Server()
    server.faults = [unsent]
    outcome = await writer(server).carry_out(DELETE, errand())
    assert (outcome.became, outcome.sent) == (Became.REFUSED, False)


@pytest.mark.parametrize("intent", [CREATE, DELETE, CLAIM, PATCH, MAKE], ids=lambda intent: type(intent).__name__)
async def test_without_the_lead_nothing_leaves(intent: Intent) -> None:
    server = Server()
    outcome = await writer(server, may_write=False).carry_out(intent, errand(**MANAGED))
    assert outcome.became is Became.REFUSED, "and not unknown: it is certain that nothing was written"
    assert server.requests == []
