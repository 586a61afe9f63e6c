"""Warm slots on a real control plane, without Karpenter: made, warmed, given up to a replica, replaced and taken away.

Nodes are KWOK's; how long an init container takes is an input, no measurement.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.capacity.karpenter import STAGES, gpu_pod
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import ACCOUNT, NAMESPACE, Controller
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane, RefusedError
from tests.cluster.processes import wait_for
from tests.cluster.rights_used import judged
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

SLOTS: Final = "/api/v1/namespaces/headroom-slots/pods"
POOLS: Final = "/apis/headroom.dev/v1alpha1/warmpools"
CLASS: Final = "/apis/scheduling.k8s.io/v1/priorityclasses/headroom-slot"
MERGE: Final = "application/merge-patch+json"
SETTINGS: Final[dict[str, Any]] = {
    "warm_pools": {"enabled": True, "registries": ["registry.example.com"]},
    "shapes": {"h100": {"sku": "h100"}},
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Two nodes of one NodePool, four GPUs each."""
    with Plane(tmp_path_factory.mktemp("slots"), nodes=2, gpus=4, stages=[STAGES]) as made:
        install(made)
        apply_file(made, CONFIG / "rbac" / "warm-pools")
        for node in ("gpu-0", "gpu-1"):
            made.kubectl("label", "node", node, "karpenter.sh/nodepool=gpu", "topology.kubernetes.io/zone=a")
        yield made


@pytest.fixture(scope="module", autouse=True)
def _rights(request: pytest.FixtureRequest, plane: Plane) -> Iterator[None]:
    yield from judged(request, plane, "warm-pools")


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    with Controller(plane, **SETTINGS) as made:
        made.wait_leading()
        yield made


@pytest.fixture
def pool(plane: Plane, controller: Controller) -> str:
    """A pool of three slots of two GPUs each, all warm."""
    plane.apply(warm_pool())
    wait_for(lambda: _counts(plane) == (3, 3, 0), 90, f"three warm slots\n{controller.words()[-2000:]}")
    return "chat"


def warm_pool(**fields: Any) -> dict[str, Any]:
    model = {"name": "chat", "image": "registry.example.com/vllm:v1", "weights": "hf://example/chat"}
    spec = {
        "tiers": [{"name": "first", "shape": "h100", "nodePoolRef": "gpu"}], "slot": {"count": 2}, "models": [model],
        "cache": {"hostPath": "/var/lib/headroom/cache"}, "minSlots": 3, "maxSlots": 3, **fields,
    }  # fmt: skip
    return {
        "apiVersion": "headroom.dev/v1alpha1", "kind": "WarmPool", "metadata": {"name": "chat"}, "spec": spec,
    }  # fmt: skip


def slots(plane: Plane) -> list[dict[str, Any]]:
    """Our slots that are not going away."""
    items: list[dict[str, Any]] = plane.call("GET", SLOTS)["items"]
    return [
        pod for pod in items
        if "deletionTimestamp" not in pod["metadata"] and "headroom.dev/pool" in pod["metadata"].get("labels", {})
    ]  # fmt: skip


def uids(plane: Plane) -> set[str]:
    return {pod["metadata"]["uid"] for pod in slots(plane)}


def status(plane: Plane) -> dict[str, Any]:
    found: dict[str, Any] = plane.call("GET", f"{POOLS}/chat").get("status", {})
    return found


def condition(plane: Plane, kind: str) -> tuple[str, str]:
    """Status and message of a condition; empty while there is none."""
    found: dict[str, str] = next((c for c in status(plane).get("conditions", ()) if c["type"] == kind), {})
    return found.get("status", ""), found.get("message", "")


def events(plane: Plane) -> set[str]:
    items = plane.call("GET", "/api/v1/namespaces/default/events")["items"]
    return {event["reason"] for event in items if event["involvedObject"]["kind"] == "WarmPool"}


def test_a_pool_is_kept_at_its_minimum_and_tells_of_it(plane: Plane, controller: Controller, pool: str) -> None:
    made = slots(plane)
    assert {pod["metadata"]["name"] for pod in made} == {"chat-0", "chat-1", "chat-2"}
    for pod in made:
        spec = pod["spec"]
        assert (spec["priority"], spec["terminationGracePeriodSeconds"]) == (-10, 0)
        assert spec["automountServiceAccountToken"] is False
        assert 11_520 <= spec["activeDeadlineSeconds"] <= 14_400, "it ends by itself, also when nobody lives"
        assert [c["name"] for c in spec["initContainers"]] == ["pull-0", "fetch-0"]
        assert pod["metadata"]["ownerReferences"][0]["name"] == pool
    assert condition(plane, "Ready")[0] == condition(plane, "Acting")[0] == "True"
    assert {"SlotsOrdered"} <= events(plane)
    told = controller.get(f"/api/pools/{pool}")
    assert dict(told["stages"]) == {"weights_warm": 3}
    assert "a slot on a node that was there, h100 on-demand in a (sha256:registry.exa): warm after" in told["explained"]
    assert 'headroom_pool_warm_slots{pool="chat"} 3' in controller.get("/metrics")
    header, row = plane.kubectl("get", "hwp").splitlines()
    assert dict(zip(header.split(), row.split(), strict=False))["WARM"] == "3"


def test_a_replica_takes_the_place_of_one_slot_which_is_ordered_again(plane: Plane, pool: str) -> None:
    before, namespace = uids(plane), f"t-{uuid4().hex[:8]}"
    plane.kubectl("create", "namespace", namespace)
    try:
        plane.apply(deployment(namespace, "chat", 8000, replicas=1, gpus=4))
        wait_for(lambda: _ready(plane, namespace, "chat"), 60, "the replica to run")
        wait_for(lambda: len(uids(plane) & before) < 3, 60, "the scheduler to take a slot's place")
        wait_for(lambda: len(slots(plane)) == 3, 60, "the slot to be ordered again")
        wait_for(lambda: status(plane).get("warmSlots") == 2, 60, "a status of two warm slots")
        assert len(uids(plane) & before) == 2, "one slot gave way, and no more"
    finally:
        plane.kubectl("delete", "namespace", namespace, "--wait=false")
    wait_for(lambda: status(plane).get("warmSlots") == 3, 60, "three warm slots again")


def test_what_was_not_made_by_us_is_never_deleted(plane: Plane, pool: str) -> None:
    """Neither a pod that only carries the labels of the pool, nor one without them."""
    posing = slots(plane)[0]
    metadata = {"name": "posing", "namespace": "headroom-slots", "labels": posing["metadata"]["labels"]}
    spec = {key: value for key, value in posing["spec"].items() if key not in {"nodeName", "priority"}}
    plane.call("POST", SLOTS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    try:
        plane.call("PATCH", f"{POOLS}/chat", {"spec": {"minSlots": 1, "maxSlots": 1}}, MERGE)
        wait_for(lambda: {p["metadata"]["name"] for p in slots(plane)} >= {"posing"} and len(slots(plane)) == 2, 60,
                 "all but one slot to go")  # fmt: skip
        deleted = {entry["objectRef"]["name"] for entry in plane.audited(verb="delete", resource="pods", user=ACCOUNT)}
        assert "posing" not in deleted
        assert deleted
    finally:
        plane.call("DELETE", f"{SLOTS}/posing")


def test_a_filler_takes_the_place_of_a_slot_and_gives_way_to_what_serves_after_all_slots(
    plane: Plane, pool: str
) -> None:
    """The class that is installed for batch work that borrows; everybody wants a whole one of two nodes."""
    before, namespace = uids(plane), f"t-{uuid4().hex[:8]}"
    plane.kubectl("create", "namespace", namespace)

    def phase(name: str) -> str:
        items = plane.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return next((str(pod["status"].get("phase")) for pod in items if pod["metadata"]["name"] == name), "gone")

    try:
        plane.apply(gpu_pod("train", namespace, gpus=4, priorityClassName="headroom-slot-filler"))
        wait_for(lambda: phase("train") == "Running", 60, "the filler to run")
        assert plane.call("GET", f"/api/v1/namespaces/{namespace}/pods/train")["spec"]["priority"] == -5
        assert len(uids(plane) & before) == 2, "one slot gave way, and no more"
        plane.apply(gpu_pod("serve-0", namespace, gpus=4))
        wait_for(lambda: phase("serve-0") == "Running", 60, "the first replica to run")
        assert phase("train") == "Running", "slots go before fillers"
        plane.apply(gpu_pod("serve-1", namespace, gpus=4))
        wait_for(lambda: phase("serve-1") == "Running", 60, "the second replica to run")
        assert phase("train") != "Running", "the filler gave way"
    finally:
        plane.kubectl("delete", "namespace", namespace, "--wait=false")
    wait_for(lambda: _are_warm(plane, 3) and _counts(plane) == (3, 3, 0), 90, "three warm slots again", every_s=0.2)


def test_a_disruption_budget_over_slots_keeps_no_node_that_an_autoscaler_takes_away(plane: Plane, pool: str) -> None:
    """Who drains a node evicts, and a budget refuses that; slots are deleted by their owner, which no budget sees."""
    taint = "ToBeDeletedByClusterAutoscaler"
    plane.apply({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "headroom-slots"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"headroom.dev/pool": pool}}},
    })  # fmt: skip
    taken = slots(plane)[0]
    name, node = taken["metadata"]["name"], taken["spec"]["nodeName"]
    try:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        with pytest.raises(RefusedError) as refused:
            plane.call("POST", f"{SLOTS}/{name}/eviction", eviction)
        assert refused.value.status == 429
        plane.kubectl("taint", "node", node, f"{taint}=1:NoSchedule")
        wait_for(lambda: node not in {pod["spec"].get("nodeName") for pod in slots(plane)}, 60, "the node to be empty")
        wait_for(lambda: status(plane).get("warmSlots") == 2, 60, "as many as fit elsewhere", every_s=0.2)
    finally:
        plane.kubectl("delete", "pdb", "all", "-n", "headroom-slots")
        plane.kubectl("taint", "node", node, f"{taint}-", "--overwrite")
    wait_for(lambda: status(plane).get("warmSlots") == 3, 90, "three warm slots again", every_s=0.2)


def test_slots_leave_a_node_that_is_short_of_disk_for_their_images_may_be_gone(plane: Plane, pool: str) -> None:
    node = slots(plane)[0]["spec"]["nodeName"]

    def presses(status: str) -> None:
        condition = {"type": "DiskPressure", "status": status, "reason": "Test", "message": "by the test"}
        where = f"/api/v1/nodes/{node}/status"
        plane.call("PATCH", where, {"status": {"conditions": [condition]}}, "application/strategic-merge-patch+json")

    presses("True")
    try:
        wait_for(lambda: node not in {pod["spec"].get("nodeName") for pod in slots(plane)}, 60, "the node to be empty")
        told = {e["message"] for e in plane.call("GET", "/api/v1/namespaces/default/events")["items"]}
        assert not [words for words in told if "images or weights keep failing" in words]
    finally:
        presses("False")
    wait_for(lambda: _are_warm(plane, 3) and _counts(plane) == (3, 3, 0), 90, "three warm slots again", every_s=0.2)


def test_a_slot_on_a_node_that_ends_is_followed_by_one_elsewhere_though_there_is_room_beside_it(
    plane: Plane, controller: Controller, pool: str
) -> None:
    plane.call("PATCH", f"{POOLS}/{pool}", {"spec": {"minSlots": 1, "maxSlots": 1}}, MERGE)
    wait_for(lambda: _counts(plane) == (1, 1, 0), 60, "one warm slot")
    plane.call("PATCH", f"{POOLS}/{pool}", {"spec": {"maxSlots": 4}}, MERGE)
    (only,) = slots(plane)
    node, asked = only["spec"]["nodeName"], len(_created(plane))
    ends = (datetime.now(UTC) + timedelta(seconds=500)).isoformat()
    plane.kubectl("annotate", "node", node, f"headroom.dev/capacity-ends={ends}")
    try:
        wait_for(lambda: [p["spec"].get("nodeName") for p in slots(plane)] not in ([], [node]), 60, "a successor")
        wait_for(lambda: _counts(plane)[:2] == (1, 1) and len(slots(plane)) == 1, 90, "the old slot to go")
        (after,) = slots(plane)
        assert after["spec"]["nodeName"] not in {node, ""}, "two GPUs were free beside the slot"
        assert len(_created(plane)) == asked + 1, f"one slot was made, once\n{controller.words()[-2000:]}"
    finally:
        plane.kubectl("annotate", "node", node, "headroom.dev/capacity-ends-")
        plane.call("PATCH", f"{POOLS}/{pool}", {"spec": {"minSlots": 3, "maxSlots": 3}}, MERGE)
    wait_for(lambda: _counts(plane) == (3, 3, 0), 90, "three warm slots again")


def test_a_restart_finds_every_slot_again_and_makes_none_anew(plane: Plane, controller: Controller, pool: str) -> None:
    before = uids(plane)
    controller.stop()
    controller.start()
    controller.wait_leading()
    wait_for(lambda: controller.get("/api/pools"), 60, "a look at the pools")
    assert controller.get("/api/pools/chat")["warm"] == 3
    assert uids(plane) == before


def test_a_faulty_pool_says_field_value_and_remedy_and_its_slots_stay(plane: Plane, pool: str) -> None:
    before = uids(plane)
    tiers = [{"name": "first", "shape": "b200", "nodePoolRef": "gpu"}]
    plane.call("PATCH", f"{POOLS}/chat", {"spec": {"tiers": tiers}}, MERGE)
    wait_for(lambda: condition(plane, "Accepted")[0] == "False", 60, "a word about the shape")
    assert (
        "spec.tiers[0].shape: 'b200' is not among the administrator's shapes (h100)" in condition(plane, "Accepted")[1]
    )
    plane.apply(warm_pool(models=[{"name": "chat", "image": "elsewhere.example.com/vllm:v1"}]))
    wait_for(lambda: "no registry that slots may pull from" in condition(plane, "Accepted")[1], 60, "its registry")
    assert uids(plane) == before


def test_without_its_priority_class_no_slot_is_ordered_and_the_remedy_is_told(plane: Plane, pool: str) -> None:
    plane.call("DELETE", CLASS)
    wait_for(lambda: condition(plane, "PriorityUsable")[0] == "False", 60, "a word about the class")
    assert "does not exist; install it, its value is -10" in condition(plane, "PriorityUsable")[1]
    plane.call("PATCH", f"{POOLS}/chat", {"spec": {"minSlots": 4, "maxSlots": 4}}, MERGE)
    wait_for(lambda: status(plane).get("targetSlots") == 4, 60, "the new target")
    assert len(slots(plane)) == 3
    apply_file(plane, CONFIG / "rbac" / "warm-pools" / "priority-class.yaml")
    wait_for(lambda: status(plane).get("warmSlots") == 4, 60, "the fourth slot")


def test_a_freeze_stops_orders_and_is_told(plane: Plane, pool: str) -> None:
    plane.kubectl("-n", NAMESPACE, "create", "configmap", "headroom-freeze", "--from-literal=freeze=change of racks")
    try:
        wait_for(lambda: "change of racks" in condition(plane, "Acting")[1], 60, "a word about the freeze")
        plane.call("PATCH", f"{POOLS}/chat", {"spec": {"minSlots": 4, "maxSlots": 4}}, MERGE)
        wait_for(lambda: status(plane).get("targetSlots") == 4, 60, "the new target")
        assert len(slots(plane)) == 3
    finally:
        plane.kubectl("-n", NAMESPACE, "delete", "configmap", "headroom-freeze")
    wait_for(lambda: status(plane).get("warmSlots") == 4, 60, "the fourth slot")


CACHE: Final = {"name": "headroom-cache", "hostPath": {"path": "/var/lib/headroom/cache"}}
REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a folder of the node": ({"volumes": [CACHE, {"name": "root", "hostPath": {"path": "/"}}]}, "no volume but"),
    "a folder that is the node's own": (
        {"volumes": [{"name": "headroom-cache", "hostPath": {"path": "/etc/kubernetes"}}]},
        "no folder of the node's own",
    ),
    "a folder that is not for caches": (
        {"volumes": [{"name": "headroom-cache", "hostPath": {"path": "/mnt/cache"}}]},
        "warm_pools.cache_roots names",
    ),
    "a folder in another one's cache": (
        {"volumes": [{"name": "headroom-cache", "hostPath": {"path": "/var/lib/headroom/cache/link"}}]},
        "warm_pools.cache_roots names",
    ),
    "a token": ({"automountServiceAccountToken": True}, "no token of a service account"),
    "the node's network": ({"hostNetwork": True}, "share nothing with their node"),
    "root": ({"securityContext": {"runAsNonRoot": False}}, "run as nobody"),
}


@pytest.mark.parametrize(("fields", "words"), REFUSED.values(), ids=REFUSED)
def test_nothing_but_a_slot_is_admitted_where_slots_are(
    plane: Plane, pool: str, fields: dict[str, Any], words: str
) -> None:
    one = slots(plane)[0]
    spec = {key: value for key, value in one["spec"].items() if key not in {"nodeName", "priority"}} | fields
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": spec}
    with pytest.raises(RefusedError, match=words):
        plane.call("POST", f"{SLOTS}?dryRun=All", pod)


def test_slots_pull_with_the_secrets_of_the_default_account_of_their_namespace(plane: Plane, pool: str) -> None:
    account = "/api/v1/namespaces/headroom-slots/serviceaccounts/default"
    plane.call("PATCH", account, {"imagePullSecrets": [{"name": "registry"}]}, MERGE)
    old = slots(plane)[0]["metadata"]
    plane.call("DELETE", f"{SLOTS}/{old['name']}")

    def new() -> list[dict[str, Any]]:
        return [one for one in slots(plane) if one["spec"].get("imagePullSecrets")]

    wait_for(new, 60, "a slot that was made since")
    assert new()[0]["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    plane.call("PATCH", account, {"imagePullSecrets": None}, MERGE)


def test_slots_go_with_their_pool_and_nodes_stay(plane: Plane, pool: str) -> None:
    plane.call("DELETE", f"{POOLS}/chat")
    wait_for(lambda: not slots(plane), 60, "the slots to go")
    assert len(plane.call("GET", "/api/v1/nodes")["items"]) == 2


def _counts(plane: Plane) -> tuple[int | None, ...]:
    """Target, warm and starting slots as the status of the newest generation tells them."""
    found: dict[str, Any] = plane.call("GET", f"{POOLS}/chat")
    told = found.get("status", {})
    if told.get("observedGeneration") != found["metadata"]["generation"] or condition(plane, "Accepted")[0] != "True":
        return ()
    return told.get("targetSlots"), told.get("warmSlots"), told.get("startingSlots")


def _created(plane: Plane) -> list[str]:
    """The names of all pods that the controller ever made."""
    entries = plane.audited(verb="create", resource="pods", user=ACCOUNT)
    return [str(each["objectRef"].get("name")) for each in entries if each["responseStatus"]["code"] == 201]


def _are_warm(plane: Plane, number: int) -> bool:
    """Whether so many slots stand, and each of them is ready on a node."""
    pods = slots(plane)
    ready = [c for pod in pods for c in pod["status"].get("conditions", []) if c["type"] == "Ready"]
    return len(pods) == number and [c["status"] for c in ready] == ["True"] * number


def _ready(plane: Plane, namespace: str, app: str) -> bool:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}"
    conditions = [c for pod in plane.call("GET", path)["items"] for c in pod["status"].get("conditions", [])]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
