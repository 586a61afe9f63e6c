"""Jobs that may be wider or narrower in the books: let in as wide as fits, found again, stopped and let in anew."""

from typing import Final

import pytest

from autoscaler.app.batch_look import Look
from autoscaler.record.batch import ChangeTold, GangState, GangTold
from autoscaler.record.batch_words import gang_page, sentence, units
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

WIDE: Final = {"headroom.dev/min-width": "2", "headroom.dev/max-width": "4"}


def told(plant: BatchPlant, name: str) -> GangTold:
    return Look(plant.books, plant.tree, plant.now_s).gang(f"job/ns/{name}")


def bind(plant: BatchPlant, name: str) -> None:
    """All pods of a Job are bound where it was put."""
    for put in plant.work(name).put:
        for at in range(put.pods):
            plant.pod(f"{name}-{put.node}-{at}", put.node, job=name)


def beside(plant: BatchPlant) -> None:
    """A Job runs on one of the nodes."""
    plant.job("beside")
    plant.look()
    plant.start()
    bind(plant, "beside")


async def test_it_runs_three_of_four_wide_where_one_node_is_taken_and_says_why() -> None:
    plant = BatchPlant({f"n{at}": 8 for at in range(4)})
    beside(plant)
    plant.job("train", pods=4, annotations=WIDE)
    plant.look()
    assert plant.start() == ["train"]
    bind(plant, "train")
    plant.look()
    gang = told(plant, "train")
    assert (gang.state, gang.pods, gang.most_pods, gang.units) == (GangState.RUNNING, 3, 4, (("h100", 24),))
    assert gang.narrow == ChangeTold("ROOM", "h100", 8)
    lacks = "one more pod would have taken 8 more free units of h100"
    assert sentence(gang, plant.now_s) == f"runs 3 of 4 wide since 1 s: fits within quota and room; {lacks}"
    assert units(gang) == "24 h100 in 3 pods"
    assert plant.free() == dict.fromkeys(plant.free(), 0)


async def test_while_it_waits_it_is_told_what_the_least_takes() -> None:
    plant = BatchPlant({f"n{at}": 8 for at in range(2)})
    beside(plant)
    plant.job("train", pods=4, annotations=WIDE)
    plant.look()
    gang = told(plant, "train")
    assert (gang.state, gang.pods, gang.changes) == (GangState.WAITING, 2, (ChangeTold("ROOM", "h100", 8),))
    assert "asks for 16 h100 in 2 pods at least, and 4 pods at most" in gang_page(gang, plant.now_s)


async def test_after_a_restart_it_is_as_wide_as_its_object_says_and_stays_so() -> None:
    plant = BatchPlant({f"n{at}": 8 for at in range(4)})
    beside(plant)
    plant.job("train", pods=4, annotations=WIDE)
    plant.look()
    plant.start()
    node = plant.work("beside").put[0].node
    plant.end("beside")
    plant.gone(*plant.cluster.pods.of_gang("job/ns/beside"))
    plant.gone(f"beside-{node}-0")
    plant.begin()
    plant.look()
    bind(plant, "train")
    plant.look()
    gang = told(plant, "train")
    assert (gang.state, gang.pods, gang.most_pods, gang.narrow) == (GangState.RUNNING, 3, 4, None)
    assert sentence(gang, plant.now_s).startswith("runs 3 of 4 wide")
    assert plant.due() == []
    assert sorted(plant.free().values()) == [0, 0, 0, 8], "what became free is not its own"


async def test_stopped_by_hand_it_chooses_anew_from_what_was_written() -> None:
    plant = BatchPlant({f"n{at}": 8 for at in range(4)})
    beside(plant)
    plant.job("train", pods=4, annotations=WIDE)
    plant.look()
    plant.start()
    bind(plant, "train")
    plant.look()
    plant.edit("train", suspend=True)
    assert plant.work("train").width is not None
    plant.gone(*(f"train-{put.node}-0" for put in plant.work("train").put))
    node = plant.work("beside").put[0].node
    plant.end("beside")
    plant.gone(f"beside-{node}-0")
    plant.look()
    assert plant.start() == ["train"]
    assert (sum(put.pods for put in plant.work("train").put), plant.work("train").sets[0].pods) == (4, 4)


async def test_a_width_that_is_edited_before_its_start_is_written_is_decided_anew() -> None:
    plant = BatchPlant({f"n{at}": 8 for at in range(4)})
    plant.job("train", pods=4, annotations=WIDE)
    plant.look()
    assert plant.due() == ["train"]
    plant.job("train", pods=4, annotations={"headroom.dev/min-width": "1", "headroom.dev/max-width": "2"}, generation=2)
    plant.look()
    assert plant.start() == ["train"]
    assert sum(put.pods for put in plant.work("train").put) == 2
    assert sorted(plant.free().values()) == [0, 0, 8, 8]
