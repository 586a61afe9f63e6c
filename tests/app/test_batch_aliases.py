"""Objects that carry another scheduler's label of a queue: ours where their namespace wants that, else left alone."""

import pytest

from autoscaler.adapters.kube.batch_kueue import PATHS, Workload
from autoscaler.adapters.kube.meta import Meta, Owner
from autoscaler.app.batch_look import Look
from autoscaler.record.batch import GangState
from tests.app.batch_plant import BatchPlant
from tests.app.test_batch_acting import Scene

pytestmark = pytest.mark.looptime

KUEUES = {"kueue.x-k8s.io/queue-name": "team"}
OTHERS = {
    "Kueue's": KUEUES,
    "KAI's": {"kai.scheduler/queue": "team"},
    "YuniKorn's": {"yunikorn.apache.org/queue": "team"},
    "ours before theirs": {"kueue.x-k8s.io/queue-name": "nobodys", "headroom.dev/queue": "team"},
    "with more of Kueue's": KUEUES | {"kueue.x-k8s.io/priority-class": "high"},
}


@pytest.mark.parametrize("labels", OTHERS.values(), ids=OTHERS)
async def test_where_a_namespace_wants_it_the_label_of_another_names_the_queue(labels: dict[str, str]) -> None:
    scene = Scene(1, plant=BatchPlant({"n0": 8}, aliases=["ns"]))
    scene.plant.job("theirs", labels=labels)
    await scene.look()
    assert scene.jobs() == ["start theirs"]
    scene.bind("theirs")
    await scene.look(1.0)
    (told,) = scene.batch.find("Job", "ns", "theirs")
    assert (told.state, told.queue) == (GangState.RUNNING, "team"), "by what the server answered as well"


@pytest.mark.parametrize("labels", OTHERS.values(), ids=OTHERS)
async def test_in_any_other_namespace_it_is_as_it_was(labels: dict[str, str]) -> None:
    plant = BatchPlant({"n0": 8}, aliases=["elsewhere"])
    plant.job("theirs", labels=labels)
    plant.look()
    assert plant.due() == []
    found = plant.cluster.works.get("job/ns/theirs")
    assert (found.manager if found is not None else "nobody's") == (
        "Kueue" if set(labels) & set(KUEUES) else "nobody's"
    )


async def test_one_that_kueue_takes_all_the_same_is_left_alone() -> None:
    plant = BatchPlant({"n0": 8}, aliases=["ns"])
    plant.job("theirs", labels=KUEUES)
    owner = Owner("batch/v1", "Job", "theirs", "theirs", controller=True)
    plant.cluster._kueue[PATHS[0]]._cache.put(Workload(Meta("job-theirs-3f4ab", "ns", owner_references=(owner,))))
    plant.look()
    assert plant.due() == []
    told = Look(plant.books, plant.tree, plant.now_s).gang("job/ns/theirs")
    assert (told.state, told.detail) == (GangState.FOREIGN, "Kueue manages it")


async def test_a_name_that_is_no_batch_queues_is_refused_with_it() -> None:
    plant = BatchPlant({"n0": 8}, aliases=["ns"])
    plant.job("theirs", labels={"kueue.x-k8s.io/queue-name": "local-queue"})
    plant.look()
    assert "there is no BatchQueue 'local-queue'" in plant.books.unfit["job/ns/theirs"].words
