"""Gangs that run without having been let in: their pods are bound one after the other, and hold what they hold."""

import pytest

from tests.app.batch_plant import BatchPlant

FOUR = {"n0": 8, "n1": 8, "n2": 8, "n3": 8}


def started_by_hand(plant: BatchPlant, pods: int = 2) -> None:
    plant.job("byhand", pods=pods)
    plant.edit("byhand", suspend=False)
    plant.look()


def owners(plant: BatchPlant, *nodes: str) -> list[dict[str, int]]:
    return [plant.books.room.ledger.owners(node, "h100") for node in nodes]


@pytest.mark.parametrize("looks", [1, 3], ids=["the next look", "looks later"])
async def test_pods_that_are_bound_after_their_gang_was_met_are_its_own_and_no_strangers(looks: int) -> None:
    plant = BatchPlant(FOUR)
    started_by_hand(plant)
    plant.pod("byhand-0", "n0", job="byhand")
    for _ in range(looks):
        plant.look()
    plant.pod("byhand-1", "n1", job="byhand")
    plant.look()
    assert owners(plant, "n0", "n1") == [{"batch": 8, "free": 0}] * 2
    assert plant.books.room.tree.quotas[0].total == [32], "who waits for all four nodes waits for no more than there is"


async def test_a_pod_that_lands_where_another_gang_was_to_start_is_its_gangs_once_that_one_is_stopped() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8, "n2": 8})
    started_by_hand(plant)
    plant.pod("byhand-0", "n0", job="byhand")
    plant.look()
    plant.job("next")
    plant.look()
    assert plant.start() == ["next"]
    place = plant.work("next").put[0].node
    plant.pod("byhand-1", place, job="byhand")
    plant.look()
    assert plant.stop() == ["next"], "its place was taken"
    plant.look()
    assert owners(plant, "n0", place) == [{"batch": 8, "free": 0}] * 2
    assert plant.start() == ["next"]
    assert plant.work("next").put[0].node not in {"n0", place}


async def test_old_pods_beside_new_ones_are_never_more_of_a_gang_than_it_asks_for() -> None:
    plant = BatchPlant(FOUR)
    started_by_hand(plant)
    for name, node in (("old-0", "n0"), ("old-1", "n1"), ("new-0", "n2"), ("new-1", "n3")):
        plant.pod(name, node, job="byhand")
        plant.look()
    held = owners(plant, *FOUR)
    assert sum(each.get("batch", 0) for each in held) == 16
    assert sum(each.get("foreign", 0) for each in held) == 16
    plant.gone("old-0", "old-1")
    plant.look()
    assert owners(plant, *FOUR) == [{"free": 8}] * 2 + [{"batch": 8, "free": 0}] * 2
