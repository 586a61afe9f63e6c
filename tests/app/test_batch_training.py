"""Jobs of the training operator in the books: replicas of several shapes are one gang, stopped and found whole."""

from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.batch_objects import WorkPod
from autoscaler.adapters.kube.batch_training import TrainingJob
from autoscaler.adapters.kube.batch_work import Put
from autoscaler.adapters.kube.informer import Change
from autoscaler.app.batch_look import Look
from autoscaler.record.batch import GangState, GangTold
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

NAME: Final = "pytorchjob/ns/train"
MADE: Final = "2023-11-14T22:13:20Z"


class TrainingPlant(BatchPlant):
    """Four nodes of eight GPUs; PyTorchJobs beside Jobs."""

    def __init__(self) -> None:
        super().__init__({f"n{at}": 8 for at in range(4)}, guaranteed=32)
        self.object: dict[str, Any] = {}

    def train(self, *, policy: Any = None, **sets: tuple[int, int]) -> None:
        """A PyTorchJob comes, that waits unless its policy is given; of each set pods and the GPUs of each."""
        made = {
            each: {"replicas": pods, "template": {"spec": {
                "priorityClassName": "batch", "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
            }}}
            for each, (pods, gpus) in sets.items()
        }  # fmt: skip
        meta = {
            "name": "train", "namespace": "ns", "uid": "train", "labels": {"headroom.dev/queue": "team"},
            "creationTimestamp": MADE,
        }  # fmt: skip
        spec = {"runPolicy": {"suspend": True} if policy is None else policy, "pytorchReplicaSpecs": made}
        self.object = {"metadata": meta, "spec": spec, "status": {}}
        self.change()

    def change(self, *, annotations: dict[str, str] | None = None, **policy: Any) -> None:
        """A PyTorchJob is edited, or its status is."""
        found = self.object
        self._versions += 1
        found["metadata"] |= {"resourceVersion": str(self._versions), "generation": self._versions}
        found["metadata"] |= {} if annotations is None else {"annotations": annotations}
        found["spec"]["runPolicy"] |= policy
        read = msgspec.convert(found, TrainingJob, strict=False)
        self.cluster.on_work("PyTorchJob", Change("ns/train", None, read))

    def let_in(self) -> dict[str, tuple[Put, ...]]:
        """Start what is due, as the writer would; where each was put."""
        found = {}
        for work, plan in list(self.books.due_starts(self.now_s)):
            found[work.ref.name] = plan
            self.change(annotations={"headroom.dev/placement": msgspec.json.encode(plan).decode()}, suspend=False)
        return found

    def bind(self, plan: tuple[Put, ...], gpus: tuple[int, ...]) -> list[str]:
        """All pods of the job `train` are bound where it was put; their names."""
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "controller": True}
        names = []
        for at, put in enumerate(plan):
            for number in range(put.pods):
                names.append(f"train-{at}-{number}")
                meta = {"name": names[-1], "namespace": "ns", "uid": names[-1], "creationTimestamp": MADE}
                box = {"resources": {"limits": {"nvidia.com/gpu": str(gpus[put.pod_set])}}}
                pod = {
                    "metadata": meta | {"ownerReferences": [owner]}, "status": {"phase": "Running"},
                    "spec": {"nodeName": put.node, "containers": [box]},
                }  # fmt: skip
                self.cluster._pods._cache.put(msgspec.convert(pod, WorkPod, strict=False))
        return names

    def told(self, name: str = NAME) -> GangTold:
        """What is told of a gang."""
        return Look(self.books, self.tree, self.now_s).gang(name)


async def test_a_master_and_its_workers_are_one_gang_each_where_it_fits() -> None:
    plant = TrainingPlant()
    plant.train(Master=(1, 2), Worker=(3, 8))
    plant.look()
    plan = plant.let_in()["train"]
    nodes = {at: sorted(put.node for put in plan if put.pod_set == at) for at in (0, 1)}
    assert [len(each) for each in nodes.values()] == [1, 3]
    assert not set(nodes[0]) & set(nodes[1])
    assert len(plant.bind(plan, (2, 8))) == 4
    plant.look()
    told = plant.told()
    assert (told.state, told.pods, told.units) == (GangState.RUNNING, 4, (("h100", 26),))
    assert sorted(plant.free().values()) == [0, 0, 0, 6]
    assert plant.cluster.seen(plant.books.is_tracked, plant.now_s).others == (), "its pods are not strangers"


async def test_it_waits_whole_while_one_worker_has_no_room() -> None:
    plant = TrainingPlant()
    plant.job("beside")
    plant.look()
    plant.start()
    plant.pod("beside-0", plant.work("beside").put[0].node, job="beside")
    plant.train(Master=(1, 2), Worker=(3, 8))
    plant.look()
    told = plant.told()
    assert (plant.due(), told.state, told.changes[0].units) == ([], GangState.WAITING, 2)
    plant.end("beside")
    plant.gone("beside-0")
    plant.look()
    assert list(plant.let_in()) == ["train"]


async def test_after_a_restart_it_is_found_where_its_pods_are_and_nobody_is_let_in_twice() -> None:
    plant = TrainingPlant()
    plant.train(Master=(1, 2), Worker=(3, 8))
    plant.look()
    plant.bind(plant.let_in()["train"], (2, 8))
    plant.look()
    plant.begin()
    plant.look()
    assert plant.told().state is GangState.RUNNING
    assert (plant.let_in(), sorted(plant.free().values())) == ({}, [0, 0, 0, 6])


async def test_stopped_by_somebody_it_waits_again_with_all_of_its_pods_though_some_had_ended_well() -> None:
    plant = TrainingPlant()
    plant.train(Master=(1, 2), Worker=(3, 8))
    plant.look()
    pods = plant.bind(plant.let_in()["train"], (2, 8))
    plant.look()
    plant.object["status"] = {"replicaStatuses": {"Worker": {"succeeded": 2}}}
    plant.change(suspend=True)
    plant.look()
    assert plant.let_in() == {}, "its pods hold the GPUs still"
    plant.gone(*pods)
    plant.look()
    assert sum(put.pods for put in plant.let_in()["train"]) == 4


async def test_one_that_ran_before_it_was_heard_of_is_taken_in_with_what_it_holds() -> None:
    plant = TrainingPlant()
    plant.train(policy={}, Worker=(2, 8))
    plant.bind((Put("n0", "h100", 0, 1), Put("n1", "h100", 0, 1)), (8,))
    plant.look()
    plant.look()
    assert plant.told().state is GangState.RUNNING
    assert sorted(plant.free().values()) == [0, 0, 8, 8]


REFUSED: Final[dict[str, tuple[dict[str, tuple[int, int]], str, str]]] = {
    "absurd widths": ({"Worker": (2**31 - 1, 8)}, "ABSURD", "are 2147483647 at once; ask for 1 to 16384"),
    "no pod": ({"Worker": (0, 8)}, "ABSURD", "are 0 at once; ask for 1 to 16384"),
    "fewer than none": ({"Master": (1, 8), "Worker": (-1, 8)}, "ABSURD", "are -1 at once; ask for 1 to 16384"),
    "no GPU": ({"Worker": (1, 0)}, "UNKNOWN_SHAPE", "the pods of Worker ask for no GPU"),
    "no replicas": ({}, "ABSURD", "spec.pytorchReplicaSpecs: there are none; give replicas with a template"),
}


@pytest.mark.parametrize(("sets", "reason", "words"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_meant_is_refused_by_name_and_keeps_nobody_else(
    sets: dict[str, tuple[int, int]], reason: str, words: str
) -> None:
    plant = TrainingPlant()
    plant.train(**sets)
    plant.job("beside")
    plant.look()
    told = plant.told()
    assert (told.state, told.reason) == (GangState.REFUSED, reason)
    assert words in told.detail
    assert plant.due() == ["beside"]
