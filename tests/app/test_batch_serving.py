"""What a tenant's serving used counts, as its gangs do, where shares are equal: who used less goes first."""

import pytest

from tests.app.batch_plant import BatchPlant
from tests.app.test_batch_books import running

pytestmark = pytest.mark.looptime

TWO = {"idle": ("idle",), "serves": ("ns",)}


def used_gpu_h(plant: BatchPlant) -> dict[str, float]:
    room = plant.books.room
    return {name: round(room.runs.past(at, plant.now_s).used_gpu_s / 3600, 1) for name, at in room.tree.index.items()}


def serving_for_an_hour() -> BatchPlant:
    """A node of two is held by a tenant's replicas for an hour; then another stands in its place, and both are full."""
    plant = BatchPlant({"n0": 8, "n1": 8}, queues=TWO)
    plant.pod("serving-0", "n0", 4)
    plant.pod("serving-1", "n0", 4)
    plant.pod("stranger", "n1")
    plant.look()
    plant.look(3600.0)
    return plant


async def test_of_two_with_nothing_running_the_one_that_served_less_goes_first() -> None:
    plant = serving_for_an_hour()
    assert used_gpu_h(plant) == {"idle": 0.0, "serves": 7.9}, "eight for an hour, the first of it already decayed"
    plant.job("theirs", queue="serves", creationTimestamp="2023-11-14T22:13:20Z")
    plant.job("other", queue="idle", namespace="idle", creationTimestamp="2023-11-14T22:13:50Z")
    plant.look()
    plant.gone("stranger")
    plant.look()
    assert plant.due() == ["other"], "though it came later"


async def test_what_serving_holds_no_more_is_used_no_more_and_half_of_it_is_forgotten_in_a_day() -> None:
    plant = serving_for_an_hour()
    plant.gone("serving-0", "serving-1")
    plant.look()
    plant.look(86_400.0)
    assert used_gpu_h(plant)["serves"] == 3.9


async def test_books_that_are_written_anew_go_on_with_what_was_used_and_what_serving_holds() -> None:
    plant = serving_for_an_hour()
    plant.begin(plant.books.packed(plant.now_s))
    plant.look(3600.0)
    assert used_gpu_h(plant)["serves"] == 15.5


async def test_a_gang_that_runs_over_a_restart_goes_on_to_use_what_it_holds() -> None:
    plant = BatchPlant({"n0": 8}, queues=TWO)
    running(plant, "train", queue="serves")
    plant.look(3600.0)
    assert used_gpu_h(plant)["serves"] == 7.9
    plant.begin(plant.books.packed(plant.now_s))
    plant.look(3600.0)
    assert used_gpu_h(plant)["serves"] == 15.5


async def test_what_was_used_while_nobody_looked_is_not_made_up() -> None:
    """A day passes between what was written down last and the restart: half of it is forgotten, no more is known."""
    plant = serving_for_an_hour()
    saved = plant.books.packed(plant.now_s)
    plant.now_s += 86_400.0
    plant.begin(saved)
    assert used_gpu_h(plant)["serves"] == 3.9


async def test_pods_that_serve_and_are_of_no_tenants_namespace_count_for_nobody() -> None:
    plant = BatchPlant({"n0": 8}, queues={"idle": ("idle",)})
    plant.pod("serving-0", "n0")
    plant.look()
    plant.look(3600.0)
    assert used_gpu_h(plant) == {"idle": 0.0}
