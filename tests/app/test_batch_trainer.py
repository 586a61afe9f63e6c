"""TrainJobs in the books: as large as their runtime says, their pods known by the JobSet that the Trainer makes."""

from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.batch_objects import JobSet, WorkPod
from autoscaler.adapters.kube.batch_runtimes import TrainingRuntime, TrainJob
from autoscaler.adapters.kube.batch_work import Put
from autoscaler.app.batch_look import Look
from autoscaler.record.batch import GangState, GangTold
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

NAME: Final = "trainjob/ns/train"
MADE: Final = "2023-11-14T22:13:20Z"


def pod_of(gpus: int) -> dict[str, Any]:
    """The form of the job's pods."""
    box = {"name": "node", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"priorityClassName": "batch", "containers": [box]}


class TrainerPlant(BatchPlant):
    """Four nodes of eight GPUs; a TrainJob beside Jobs."""

    def __init__(self) -> None:
        super().__init__({f"n{at}": 8 for at in range(4)}, guaranteed=32)
        self.cluster._kinds["JobSet"]._settle()
        self.cluster._holds.policies._settle()
        self.object: dict[str, Any] = {}

    def runtime(self, nodes: int, gpus: int = 8) -> None:
        """The runtime comes, or changes."""
        step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
        jobs = [{"name": "node", "template": {"metadata": step, "spec": {"template": {"spec": pod_of(gpus)}}}}]
        found = {
            "metadata": {"name": "torch"},
            "spec": {"mlPolicy": {"numNodes": nodes}, "template": {"spec": {"replicatedJobs": jobs}}},
        }
        self.runtimes._cache.put(msgspec.convert(found, TrainingRuntime, strict=False))

    @property
    def runtimes(self) -> Any:
        return self.cluster.trainjobs._runtimes["ClusterTrainingRuntime"]

    def train(self, **changes: Any) -> None:
        """The TrainJob comes, or is edited."""
        if not self.object:
            meta = {
                "name": "train", "namespace": "ns", "uid": "train", "labels": {"headroom.dev/queue": "team"},
                "creationTimestamp": MADE,
            }  # fmt: skip
            self.object = {"metadata": meta, "spec": {"suspend": True, "runtimeRef": {"name": "torch"}}}
        self._versions += 1
        self.object["metadata"] |= {"resourceVersion": str(self._versions), "generation": self._versions}
        self.object["metadata"] |= {key: changes.pop(key) for key in ("annotations",) if key in changes}
        self.object["spec"] |= changes
        self.cluster._kinds["TrainJob"]._cache.put(msgspec.convert(self.object, TrainJob, strict=False))

    def let_in(self) -> tuple[Put, ...]:
        """Start what is due, as the writer would; where it was put."""
        for work, plan in list(self.books.due_starts(self.now_s)):
            assert work.name == NAME
            self.train(annotations={"headroom.dev/placement": msgspec.json.encode(plan).decode()}, suspend=False)
            return plan
        return ()

    def jobset(self, made_by: str = "TrainJob", *, nodes: int = 2) -> None:
        """The Trainer has made the JobSet of the job."""
        owner = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": made_by, "name": "train", "uid": "train",
            "controller": True,
        }  # fmt: skip
        meta = {"name": "train", "namespace": "ns", "uid": "set", "generation": 1, "ownerReferences": [owner]}
        job = {"name": "node", "template": {"spec": {"parallelism": nodes, "template": {"spec": pod_of(8)}}}}
        found = {"metadata": meta, "spec": {"replicatedJobs": [job]}}
        self.cluster._kinds["JobSet"]._cache.put(msgspec.convert(found, JobSet, strict=False))

    def bind(self, plan: tuple[Put, ...]) -> None:
        """All pods of the job are bound where it was put."""
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-node-0", "controller": True}
        for put in plan:
            meta = {
                "name": f"train-{put.node}", "namespace": "ns", "uid": put.node, "creationTimestamp": MADE,
                "ownerReferences": [owner], "labels": {"jobset.sigs.k8s.io/jobset-name": "train"},
            }  # fmt: skip
            box = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
            pod = {
                "metadata": meta,
                "spec": {"nodeName": put.node, "containers": [box]},
                "status": {"phase": "Running"},
            }
            self.cluster._pods._cache.put(msgspec.convert(pod, WorkPod, strict=False))

    def told(self) -> GangTold:
        """What is told of the job."""
        return Look(self.books, self.tree, self.now_s).gang(NAME)


def unheld(plant: TrainerPlant) -> None:
    """Starts are not kept back for a policy that this plant does not have."""
    plant.cluster.sees_policy = lambda: True  # type: ignore[method-assign]
    plant.cluster.unheld = lambda: ""  # type: ignore[method-assign]


def started() -> tuple[TrainerPlant, tuple[Put, ...]]:
    """A plant whose job of two nodes was just let in, and where it was put."""
    plant = TrainerPlant()
    unheld(plant)
    plant.runtime(nodes=2)
    plant.train()
    plant.look()
    return plant, plant.let_in()


async def test_it_is_as_large_as_its_runtime_says_and_its_pods_are_its_own() -> None:
    plant = TrainerPlant()
    unheld(plant)
    plant.train()
    plant.look()
    told = plant.told()
    assert (told.state, told.reason, plant.let_in()) == (GangState.WAITING, "RUNTIME", ())
    plant.runtime(nodes=3)
    plant.look()
    plan = plant.let_in()
    assert len({put.node for put in plan}) == 3
    plant.jobset(nodes=3)
    plant.bind(plan)
    plant.look()
    told = plant.told()
    assert (told.state, told.pods, told.units) == (GangState.RUNNING, 3, (("h100", 24),))
    assert sorted(plant.free().values()) == [0, 0, 0, 8]
    assert plant.cluster.seen(plant.books.is_tracked, plant.now_s).others == (), "its pods are not strangers"


async def test_pods_that_are_heard_of_before_the_jobset_are_its_own_by_its_name_and_not_where_another_made_that() -> (
    None
):
    plant, plan = started()
    plant.bind(plan)
    plant.look()
    assert plant.told().state is GangState.RUNNING
    assert sorted(plant.free().values()) == [0, 0, 8, 8]
    plant.jobset(made_by="SomebodyElse")
    plant.look()
    assert len(plant.cluster.seen(plant.books.is_tracked, plant.now_s).others) == 2, "strangers"


async def test_one_that_runs_keeps_what_it_holds_though_its_runtime_is_gone_and_is_found_after_a_restart() -> None:
    plant, plan = started()
    plant.jobset()
    plant.bind(plan)
    plant.look()
    plant.begin()
    plant.look()
    assert plant.told().state is GangState.RUNNING
    plant.runtimes._cache.drop("torch")
    plant.look()
    plant.look(120.0)
    assert sorted(plant.free().values()) == [0, 0, 8, 8]
    assert plant.stop() == []


@pytest.mark.parametrize("jobset_first", [True, False], ids=["the JobSet is heard of first", "the job is"])
async def test_a_runtime_that_is_edited_while_it_runs_changes_nothing_of_what_it_counts_for_after_a_restart(
    jobset_first: bool,
) -> None:
    """It runs on 16 of 32 GPUs; with four nodes it would be beyond its queue's guarantee with the Job beside it."""
    plant, plan = started()
    if jobset_first:
        plant.jobset()
        plant.train()
    else:
        plant.train()
        plant.jobset()
    plant.bind(plan)
    plant.look()
    plant.runtime(nodes=4)
    plant.look()
    for _ in range(2):
        assert (plant.told().state, plant.told().pods, plant.told().units) == (GangState.RUNNING, 2, (("h100", 16),))
        assert plant.books.room.tree.used[plant.books.room.tree.index["team"]][0] == 16
        assert plant.books.room.contradictions() == []
        plant.begin()
        plant.look()
    plant.train(suspend=True)
    plant.look()
    for put in plan:
        plant.gone(f"train-{put.node}")
    plant.look()
    assert plant.told().pods == 4, "it starts anew as its runtime says"


async def test_one_whose_runtime_is_gone_is_in_the_books_after_a_restart_as_it_runs() -> None:
    plant, plan = started()
    plant.jobset()
    plant.bind(plan)
    plant.look()
    plant.runtimes._cache.drop("torch")
    plant.begin()
    plant.look()
    assert (plant.told().state, plant.told().pods) == (GangState.RUNNING, 2)


async def test_while_jobsets_cannot_be_read_it_waits_as_nobody_would_know_its_pods() -> None:
    plant = TrainerPlant()
    unheld(plant)
    plant.cluster.trainjobs.unfollowed = lambda: "may not be read"  # type: ignore[method-assign]
    plant.runtime(nodes=2)
    plant.train()
    plant.look()
    told = plant.told()
    assert (told.state, told.reason) == (GangState.WAITING, "UNSEEN")
    assert (
        told.detail == "JobSets, by which its pods are known, may not be read; let them be read (config/rbac/jobsets)"
    )
    assert plant.let_in() == ()
