"""Who goes when a Deployment is shrunk: the pods with the least work, as a real ReplicaSet sees it.

Limits are lowered by hand, so that it is known when replicas go and how many.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.conftest import CONFIG
from tests.cluster.controller import ACCOUNT
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import Scene, apply_file
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

COST: Final = "controller.kubernetes.io/pod-deletion-cost"


@pytest.fixture(scope="module")
def scene(plane: Plane) -> Iterator[Scene]:
    apply_file(plane, CONFIG / "rbac" / "optional")
    with Scene.begin(plane, "costs", deletion_cost=True) as made:
        yield made
    plane.kubectl("delete", "-f", CONFIG / "rbac" / "optional")


def names(service: Service) -> dict[str, str]:
    """Pods by address."""
    return {pod["status"]["podIP"]: pod["metadata"]["name"] for pod in service.pods()}


def test_the_pods_that_hold_the_fewest_tokens_are_the_ones_that_go(scene: Scene) -> None:
    service, ips = scene.serve("chat", 6, max_replicas="6", min_replicas="1")
    before = names(service)
    # Two in the middle of their age: by itself a ReplicaSet takes the youngest.
    light = sorted(ips)[2:4]
    for ip in ips:
        scene.engines.of_all([ip], running=2.0, kv=0.05 if ip in light else 0.6)
    scene.decide_anew(service)
    service.annotate(max_replicas="4")
    wait_for(lambda: service.replicas() == 4, 30, "the limit")
    left = service.wait_ready(4)
    assert {before[ip] for ip in set(ips) - set(left)} == {before[ip] for ip in light}
    marked = scene.plane.audited(verb="patch", resource="pods", user=ACCOUNT)
    assert {entry["objectRef"]["name"] for entry in marked} >= {before[ip] for ip in light}
    assert not [pod for pod in service.pods() if COST in pod["metadata"].get("annotations", {})]


def test_a_mark_that_is_wrong_by_now_is_taken_back(scene: Scene) -> None:
    service, ips = scene.serve("code", 4, max_replicas="4", min_replicas="1")
    before = names(service)
    first, second, *_ = sorted(ips)
    scene.engines.of_all(ips, running=2.0, kv=0.6)
    scene.plane.kubectl("-n", service.namespace, "annotate", "pod", before[first], f"{COST}=-1000")
    scene.engines.of_all([second], kv=0.05)
    scene.decide_anew(service)
    service.annotate(max_replicas="3")
    wait_for(lambda: service.replicas() == 3, 30, "the limit")
    left = service.wait_ready(3)
    assert first in left
    assert second not in left
    assert not [pod for pod in service.pods() if COST in pod["metadata"].get("annotations", {})]


def test_without_the_right_it_shrinks_all_the_same(scene: Scene) -> None:
    service, _ = scene.serve("denied", 3, max_replicas="3", min_replicas="1")
    binding = ("clusterrolebinding", "headroom-deletion-cost")
    scene.plane.kubectl("delete", *binding)
    try:
        service.annotate(max_replicas="2")
        wait_for(lambda: service.replicas() == 2, 30, "the limit")
    finally:
        apply_file(scene.plane, CONFIG / "rbac" / "optional")
    wait_for(lambda: "a pod that should go first is not marked" in scene.controller.words(), 5, "a word about it")
    assert service.counts() == [(3, 2)]
    wait_for(lambda: scene.acts(service), 5, "the record of it")
    assert [act["outcome"] for act in scene.acts(service)] == ["applied"]
