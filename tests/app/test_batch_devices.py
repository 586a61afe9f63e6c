"""Gangs whose pods ask for other devices beside GPUs, such as network cards: no node is a place that has none."""

import pytest

from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

CARD = "rdma/card"


def asking(plant: BatchPlant, name: str, cards: str, pods: int = 1) -> None:
    plant.job(name, pods=pods)
    limits = {"nvidia.com/gpu": "8", CARD: cards}
    plant.edit(
        name, template={"spec": plant.template(name)["spec"] | {"containers": [{"resources": {"limits": limits}}]}}
    )


async def test_where_every_node_has_the_cards_a_gang_starts() -> None:
    plant = BatchPlant({})
    plant.node("n0", 8, others={CARD: "8"})
    asking(plant, "train", "8")
    plant.look()
    assert plant.due() == ["train"]


async def test_where_no_node_has_any_nobody_is_let_in_to_wait_for_the_scheduler_and_it_is_told() -> None:
    plant = BatchPlant({"n0": 8})
    asking(plant, "train", "1")
    plant.look()
    assert plant.due() == []
    unfit = plant.books.unfit["job/ns/train"]
    words = (
        "no node that offers nvidia.com/gpu offers 1 of rdma/card besides, as each of its pods asks for; "
        "leave that out, or see why no node offers it"
    )
    assert (unfit.reason, unfit.words) == ("UNKNOWN_SHAPE", words)
    plant.node("n0", 8, others={CARD: "1"})
    plant.look()
    assert plant.due() == ["train"], "the plugin of the cards has come up"


async def test_where_some_nodes_have_too_few_a_place_would_be_no_proof() -> None:
    plant = BatchPlant({})
    plant.node("n0", 8, others={CARD: "8"})
    plant.node("n1", 8, others={CARD: "4"})
    asking(plant, "train", "8")
    plant.look()
    unfit = plant.books.unfit["job/ns/train"]
    assert unfit.reason == "NARROWED"
    assert "their selector, 8 of rdma/card" in unfit.words


async def test_where_no_node_is_there_yet_it_waits_for_one() -> None:
    plant = BatchPlant({})
    asking(plant, "train", "8")
    plant.look()
    assert plant.books.unfit == {}
    assert plant.due() == []


async def test_a_plugin_that_starts_anew_takes_nobody_its_place() -> None:
    plant = BatchPlant({})
    plant.node("n0", 8, others={CARD: "8"})
    plant.pod("stranger", "n0")
    asking(plant, "train", "8")
    plant.look()
    plant.node("n0", 8, others={CARD: "0"})
    plant.look()
    assert plant.books.unfit == {}
    plant.node("n0", 8)
    plant.gone("stranger")
    plant.look()
    assert plant.due() == ["train"]


async def test_a_gang_that_runs_is_left_alone_where_its_nodes_offer_no_cards_any_more() -> None:
    plant = BatchPlant({})
    plant.node("n0", 8, others={CARD: "8"})
    asking(plant, "train", "8")
    plant.look()
    plant.start()
    plant.pod("train-0", "n0", job="train")
    plant.look()
    plant.node("n0", 8)
    plant.look()
    assert (plant.stop(), plant.books.unfit) == ([], {})
    plant.begin()
    plant.look()
    assert (plant.stop(), plant.books.unfit) == ([], {})
