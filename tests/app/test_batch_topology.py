"""Gangs that want all of their pods in one domain: where they are put, what is told while none has room, restarts."""

from collections.abc import Iterable

import pytest

from autoscaler.app.batch_look import Look
from autoscaler.record.batch import GangTold
from autoscaler.record.batch_words import sentence
from tests.app.batch_plant import BatchPlant
from tests.app.test_batch_books import running

pytestmark = pytest.mark.looptime

REQUIRED = {"headroom.dev/required-topology": "rack"}
PREFERRED = {"headroom.dev/preferred-topology": "rack"}


def two_racks(busy: Iterable[str] = (), gpus: int = 8) -> BatchPlant:
    """Two racks of two nodes of eight GPUs, of which strangers hold some on those that are busy."""
    plant = BatchPlant({})
    for name in ("a0", "a1", "b0", "b1"):
        plant.node(name, 8, rack=name[0])
    for name in busy:
        plant.pod(f"on-{name}", name, gpus)
    plant.look()
    return plant


def put(plant: BatchPlant, name: str) -> list[str]:
    return sorted(each.node for each in plant.books.plans.get(f"job/ns/{name}", ()))


def told(plant: BatchPlant, name: str) -> GangTold:
    return Look(plant.books, plant.tree, plant.now_s).gang(f"job/ns/{name}")


@pytest.mark.parametrize("asks", [REQUIRED, PREFERRED], ids=["required", "preferred"])
async def test_a_gang_is_put_into_the_rack_that_has_room_for_all_of_it(asks: dict[str, str]) -> None:
    plant = two_racks(busy=["a0"])
    plant.job("train", pods=2, annotations=asks)
    plant.look()
    assert put(plant, "train") == ["b0", "b1"], "a1 is the tighter one, and its rack has no other"


async def test_where_no_rack_has_room_for_all_one_that_requires_it_waits_and_says_so() -> None:
    """A gang runs in each rack, so that one node of each is free."""
    plant = two_racks(busy=["a0", "b0", "b1"])
    running(plant, "in-a")
    plant.gone("on-b1")
    running(plant, "in-b")
    plant.gone("on-a0", "on-b0")
    plant.job("train", pods=2, annotations=REQUIRED)
    plant.look()
    assert put(plant, "train") == []
    assert (told(plant, "train").reason, told(plant, "train").changes[0].where) == ("TOPOLOGY", "rack")
    assert "one rack with 16 free units" in sentence(told(plant, "train"), plant.now_s)
    plant.end("in-b")
    plant.gone("in-b-0")
    plant.look()
    assert put(plant, "train") == ["b0", "b1"]


async def test_where_no_rack_has_room_for_all_one_that_prefers_it_starts_over_two() -> None:
    plant = two_racks(busy=["a0", "b0"])
    plant.job("train", pods=2, annotations=PREFERRED)
    plant.look()
    assert put(plant, "train") == ["a1", "b1"]


async def test_one_that_no_rack_could_hold_if_all_gangs_were_gone_is_told_so() -> None:
    plant = two_racks()
    plant.job("train", pods=3, annotations=REQUIRED)
    plant.look()
    assert told(plant, "train").reason == "TOO_LARGE"
    assert "usable nodes that hold 24 units of h100 in one rack" in sentence(told(plant, "train"), plant.now_s)
    plant.node("a2", 8, rack="a")
    plant.look()
    assert put(plant, "train") == ["a0", "a1", "a2"]


async def test_one_that_requires_a_node_is_never_divided() -> None:
    plant = two_racks(busy=["a0", "a1", "b0"], gpus=4)
    plant.job("train", pods=2, gpus=4, annotations={"headroom.dev/required-topology": "node"})
    plant.job("anywhere", pods=2, gpus=4)
    plant.look()
    assert put(plant, "train") == ["b1"]
    assert put(plant, "anywhere") == ["a0", "a1"]


async def test_a_restart_leaves_it_where_it_is_and_its_next_start_is_in_one_rack_again() -> None:
    plant = two_racks(busy=["a0"])
    plant.job("train", pods=2, annotations=REQUIRED)
    plant.look()
    plant.start()
    for at, node in enumerate(("b0", "b1")):
        plant.pod(f"train-{at}", node, job="train")
    plant.look()
    plant.begin()
    plant.look()
    assert "job/ns/train" in plant.books.room.runs.all
    assert plant.stop() == []
    plant.lose("b0")
    plant.look()
    assert plant.stop() == ["train"], "it lost a node, and gangs are whole"
    plant.gone("train-0", "train-1")
    plant.gone("on-a0")
    plant.look()
    assert put(plant, "train") == ["a0", "a1"]


async def test_a_domain_that_is_edited_while_it_waits_is_the_one_that_counts() -> None:
    plant = two_racks(busy=["a0", "b0"])
    plant.job("train", pods=2, annotations=REQUIRED)
    plant.look()
    assert put(plant, "train") == []
    plant.job("train", pods=2)
    plant.look()
    assert put(plant, "train") == ["a1", "b1"]


async def test_a_level_that_is_none_keeps_the_gang_from_being_admitted_with_the_remedy() -> None:
    plant = two_racks()
    plant.job("train", annotations={"headroom.dev/required-topology": "zone"})
    plant.look()
    unfit = plant.books.unfit["job/ns/train"]
    assert (unfit.reason, unfit.words) == (
        "UNKNOWN_LEVEL", "headroom.dev/required-topology: 'zone'; name one of rack, island, node"
    )  # fmt: skip
