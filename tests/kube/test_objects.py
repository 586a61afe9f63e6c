"""The fields that are read: as Kubernetes writes them, as it leaves them out, and quantities as numbers."""

import tracemalloc
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.kube import objects
from autoscaler.adapters.kube.deletion_cost import COST
from autoscaler.adapters.kube.objects import (
    ConfigMap,
    Hpa,
    Lease,
    LimitRange,
    Node,
    Pod,
    Quota,
    ScaledObject,
    ScalingPolicyObject,
    Target,
    Vpa,
    quantity,
)
from autoscaler.adapters.kube.scaled_objects import PAUSES
from autoscaler.app.room import LWS_SIZE
from autoscaler.errors import InputError

KINDS = (Pod, Node, Target, Hpa, ScaledObject, Vpa, Quota, LimitRange, ConfigMap, Lease, ScalingPolicyObject)

POD = b"""{
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {
    "name": "chat-7d9-x2x", "namespace": "prod", "uid": "u1", "resourceVersion": "812", "generation": 1,
    "creationTimestamp": "2026-11-21T10:00:00Z", "deletionTimestamp": "2026-11-21T11:00:00Z",
    "labels": {"app": "chat"}, "annotations": {"headroom.dev/scale": "true"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-7d9", "uid": "u0",
                         "controller": true, "blockOwnerDeletion": true}],
    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
  },
  "spec": {
    "nodeName": "gpu-1", "terminationGracePeriodSeconds": 600, "priorityClassName": "critical",
    "containers": [{"name": "vllm", "image": "vllm", "ports": [{"name": "http", "containerPort": 8000}],
                    "resources": {"limits": {"nvidia.com/gpu": "2", "memory": "80Gi"}, "requests": {"cpu": "500m"}}},
                   {"name": "sidecar", "resources": {}}],
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]
  },
  "status": {
    "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
    "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastProbeTime": null,
                    "lastTransitionTime": "2026-11-21T10:05:00Z"},
                   {"type": "PodScheduled", "status": "True", "lastTransitionTime": null}],
    "containerStatuses": [{"name": "vllm", "ready": true, "restartCount": 3, "image": "vllm", "imageID": "sha256:ab",
                           "state": {"running": {"startedAt": "2026-11-21T10:01:00Z"}}, "lastState": {}},
                          {"name": "sidecar", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "x"}}}]
  }
}"""


def test_a_pod_is_read_as_the_api_server_writes_it() -> None:
    pod = msgspec.json.decode(POD, type=Pod)
    meta = pod.metadata
    assert (meta.key, meta.uid, meta.resource_version, meta.generation) == ("prod/chat-7d9-x2x", "u1", "812", 1)
    assert meta.creation_timestamp == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert meta.deletion_timestamp == datetime(2026, 11, 21, 11, tzinfo=UTC)
    assert (meta.labels, meta.annotations) == ({"app": "chat"}, {"headroom.dev/scale": "true"})
    [owner] = meta.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("ReplicaSet", "chat-7d9", "u0", True)
    assert (pod.spec.node_name, pod.spec.termination_grace_period_seconds) == ("gpu-1", 600)
    assert pod.spec.priority_class_name == "critical"
    serving, sidecar = pod.spec.containers
    assert (serving.ports[0].name, serving.ports[0].container_port) == ("http", 8000)
    assert serving.resources.limits == {"nvidia.com/gpu": "2", "memory": "80Gi"}
    assert serving.resources.requests == {"cpu": "500m"}
    assert (sidecar.ports, sidecar.resources.limits) == ((), {})
    assert (pod.status.phase, pod.status.pod_ip) == ("Running", "10.1.2.3")
    ready, scheduled = pod.status.conditions
    assert (ready.type, ready.status, ready.reason) == ("Ready", "False", "ContainersNotReady")
    assert ready.last_transition_time == datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
    assert scheduled.last_transition_time is None
    runs, waits = pod.status.container_statuses
    assert (runs.ready, runs.restart_count, runs.image_id) == (True, 3, "sha256:ab")
    assert runs.state.running is not None
    assert runs.state.running.started_at == datetime(2026, 11, 21, 10, 1, tzinfo=UTC)
    assert waits.state.waiting is not None
    assert (waits.ready, waits.state.waiting.reason) == (False, "CrashLoopBackOff")


OTHERS: dict[str, tuple[type, str, dict[str, Any]]] = {
    "a node": (
        Node,
        """{"spec": {"unschedulable": true, "taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"status": "Unknown"}]}}""",
        {"spec.unschedulable": True, "spec.taints.0.effect": "NoSchedule", "status.allocatable.nvidia.com/gpu": "8",
         "status.conditions.0.status": "Unknown"},
    ),
    "a Deployment": (
        Target,
        """{"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"},
                     "matchExpressions": [{"key": "t", "operator": "In", "values": ["x"]}]},
                     "template": {"metadata": {"creationTimestamp": null},
                     "spec": {"containers": [{"name": "c", "resources": {"limits": {"amd.com/gpu": 4}}}]}}},
            "status": {"replicas": 3, "readyReplicas": 2, "observedGeneration": 9}}""",
        {"spec.replicas": 0,
         "spec.template.spec.containers.0.resources.limits.amd.com/gpu": 4, "status.replicas": 3},
    ),
    "an Argo Rollout, whose controller writes the generation as text": (
        Target,
        """{"spec": {"replicas": 2, "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                     "strategy": {"canary": {"steps": [{"setWeight": 20}, {"pause": {}}]}}},
            "status": {"replicas": 2, "HPAReplicas": 2, "observedGeneration": "9", "selector": "app=a",
                       "canary": {}, "workloadObservedGeneration": "4"}}""",
        {"spec.replicas": 2, "spec.template": None, "status.replicas": 2},
    ),
    "a kind of one's own, whose labelSelectorPath is .spec.selector": (
        Target,
        '{"spec": {"replicas": 2, "selector": "app=a,tier!=test"}, "status": {"replicas": 2}}',
        {"spec.replicas": 2, "spec.template": None},
    ),
    "a LeaderWorkerSet": (
        Target,
        '{"spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 4}}, "status": {"hpaPodSelector": "a=b"}}',
        {"spec.replicas": 2, "spec.template": None, "status.replicas": None},
    ),
    "an HPA": (
        Hpa,
        """{"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": 9,
                     "metrics": [{"type": "External", "external": {"metric": {"name": "s0-x"},
                                  "target": {"type": "AverageValue", "averageValue": "1"}}}, {"type": "Resource"}],
                     "behavior": {"scaleUp": {"selectPolicy": "Max", "stabilizationWindowSeconds": 0,
                                  "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}], "tolerance": "0"}}},
            "status": {"currentReplicas": 2, "desiredReplicas": 4, "lastScaleTime": "2026-01-01T00:00:00Z",
                       "conditions": [{"type": "ScaledToZero", "status": "False"}]}}""",
        {"spec.scale_target_ref.api_version": "apps/v1", "spec.scale_target_ref.kind": "Deployment",
         "spec.min_replicas": None, "spec.max_replicas": 9, "spec.metrics.0.external.metric.name": "s0-x",
         "spec.metrics.0.external.target.average_value": "1", "spec.metrics.1.external": None,
         "spec.behavior.scale_up.policies.0.period_seconds": 15, "spec.behavior.scale_up.tolerance": "0",
         "spec.behavior.scale_down": None, "status.desired_replicas": 4, "status.conditions.0.type": "ScaledToZero"},
    ),
    "a ScaledObject": (
        ScaledObject,
        """{"spec": {"scaleTargetRef": {"name": "a"}, "minReplicaCount": 1,
                     "triggers": [{"type": "external", "metadata": {"scalerAddress": "headroom:6000"}}]}}""",
        {"spec.scale_target_ref.name": "a", "spec.scale_target_ref.kind": "", "spec.triggers.0.type": "external",
         "spec.triggers.0.metadata.scalerAddress": "headroom:6000"},
    ),
    "a VPA": (
        Vpa,
        '{"spec": {"targetRef": {"kind": "Deployment", "name": "a"}, "updatePolicy": {"updateMode": "Off"}}}',
        {"spec.target_ref.name": "a", "spec.update_policy.update_mode": "Off"},
    ),
    "a quota": (
        Quota,
        """{"spec": {"hard": {"requests.nvidia.com/gpu": "16"}},
            "status": {"hard": {"requests.nvidia.com/gpu": "16"}, "used": {"requests.nvidia.com/gpu": "12"}}}""",
        {"spec.hard.requests.nvidia.com/gpu": "16", "status.used.requests.nvidia.com/gpu": "12"},
    ),
    "a LimitRange": (
        LimitRange,
        '{"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "defaultRequest": {"cpu": "100m"}}]}}',
        {"spec.limits.0.type": "Container", "spec.limits.0.max.cpu": "2", "spec.limits.0.default_request.cpu": "100m"},
    ),
    "a ConfigMap": (ConfigMap, '{"data": {"a": "b"}, "binaryData": {"c": "AA=="}}', {"data": {"a": "b"}}),
    "a lease": (
        Lease,
        """{"spec": {"holderIdentity": "a", "leaseDurationSeconds": 10, "leaseTransitions": 4,
                     "acquireTime": "2026-11-21T10:00:00.000001Z", "renewTime": null}}""",
        {"spec.holder_identity": "a", "spec.lease_duration_seconds": 10, "spec.lease_transitions": 4,
         "spec.acquire_time": datetime(2026, 11, 21, 10, 0, 0, 1, tzinfo=UTC), "spec.renew_time": None},
    ),
    "a policy": (
        ScalingPolicyObject,
        '{"spec": {"minReplicas": 1}}',
        {"spec": msgspec.Raw(b'{"minReplicas": 1}'), "status": msgspec.Raw(b"{}")},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "want"), OTHERS.values(), ids=OTHERS)
def test_other_kinds_are_read_as_they_are_written(kind: type, text: str, want: dict[str, Any]) -> None:
    thing: Any = msgspec.json.decode(text, type=kind)
    assert {path: at(thing, path) for path in want} == want


def at(thing: Any, path: str) -> Any:
    """What stands at a path of fields, list positions and, last, one key of a mapping, dots and all."""
    while path:
        if isinstance(thing, dict):
            return thing[path]
        name, _, path = path.partition(".")
        thing = thing[int(name)] if name.isdecimal() else getattr(thing, name)
    return thing


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_empty_object_has_every_default(kind: type) -> None:
    assert msgspec.json.decode("{}", type=kind) == kind()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_objects_cannot_be_changed(kind: type) -> None:
    with pytest.raises(AttributeError):
        kind().metadata = None


def test_an_object_of_the_cluster_is_named_without_a_namespace() -> None:
    assert objects.Meta(name="gpu-1").key == "gpu-1"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0.0), ("1", 1.0), ("500m", 0.5), ("80Gi", 80 * 2.0**30), ("1.5Ki", 1536.0), ("2k", 2000.0), ("3M", 3e6),
        ("1e3", 1000.0), ("1E3", 1000.0), ("12E-1", 1.2), ("1E", 1e18), ("1Ei", 2.0**60), (".5", 0.5), ("5.", 5.0),
        ("-1", -1.0), ("+1", 1.0), ("100n", 1e-7), ("7u", 7e-6), (2, 2.0), (0.25, 0.25),
    ],
)  # fmt: skip
def test_a_quantity_is_a_number_of_its_base_unit(text: str | float, want: float) -> None:
    assert quantity(text) == pytest.approx(want)


@pytest.mark.parametrize(
    "text", ["", "m", "1 Gi", "1gi", "0x10", "1e", "--1", "NaN", "inf", "1e999", "1Gii", "١", "9" * 300 + "Ei"]
)
def test_what_is_no_quantity_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InputError, match="is no quantity"):
        quantity(text)


@given(st.text(max_size=12))
def test_any_text_is_a_finite_quantity_or_refused(text: str) -> None:
    try:
        number = quantity(text)
    except InputError:
        return
    assert abs(number) < float("inf")


@pytest.mark.parametrize("kind", [Pod, Target, Hpa, ScaledObject, Vpa, ScalingPolicyObject])
def test_an_object_costs_no_more_for_what_nobody_reads_of_it(kind: Any) -> None:
    """Four thousand Deployments without replicas and with a quarter of a megabyte of annotations were a gigabyte."""
    foreign = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 250_000}
    decoder = msgspec.json.Decoder(kind)
    tracemalloc.start()
    try:
        held = []
        for number in range(20):
            meta = {"name": f"chat-{number}", "annotations": foreign | {"headroom.dev/scale": "true"}}
            held.append(decoder.decode(msgspec.json.encode({"metadata": meta, "spec": {}})))
        spent_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert spent_bytes < 1_000_000
    assert [each.metadata.annotations for each in held] == [{"headroom.dev/scale": "true"}] * 20


def test_of_our_own_annotations_as_many_and_as_much_are_held_as_say_something() -> None:
    ours = {f"headroom.dev/key-{number}": "x" * 10_000 for number in range(1000)}
    found = msgspec.json.decode(msgspec.json.encode({"metadata": {"annotations": ours}}), type=Target)
    assert len(found.metadata.annotations) == 128
    assert {len(text) for text in found.metadata.annotations.values()} == {4096}


def test_every_annotation_that_is_read_of_a_pod_or_a_target_is_held() -> None:
    read = {COST: "7", LWS_SIZE: "4", "headroom.dev/mode": "Active", **dict.fromkeys(PAUSES, "true")}
    kinds: tuple[Any, ...] = (Pod, Target, ScaledObject)
    for kind in kinds:
        found = msgspec.json.decode(msgspec.json.encode({"metadata": {"annotations": read}}), type=kind)
        assert found.metadata.annotations == read
