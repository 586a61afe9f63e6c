"""What batch admission reads of pods, nodes and Jobs, and what it adds to a Job that it lets in."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import pytest

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_amounts import pod_asks
from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_nodes import admits, node_parts
from autoscaler.adapters.kube.batch_objects import Job, WorkPod, WorkPodSpec
from autoscaler.adapters.kube.batch_pods import WorkPods
from autoscaler.adapters.kube.batch_scope import BatchScope
from autoscaler.adapters.kube.batch_work import Put, Work, of_job
from autoscaler.adapters.kube.batch_writer import held_to
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pods import Node
from autoscaler.api.shapes import Shape
from autoscaler.core.pool.params import CapacityType, Sharing
from autoscaler.runtime.clock import ScaledClock

LEVELS: Final = ("rack", "island")
SHAPES: Final = {
    "a100": Shape(sku="a100"),
    "h100": Shape(sku="h100"),
    "h100-spot": Shape(sku="h100", capacity_type=CapacityType.SPOT),
}


def box(cpu: str = "", gpus: str = "", **more: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    return {"resources": {"limits": limits, "requests": {"cpu": cpu} if cpu else {}}, **more}


ASKS: Final[dict[str, tuple[dict[str, Any], tuple[float, float]]]] = {
    "a limit is a request": ({"containers": [box("500m", "2")]}, (0.5, 2)),
    "containers add up": ({"containers": [box("1", "1"), box("2", "1")]}, (3, 2)),
    "the largest init container counts alone": ({"initContainers": [box("8")], "containers": [box("1", "1")]}, (8, 1)),
    "a sidecar counts beside": (
        {"initContainers": [box("2", restartPolicy="Always"), box("8")], "containers": [box("1", "1")]}, (10, 1),
    ),
    "overhead counts besides": ({"containers": [box("1", "1")], "overhead": {"cpu": "250m"}}, (1.25, 1)),
    "what cannot be read is nothing": ({"containers": [box("many", "1")]}, (0, 1)),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "cpu_and_gpus"), ASKS.values(), ids=ASKS)
def test_a_pod_asks_for_the_most_that_runs_at_once(spec: dict[str, Any], cpu_and_gpus: tuple[float, float]) -> None:
    asks = pod_asks(msgspec.convert(spec, WorkPodSpec))
    assert (asks.cpu, asks.units.get("nvidia.com/gpu", 0)) == cpu_and_gpus


PRODUCT: Final = "nvidia.com/gpu.product"
H100: Final = {PRODUCT: "NVIDIA-H100-80GB-HBM3"}
SPOT: Final = {"karpenter.sh/capacity-type": "spot"}


def node(labels: Mapping[str, str], *, gpus: int = 8, taints: Sequence[Mapping[str, str]] = ()) -> Node:
    status = {
        "allocatable": {"cpu": "64", "memory": "512Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {}),
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    meta = {"name": "n", "labels": {"kubernetes.io/hostname": "n", **labels}}
    return msgspec.convert({"metadata": meta, "spec": {"taints": list(taints)}, "status": status}, Node)


SHAPED: Final[dict[str, tuple[Node, list[str]]]] = {
    "by its product": (node(H100), ["h100"]),
    "by the cloud's label": (node({"cloud.google.com/gke-accelerator": "nvidia-a100-80gb"}), ["a100"]),
    "spot by its label": (node(H100 | SPOT), ["h100-spot"]),
    "a product that nobody named": (node({PRODUCT: "NVIDIA-B200"}), []),
    "half a word is none": (node({PRODUCT: "NVIDIA-GH100-X"}), []),
    "no GPU": (node(H100, gpus=0), []),
    "no label, and two that it may be": (node({}), []),
    "no label, and one that it may be": (node(SPOT), ["h100-spot"]),
}


@pytest.mark.parametrize(("seen", "shapes"), SHAPED.values(), ids=SHAPED)
def test_a_node_is_of_the_shape_that_its_labels_name(seen: Node, shapes: list[str]) -> None:
    assert [part.shape for part in node_parts(seen, SHAPES, LEVELS)] == shapes


SLICED: Final = SHAPES | {
    "a-half": Shape(sku="h100", sharing=Sharing.TIME_SLICING, parts=2),
    "a-seventh": Shape(sku="h100", sharing=Sharing.MIG, parts=7),
}
TWO: Final = {"nvidia.com/gpu.replicas": "2"}
MIG: Final = {PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}
GKE: Final = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}

DIVIDED: Final[dict[str, tuple[Mapping[str, str], list[str], list[str]]]] = {
    "whole, as nothing says else": (H100, ["h100"], ["h100"]),
    "whole, as one replica says": (H100 | {"nvidia.com/gpu.replicas": "1"}, ["h100"], ["h100"]),
    "two pods to a GPU": (H100 | TWO, ["a-half"], []),
    "two pods to a GPU, and labelled so": ({PRODUCT: "NVIDIA-H100-80GB-HBM3-SHARED"} | TWO, ["a-half"], []),
    "two pods to a GPU of GKE's": (GKE | {"cloud.google.com/gke-max-shared-clients-per-gpu": "2"}, ["a-half"], []),
    "four to a GPU, of which no shape is": (H100 | {"nvidia.com/gpu.replicas": "4"}, [], []),
    "slices of one size": (MIG, ["a-seventh"], []),
    "slices of GKE's": (GKE | {"cloud.google.com/gke-gpu-partition-size": "1g.10gb"}, ["a-seventh"], []),
}


@pytest.mark.parametrize(("labels", "shapes", "undivided"), DIVIDED.values(), ids=DIVIDED)
def test_a_node_of_divided_gpus_is_of_no_shape_of_whole_ones(
    labels: Mapping[str, str], shapes: list[str], undivided: list[str]
) -> None:
    """Its units are as many as 16 or 56, and the same resource: taken for whole GPUs each would be several times."""
    seen = node(labels, gpus=16)
    assert [part.shape for part in node_parts(seen, SLICED, LEVELS)] == shapes
    assert [part.shape for part in node_parts(seen, SHAPES, LEVELS)] == undivided


def test_what_only_a_divided_shape_offers_is_of_that_shape_whatever_labels_say() -> None:
    shapes = {"half": Shape(sku="h100", resource="nvidia.com/gpu.shared", sharing=Sharing.TIME_SLICING, parts=2)}
    seen = msgspec.structs.replace(node(H100, gpus=0))
    seen.status.allocatable["nvidia.com/gpu.shared"] = "16"
    assert [(part.shape, part.units) for part in node_parts(seen, shapes, LEVELS)] == [("half", 16)]


def test_a_taint_keeps_gangs_off_unless_it_is_that_of_the_gpus_themselves() -> None:
    taints = (("nvidia.com/gpu", "NoSchedule"), ("team", "NoSchedule"), ("team", "PreferNoSchedule"))
    leaving = ("karpenter.sh/disrupted", "PreferNoSchedule")
    seen = [node(H100, taints=[{"key": key, "effect": effect}]) for key, effect in (*taints, leaving)]
    assert [node_parts(each, SHAPES, LEVELS)[0].cordoned for each in seen] == [False, True, False, True]


def test_domains_end_with_the_first_label_that_is_missing_and_a_rack_without_name_is_that_of_its_island() -> None:
    rack, island = {"rack": "r1"}, {"island": "i1"}
    seen = [node(H100 | more) for more in ({}, rack, rack | island, island)]
    assert [node_parts(each, SHAPES, LEVELS)[0].domains for each in seen] == [
        (), ("r1",), ("r1", "i1"), ("/i1", "i1")
    ]  # fmt: skip


def test_a_selector_and_one_of_the_terms_have_to_meet_a_node() -> None:
    labels = {"zone": "a", "disk": "ssd"}
    zones = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("b", "a")]
    assert admits(labels, {"disk": "ssd"}, zones)
    assert not admits(labels, {"disk": "hdd"}, zones)
    assert not admits(labels, {}, zones[:1])
    assert not admits(labels, {}, [{"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["0"]}]}])


def job(
    *, annotations: dict[str, str] | None = None, affinity: Any = None, owner: str = "", **spec: Any
) -> Work | None:
    owners = [{"kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
    status = {"succeeded": spec.pop("succeeded", 0)}
    template = {"containers": [box("1", "8")], "affinity": affinity}
    found = {
        "metadata": {
            "name": "train", "namespace": "ns", "uid": "u", "labels": {"headroom.dev/queue": "team"},
            "annotations": annotations or {}, "ownerReferences": owners,
        },
        "spec": {"suspend": True, "parallelism": 4, "template": {"spec": template}, **spec}, "status": status,
    }  # fmt: skip
    return of_job(msgspec.convert(found, Job), 100.0)


def test_a_job_is_as_wide_as_the_pods_that_run_at_once() -> None:
    for completions, pods in ((None, 4), (2, 2), (9, 4)):
        work = job(completions=completions)
        assert work is not None
        assert work.sets[0].pods == pods


@pytest.mark.parametrize(
    ("completions", "succeeded", "pods"),
    [(4, 1, 3), (9, 2, 4), (9, 7, 2), (4, 4, 4), (None, 3, 4)],
    ids=["one of four", "enough are left", "two are left", "about to end", "until one says that all is done"],
)
def test_pods_that_ended_well_are_not_made_again(completions: int | None, succeeded: int, pods: int) -> None:
    work = job(completions=completions, succeeded=succeeded)
    assert work is not None
    assert work.sets[0].pods == pods


def test_a_job_of_a_jobset_is_no_gang_by_itself_and_that_of_a_cronjob_is() -> None:
    assert job(owner="JobSet") is None
    assert job(owner="CronJob") is not None


HOSTS: Final = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("scheduler", "manager"),
    [("", ""), ("default-scheduler", ""), ("volcano", "Volcano"), ("kai-scheduler", "KAI"), ("yunikorn", "YuniKorn"),
     ("runai-scheduler", "Run:ai")],
)  # fmt: skip
def test_a_job_whose_pods_ask_for_a_scheduler_that_admits_by_itself_is_that_one_s(scheduler: str, manager: str) -> None:
    found = {
        "metadata": {"name": "j", "namespace": "ns", "labels": {"headroom.dev/queue": "q"}},
        "spec": {"template": {"spec": {"schedulerName": scheduler}}},
    }
    read = of_job(msgspec.convert(found, Job), 0.0)
    assert read is not None
    assert read.manager == manager


def test_every_term_of_an_affinity_gets_the_hosts_and_nothing_else_is_lost() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["z"]}
    theirs = {
        "podAntiAffinity": {"x": 1},
        "nodeAffinity": {"preferred": [1], REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}, {}]}},
    }
    terms = [{"matchExpressions": [zone, HOSTS]}, {"matchExpressions": [HOSTS]}]
    node_affinity = {"preferred": [1], REQUIRED: {"nodeSelectorTerms": terms}}
    assert held_to(theirs, ["b", "a", "b"]) == {"podAntiAffinity": {"x": 1}, "nodeAffinity": node_affinity}
    assert held_to(None, ["b", "a"])["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": [{"matchExpressions": [HOSTS]}]}


def test_where_a_gang_was_put_is_read_back_and_its_author_s_affinity_with_it() -> None:
    puts = (Put("n", "h100", 0, 4),)
    ours = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [HOSTS]}]}}}
    text = msgspec.json.encode(puts).decode()
    fresh, written = job(), job(annotations={"headroom.dev/placement": text}, affinity=ours)
    assert fresh is not None
    assert written is not None
    assert (fresh.put, fresh.affinities) == ((), (None,))
    assert (written.put, written.affinities) == (puts, (None,)), "its author wrote none"
    spoilt = job(annotations={"headroom.dev/placement": "{", "headroom.dev/affinity": "["}, affinity=ours)
    assert spoilt is not None
    assert (spoilt.put, spoilt.affinities) == ((), (None,))
    deep = "[" * 100_000
    buried = job(annotations={"headroom.dev/placement": '[{"x":' + deep, "headroom.dev/affinity": deep}, affinity=ours)
    assert buried is not None
    assert (buried.put, buried.affinities) == ((), (None,)), "no depth of it is a fault of ours"


@pytest.mark.parametrize(
    "text",
    [
        '[{"nodeAffinity": 5}]', '[5]', '{"nodeAffinity": {}}', '[{}, {}]', "[", "5",
        f'[{{"nodeAffinity": {{"{REQUIRED}": {{"nodeSelectorTerms": [5]}}}}}}]',
        f'[{{"nodeAffinity": {{"{REQUIRED}": {{"nodeSelectorTerms": [{{"matchExpressions": [7]}}]}}}}}}]',
    ],
)  # fmt: skip
def test_an_affinity_that_somebody_spoilt_in_our_annotation_is_as_if_it_were_not_there(text: str) -> None:
    spoilt = job(annotations={"headroom.dev/placement": "[]", "headroom.dev/affinity": text})
    assert spoilt is not None
    assert spoilt.affinities == (None,)
    assert held_to(spoilt.affinities[0], ["a"])


def test_a_pod_counts_from_when_it_is_bound_until_it_has_ended() -> None:
    books = WorkPods()
    meta = {
        "name": "p", "namespace": "ns", "uid": "p", "creationTimestamp": "2026-01-01T00:00:10Z",
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "u", "controller": True}],
    }  # fmt: skip
    old = None
    seen = []
    for bound, phase in (("", "Pending"), ("n", "Pending"), ("n", "Running"), ("n", "Succeeded")):
        pod = {"metadata": meta, "spec": {"nodeName": bound, "containers": [box("1", "8")]}, "status": {"phase": phase}}
        new = msgspec.convert(pod, WorkPod, strict=False)
        news = books.note(Change("ns/p", old, new))
        seen.append((news, len(books.of_gang("job/ns/train")), len(list(books.on_node("n")))))
        old = new
    assert seen == [(True, 1, 0), (True, 1, 1), (False, 1, 1), (True, 0, 0)]
    begun_s = 1767225610.0
    assert len(list(books.over("job/ns/train", begun_s))) == 1
    assert len(list(books.over("job/ns/train", begun_s + 1))) == 0, "of an earlier start"
    assert books.note(Change("ns/p", old, None))
    assert books.gangs() == ()


@pytest.mark.looptime
async def test_what_runs_on_a_node_that_turns_out_to_be_of_another_shape_is_counted_once() -> None:
    scope = BatchScope(SHAPES, LEVELS, "slots", lambda _: False)
    cluster = BatchCluster(cast(KubeApi, None), ScaledClock(), scope, lambda: None)
    running = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n", "containers": [box(gpus="8")]}}
    cluster._on_pod(Change("ns/p", None, msgspec.convert(running, WorkPod)))
    seen = []
    for label, gpus in (("H100", "8"), ("H100", "0"), ("H100", "6"), ("A100", "8")):
        labels = {"kubernetes.io/hostname": "n", "nvidia.com/gpu.product": label}
        status = {"allocatable": {"nvidia.com/gpu": gpus}}
        found = msgspec.convert({"metadata": {"name": "n", "labels": labels}, "status": status}, Node)
        cluster._on_node(Change("n", None, found))
        seen.append([(part.shape, part.units, part.cordoned) for part in cluster.seen(lambda _: False, 0.0).nodes])
    assert seen == [[("h100", 8, False)], [("h100", 8, True)], [("h100", 8, True)], [("a100", 8, False)]]


@pytest.mark.looptime
async def test_cores_of_serving_are_told_beside_those_that_are_free_and_those_of_strangers_are_not() -> None:
    scope = BatchScope(SHAPES, LEVELS, "slots", lambda pod: pod == "ns/serves")
    cluster = BatchCluster(cast(KubeApi, None), ScaledClock(), scope, lambda: None)
    labels = {"kubernetes.io/hostname": "n", "nvidia.com/gpu.product": "H100"}
    status = {"allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi"}}
    found = {"metadata": {"name": "n", "labels": labels}, "status": status}
    cluster._on_node(Change("n", None, msgspec.convert(found, Node)))
    for name, cpu, gpus in (("serves", "20", "4"), ("strange", "10", "2"), ("no-gpu", "1", "")):
        pod = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"nodeName": "n", "containers": [box(cpu, gpus)]}}
        cluster._on_pod(Change(f"ns/{name}", None, msgspec.convert(pod, WorkPod)))
    (node,) = cluster.seen(lambda _: False, 0.0).nodes
    assert (node.cpu, node.serving_cpu) == (33.0, 20.0)
