"""How long gangs that were let in may look for their places, and what is found of them after a restart."""

from dataclasses import replace

import pytest

from autoscaler.app.batch_patience import START_MOST_S, START_WITHIN_S
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

FOUR = {f"n{at}": 8 for at in range(4)}


def burst(gangs: int) -> tuple[BatchPlant, list[str]]:
    """Gangs of one pod that were all let in at once, and their names."""
    plant = BatchPlant({f"n{at}": 8 for at in range(gangs)})
    for at in range(gangs):
        plant.job(f"one-{at}")
    plant.look()
    while plant.books.decide(plant.now_s):
        pass
    return plant, plant.start()


def bind(plant: BatchPlant, name: str) -> None:
    """All pods of a Job are bound where it was put."""
    pods = [put.node for put in plant.work(name).put for _ in range(put.pods)]
    for at, node in enumerate(pods):
        plant.pod(f"{name}-{at}", node, job=name)


async def test_of_forty_gangs_let_in_at_once_the_last_one_waits_until_the_job_controller_comes_to_it() -> None:
    """One pod every five seconds: the last gang has none for 200 seconds, and nobody is stopped."""
    plant, started = burst(40)
    assert len(started) == 40
    for name in reversed(started):
        plant.look(5.0)
        assert plant.stop() == []
        bind(plant, name)
    plant.look(2 * START_WITHIN_S)
    assert plant.stop() == []
    assert all(plant.books.is_running(f"job/ns/{name}") for name in started)


async def test_of_two_gangs_let_in_just_after_each_other_the_controllers_may_take_either_first() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    for name in ("first", "second"):
        plant.job(name)
        plant.look(5.0)
        assert plant.start() == [name]
    plant.look(20.0)
    bind(plant, "second")
    for _ in range(2):
        plant.look(START_WITHIN_S / 2 - 1.0)
        assert plant.stop() == []
    bind(plant, "first")
    plant.look()
    assert plant.books.is_running("job/ns/first")


async def test_once_nothing_moves_any_more_those_that_are_not_bound_are_stopped() -> None:
    plant, started = burst(4)
    for name in started[:2]:
        plant.look(20.0)
        bind(plant, name)
    plant.look()
    plant.look(START_WITHIN_S - 1.0)
    assert plant.stop() == []
    plant.look()
    assert plant.stop() == started[2:]


async def test_the_progress_of_gangs_that_were_let_in_later_is_no_excuse() -> None:
    plant = BatchPlant({f"n{at}": 8 for at in range(12)})
    plant.job("stuck")
    plant.look()
    assert plant.start() == ["stuck"]
    stopped = []
    for at in range(10):
        plant.look(12.0)
        stopped += plant.stop()
        plant.job(f"later-{at}")
        plant.look(0.0)
        plant.start()
        bind(plant, f"later-{at}")
    assert stopped == ["stuck"]


async def test_a_wide_gang_that_comes_pod_by_pod_is_let_be() -> None:
    plant = BatchPlant({f"n{at}": 8 for at in range(5)})
    plant.job("wide", pods=5)
    plant.look()
    plant.start()
    for at, put in enumerate(plant.work("wide").put):
        plant.look(20.0)
        assert plant.stop() == []
        plant.pod(f"wide-{at}", put.node, job="wide")
    plant.look()
    assert plant.books.is_running("job/ns/wide")


async def test_a_pod_that_is_made_again_and_again_is_no_progress() -> None:
    plant = BatchPlant({"n0": 8})
    plant.job("loops")
    plant.look()
    plant.start()
    plant.pod("loops-0", job="loops")
    plant.look()
    for at in range(3):
        assert plant.stop() == []
        plant.gone(f"loops-{at}")
        plant.pod(f"loops-{at + 1}", job="loops")
        plant.look(START_WITHIN_S / 3)
    assert plant.stop() == ["loops"]


async def test_pods_that_come_one_by_one_for_ever_are_waited_for_no_longer_than_the_widest_gang_takes() -> None:
    plant = BatchPlant({"n0": 8})
    plant.job("endless", pods=8, gpus=1)
    plant.look()
    assert plant.start() == ["endless"]
    begun_s, at = plant.now_s, 0
    while not plant.stop():
        plant.look(25.0)
        plant.pod(f"endless-{at}", job="endless")
        at += 1
        assert at < 100
    assert 900.0 <= plant.now_s - begun_s <= 950.0
    assert "longer than 900 s" in plant.books.notes["job/ns/endless"].words


def three_of_six() -> BatchPlant:
    """A gang of three pods runs for an hour on six nodes, and then the node of its first pod takes none any more."""
    plant = BatchPlant({f"n{at}": 8 for at in range(6)})
    plant.job("wide", pods=3)
    plant.look()
    plant.start()
    bind(plant, "wide")
    plant.look(3_600.0)
    plant.node(plant.work("wide").put[0].node, 8, unschedulable=True)
    plant.gone("wide-0")
    return plant


async def test_a_gang_one_of_whose_pods_finds_no_place_again_is_stopped_whole_and_let_in_elsewhere() -> None:
    plant = three_of_six()
    broken = plant.work("wide").put[0].node
    plant.pod("wide-3", job="wide")
    plant.look()
    plant.look(START_MOST_S - 1.0)
    plant.now_s += START_MOST_S
    plant.books.unseen(plant.now_s - START_MOST_S, plant.now_s)
    plant.look(0.0)
    assert (plant.stop(), plant.books.is_running("job/ns/wide")) == ([], True), "what was not seen does not count"
    plant.look()
    assert plant.stop() == ["wide"]
    words = "not all of its pods were bound, and one that was made anew found no place for 900 s; it was stopped whole"
    assert plant.books.notes["job/ns/wide"].words == words
    plant.gone("wide-1", "wide-2", "wide-3")
    plant.look(2 * START_WITHIN_S)
    assert plant.start() == ["wide"]
    bind(plant, "wide")
    assert broken not in {put.node for put in plant.work("wide").put}
    plant.look(2 * START_MOST_S)
    assert (plant.stop(), plant.books.is_running("job/ns/wide")) == ([], True)


async def test_nothing_is_kept_for_a_gang_that_found_no_place_and_is_left_alone_for_a_while() -> None:
    """Three nodes are free, and what it leaves is as good as theirs: it may start in a minute at the soonest."""
    plant = three_of_six()
    plant.pod("wide-3", job="wide")
    plant.look()
    plant.look(START_MOST_S)
    assert plant.stop() == ["wide"]
    for at in range(3):
        plant.job(f"other-{at}")
    plant.look()
    assert plant.start() == ["other-0", "other-1", "other-2"]


async def test_a_gang_without_a_pod_is_its_controllers_and_one_that_comes_late_has_as_long_as_any() -> None:
    """The Job controller waits ever longer before it makes a pod again that failed."""
    plant = three_of_six()
    plant.gone("wide-1", "wide-2")
    plant.look()
    plant.look(2 * START_MOST_S)
    assert plant.stop() == []
    plant.pod("wide-3", job="wide")
    plant.look()
    plant.look(START_MOST_S - 1.0)
    assert plant.stop() == []
    plant.look()
    assert plant.stop() == ["wide"]


@pytest.mark.parametrize("pods", ["gone", "made anew", "bound to what is gone"])
async def test_a_gang_all_of_whose_nodes_went_while_nobody_looked_is_stopped_and_let_in_elsewhere(pods: str) -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.job("one")
    plant.look()
    plant.start()
    lost = plant.work("one").put[0].node
    plant.pod("one-0", lost, job="one", phase="Running")
    plant.look()
    plant.lose(lost)
    if pods != "bound to what is gone":
        plant.gone("one-0")
    if pods == "made anew":
        plant.pod("one-0", job="one")
    plant.begin()
    plant.look()
    assert plant.due() == []
    plant.look(START_WITHIN_S)
    assert plant.stop() == ["one"]
    if pods != "gone":
        plant.gone("one-0")
    plant.look()
    assert plant.stop() == []
    plant.look(2 * START_WITHIN_S)
    assert plant.start() == ["one"]
    assert plant.work("one").put[0].node != lost


@pytest.mark.parametrize("ran_s", [0.0, 3_600.0], ids=["it has just begun", "it ran for an hour"])
@pytest.mark.parametrize("pods", ["made anew", "bound to what is gone"])
async def test_a_gang_one_of_whose_nodes_went_while_nobody_looked_is_stopped_whole(pods: str, ran_s: float) -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.job("two", pods=2)
    plant.look()
    plant.start()
    bind(plant, "two")
    plant.look()
    plant.lose("n1")
    if pods == "made anew":
        plant.gone("two-1")
        plant.pod("two-2", job="two")
    plant.now_s += ran_s
    plant.begin()
    plant.look()
    plant.look(START_WITHIN_S)
    assert plant.stop() == ["two"]


async def test_a_gang_that_waits_again_before_it_was_found_after_a_restart_is_never_late() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.job("one")
    plant.look()
    plant.start()
    plant.lose(plant.work("one").put[0].node)
    plant.begin()
    plant.look()
    plant.edit("one", suspend=True)
    plant.look()
    assert plant.start() == ["one"]
    bind(plant, "one")
    plant.look(2 * START_WITHIN_S)
    assert plant.stop() == []


async def test_what_was_planned_for_work_of_no_queue_any_more_is_not_kept_for_ever() -> None:
    plant = BatchPlant(FOUR)
    plant.job("orphan", pods=4)
    plant.look()
    plant.start()
    plant.tree = replace(plant.tree, specs={})
    plant.begin()
    plant.look()
    assert sum(plant.free().values()) == 0
    plant.look(START_WITHIN_S)
    plant.look()
    assert plant.stop() == [], "whose it is is not known"
    assert sum(plant.free().values()) == 32
    bind(plant, "orphan")
    plant.look()
    assert sum(plant.free().values()) == 0, "what its pods hold is theirs"


async def test_a_gang_whose_node_offers_no_gpu_just_after_a_restart_is_not_taken_for_lost() -> None:
    """Its device plugin starts anew while we do: the pod is there, and so is the node."""
    plant = BatchPlant({"n0": 8})
    plant.job("train")
    plant.look()
    plant.start()
    bind(plant, "train")
    plant.lose("n0")
    plant.node("n0", 0)
    plant.begin()
    for _ in range(3):
        plant.look(START_WITHIN_S)
        assert plant.stop() == []
    plant.node("n0", 8)
    plant.look()
    assert plant.books.is_running("job/ns/train")
    assert plant.free() == {"n0": 0}


async def test_a_gang_that_has_no_pod_at_all_after_a_restart_keeps_its_gpus_no_longer_than_others_may() -> None:
    """Something refuses its pods: it began long ago, and holds what was planned for it."""
    plant = BatchPlant(FOUR)
    plant.job("refused", pods=4)
    plant.look()
    plant.start()
    plant.now_s += 20.0
    plant.begin()
    plant.now_s += 3_600.0
    plant.begin()
    plant.look()
    assert sum(plant.free().values()) == 0
    plant.look(START_WITHIN_S)
    assert plant.stop() == ["refused"]
    plant.look()
    assert sum(plant.free().values()) == 32


@pytest.mark.parametrize("anew", [False, True], ids=["the same books", "books that are written anew"])
async def test_a_gang_stopped_after_a_part_of_it_had_finished_starts_again_with_what_is_left(anew: bool) -> None:
    """One of two pods has ended well: the Job controller makes one more, and there is no other to wait for."""
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.job("half", pods=2)
    plant.look()
    assert plant.start() == ["half"]
    bind(plant, "half")
    plant.look(3_600.0)
    plant.pod("half-0", plant.work("half").put[0].node, job="half", phase="Succeeded")
    plant.succeeded("half", 1)
    plant.look()
    assert plant.books.is_running("job/ns/half")
    assert sum(plant.books.room.runs.all["job/ns/half"].gang.form.units().values()) == 16, "as it was let in"
    assert sorted(plant.free().values()) == [0, 0], "what it was let in with is its own until it is stopped"
    plant.edit("half", suspend=True)
    plant.gone("half-1")
    plant.job("beside")
    plant.look()
    assert plant.start() == ["half", "beside"], "it needs one node now"
    plant.pod("half-2", plant.work("half").put[0].node, job="half")
    plant.pod("beside-0", plant.work("beside").put[0].node, job="beside")
    plant.look()
    if anew:
        plant.begin()
    plant.look(2 * START_WITHIN_S)
    assert plant.stop() == []
    assert plant.books.is_running("job/ns/half")
