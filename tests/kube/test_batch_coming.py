"""Which nodes are on their way, with what, and until when: by what the API server says of them and of others."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.batch_coming import ComingNodes
from autoscaler.adapters.kube.batch_nodes import BatchNode, node_parts
from autoscaler.adapters.kube.batch_objects import WorkPod
from autoscaler.adapters.kube.batch_pods import WorkPods
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pods import Node
from autoscaler.api.shapes import Shape
from autoscaler.core.batch.boots import Due
from autoscaler.core.pool.params import CapacityType, Sharing

NOW_S: Final = 1_700_000_000.0
SHAPES: Final = {"h100": Shape(sku="h100"), "a100": Shape(sku="a100")}
H100: Final = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
P5: Final = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
AWS: Final = {"karpenter.k8s.aws/instance-gpu-name": "h100", "karpenter.k8s.aws/instance-gpu-count": "8"}


def iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def node(
    name: str = "n", labels: Mapping[str, str] = P5, *, gpus: int = 0, ready: bool = False, age_s: float | None = 30.0,
    taints: Sequence[str] = (), cpu: str = "64", uid: str = "1", **more: Any,
) -> Node:  # fmt: skip
    meta: dict[str, Any] = {"name": name, "uid": uid, "labels": {"kubernetes.io/hostname": name, **labels}}
    if age_s is not None:
        meta["creationTimestamp"] = iso(NOW_S - age_s)
    if more.pop("deleted", False):
        meta["deletionTimestamp"] = iso(NOW_S)
    keys = [each.partition(":") for each in taints]
    return msgspec.convert({
        "metadata": meta,
        "spec": {"taints": [{"key": key, "effect": effect or "NoSchedule"} for key, _, effect in keys], **more},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "512Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {}),
            "conditions": [
                {"type": "Ready", "status": str(ready), "lastTransitionTime": iso(NOW_S - (age_s or 0.0) + 20.0)}
            ],
        },
    }, Node)  # fmt: skip


class Sight:
    """Nodes as they are heard of, one after the other."""

    def __init__(self, *nodes: Node, shapes: Mapping[str, Shape] = SHAPES) -> None:
        self.coming, self._shapes = ComingNodes(shapes, ("rack",)), shapes
        self._known: dict[str, tuple[BatchNode, ...]] = {}
        self._version = 0
        for each in nodes:
            self.hear(each)

    def hear(self, seen: Node, now_s: float = NOW_S) -> bool:
        name, parts = seen.metadata.name, node_parts(seen, self._shapes, ("rack",))
        news = self.coming.note(Change(name, None, seen), parts, now_s)
        self._version += news or parts != self._known.get(name, ())
        self._known[name] = parts
        return news

    def lose(self, name: str) -> bool:
        del self._known[name]
        self._version += 1
        return self.coming.note(Change(name, None, None), (), NOW_S)

    def parts(self, now_s: float = NOW_S) -> list[BatchNode]:
        return [part for part, _ in self._parts(now_s)]

    def _parts(self, now_s: float) -> list[tuple[BatchNode, Due]]:
        return list(self.coming.parts(self._known, self._version, now_s))

    def told(self, now_s: float = NOW_S) -> list[tuple[str, str, int, float]]:
        """Name, shape and units of what is on its way, and in how long."""
        return [(p.name, p.shape, p.units, due.at_s - now_s) for p, due in self._parts(now_s)]


THERE: Final = node("there", {**P5, **H100}, gpus=8, ready=True, age_s=1e6)
NEW: Final = [("n", "h100", 8, 120.0)]

COMING: Final[dict[str, tuple[Node, list[tuple[str, str, int, float]]]]] = {
    "not ready, and without GPUs": (node(taints=["node.kubernetes.io/not-ready"]), NEW),
    "not ready, with its GPUs": (node(gpus=8, labels=H100), NEW),
    "ready, and without GPUs": (node(ready=True), NEW),
    "behind a taint that goes": (
        node(ready=True, gpus=8, labels=H100, taints=["karpenter.sh/unregistered:NoExecute"]), NEW,
    ),
    "without a network": (
        node(taints=["node.kubernetes.io/network-unavailable", "node.cilium.io/agent-not-ready"]), NEW,
    ),
    "with the taint of its GPUs": (node(taints=["nvidia.com/gpu"]), NEW),
    "with a taint that keeps nobody off": (node(taints=["example.com/rather-not:PreferNoSchedule"]), NEW),
    "counted by a label": (node(labels=AWS), NEW),
    "of a type that nobody knows": (node(labels={"node.kubernetes.io/instance-type": "g6.xlarge"}), []),
    "of no type": (node(labels={}), []),
    "counted by a label that is no number": (node(labels=AWS | {"karpenter.k8s.aws/instance-gpu-count": "many"}), []),
    "of a GPU that no shape has": (node(labels=AWS | {"karpenter.k8s.aws/instance-gpu-name": "b200"}), []),
    "usable": (node(labels=H100, gpus=8, ready=True), []),
    "cordoned": (node(unschedulable=True), []),
    "being deleted": (node(deleted=True), []),
    "about to be taken": (node(taints=["karpenter.sh/disrupted"]), []),
    "about to be taken, by a taint without effect": (
        node(taints=["ToBeDeletedByClusterAutoscaler:PreferNoSchedule"]), [],
    ),
    "kept for somebody else": (node(taints=["example.com/team"]), []),
    "out of reach": (node(taints=["node.kubernetes.io/unreachable"]), []),
    "rebooted, a day old": (node(age_s=86_400.0, gpus=8, labels=H100), []),
    "older than any start takes": (node(age_s=600.0), []),
    "that does not say how old it is": (node(age_s=None), []),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "told"), COMING.values(), ids=COMING)
def test_a_node_is_on_its_way_while_it_is_young_and_nothing_says_that_it_takes_no_pods(
    seen: Node, told: list[tuple[str, str, int, float]]
) -> None:
    assert Sight(THERE, seen).told() == told


def test_nodes_of_no_type_are_of_no_type_together() -> None:
    untyped = node("untyped", H100, gpus=8, ready=True, age_s=1e6)
    assert Sight(THERE, untyped, node(), node("m", {})).told() == NEW


def test_without_a_hostname_no_pod_is_held_to_it() -> None:
    seen = node()
    del seen.metadata.labels["kubernetes.io/hostname"]
    assert Sight(THERE, seen).told() == []


def test_what_a_node_lacks_yet_is_as_others_of_its_type_have_it() -> None:
    seven = node("seven", {**P5, **H100}, gpus=7, ready=True, age_s=1e6)
    sight = Sight(seven, THERE, node(cpu="0"))
    (part,) = sight.parts()
    assert (part.units, part.cpu, part.memory_gib, part.coming) == (8, 64.0, 512.0, True), "one of seven has lost a GPU"
    assert not [each for each in sight._known["there"] if each.coming]


SLICED: Final = {"h100": Shape(sku="h100"), "half": Shape(sku="h100", sharing=Sharing.TIME_SLICING, parts=2)}
HALVES: Final = {**P5, **H100, "nvidia.com/gpu.replicas": "2"}


def test_gpus_that_may_be_divided_are_not_guessed() -> None:
    halves, young = node("halves", HALVES, gpus=16, ready=True, age_s=1e6), node()
    assert Sight(halves, young, shapes=SLICED).told() == [("n", "half", 16, 120.0)]
    assert Sight(halves, THERE, young, shapes=SLICED).told() == [], "others of its type differ"
    assert Sight(node(labels=AWS), shapes=SLICED).told() == [], "what counts GPUs does not say whether they are whole"


def test_labels_that_come_late_on_another_one_are_missing_there_and_not_another_word() -> None:
    just_came = node("just-came", AWS | P5, gpus=8, ready=True)
    assert Sight(THERE, just_came, node()).told() == NEW


def test_a_node_of_gke_is_as_those_of_its_type_that_are_divided_as_it_says_itself() -> None:
    gke = {**P5, "cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
    shared = {**gke, "cloud.google.com/gke-max-shared-clients-per-gpu": "2"}
    there = [node("whole", gke, gpus=8, ready=True, age_s=1e6), node("shared", shared, gpus=16, ready=True, age_s=1e6)]
    assert Sight(*there, node(labels=gke), shapes=SLICED).told() == NEW
    assert Sight(*there, node(labels=shared), shapes=SLICED).told() == [("n", "half", 16, 120.0)]
    assert Sight(there[1], node(labels=gke), shapes=SLICED).told() == []


def test_the_capacity_type_is_its_own() -> None:
    shapes = {**SHAPES, "h100-spot": Shape(sku="h100", capacity_type=CapacityType.SPOT)}
    young = node(labels={**P5, "karpenter.sh/capacity-type": "spot"})
    assert Sight(THERE, young, shapes=shapes).told() == [("n", "h100-spot", 8, 120.0)]


def test_one_that_was_of_use_once_is_not_on_its_way_when_it_fails_and_another_of_its_name_is() -> None:
    sight = Sight(THERE, node())
    sight.hear(node(labels={**P5, **H100}, gpus=8, ready=True), NOW_S + 10.0)
    assert sight.told(NOW_S + 10.0) == []
    sight.hear(node(labels={**P5, **H100}, gpus=8), NOW_S + 20.0)
    assert sight.told(NOW_S + 20.0) == []
    sight.hear(node(uid="2", age_s=-20.0), NOW_S + 30.0)
    assert sight.told(NOW_S + 30.0) == [("n", "h100", 8, 30.0)], "half of those that came took 40 s"


def test_who_came_says_how_long_others_take_and_who_was_there_says_no_less_than_the_prior() -> None:
    sight = Sight(node("there", {**P5, **H100}, gpus=8, ready=True, age_s=1e6), node())
    assert sight.told() == NEW
    for took_s in (50.0, 60.0, 70.0):
        sight.hear(node("old"), NOW_S)
        sight.hear(node("old", {**P5, **H100}, gpus=8, ready=True), NOW_S - 30.0 + took_s)
        sight.lose("old")
    assert sight.told() == [("n", "h100", 8, 30.0)]


def test_one_that_was_heard_of_late_may_have_been_of_use_before_and_says_nothing() -> None:
    sight = Sight(THERE, node(), node("late", age_s=290.0))
    sight.hear(node("late", {**P5, **H100}, gpus=8, ready=True, age_s=290.0))
    assert sight.told() == NEW


def test_heartbeats_are_no_news_and_what_a_node_gets_is() -> None:
    sight = Sight(THERE)
    turns = [node(), node(gpus=8, labels=H100), node(gpus=8, labels=H100, ready=True)]
    assert [(sight.hear(each), sight.hear(each)) for each in turns] == [(True, False)] * 3
    assert not sight.lose("there")
    sight.hear(node("gone"))
    assert sight.lose("gone")


def test_nodes_that_never_come_are_forgotten() -> None:
    sight = Sight(THERE, node(), node("cpu", {}))
    assert len(sight.coming._coming) == 2
    assert sight.told(NOW_S + 7200.0) == []
    assert sight.coming._coming == {}


PODS: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "pending": ({}, 1),
    "bound": ({"nodeName": "n"}, 0),
    "behind a gate": ({"schedulingGates": [{"name": "example.com/hold"}]}, 0),
    "of no GPU": ({"containers": []}, 0),
}


@pytest.mark.parametrize(("spec", "wanting"), PODS.values(), ids=PODS)
def test_pods_wait_for_a_node_while_the_scheduler_is_to_bind_them(spec: dict[str, Any], wanting: int) -> None:
    books = WorkPods()
    box = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    whole = {"containers": [box], "nodeSelector": {"pool": "gpu"}, **spec}
    found = {"metadata": {"name": "p", "namespace": "ns"}, "spec": whole, "status": {"phase": "Pending"}}
    pod = msgspec.convert(found, WorkPod, strict=False)
    assert books.note(Change("ns/p", None, pod))
    assert len(list(books.wanting("nvidia.com/gpu"))) == wanting
    assert (pod.spec.node_selector is None) == bool(pod.spec.node_name), "it is held for no longer than it is needed"
    books.note(Change("ns/p", pod, None))
    assert list(books.wanting("nvidia.com/gpu")) == []
