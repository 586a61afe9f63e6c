"""Somebody else who undoes what is written: met ever more seldom, told, and forgotten once it leaves off."""

from itertools import pairwise

import pytest

from autoscaler.app.batch_look import Look
from autoscaler.app.batch_undone import CALM_S, Undone
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime


async def test_who_suspends_a_gang_each_time_that_it_was_let_in_is_met_ever_more_seldom() -> None:
    """For an hour: 13 starts, where every other second would be 1,800; then it is left alone, and runs."""
    plant, starts_s = BatchPlant({"n0": 8}), list[float]()
    plant.job("train")
    for _ in range(3600):
        plant.look()
        for _ in plant.start():
            starts_s.append(plant.now_s)
            plant.pod("train-0", "n0", job="train", phase="Running")
            plant.look(0.0)
            plant.edit("train", suspend=True)
            plant.gone("train-0")
    gaps = [round(b - a) for a, b in pairwise(starts_s)]
    assert gaps[:8] == [1, 6, 11, 21, 41, 81, 161, 321]
    assert set(gaps[8:]) == {601}
    assert len(starts_s) == 13
    told = Look(plant.books, plant.tree, plant.now_s).gang("job/ns/train")
    assert told.reason == "SUSPENDED_BY_OTHERS"
    assert plant.books.notes["job/ns/train"].words == (
        f"somebody else suspended it {len(starts_s)} times after it was let in; it is left alone for 10 min, "
        "longer each time; see whose it is: two write to it"
    )
    plant.look(601.0)
    assert plant.start() == ["train"]
    plant.pod("train-0", "n0", job="train", phase="Running")
    plant.look()
    assert plant.books.is_running("job/ns/train")
    assert plant.books.notes == {}


async def test_one_that_is_suspended_by_hand_once_waits_again_at_once() -> None:
    plant = BatchPlant({"n0": 8})
    plant.job("train")
    plant.look()
    assert plant.start() == ["train"]
    plant.pod("train-0", "n0", job="train", phase="Running")
    plant.look()
    plant.edit("train", suspend=True)
    plant.gone("train-0")
    plant.look()
    assert plant.start() == ["train"]
    assert plant.books.notes == {}


async def test_who_is_not_let_in_yet_and_is_edited_waits_for_nothing() -> None:
    plant = BatchPlant({"n0": 8})
    plant.job("train", gpus=4)
    plant.look()
    plant.edit("train", template={"spec": {**plant.template("train")["spec"], "nodeSelector": {"rack": ""}}})
    plant.look()
    assert plant.books.rests.all == {}


def test_a_stop_that_is_undone_is_written_again_ever_later_and_says_so_from_the_second_on() -> None:
    undone, now_s, waits_s = Undone(), 1_000.0, list[float]()
    for times in range(1, 10):
        note = undone.stopped("g", now_s)
        assert (note is None) == (times == 1)
        later_s = now_s
        while not undone.may_stop("g", later_s):
            later_s += 1.0
        waits_s.append(later_s - now_s)
        now_s = later_s
    assert waits_s == [0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0]
    assert undone.stopped("g", now_s + CALM_S + 1.0) is None, "it was left alone: it begins anew"
    undone.forget("g")
    assert undone.may_stop("g", now_s)
