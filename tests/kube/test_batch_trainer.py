"""What is read of TrainJobs and their runtimes, whose pods are whose, and what is sent to let one start and stop it."""

from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.batch_amounts import PodAsks
from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.batch_objects import JobSet, WorkPod
from autoscaler.adapters.kube.batch_pods import WorkPods
from autoscaler.adapters.kube.batch_runtimes import TrainingRuntime, TrainJob
from autoscaler.adapters.kube.batch_trainer import maker, running_jobset, with_runtime
from autoscaler.adapters.kube.batch_work import Put, Work
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.meta import Meta, Owner
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.runtime.clock import ScaledClock
from tests.kube.patched import Changes, Patched

STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
OVERRIDES: Final = "/spec/podTemplateOverrides"


def step(name: str, gpus: int = 8, *, is_a: str = "", pods: int | None = None, **given: Any) -> dict[str, Any]:
    """A replicated Job of a runtime."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "2"}
    pod = {"containers": [{"name": "node", "resources": {"limits": limits}}], **given.pop("pod", {})}
    spec = {"template": {"spec": pod}} | ({} if pods is None else {"parallelism": pods})
    return {"name": name, "template": {"metadata": {"labels": {STEP: is_a} if is_a else {}}, "spec": spec}, **given}


def runtime(*steps: dict[str, Any], nodes: int | None = 2, **given: Any) -> TrainingRuntime:
    policy = {} if nodes is None else {"mlPolicy": {"numNodes": nodes, **given.pop("policy", {})}}
    template = {"spec": {"replicatedJobs": list(steps)}, **given.pop("template", {})}
    return msgspec.convert({"spec": {**policy, "template": template, **given}}, TrainingRuntime, strict=False)


def found(*, suspend: bool = True, status: Any = None, labels: Any = None, notes: Any = None, **spec: Any) -> TrainJob:
    meta = {
        "name": "train", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 1,
        "creationTimestamp": "2026-11-22T08:00:00Z", "annotations": notes or {"theirs": "kept"},
        "labels": {"headroom.dev/queue": "team"} | (labels or {}),
    }  # fmt: skip
    given = {"suspend": suspend, "runtimeRef": {"name": "torch"}, **spec}
    return msgspec.convert({"metadata": meta, "spec": given, "status": status or {}}, TrainJob, strict=False)


def work(made: TrainingRuntime | str | None = None, **given: Any) -> Work:
    known = runtime(step("node", is_a="trainer")) if made is None else made
    read = with_runtime(found(**given), 100.0, known)
    assert read is not None
    return read


def sizes(one: Work) -> dict[str, tuple[int, float]]:
    return {each.name: (each.pods, each.asks.units.get("nvidia.com/gpu", 0.0)) for each in one.sets}


def stops(one: Work) -> list[tuple[str, str]]:
    assert one.says is not None
    return [(each.code, each.words) for each in one.says.findings if each.stops]


def test_nodes_and_what_each_asks_for_come_from_the_runtime() -> None:
    one = work()
    assert (sizes(one), one.suspended, stops(one)) == ({"node": (2, 8.0)}, True, [])
    assert one.is_held_by_notes
    assert (one.name, one.ref.path) == (
        "trainjob/ns/train", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/train",
    )  # fmt: skip


def test_what_the_job_says_of_nodes_and_resources_goes_before_its_runtime() -> None:
    asks = {"limits": {"nvidia.com/gpu": "4"}, "requests": {"cpu": "3", "memory": "8Gi"}}
    one = work(trainer={"numNodes": 5, "resourcesPerNode": asks})
    assert one.sets[0].pods == 5
    assert one.sets[0].asks == PodAsks(3.0, 8.0, {"nvidia.com/gpu": 4.0})
    assert sizes(work(trainer={"resourcesPerNode": {}})) == {"node": (2, 8.0)}, "neither limits nor requests"


def test_without_a_policy_a_step_is_as_wide_as_its_template_and_there_is_one_job_of_what_trains() -> None:
    made = runtime(step("node", is_a="trainer", pods=3, replicas=4), step("beside", 2, pods=2, replicas=3), nodes=None)
    assert sizes(work(made)) == {"node": (3, 8.0), "beside": (6, 2.0)}
    assert sizes(work(made, trainer={"numNodes": 1})) == {"node": (1, 8.0), "beside": (6, 2.0)}


def test_of_several_steps_that_train_the_first_has_the_nodes_of_the_job() -> None:
    made = runtime(step("a", is_a="trainer"), step("b", 4, is_a="trainer"))
    assert sizes(work(made, trainer={"numNodes": 7})) == {"a": (7, 8.0), "b": (2, 4.0)}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("is not there", "ClusterTrainingRuntime torch is not there, and so how many GPUs it takes is not known"),
        (runtime(step("node"), policy={"mpi": {}}), "ClusterTrainingRuntime torch trains by MPI, whose launcher"),
        (runtime({"name": "node"}), "ClusterTrainingRuntime torch cannot be read: KeyError: 'template'"),
        (runtime(step("node", pods=True)), "ClusterTrainingRuntime torch cannot be read: ValidationError"),
    ],
    ids=["no runtime", "MPI", "no template", "no number"],
)
def test_a_size_that_is_not_known_is_told_and_is_no_zero(made: TrainingRuntime | str, words: str) -> None:
    one = work(made, trainer={"numNodes": 5}) if isinstance(made, str) else work(made)
    ((code, told),) = stops(one)
    assert (code, one.sets) == ("RUNTIME", ())
    assert told.startswith(f"spec.runtimeRef: {words}")


def test_steps_that_wait_for_each_other_are_no_gang_and_those_without_a_gpu_may() -> None:
    after = [{"name": "dataset-initializer", "status": "Complete"}]
    first = step("dataset-initializer", 0, is_a="dataset-initializer")
    ((code, told),) = stops(work(runtime(first, step("node", is_a="trainer", dependsOn=after))))
    assert (code, "node starts after others" in told) == ("STAGED", True)
    assert stops(work(runtime(step("node", is_a="trainer"), {**first, "dependsOn": [{"name": "node"}]}))) == []


def test_where_its_pods_may_go_is_the_templates_under_what_the_job_overrides() -> None:
    made = runtime(
        step("node", is_a="trainer", pod={"nodeSelector": {"a": "1", "b": "1"}, "tolerations": [{"key": "x"}]})
    )
    overrides = [
        {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"b": "2"}, "tolerations": [{"key": "y"}]}},
        {"targetJobs": [{"name": "other"}], "spec": {"nodeSelector": {"c": "3"}}},
    ]
    template = work(made, podTemplateOverrides=overrides).sets[0].template
    assert template.node_selector == {"a": "1", "b": "2"}
    assert [each.key for each in template.tolerations] == ["y"]
    assert made.spec.template.spec["replicatedJobs"][0].get("replicas") is None, "the runtime is left as it is"


@pytest.mark.parametrize(
    ("given", "made", "manager"),
    [
        ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, None, "Kueue"),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, None, "kueue.x-k8s.io/multikueue"),
        ({"managedBy": "trainer.kubeflow.org/trainjob-controller"}, None, ""),
        ({}, runtime(step("node"), podGroupPolicy={"volcano": {}}), "Volcano"),
        ({}, runtime(step("node", pod={"schedulerName": "kai-scheduler"})), "KAI"),
        ({}, runtime(step("node"), podGroupPolicy={"coscheduling": {}}), ""),
    ],
    ids=["Kueue", "another controller", "its own", "Volcano", "KAI", "coscheduling is no queue"],
)
def test_who_else_manages_it_is_seen(given: dict[str, Any], made: TrainingRuntime | None, manager: str) -> None:
    assert work(made, **given).manager == manager


def test_steps_that_ended_well_are_not_made_again() -> None:
    made = runtime(step("node", is_a="trainer"), step("eval", 4, pods=1))
    status = {"jobsStatus": [{"name": "eval", "succeeded": 1}]}
    assert sizes(work(made, status=status)) == {"node": (2, 8.0), "eval": (0, 4.0)}
    over = work(made, status={"conditions": [{"type": "Complete", "status": "True"}]})
    assert (over.ended, over.finished) == (True, True)


def jobset(*steps: dict[str, Any], uid: str = "u", suspend: bool = False, kind: str = "TrainJob") -> JobSet:
    """What the Trainer made of the job."""
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "name": "train", "uid": uid}
    meta = {"name": "train", "namespace": "ns", "ownerReferences": [{**owner, "controller": True}]}
    spec = {"suspend": suspend, "replicatedJobs": list(steps)}
    return msgspec.convert({"metadata": meta, "spec": spec}, JobSet, strict=False)


EDITED: Final = {
    "wider": runtime(step("node", is_a="trainer"), nodes=4),
    "other steps": runtime(step("more", 4), step("node", is_a="trainer")),
    "beyond reading": runtime({"name": "node"}),
    "gone": "is not there",
}


@pytest.mark.parametrize("edited", EDITED.values(), ids=EDITED)
def test_while_it_runs_it_is_as_large_as_its_jobset_whatever_becomes_of_the_runtime(
    edited: TrainingRuntime | str,
) -> None:
    made = jobset(step("node", pods=2))
    runs, waits = found(suspend=False), found()
    read = with_runtime(runs, 100.0, edited, running_jobset(runs, made))
    assert read is not None
    assert (sizes(read), stops(read)) == ({"node": (2, 8.0)}, [])
    assert running_jobset(waits, made) is None, "its next start is as large as the runtime says"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(None, id="none"),
        pytest.param(jobset(step("node", pods=2), suspend=True), id="that is not started, or stopped"),
        pytest.param(jobset(step("node", pods=2), uid="older"), id="of an older job of the name"),
        pytest.param(jobset(step("node", pods=2), kind="SomebodyElse"), id="that somebody else made"),
    ],
)
def test_a_jobset_by_which_it_does_not_run_says_nothing_of_its_size(other: JobSet | None) -> None:
    assert running_jobset(found(suspend=False), other) is None


def test_one_that_trains_by_mpi_is_not_counted_by_what_runs_either() -> None:
    runs, made = found(suspend=False), jobset(step("node", pods=2))
    read = with_runtime(runs, 100.0, runtime(step("node"), policy={"mpi": {}}), running_jobset(runs, made))
    assert read is not None
    assert (read.sets, stops(read)[0][0]) == ((), "RUNTIME")


def pod(name: str, jobset: str) -> WorkPod:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": f"{jobset}-node-0", "controller": True}]
    meta = {
        "name": name, "namespace": "ns", "uid": name, "ownerReferences": owners,
        "labels": {"jobset.sigs.k8s.io/jobset-name": jobset},
    }  # fmt: skip
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": "n"}}, WorkPod, strict=False)


def test_pods_of_a_jobset_that_the_trainer_made_are_the_jobs_whenever_that_is_heard_of() -> None:
    owner = Owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", "u", controller=True)
    made_by = maker(Meta("train", "ns", owner_references=(owner,)))
    assert made_by == "trainjob/ns/train"
    assert maker(Meta("train", "ns", owner_references=(Owner("x.io/v1", "TrainJob", "train", "", True),))) is None
    pods = WorkPods()
    pods.note(Change("ns/early", None, pod("early", "train")))
    pods.note(Change("ns/else", None, pod("else", "other")))
    assert pods.gangs() == ("jobset/ns/train", "jobset/ns/other")
    assert pods.owned("jobset/ns/train", made_by)
    assert not pods.owned("jobset/ns/train", made_by), "no news"
    pods.note(Change("ns/late", None, pod("late", "train")))
    assert set(pods.of_gang("trainjob/ns/train")) == {"ns/early", "ns/late"}
    assert {each.gang for each in pods.on_node("n")} == {"trainjob/ns/train", "jobset/ns/other"}
    pods.disowned(lambda gang: False)
    assert len(pods.of_gang("trainjob/ns/train")) == 2, "its pods outlive the JobSet"
    assert pods.owned("jobset/ns/train", None), "a JobSet of its name that nobody made"
    assert set(pods.of_gang("jobset/ns/train")) == {"ns/early", "ns/late"}
    assert len(list(pods.on_node("n"))) == 3


class Server(Patched):
    """Takes patches of one TrainJob, of the version that it has."""

    def __init__(self) -> None:
        super().__init__(self._answer, lambda _: self.status if len(self.sent) in self.refuses else None)
        self.refuses, self.status = set[int](), 403
        """The patches that it does not take, by number from 1, and with which status."""
        self.knows_overrides = True

    def _answer(self, changes: Changes) -> dict[str, Any]:
        suspend = all(each["path"] != "/spec/suspend" or each["op"] == "test" for each in changes)
        number = 7 + len(self.sent)
        meta = {"name": "train", "namespace": "ns", "uid": "u", "resourceVersion": str(number), "generation": number}
        kept = [each.get("value") for each in changes if each["path"] == OVERRIDES and self.knows_overrides]
        spec = {"suspend": suspend} | ({"podTemplateOverrides": kept[0]} if kept else {})
        return {"metadata": meta | {"labels": {"headroom.dev/queue": "team"}}, "spec": spec}


PLAN: Final = [Put("n", "h100", 0, 1), Put("m", "h100", 0, 1)]
HOSTS: Final = {"n": "host-n", "m": "host-m"}


@pytest.mark.looptime
async def test_a_start_is_written_in_two_patches_the_first_of_which_starts_nothing() -> None:
    server = Server()
    made = runtime(step("node", is_a="trainer", pod={"tolerations": [{"key": "x", "tolerationSeconds": 9}]}))
    theirs = {"targetJobs": [{"name": "node"}], "metadata": {"labels": {"a": "b"}}}
    writer = BatchWriter(server, ScaledClock(), lambda: True)
    done = await writer.admit(work(made, podTemplateOverrides=[theirs]), PLAN, HOSTS, ["nvidia.com/gpu"])
    assert done.work is not None
    assert (done.became, done.work.suspended, done.work.version) == (Became.DONE, False, "9")
    assert sizes(done.work) == {"node": (2, 8.0)}, "what the answer does not say is still known"
    first, second = server.patches
    version = {"op": "test", "path": "/metadata/resourceVersion"}
    assert first[:2] == [{**version, "value": "7"}, {"op": "test", "path": "/spec/suspend", "value": True}]
    values = {each["path"]: each["value"] for each in first[2:]}
    tolerations = [{"key": "x", "tolerationSeconds": 9}, {"key": "nvidia.com/gpu", "operator": "Exists"}]
    ours = {
        "targetJobs": [{"name": "node"}], "metadata": {"annotations": {"headroom.dev/hosts": "host-m,host-n"}},
        "spec": {"tolerations": tolerations},
    }  # fmt: skip
    assert values[OVERRIDES] == [theirs, ours]
    assert "headroom.dev/placement" in values["/metadata/annotations"]
    assert second == [
        {**version, "value": "8"}, {"op": "test", "path": "/spec/suspend", "value": True},
        {"op": "replace", "path": "/spec/suspend", "value": False},
    ]  # fmt: skip


@pytest.mark.looptime
@pytest.mark.parametrize("theirs", [[], [{"targetJobs": [{"name": "node"}], "metadata": {"labels": {"a": "b"}}}]])
async def test_where_the_second_patch_is_refused_nothing_started_and_only_what_is_ours_is_taken_back(
    theirs: list[dict[str, Any]],
) -> None:
    server = Server()
    server.refuses = {2}
    done = await BatchWriter(server, ScaledClock(), lambda: True).admit(
        work(podTemplateOverrides=theirs), PLAN, HOSTS, []
    )
    assert (done.became, done.work, done.words) == (Became.REFUSED, None, "a webhook does not want it")
    back = {"op": "replace", "path": OVERRIDES, "value": theirs} if theirs else {"op": "remove", "path": OVERRIDES}
    assert server.patches[2:] == [
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "8"},
            {"op": "test", "path": "/spec/suspend", "value": True}, back,
        ]
    ]  # fmt: skip


@pytest.mark.looptime
@pytest.mark.parametrize("status", [409, 422, 503])
async def test_what_was_written_stays_where_somebody_else_was_first_or_the_start_may_have_come_through(
    status: int,
) -> None:
    server = Server()
    server.refuses, server.status = {2}, status
    done = await BatchWriter(server, ScaledClock(), lambda: True).admit(work(), PLAN, HOSTS, [])
    assert len(server.patches) == 2
    assert done.version == "8", "our own patch's: it is no news of somebody else's, which would be answered at once"


@pytest.mark.looptime
async def test_what_could_not_be_taken_back_is_said_and_the_next_start_writes_over_it() -> None:
    server = Server()
    server.refuses = {2, 3}
    writer = BatchWriter(server, ScaledClock(), lambda: True)
    done = await writer.admit(work(), PLAN, HOSTS, [])
    assert done.became is Became.REFUSED
    assert "its pods are held to nodes was not taken back: a webhook does not want it" in done.words
    left = {each["path"]: each["value"] for each in server.patches[0][2:]}[OVERRIDES]
    again = work(podTemplateOverrides=left)
    assert again.overrides == (), "ours is not its author's"
    server.refuses = set()
    await writer.admit(again, PLAN[:1], HOSTS, [])
    (ours,) = {each["path"]: each["value"] for each in server.patches[3][2:]}[OVERRIDES]
    assert ours["metadata"]["annotations"] == {"headroom.dev/hosts": "host-n"}


@pytest.mark.looptime
async def test_where_the_server_does_not_know_overrides_nothing_is_started_unheld() -> None:
    server = Server()
    server.knows_overrides = False
    done = await BatchWriter(server, ScaledClock(), lambda: True).admit(work(), PLAN, HOSTS, [])
    assert (done.became, len(server.patches)) == (Became.REFUSED, 1)
    assert done.words.startswith("the API server did not keep spec.podTemplateOverrides")


@pytest.mark.looptime
async def test_a_stop_only_suspends_as_overrides_may_not_be_changed_while_pods_run() -> None:
    server = Server()
    await BatchWriter(server, ScaledClock(), lambda: True).stop(work(suspend=False))
    assert [each["path"] for each in server.patches[0]] == ["/metadata/resourceVersion", "/spec/suspend"]


def test_without_its_runtime_it_is_read_as_a_job_whose_size_is_not_known() -> None:
    read = KINDS["TrainJob"].read(found(), 100.0)
    assert read is not None
    assert (read.sets, stops(read)[0][0]) == ((), "RUNTIME")
