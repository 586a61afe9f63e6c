"""Targets that others touch: made anew, edited by hand, bounded by a namespace, scaled by somebody else as well."""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pytest

from tests.cluster.controller import ACCOUNT
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import FLOOD, QUEUE, QUIET, Scene
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

PAGE_S: Final = 1.0
"""Between two looks at a page."""

SCALED_OBJECTS: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject"},
        "versions": [
            {
                "name": "v1alpha1", "served": True, "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}  # fmt: skip
"""As much of KEDA's definition as it takes to make one."""


@pytest.fixture(scope="module")
def scene(plane: Plane) -> Iterator[Scene]:
    plane.apply(SCALED_OBJECTS)
    plane.kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=30s")
    with Scene.begin(plane, "targets", namespaces=3) as made:
        yield made
    plane.kubectl("delete", "crd", "scaledobjects.keda.sh", "--wait=false")


def test_the_first_request_after_idleness_wakes_within_a_second_of_its_page(scene: Scene) -> None:
    service, ips = scene.serve("idle", 1, max_replicas="4")
    scene.engines.of_all(ips, waiting=0.0, running=0.0, rps=0.0)
    wait_for(lambda: len(scene.decided(service)) > 4, 60, "some decisions on idleness")
    seen = len(scene.decided(service))
    wait_for(lambda: len(scene.decided(service)) > seen, 15, "one more, after which nothing is due for a tick")
    waits_s = time.time()
    scene.engines.of_all(ips, waiting=30.0, running=8.0)
    wait_for(lambda: service.replicas() > 1, 15, "growth")
    wait_for(lambda: _applied(scene, service), 5, "the record of it")
    act = _applied(scene, service)[0]
    assert act["now_s"] - act["decided_s"] < 1.0, "from the page to the patch"
    assert act["now_s"] - waits_s < PAGE_S + 1.0 + 0.5, "from the request; half a second is a loaded machine's"


def test_a_target_made_anew_is_scaled_and_the_old_one_is_not_written_to(scene: Scene) -> None:
    service, ips = scene.serve("phoenix", max_replicas="8")
    old = scene.plane.call("GET", service.path)["metadata"]["uid"]
    scene.engines.of_all(ips, **QUEUE)
    wait_for(lambda: service.replicas() > 2, 30, "growth of the first")
    scene.plane.kubectl("-n", service.namespace, "delete", service.kind.lower(), service.name, "--wait")
    scene.engines.figures.clear()  # the new pods may be given the old ones' addresses
    made_anew_s = time.time()
    again, ips = scene.serve("phoenix", max_replicas="8")
    assert again.replicas() == 2, "nothing of the first one's need is carried over"
    scene.engines.of_all(ips, **QUEUE)
    wait_for(lambda: again.replicas() > 2, 20, "growth of the second")
    new = scene.plane.call("GET", again.path)["metadata"]["uid"]
    tested = [
        (_instant_s(entry), operation["value"])
        for entry in scene.plane.audited(verb="patch", resource="deployments/scale", user=ACCOUNT)
        if entry["objectRef"]["name"] == "phoenix"
        for operation in entry["requestObject"]
        if operation["path"] == "/metadata/uid"
    ]
    assert {uid for at_s, uid in tested if at_s > made_anew_s} == {new}
    assert {uid for _, uid in tested} == {old, new}
    assert not again.shrinks()


def test_a_hand_edit_is_noted_and_not_fought(scene: Scene) -> None:
    service, ips = scene.serve("edited", max_replicas="4")
    scene.engines.of_all(ips, **FLOOD)
    wait_for(lambda: service.replicas() == 4, 30, "the policy's maximum")
    patched = len(service.counts())
    service.edit(2)
    wait_for(lambda: "somebody else set 4→2" in _noted(scene, service), 10, "a note of the edit")
    wait_for(lambda: scene.condition(service, "Active") == ("False", "Edited"), 60, "a word about the edit")
    assert "somebody else set 4→2" in scene.explained(service)
    time.sleep(10)
    assert service.replicas() == 2
    assert len(service.counts()) == patched


def test_pods_that_a_rolling_update_adds_are_no_replicas_and_no_edit(scene: Scene) -> None:
    """The new version does not become ready, so that pods of both are there for long."""
    service, ips = scene.serve("rolled", max_replicas="4")
    scene.engines.of_all(ips, **FLOOD)
    wait_for(lambda: service.replicas() == 4, 30, "the policy's maximum")
    scene.engines.of_all(service.wait_ready(4), **FLOOD)  # whichever pods the update keeps
    before = service.counts()
    hold = {"spec": {"template": {"metadata": {"annotations": {"stage.headroom.dev/hold": "ready"}}}}}
    scene.plane.call("PATCH", service.path, hold, "application/merge-patch+json")
    wait_for(lambda: len(service.pods()) > 4, 20, "the pods of both versions")
    seen = len(scene.decided(service))
    wait_for(lambda: len(scene.decided(service)) > seen + 3, 60, "decisions meanwhile")
    # Beside the maximum it may say that the update's pods are late, which leads the words then.
    words = "the policy's maximum is 4"
    wait_for(lambda: words in scene.message(service, "ScalingLimited"), 40, "a word about the maximum")
    assert scene.condition(service, "ScalingLimited")[0] == "True"
    assert service.counts() == before
    assert scene.condition(service, "Active")[0] == "True"


def test_a_quota_of_the_namespace_bounds_the_count(scene: Scene) -> None:
    quota = {"hard": {"requests.nvidia.com/gpu": "3"}}
    scene.plane.apply(_object(scene.namespace, "v1", "ResourceQuota", "gpus", quota))
    service, ips = scene.serve("bounded", max_replicas="12", gpus=1)
    scene.engines.of_all(ips, **FLOOD)
    wait_for(lambda: service.replicas() == 3, 30, "as many as the quota lets in")
    wait_for(lambda: scene.condition(service, "ScalingLimited") == ("True", "Quota"), 60, "a word about the quota")
    assert service.replicas() == 3
    scene.plane.kubectl("-n", scene.namespace, "delete", "resourcequota", "gpus")
    wait_for(lambda: service.replicas() > 3, 60, "growth without it")


def test_a_limit_range_that_admits_no_more_pods_stops_growth(scene: Scene) -> None:
    limited = scene.others[0]
    service, ips = scene.serve("narrow", namespace=limited, max_replicas="12", gpus=2)
    limits = {"limits": [{"type": "Container", "max": {"nvidia.com/gpu": "1"}}]}
    scene.plane.apply(_object(limited, "v1", "LimitRange", "one-gpu", limits))
    scene.engines.of_all(ips, **FLOOD)
    wait_for(lambda: scene.condition(service, "ScalingLimited") == ("True", "Quota"), 30, "a word about the range")
    assert service.replicas() == 2
    scene.plane.kubectl("-n", limited, "delete", "limitrange", "one-gpu")
    wait_for(lambda: service.replicas() > 2, 60, "growth without it")


HPA: Final = {"minReplicas": 2, "maxReplicas": 9}
TRIGGER: Final = {"type": "cron", "metadata": {"timezone": "UTC", "start": "0 1 * * *", "end": "0 2 * * *"}}


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("autoscaling/v2", "HorizontalPodAutoscaler", HPA),
        ("keda.sh/v1alpha1", "ScaledObject", {"triggers": [TRIGGER]}),
    ],
    ids=["hpa", "scaled-object"],
)
def test_another_scaler_of_the_same_target_is_told_and_not_fought(
    scene: Scene, version: str, kind: str, spec: dict[str, Any]
) -> None:
    name = f"shared-{kind.lower()}"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    scene.plane.apply(_object(scene.namespace, version, kind, "other", {**spec, "scaleTargetRef": target}))
    service, ips = scene.serve(name, max_replicas="6")
    scene.engines.of_all(ips, **QUEUE)
    wait_for(lambda: any(d["verdict"] == "SCALE" for d in scene.decided(service)), 30, "a decision to scale")
    assert f"obstacle: {kind} other sets its replicas too" in scene.explained(service)
    assert scene.condition(service, "Active") == ("False", kind)
    assert service.counts() == []
    scene.plane.kubectl("-n", scene.namespace, "delete", kind.lower(), "other")
    wait_for(lambda: service.replicas() > 2, 20, "growth once it is gone")


def test_the_same_name_in_two_namespaces_is_two_workloads(scene: Scene) -> None:
    loaded, ips = scene.serve("twin", max_replicas="6")
    quiet, _ = scene.serve("twin", namespace=scene.others[1], max_replicas="6")
    scene.engines.of_all(ips, **QUEUE)
    wait_for(lambda: loaded.replicas() > 2, 30, "growth of the loaded one")
    assert quiet.counts() == []
    wait_for(lambda: scene.row(loaded)["queue"] >= 2 * QUEUE["waiting"], 20, "the queue of the loaded one")
    assert scene.row(quiet)["queue"] == QUIET["waiting"]


def _object(namespace: str, version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _applied(scene: Scene, service: Service) -> list[dict[str, Any]]:
    return [act for act in scene.acts(service) if act["outcome"] == "applied"]


def _noted(scene: Scene, service: Service) -> str:
    lines = scene.controller.journal()
    return "\n".join(str(line.get("message")) for line in lines if line.get("workload") == service.workload)


def _instant_s(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
