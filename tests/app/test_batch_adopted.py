"""Gangs that run without having been let in: their pods are bound one after the other, and hold what they hold."""

import pytest

from autoscaler.core.pool.world import LentSeen
from tests.app.batch_plant import BatchPlant
from tests.app.test_batch_loans import Pool

FOUR = {"n0": 8, "n1": 8, "n2": 8, "n3": 8}
R1 = {"rack": "r1"}


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


async def test_one_that_no_node_could_take_when_it_was_started_counts_once_its_pod_is_bound() -> None:
    """As where nodes are made for its pod, which has no place before."""
    plant = BatchPlant({"n0": 8})
    plant.job("byhand")
    plant.edit("byhand", suspend=False, template={"spec": plant.template("byhand")["spec"] | {"nodeSelector": R1}})
    plant.pod("byhand-0", job="byhand")
    plant.look()
    assert plant.books.unfit["job/ns/byhand"].reason == "UNKNOWN_SHAPE"
    plant.node("n1", 8, rack="r1")
    plant.look()
    plant.pod("byhand-0", "n1", job="byhand", phase="Running")
    plant.look()
    assert (plant.books.unfit, list(plant.books.room.runs.all)) == ({}, ["job/ns/byhand"])


@pytest.mark.parametrize(("pods", "edited"), [(1, 2), (2, 1)], ids=["to two", "to one"])
async def test_a_pod_beyond_what_its_gang_was_met_with_or_asks_for_by_now_is_a_strangers(
    pods: int, edited: int
) -> None:
    """Somebody edits its object while it runs: it has no more of its quota by that."""
    plant = BatchPlant({"n0": 8, "n1": 8})
    started_by_hand(plant, pods)
    plant.pod("byhand-0", "n0", job="byhand")
    plant.look()
    plant.edit("byhand", parallelism=edited, completions=edited)
    plant.look()
    plant.pod("byhand-1", "n1", job="byhand")
    plant.look()
    assert owners(plant, "n0", "n1") == [{"batch": 8, "free": 0}, {"foreign": 8, "free": 0}]


async def test_a_pod_that_lands_where_another_gang_was_to_start_costs_its_own_no_place_of_its_other_pods() -> None:
    plant = BatchPlant(FOUR)
    for name, pods in (("wide", 2), ("other", 1)):
        plant.job(name, pods=pods)
        plant.look()
        assert plant.start() == [name]
    plant.pod("wide-0", plant.work("other").put[0].node, job="wide")
    plant.look()
    kept = [put.node for put in plant.work("wide").put]
    assert owners(plant, *kept) == [{"batch": 8, "free": 0}] * 2


async def test_a_gang_that_lands_beside_its_loan_where_another_one_was_to_start_has_it_still() -> None:
    pool = Pool()
    pool.plant.node("n2", 8)
    for name, start in (("other", pool.plant.job), ("train", pool.job)):
        pool.plant.look()
        start(name)
        pool.plant.look()
        assert pool.plant.start() == [name]
    assert [pool.plant.work(name).put[0].node for name in ("other", "train")] == ["n2", "w0"]
    pool.displaced("w0")
    pool.plant.pod("train-0", "n2", job="train", phase="Running")
    for _ in range(2):
        pool.plant.look()
        assert pool.lent() == (LentSeen("w0", 8, coming=8),)
