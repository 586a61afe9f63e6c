"""A cluster that lacks something of ours, one verb or the custom resource, and what policies show while they work."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import pytest

from tests.cluster.conftest import CONFIG
from tests.cluster.controller import ACCOUNT, NAMESPACE
from tests.cluster.plane import Plane, RefusedError
from tests.cluster.processes import wait_for
from tests.cluster.scene import FLOOD, WITHIN_S, Scene, apply_file, policy
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

PROMPT_S: Final = 2.0 + 2.0
"""The promise for a pause or a freeze, and room for a loaded machine."""

QUIET_S: Final = 7.0
"""Longer than a tick: what would act has had its turn."""

MERGE: Final = "application/merge-patch+json"
ROLE: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles/headroom"


@pytest.fixture(scope="module")
def scene(plane: Plane) -> Iterator[Scene]:
    with Scene.begin(plane, "rights") as made:
        yield made


@contextmanager
def without(plane: Plane, verb: str, group: str, resource: str) -> Iterator[None]:
    """Take one verb on one resource from the controller's role for the block."""
    role = plane.call("GET", ROLE)
    rules = role["rules"]
    left: list[dict[str, Any]] = []
    for rule in rules:
        if group in rule["apiGroups"] and resource in rule["resources"]:
            others = [one for one in rule["resources"] if one != resource]
            left += [rule | {"resources": others}] if others else []
            verbs = [one for one in rule["verbs"] if one != verb]
            left += [rule | {"resources": [resource], "verbs": verbs}] if verbs else []
        else:
            left.append(rule)
    assert left != rules
    plane.call("PATCH", ROLE, {"rules": left}, MERGE)
    try:
        wait_for(lambda: not _may(plane, verb, group, resource), 10, f"the right to {verb} {resource} to go")
        yield
    finally:
        plane.call("PATCH", ROLE, {"rules": rules}, MERGE)


def test_a_verb_that_is_missing_is_told_and_stops_nobody_else_and_its_return_is_enough(scene: Scene) -> None:
    denied, its_ips = scene.serve("denied", max_replicas="6")
    allowed, other_ips = scene.serve("allowed", max_replicas="6", kind="StatefulSet")
    with without(scene.plane, "patch", "apps", "deployments/scale"):
        scene.engines.of_all(its_ips + other_ips, **FLOOD)
        wait_for(lambda: allowed.replicas() > 2, 20, "growth of the other kind")
        wait_for(lambda: scene.condition(denied, "Active") == ("False", "Refused"), 20, "a word about the refusal")
        assert 'cannot patch resource "deployments/scale"' in scene.explained(denied)
        assert f"{ACCOUNT} may not patch apps/deployments/scale, needed to change replica counts" in _failures(scene)
        wait_for(lambda: _event(denied, "ScalingFailed").get("count", 0) >= 2, 30, "one event that counts")
        assert denied.replicas() == 2
    wait_for(lambda: denied.replicas() > 2, WITHIN_S, "growth once the verb is there again")
    wait_for(lambda: scene.condition(denied, "Active")[0] == "True", 10, "no more word of it")
    assert scene.controller.returncode is None


def test_a_list_that_is_forbidden_at_the_start_is_done_without_and_told(own_plane: Plane) -> None:
    with ExitStack() as taken:
        taken.enter_context(without(own_plane, "list", "autoscaling", "horizontalpodautoscalers"))
        with Scene.begin(own_plane, "blind") as scene:
            service, ips = scene.serve("chat", max_replicas="6")
            scene.engines.of_all(ips, **FLOOD)
            wait_for(lambda: service.replicas() > 2, 20, "growth all the same")
            assert "done without: " in scene.explained(service)
            assert 'cannot list resource "horizontalpodautoscalers"' in scene.explained(service)
            needed = "may not list autoscaling/horizontalpodautoscalers, needed to leave targets of HPAs alone"
            assert f"{ACCOUNT} {needed}" in _failures(scene)
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
            own_plane.apply({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "other", "namespace": scene.namespace},
                "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9},
            })  # fmt: skip
            taken.close()
            wait_for(lambda: "HorizontalPodAutoscaler other" in scene.explained(service), WITHIN_S, "sight of the HPA")
            assert "done without" not in scene.explained(service)


@pytest.mark.slow
def test_without_the_custom_resource_annotations_work_and_it_is_found_once_it_is_there(own_plane: Plane) -> None:
    own_plane.kubectl("delete", "crd", "scalingpolicies.headroom.dev")
    with Scene.begin(own_plane, "bare") as scene:
        annotated, ips = scene.serve("annotated", max_replicas="6")
        scene.engines.of_all(ips, **FLOOD)
        wait_for(lambda: annotated.replicas() > 2, 20, "growth by annotation")
        assert scene.answer("/readyz")["status"] == "ok"
        service, ips = scene.serve("by-policy", asks=False, read=False)
        apply_file(own_plane, CONFIG / "crd")
        own_plane.kubectl("wait", "--for=condition=Established", "crd/scalingpolicies.headroom.dev", "--timeout=30s")
        own_plane.apply(policy(service, maxReplicas=6))
        wait_for(lambda: scene.row(service), 35 + WITHIN_S, "the policy")
        scene.engines.of_all(ips, **FLOOD)
        wait_for(lambda: service.replicas() > 2, 20, "growth by policy")
        wait_for(lambda: _status(service).get("desiredReplicas") == service.replicas(), 20, "its status")


def test_a_policy_shows_what_is_true_of_it_and_since_when(scene: Scene) -> None:
    service, ips = scene.serve("shown", asks=False, read=False)
    scene.plane.apply(policy(service, maxReplicas=6))
    wait_for(lambda: _since(service).get("SignalsFresh=True"), 30, "fresh signals in its status")
    before = _since(service)
    assert {name.partition("=")[0] for name in before} == {
        "Ready", "Active", "SignalsFresh", "ScalingLimited", "Paused", "Shadow",
    }  # fmt: skip
    scene.engines.of_all(ips, **FLOOD)
    wait_for(lambda: _status(service).get("desiredReplicas", 0) > 2, 30, "another figure in its status")
    wait_for(lambda: _overload(service).get("deficitReplicas", 0) > 0, 30, "an overload in its status")
    assert _overload(service).keys() >= {"deficitReplicas", "shedRatio", "retryAfterS", "expiresAt"}
    after = _since(service)
    assert {name: after[name] for name in before if name in after} == {n: s for n, s in before.items() if n in after}
    assert {"Ready=True", "Active=True", "Paused=False", "Shadow=False"} <= before.keys() & after.keys()
    header, row = scene.plane.kubectl("-n", service.namespace, "get", "hsp", "shown").splitlines()
    shown = dict(zip(header.split(), row.split(), strict=False))
    assert (shown["TARGET"], shown["MIN"], shown["MAX"], shown["MODE"]) == ("shown", "1", "6", "Active")
    assert int(shown["DESIRED"]) > 2
    scene.plane.call("PATCH", _path(service), {"spec": {"maxReplicas": 7}}, MERGE)
    wait_for(lambda: _generations(service) == {2}, 20, "conditions of the new generation")
    assert _status(service)["observedGeneration"] == 2
    with pytest.raises(RefusedError, match="minReplicas is above maxReplicas; lower the minimum or raise the maximum"):
        scene.plane.call("PATCH", _path(service), {"spec": {"minReplicas": 9}}, MERGE)


def test_a_pause_stops_and_its_end_restarts_acting_at_once(scene: Scene) -> None:
    service, ips = scene.serve("paused", max_replicas="6")
    service.annotate(mode="Paused")
    wait_for(lambda: scene.condition(service, "Paused") == ("True", "Paused"), PROMPT_S, "the pause")
    scene.engines.of_all(ips, **FLOOD)
    time.sleep(QUIET_S)
    assert service.replicas() == 2
    assert any(line["verdict"] == "SCALE" for line in scene.decided(service)), "decided all the same"
    service.annotate(mode="Active")
    wait_for(lambda: service.replicas() > 2, PROMPT_S, "growth when the pause ends")


def test_a_freeze_stops_and_its_end_restarts_acting_at_once(scene: Scene) -> None:
    service, ips = scene.serve("frozen", max_replicas="6")
    freeze = ("-n", NAMESPACE, "configmap", "headroom-freeze")
    scene.plane.kubectl("delete", *freeze, "--ignore-not-found")  # `pause --cluster --resume` leaves it empty
    scene.plane.kubectl("create", *freeze, "--from-literal=freeze=change of the network")
    try:
        wait_for(lambda: scene.condition(service, "Active") == ("False", "Frozen"), PROMPT_S, "the freeze")
        scene.engines.of_all(ips, **FLOOD)
        time.sleep(QUIET_S)
        assert service.replicas() == 2
        assert "the whole cluster is frozen: change of the network" in scene.explained(service)
    finally:
        scene.plane.kubectl("delete", *freeze)
    wait_for(lambda: service.replicas() > 2, PROMPT_S, "growth when the freeze ends")


def _may(plane: Plane, verb: str, group: str, resource: str) -> bool:
    name, _, part = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": name, "subresource": part, "namespace": "default"}
    spec = {"user": ACCOUNT, "groups": ["system:serviceaccounts", "system:authenticated"], "resourceAttributes": asked}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = plane.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def _failures(scene: Scene) -> list[str]:
    """What `headroom doctor` says is wrong."""
    kubeconfig = scene.plane.folder / "admin.kubeconfig"
    command = [sys.executable, "-m", "autoscaler", "doctor", "--kubeconfig", str(kubeconfig), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return [row["words"] for row in json.loads(done.stdout) if row["state"] == "fail"]


def _event(service: Service, reason: str) -> dict[str, Any]:
    """The event with this reason that was counted highest; empty while there is none."""
    path = f"/api/v1/namespaces/{service.namespace}/events?fieldSelector=involvedObject.name%3D{service.name}"
    found = [one for one in service.plane.call("GET", path)["items"] if one["reason"] == reason]
    return max(found, key=lambda one: int(one["count"]), default={})


def _path(service: Service) -> str:
    return f"/apis/headroom.dev/v1alpha1/namespaces/{service.namespace}/scalingpolicies/{service.name}"


def _status(service: Service) -> dict[str, Any]:
    status: dict[str, Any] = service.plane.call("GET", _path(service)).get("status", {})
    return status


def _overload(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = _status(service).get("overload", {})
    return found


def _since(service: Service) -> dict[str, str]:
    """The policy's conditions, as "Type=Status", and since when each holds."""
    return {f"{c['type']}={c['status']}": c["lastTransitionTime"] for c in _status(service).get("conditions", ())}


def _generations(service: Service) -> set[int]:
    return {c["observedGeneration"] for c in _status(service).get("conditions", ())}
