"""What is read of PyTorchJobs and TFJobs, whose pods are whose, and what is sent to let one start and to stop it."""

from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.batch_pods import gang_of
from autoscaler.adapters.kube.batch_training import TrainingJob
from autoscaler.adapters.kube.batch_work import Put, Work
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.record.batch import KINDS as NAMED
from autoscaler.runtime.clock import ScaledClock
from tests.kube.patched import Patched

TORCH: Final = "/spec/pytorchReplicaSpecs"


def replica(replicas: int | None = 1, gpus: str = "8", **pod: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    spec = {"containers": [{"name": "pytorch", "resources": {"limits": limits}}], **pod}
    return {"template": {"spec": spec}} | ({} if replicas is None else {"replicas": replicas})


def found(specs: dict[str, Any], *, at: str = "pytorchReplicaSpecs", **given: Any) -> dict[str, Any]:
    """A PyTorchJob that waits; `policy` is its run policy beside that."""
    meta = {
        "name": "train", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 1,
        "labels": {"headroom.dev/queue": "team"} | given.pop("labels", {}), "annotations": {"theirs": "kept"},
    }  # fmt: skip
    meta |= {
        key: given.pop(key) for key in ("creationTimestamp", "deletionTimestamp", "ownerReferences") if key in given
    }
    status, policy = given.pop("status", {}), {"suspend": True} | given.pop("policy", {})
    return {"metadata": meta, "spec": {"runPolicy": policy, at: specs, **given}, "status": status}


def of(raw: dict[str, Any], kind: str = "PyTorchJob") -> Work | None:
    return KINDS[kind].read(msgspec.convert(raw, TrainingJob, strict=False), 100.0)


def work(specs: dict[str, Any], **given: Any) -> Work:
    made = of(found(specs, **given))
    assert made is not None
    return made


def said(kind: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status}]}


def test_each_kind_that_is_followed_is_one_that_a_person_can_name() -> None:
    assert {kind.lower() for kind in KINDS} <= set(NAMED)


def test_the_replicas_of_a_job_are_its_sets_each_with_its_own_shape() -> None:
    one = work({"Worker": replica(3), "Master": replica(None, "2")})
    assert [(each.name, each.pods, each.asks.units) for each in one.sets] == [
        ("Master", 1, {"nvidia.com/gpu": 2.0}),
        ("Worker", 3, {"nvidia.com/gpu": 8.0}),
    ]
    assert (one.name, one.ref.path) == (
        "pytorchjob/ns/train", "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs/train",
    )  # fmt: skip
    assert not one.is_held_by_notes


def test_parameter_servers_without_a_gpu_are_not_placed() -> None:
    raw = found({"PS": replica(2, ""), "Worker": replica(4), "Chief": replica(1)}, at="tfReplicaSpecs")
    one = of(raw, "TFJob")
    assert one is not None
    assert [(each.name, each.at) for each in one.sets] == [
        ("Chief", "/spec/tfReplicaSpecs/Chief/template/spec"),
        ("Worker", "/spec/tfReplicaSpecs/Worker/template/spec"),
    ]


def test_a_name_of_replicas_is_a_part_of_a_path_whatever_is_in_it() -> None:
    assert work({"a/b~c": replica()}).sets[0].at == f"{TORCH}/a~1b~0c/template/spec"


ENDED: Final = {"replicaStatuses": {"Worker": {"succeeded": 2}}}


@pytest.mark.parametrize(
    ("suspend", "status", "pods"),
    [(False, ENDED, [1, 1]), (True, ENDED, [1, 3]), (False, {}, [1, 3])],
    ids=["while it runs, they stay", "stopped, they are made anew", "none"],
)
def test_pods_that_ended_well_are_not_made_again_while_it_runs(
    suspend: bool, status: dict[str, Any], pods: list[int]
) -> None:
    one = work({"Master": replica(), "Worker": replica(3)}, policy={"suspend": suspend}, status=status)
    assert [each.pods for each in one.sets] == pods


OTHERS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "Kueue, by a label": ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "Kueue"),
    "Kueue of another cluster": (
        {"policy": {"managedBy": "kueue.x-k8s.io/multikueue"}}, "kueue.x-k8s.io/multikueue",
    ),
    "Volcano, by its queue": ({"policy": {"schedulingPolicy": {"queue": "research"}}}, "Volcano"),
    "the operator alone": ({"policy": {"managedBy": "kubeflow.org/training-operator"}}, ""),
    "the operator, told of a group": ({"policy": {"schedulingPolicy": {"minAvailable": 2}}}, ""),
}  # fmt: skip


@pytest.mark.parametrize(("given", "manager"), OTHERS.values(), ids=OTHERS)
def test_what_others_manage_is_theirs(given: dict[str, Any], manager: str) -> None:
    assert work({"Worker": replica()}, **given).manager == manager


@pytest.mark.parametrize(
    ("scheduler", "manager"),
    [("volcano", "Volcano"), ("kai-scheduler", "KAI"), ("yunikorn", "YuniKorn"), ("default-scheduler", "")],
)
def test_one_whose_pods_another_scheduler_places_is_that_ones(scheduler: str, manager: str) -> None:
    specs = {"Master": replica(), "Worker": replica(2, schedulerName=scheduler)}
    assert work(specs).manager == manager


def test_one_of_nobodys_and_one_that_is_a_part_of_something_are_no_gangs() -> None:
    raw = found({"Worker": replica()})
    raw["metadata"]["labels"] = {}
    assert of(raw) is None
    owner = {"kind": "RayJob", "name": "r", "controller": True}
    assert of(found({"Worker": replica()}, ownerReferences=[owner])) is None


def test_workers_that_an_hpa_scales_are_no_gang() -> None:
    one = work({"Worker": replica(2)}, elasticPolicy={"minReplicas": 1, "metrics": [{"type": "Resource"}]})
    assert one.says is not None
    assert [each.code for each in one.says.findings if each.stops] == ["ELASTIC"]
    rendezvous = work({"Worker": replica(2)}, elasticPolicy={"minReplicas": 1, "maxReplicas": 4})
    assert rendezvous.says is not None
    assert not rendezvous.says.refused


def test_how_far_it_is_stands_in_its_conditions() -> None:
    def ended(status: dict[str, Any]) -> tuple[bool, bool]:
        one = work({"Worker": replica()}, status=status)
        return one.ended, one.finished

    assert [ended(said(kind)) for kind in ("Suspended", "Running", "Failed", "Succeeded")] == [
        (False, False), (False, False), (True, False), (True, True),
    ]  # fmt: skip
    assert ended(said("Failed", "False")) == (False, False)
    assert work({"Worker": replica()}, deletionTimestamp="2026-01-01T00:00:00Z").ended


def test_since_when_it_runs_is_not_known_before_its_controller_has_heard_of_it() -> None:
    begun = {"startTime": "1970-01-01T00:01:00Z"}
    runs = {"suspend": False}
    assert work({"Worker": replica()}, policy=runs, status=begun | said("Suspended", "False")).started_s == 60.0
    assert work({"Worker": replica()}, policy=runs, status=begun | said("Suspended")).started_s is None
    assert work({"Worker": replica()}, policy=runs).started_s is None


def test_pods_are_the_jobs_that_control_them() -> None:
    def gang(api_version: str, kind: str) -> str | None:
        owners = [{"apiVersion": api_version, "kind": kind, "name": "train", "controller": True}]
        return gang_of(msgspec.convert({"namespace": "ns", "ownerReferences": owners}, Meta))

    assert gang("kubeflow.org/v1", "PyTorchJob") == "pytorchjob/ns/train"
    assert gang("kubeflow.org/v1", "TFJob") == "tfjob/ns/train"
    assert gang("example.com/v1", "PyTorchJob") is None
    assert gang("kubeflow.org/v1", "MPIJob") is None


def answering() -> Patched:
    """Takes patches and answers with a job that may run."""
    answer = found({"Worker": replica()}, policy={"suspend": False})
    answer["metadata"]["generation"] = 2
    return Patched(lambda _: answer)


@pytest.mark.looptime
async def test_a_start_is_one_patch_that_holds_each_set_to_its_own_nodes() -> None:
    server = answering()
    one = work({"Master": replica(1, "2"), "Worker": replica(2, tolerations=[{"key": "x"}])})
    puts = [Put("n3", "h100", 0, 1), Put("n1", "h100", 1, 1), Put("n2", "h100", 1, 1)]
    hosts = {"n1": "h1", "n2": "h2", "n3": "h3"}
    done = await BatchWriter(server, ScaledClock(), lambda: True).admit(one, puts, hosts, ["nvidia.com/gpu"])
    assert (done.became, done.work and done.work.suspended) == (Became.DONE, False)
    [(path, changes)] = server.sent
    assert path == "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs/train"
    by_path: dict[str, Any] = {change["path"]: change.get("value") for change in changes}
    assert by_path["/metadata/resourceVersion"] == "7"
    assert by_path["/spec/runPolicy/suspend"] is False
    held = {
        name: by_path[f"{TORCH}/{name}/template/spec/affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
        for name in ("Master", "Worker")
    }
    assert held == {"Master": ["h3"], "Worker": ["h1", "h2"]}
    tolerates = {"key": "nvidia.com/gpu", "operator": "Exists"}
    assert by_path[f"{TORCH}/Master/template/spec/tolerations"] == [tolerates]
    assert by_path[f"{TORCH}/Worker/template/spec/tolerations/-"] == tolerates


@pytest.mark.looptime
async def test_a_stop_is_one_word_wherever_that_has_to_be_written() -> None:
    server, raw = answering(), found({"Worker": replica()}, policy={"suspend": False})
    writer, runs = BatchWriter(server, ScaledClock(), lambda: True), of(raw)
    del raw["spec"]["runPolicy"]
    bare = of(raw)
    assert runs is not None
    assert bare is not None
    assert not bare.suspended
    for one in (runs, bare):
        await writer.stop(one)
    assert [changes[1:] for _, changes in server.sent] == [
        [{"op": "add", "path": "/spec/runPolicy/suspend", "value": True}],
        [{"op": "add", "path": "/spec/runPolicy", "value": {"suspend": True}}],
    ]
