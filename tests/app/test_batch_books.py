"""The books of batch admission beside a cluster in memory: what is due after each thing that may happen between."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from autoscaler.adapters.kube.batch_kueue import PATHS, Workload
from autoscaler.adapters.kube.meta import Meta, Owner
from autoscaler.api.batch_memory import gathered, spread
from autoscaler.api.batch_queue import BatchQueueSpec
from autoscaler.api.shapes import Shape
from autoscaler.app.batch_gangs import Around
from autoscaler.app.batch_patience import START_MOST_S, START_WITHIN_S
from autoscaler.app.batch_rests import RETRY_S
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

FOUR = {f"n{at}": 8 for at in range(4)}


def running(plant: BatchPlant, name: str, **size: Any) -> list[str]:
    """A Job comes, is let in, and all of its pods are bound where it was put; the node of each."""
    plant.job(name, **size)
    plant.look()
    assert plant.start() == [name]
    nodes = [put.node for put in plant.work(name).put for _ in range(put.pods)]
    for at, node in enumerate(nodes):
        plant.pod(f"{name}-{at}", node, size.get("gpus", 8), job=name)
    plant.look()
    return nodes


async def test_a_gang_is_due_once_and_holds_its_place_before_a_pod_of_it_is_bound() -> None:
    plant = BatchPlant(FOUR)
    plant.job("train", pods=3)
    plant.look()
    assert plant.due() == ["train"]
    assert plant.start() == ["train"]
    plant.job("next", pods=2)
    plant.look()
    assert plant.due() == []
    assert sum(plant.free().values()) == 8


async def test_books_that_are_begun_anew_know_a_gang_by_its_object_before_a_pod_of_it_is_bound() -> None:
    """The moment in which a restart would let two gangs onto the same GPUs."""
    plant = BatchPlant(FOUR)
    plant.job("train", pods=3)
    plant.look()
    plant.start()
    plant.job("next", pods=2)
    plant.begin()
    plant.look()
    assert plant.due() == []
    assert sum(plant.free().values()) == 8


async def test_of_a_gang_that_is_bound_in_part_the_rest_is_known_after_a_restart() -> None:
    plant = BatchPlant(FOUR)
    plant.job("train", pods=3)
    plant.look()
    plant.start()
    plant.pod("train-0", plant.work("train").put[0].node, job="train")
    plant.job("next", pods=2)
    plant.begin()
    plant.look()
    assert plant.due() == []
    assert sum(plant.free().values()) == 8


async def test_a_gang_of_which_some_pods_have_ended_is_not_late_after_a_restart() -> None:
    plant = BatchPlant(FOUR)
    plant.job("old", pods=2)
    plant.look()
    plant.start()
    for at in range(2):
        plant.pod(f"old-{at}", f"n{at}", job="old", phase="Running")
    plant.look()
    plant.gone("old-1")
    plant.look(2 * START_WITHIN_S)
    plant.begin()
    plant.look(3 * START_WITHIN_S)
    assert plant.stop() == [], "its other pod has ended long ago, and is collected"


async def test_a_placement_that_somebody_forged_takes_nothing_from_others() -> None:
    """The forger is met first, and says that three of its pods are where another gang's are."""
    plant = BatchPlant(FOUR | {"n4": 8})
    forged = msgspec.json.encode([{"node": f"n{at}", "shape": "h100", "pod_set": 0, "pods": 9} for at in range(4)])
    plant.job("forger", pods=4, annotations={"headroom.dev/placement": forged.decode()})
    plant.edit("forger", suspend=False)
    plant.pod("forger-0", "n4", job="forger")
    plant.job("honest", pods=4)
    plant.look()
    plant.start()
    for at in range(4):
        plant.pod(f"honest-{at}", f"n{at}", job="honest")
    plant.begin()
    plant.look()
    assert plant.stop() == []
    assert "job/ns/honest" in plant.books.room.runs.all


async def test_a_placement_without_end_is_read_no_further_than_the_gang_is_large() -> None:
    plant = BatchPlant(FOUR)
    forged = msgspec.json.encode([{"node": "n0", "shape": "h100", "pod_set": 0, "pods": 16_000}] * 4_000)
    plant.job("forger", pods=16_000, gpus=1, annotations={"headroom.dev/placement": forged.decode()})
    plant.edit("forger", suspend=False)
    plant.look()
    assert plant.free() == {"n0": 0, "n1": 8, "n2": 8, "n3": 8}


class Trap(dict[str, BatchQueueSpec]):
    """Queues, of which one raises what only a bug of ours would."""

    def get(self, name: str, default: Any = None) -> Any:
        if name == "odd":
            raise ZeroDivisionError("a bug of ours")
        return super().get(name, default)


async def test_a_bug_that_one_job_meets_stops_no_other() -> None:
    plant = BatchPlant(FOUR)
    plant.tree = replace(plant.tree, specs=Trap(plant.tree.specs))
    plant.begin()
    plant.job("odd", labels={"headroom.dev/queue": "odd"})
    plant.job("plain")
    plant.look()
    assert plant.due() == ["plain"]
    assert "a bug of ours" in plant.books.unfit["job/ns/odd"].words


async def test_an_answer_of_the_server_is_believed_before_the_watch_shows_it_and_never_an_older_one_after() -> None:
    plant = BatchPlant(FOUR)
    plant.job("train")
    plant.look()
    before = plant.work("train")
    plant.start(heard=False)
    plant.cluster.written(plant.on_server("train"))
    plant.look()
    assert plant.due() == []
    assert not plant.work("train").suspended
    assert plant.work("train").generation > before.generation
    plant.cluster.written(before)
    assert not plant.work("train").suspended


async def test_who_may_wander_over_its_nodes_is_alone_on_them_until_it_is_bound_whole() -> None:
    """Three pods of two GPUs, one planned beside a stranger: were all on the other node, four GPUs more had no room."""
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.pod("stranger", "n0", gpus=6, phase="Running")
    plant.job("wide", pods=3, gpus=2)
    plant.look()
    assert {put.node: put.pods for put in plant.books.plans["job/ns/wide"]} == {"n0": 1, "n1": 2}
    plant.job("beside", gpus=4)
    plant.look()
    assert plant.start() == ["wide"]
    plant.look()
    assert plant.due() == [], "a place is kept for it, and it is not let in yet"
    assert sum(plant.free().values()) == 0
    for at, node in enumerate(("n0", "n1", "n1")):
        plant.pod(f"wide-{at}", node, gpus=2, job="wide")
    plant.look()
    assert plant.due() == ["beside"]


@pytest.mark.parametrize("lost", [3, 1], ids=["all at once", "one of them"])
async def test_who_is_made_anew_may_wander_again_and_is_alone_on_its_nodes_until_it_is_bound_whole(lost: int) -> None:
    """As above, after a restart: a Job of a JobSet that is deleted and made again, a pod that was evicted."""
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.pod("stranger", "n0", gpus=6, phase="Running")
    nodes = running(plant, "wide", pods=3, gpus=2)
    assert sorted(nodes) == ["n0", "n1", "n1"]
    plant.gone(*(f"wide-{at}" for at in range(lost)))
    plant.job("beside", gpus=4)
    if lost < 3:
        plant.pod("wide-0", gpus=2, job="wide")
    for _ in range(3):
        plant.look(START_WITHIN_S)
        assert (plant.due(), plant.stop()) == ([], []), "it is waited for, and not judged by its first start"
    for at, node in enumerate(nodes[:lost]):
        plant.pod(f"wide-{at}", gpus=2, job="wide")
        plant.look()
        assert plant.due() == []
        plant.pod(f"wide-{at}", node, gpus=2, job="wide")
    plant.look()
    assert plant.due() == ["beside"]


async def test_nobody_waits_for_ever_beside_a_gang_one_of_whose_pods_finds_no_place_again() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.pod("stranger", "n0", gpus=6, phase="Running")
    assert sorted(running(plant, "wide", pods=3, gpus=2)) == ["n0", "n1", "n1"]
    plant.pod("wide-0", gpus=2, job="wide")
    plant.job("beside", gpus=4)
    plant.look()
    plant.look(START_MOST_S - 1.0)
    assert plant.due() == []
    plant.now_s += 2 * START_MOST_S
    plant.books.unseen(plant.now_s - 2 * START_MOST_S, plant.now_s)
    plant.look(0.0)
    assert plant.due() == [], "time in which nothing could be seen does not count"
    plant.look(1.0)
    assert plant.due() == ["beside"]


@pytest.mark.parametrize("anew", [False, True], ids=["the same books", "books that are begun anew"])
async def test_a_pod_beside_the_one_that_it_replaces_takes_what_nobody_else_gets_and_no_longer_than_both_are_there(
    anew: bool,
) -> None:
    """The old one is told to end, has its grace time, and holds its GPUs until it is gone; the new one has its own."""
    plant = BatchPlant({"n0": 12})
    plant.job("one", gpus=4)
    plant.look()
    plant.start()
    plant.pod("one-old", "n0", gpus=4, job="one", phase="Running")
    plant.look()
    plant.job("next", gpus=8)
    plant.pod("one-new", "n0", gpus=4, job="one")
    if anew:
        plant.begin()
    plant.look()
    assert (plant.due(), plant.stop(), plant.free()) == ([], [], {"n0": 4})
    plant.gone("one-old")
    plant.look()
    assert plant.due() == ["next"], "and no GPU stays booked for the one that is gone"


async def test_a_gang_that_pods_past_the_scheduler_drive_out_leaves_once_and_holds_its_gpus_until_it_is_gone() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.job("one")
    plant.look()
    plant.start()
    where = plant.work("one").put[0].node
    plant.pod("one-0", where, job="one", phase="Running")
    plant.look()
    plant.pod("past", where, gpus=4, phase="Running")
    plant.look()
    for _ in range(3):
        plant.look()
        assert (plant.due(), plant.free()[where], plant.books.tally.evicted["LOST"]) == ([], 0, 1)
    assert plant.stop() == ["one"]
    plant.gone("one-0")
    plant.look()
    assert plant.due() == ["one"], "elsewhere"


async def test_a_booking_follows_pods_that_were_bound_otherwise_than_planned() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8, "n2": 8})
    for at in range(3):
        plant.pod(f"stranger-{at}", f"n{at}", gpus=4, phase="Running")
    plant.job("wide", pods=5, gpus=2)
    plant.look()
    planned = {put.node: put.pods for put in plant.books.plans["job/ns/wide"]}
    assert sorted(planned.values()) == [1, 2, 2]
    plant.start()
    fullest, least = max(planned, key=lambda node: planned[node]), min(planned, key=lambda node: planned[node])
    nodes = [node for node, pods in planned.items() for _ in range(pods)]
    nodes[nodes.index(fullest)] = least
    for at, node in enumerate(nodes):
        plant.pod(f"wide-{at}", node, gpus=2, job="wide")
    plant.look()
    assert plant.free()[fullest] == 2
    assert plant.free()[least] == 0
    assert plant.books.is_running("job/ns/wide")


async def test_a_gang_that_is_not_bound_whole_in_time_is_stopped_whole_and_left_alone_for_a_while() -> None:
    plant = BatchPlant(FOUR)
    plant.job("half", pods=2)
    plant.look()
    plant.start()
    plant.pod("half-0", "n0", job="half")
    plant.pod("half-1", job="half")
    plant.look()
    plant.look(START_WITHIN_S - 2.0)
    assert plant.stop() == []
    plant.look(4.0)
    assert plant.stop() == ["half"]
    plant.look()
    assert sum(plant.free().values()) < 32, "its pods are there still"
    plant.gone("half-0", "half-1")
    plant.look()
    assert plant.due() == []
    assert sum(plant.free().values()) == 32
    plant.look(2 * START_WITHIN_S)
    assert plant.due() == ["half"]


async def test_pods_that_ran_and_ended_at_once_had_found_their_places() -> None:
    plant = BatchPlant(FOUR)
    plant.job("short", pods=2)
    plant.look()
    plant.start()
    for at in range(2):
        plant.pod(f"short-{at}", f"n{at}", job="short", phase="Succeeded")
    plant.look()
    plant.look(2 * START_WITHIN_S)
    assert plant.stop() == []


async def test_a_start_that_met_another_version_waits_for_the_next_one_and_is_given_up_without() -> None:
    plant = BatchPlant({"n0": 8})
    plant.job("edited")
    plant.look()
    plant.books.rests.start_changed(plant.work("edited"), "409", plant.now_s)
    assert plant.due() == []
    assert sum(plant.free().values()) == 0, "what it was given is its own meanwhile"
    plant.edit("edited", backoffLimit=1)
    plant.look()
    assert plant.due() == ["edited"]
    plant.books.rests.start_changed(plant.work("edited"), "422: a policy", plant.now_s)
    plant.look(RETRY_S + 1.0)
    assert plant.due() == []
    assert sum(plant.free().values()) == 8
    assert plant.books.notes["job/ns/edited"].words == "422: a policy"


async def test_a_start_that_is_refused_again_and_again_is_tried_less_and_less_often() -> None:
    plant = BatchPlant({"n0": 8})
    plant.job("refused")
    tries = []
    for _ in range(200):
        plant.look(5.0)
        if plant.due():
            tries.append(plant.now_s)
            plant.books.was_refused(plant.work("refused"), "no", plant.now_s)
    gaps = [after - before for before, after in pairwise(tries)]
    assert len(tries) <= 9
    assert gaps == sorted(gaps)


async def test_a_start_that_nobody_answered_is_written_again_and_its_gpus_stay_kept() -> None:
    plant = BatchPlant({"n0": 8})
    plant.job("lost")
    plant.look()
    plant.books.rests.start_lost(plant.work("lost"), plant.now_s)
    assert plant.due() == []
    plant.job("thief")
    plant.look(3.0)
    assert plant.due() == ["lost"]


async def test_a_gang_whose_width_is_edited_before_it_starts_is_decided_anew() -> None:
    plant = BatchPlant(FOUR)
    plant.job("wide", pods=4)
    plant.look()
    plant.edit("wide", parallelism=1)
    plant.look()
    assert [put.pods for put in plant.books.plans["job/ns/wide"]] == [1]
    assert sum(plant.free().values()) == 24


async def test_a_deleted_job_holds_nothing_but_what_its_pods_hold_still() -> None:
    plant = BatchPlant(FOUR)
    plant.job("gone", pods=2)
    plant.look()
    plant.start()
    for at, put in enumerate(plant.work("gone").put):
        plant.pod(f"gone-{at}", put.node, job="gone")
    plant.look()
    plant.delete("gone")
    plant.look()
    assert sum(plant.free().values()) == 16
    plant.gone("gone-0", "gone-1")
    plant.look()
    assert sum(plant.free().values()) == 32


async def test_a_job_that_somebody_starts_by_hand_counts_and_one_that_somebody_stops_waits_again() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8}, limit=8)
    plant.job("first")
    plant.job("byhand")
    plant.look()
    assert plant.start() == ["first"]
    plant.edit("byhand", suspend=False)
    plant.pod("byhand-0", "n1", job="byhand")
    plant.look()
    assert sum(plant.free().values()) == 0
    assert plant.stop() == [], "it is not for us to stop it"
    plant.pod("first-0", "n0", job="first")
    plant.look()
    plant.edit("first", suspend=True)
    plant.look()
    assert plant.due() == [], "its pod is there still, and the queue's limit is reached"
    plant.gone("first-0")
    plant.end("byhand")
    plant.gone("byhand-0")
    plant.look()
    assert plant.due() == ["first"]


async def test_a_gang_whose_node_is_taken_before_its_pods_are_bound_is_stopped_whole_and_let_in_elsewhere() -> None:
    """Karpenter takes the node for empty in the seconds between the start and the binding."""
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.job("train", pods=2)
    plant.look()
    assert plant.start() == ["train"]
    plant.pod("train-0", "n0", job="train")
    plant.pod("train-1", "", job="train")
    plant.lose("n1")
    plant.look()
    assert plant.stop() == ["train"]
    plant.node("n2", 8)
    plant.look()
    assert plant.due() == [], "its pods are there still"
    plant.gone("train-0", "train-1")
    plant.look()
    assert plant.start() == ["train"]
    assert {put.node for put in plant.work("train").put} == {"n0", "n2"}


async def test_a_node_that_is_lost_stops_its_gangs_whole() -> None:
    plant = BatchPlant(FOUR)
    nodes = running(plant, "wide", pods=2)
    plant.lose(nodes[0])
    plant.look()
    assert plant.stop() == ["wide"]


@pytest.mark.parametrize("mended_first", [True, False], ids=["mended before", "mended after"])
async def test_over_a_change_of_leaders_a_gang_that_lost_a_node_has_the_mended_one_kept_while_it_leaves(
    *, mended_first: bool
) -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    nodes = running(plant, "wide", pods=2)
    plant.lose(nodes[0])
    plant.gone("wide-0")
    plant.look()
    assert plant.stop() == ["wide"]
    plant.job("thief")
    if mended_first:
        plant.node(nodes[0], 8)
    plant.look()
    assert plant.due() == []

    queue_of = dict.fromkeys(plant.cluster.works, "team")
    plant.begin(gathered(spread(plant.books.packed(plant.now_s), queue_of), 86_400.0, plant.now_s))
    plant.node(nodes[0], 8)
    plant.look()
    assert plant.due() == [], "its other pod is there still, and what it had is nobody else's"
    plant.gone("wide-1")
    plant.look()
    assert plant.start() == ["wide"]


@pytest.mark.parametrize("heard", [False, True], ids=["the node first", "its pod first"])
async def test_a_gang_that_loses_its_only_node_is_stopped_and_let_in_elsewhere_once_its_pods_are_gone(
    heard: bool,
) -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.job("one")
    plant.look()
    plant.start()
    lost = plant.work("one").put[0].node
    plant.pod("one-0", lost, job="one")
    plant.look()
    if heard:
        plant.gone("one-0")
    plant.lose(lost)
    plant.look()
    assert (plant.due(), [work.ref.name for work, _ in plant.books.due_stops()]) == ([], ["one"])
    assert plant.books.tally.admitted == {"FITS": 1}, "nobody is let in twice"
    plant.look()
    assert plant.stop() == ["one"]
    if not heard:
        plant.look()
        assert plant.due() == [], "its pod is there still"
        plant.gone("one-0")
    plant.look()
    assert plant.start() == ["one"]
    assert plant.work("one").put[0].node != lost
    plant.look()
    assert (plant.stop(), plant.free()) == ([], {"n0" if lost == "n1" else "n1": 0})


@pytest.mark.parametrize("offered", [0, 6], ids=["none: its device plugin starts anew", "less: two of its GPUs fail"])
async def test_a_node_that_offers_fewer_gpus_than_run_on_it_loses_no_gang_and_takes_none(offered: int) -> None:
    plant = BatchPlant({"n0": 8})
    plant.job("train")
    plant.look()
    plant.start()
    plant.pod("train-0", "n0", job="train")
    plant.look()
    plant.node("n0", offered)
    plant.job("next")
    for _ in range(3):
        plant.look()
    assert (plant.stop(), plant.due(), plant.free()) == ([], [], {"n0": 0})
    plant.end("train")
    plant.gone("train-0")
    plant.look()
    assert plant.due() == [], "what nobody holds is only there once the node says so"
    plant.node("n0", 8)
    plant.look()
    assert plant.due() == ["next"]


async def test_a_stranger_on_a_gpu_that_was_planned_for_a_gang_frees_nothing_that_its_pods_hold() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.job("train", pods=4, gpus=4)
    plant.look()
    plant.start()
    plant.pod("train-0", "n0", gpus=4, job="train")
    plant.pod("train-1", "n1", gpus=4, job="train")
    plant.job("next", gpus=4)
    plant.pod("stranger", "n0", gpus=2, phase="Running")
    plant.look()
    assert plant.free() == {"n0": 2, "n1": 0}, "what lies idle on n1 is let to the next one"
    assert plant.stop() == ["train"]
    plant.gone("train-0", "train-1")
    plant.look()
    assert plant.stop() == [], "what was stopped is not met as something that runs"


async def test_a_gang_that_is_to_stop_and_loses_its_node_before_it_is_told_to_is_told_all_the_same() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8, "n2": 8})
    nodes = running(plant, "wide", pods=2)
    plant.lose(nodes[0])
    plant.look()
    plant.lose(nodes[1])
    plant.look()
    assert plant.due() == []
    assert plant.stop() == ["wide"]
    plant.gone("wide-0", "wide-1")
    plant.look()
    assert plant.due() == [], "one node is left"
    plant.node("new", 8)
    plant.look()
    assert plant.due() == ["wide"]


async def test_who_was_let_in_and_not_started_yet_keeps_its_places_when_the_books_are_written_anew() -> None:
    """A queue was edited, or we were restarted, while the start waited; the room was freed for this gang alone."""
    plant = BatchPlant({"n0": 8, "n1": 8})
    running(plant, "small", annotations={"headroom.dev/expected-duration": "10m"})
    plant.job("wide", pods=2, annotations={"headroom.dev/expected-duration": "10h"})
    plant.look(400.0)
    plant.look()
    plant.job("late", annotations={"headroom.dev/expected-duration": "1h"}, creationTimestamp="2023-11-14T22:20:00Z")
    plant.look()
    assert plant.due() == [], "it would still run when the other one is expected to start"
    plant.end("small")
    plant.gone("small-0")
    plant.look()
    assert list(plant.books.plans) == ["job/ns/wide"]
    queue_of = dict.fromkeys(plant.cluster.works, "team")
    plant.begin(gathered(spread(plant.books.packed(plant.now_s), queue_of), 86_400.0, plant.now_s))
    plant.look()
    assert plant.start() == ["wide"], "and not the one that is shorter, and so is tried first"
    assert plant.books.packed(plant.now_s)["reservations"] == [], "what its object says need not be kept besides"


async def test_who_was_let_in_and_has_to_leave_before_it_started_keeps_no_places() -> None:
    """What is kept is written down before starts are looked through: both would have the same node."""
    plant = BatchPlant({"n0": 8})
    plant.classes(high=-10)
    plant.job("low")
    plant.look()
    plant.job("urgent", priority_class="high")
    plant.look()
    assert "job/ns/low" in plant.books.plans
    assert [gang for gang, *_ in plant.books.packed(plant.now_s)["reservations"]] == ["job/ns/urgent"]


async def test_work_outside_the_watched_namespaces_is_refused_by_name_and_what_runs_of_it_is_left_alone() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    plant.cluster._scope = replace(plant.cluster._scope, namespaces=frozenset({"other"}))
    plant.job("waits")
    plant.job("runs")
    plant.edit("runs", suspend=False)
    plant.pod("runs-0", "n0", job="runs", phase="Running")
    plant.look()
    assert (plant.due(), plant.stop()) == ([], [])
    assert plant.books.unfit["job/ns/waits"].reason == "NAMESPACE"
    assert "watch_namespaces" in plant.books.unfit["job/ns/waits"].words
    assert plant.free() == {"n0": 0, "n1": 8}


async def test_a_job_for_which_kueue_makes_a_workload_of_its_own_gives_back_its_place_and_is_left_alone() -> None:
    """Kueue with manageJobsWithoutQueueName: nothing in the Job says so."""
    plant = BatchPlant({"n0": 8})
    plant.job("theirs")
    plant.look()
    assert plant.due() == ["theirs"]
    owner = Owner("batch/v1", "Job", "theirs", "theirs", controller=True)
    plant.cluster._kueue[PATHS[0]]._cache.put(Workload(Meta("job-theirs-3f4ab", "ns", owner_references=(owner,))))
    plant.job("ours")
    plant.look()
    assert plant.due() == ["ours"]
    plant.edit("theirs", suspend=False)
    plant.look()
    assert plant.stop() == []


async def test_a_gang_that_no_node_could_take_goes_to_the_first_one_that_can_without_another_change() -> None:
    plant = BatchPlant({})
    plant.job("train")
    pods = plant.template("train")["spec"]
    plant.edit("train", template={"spec": {**pods, "nodeSelector": {"nvidia.com/gpu.product": "H100"}}})
    plant.look()
    assert plant.books.unfit["job/ns/train"].reason == "UNKNOWN_SHAPE"
    plant.node("n0", 8)
    plant.look()
    assert plant.start() == ["train"]


def only_on(plant: BatchPlant, job: str, rack: str) -> None:
    """A Job's pods go to one rack."""
    pods = plant.template(job)["spec"]
    plant.edit(job, template={"spec": {**pods, "nodeSelector": {"rack": rack}}})


async def test_a_gang_that_fitted_is_read_anew_when_a_node_comes_to_which_its_pods_may_not_go() -> None:
    """Its place on either node would be no proof: the scheduler takes the one that its selector names."""
    plant = BatchPlant({})
    plant.node("a0", 8, rack="a")
    plant.job("other")
    plant.look()
    assert plant.start() == ["other"]
    plant.job("train")
    only_on(plant, "train", "a")
    plant.job("free")
    plant.look()
    assert plant.books.unfit == {}, "every node of the shape is in its rack: it waits for the other one"
    plant.node("b0", 8, rack="b")
    plant.look()
    assert plant.books.unfit["job/ns/train"].reason == "NARROWED"
    assert plant.due() == ["free"], "the one behind it, which may go anywhere"
    plant.lose("b0")
    plant.look()
    assert plant.books.unfit == {}


async def test_a_gang_that_was_given_a_place_and_is_not_written_yet_is_read_anew_as_well() -> None:
    plant = BatchPlant({})
    plant.node("a0", 8, rack="a")
    plant.job("train")
    only_on(plant, "train", "a")
    plant.look()
    assert plant.due() == ["train"]
    plant.node("b0", 8, rack="b")
    plant.look()
    assert (plant.due(), plant.free()) == ([], {"a0": 8, "b0": 8})


async def test_a_gang_of_no_selector_takes_the_shape_that_comes_first() -> None:
    plant = BatchPlant({}, shapes={"a100": Shape(sku="a100"), "h100": Shape(sku="h100")})
    plant.job("train")
    plant.look()
    assert plant.due() == []
    plant.node("n0", 8)
    plant.look()
    assert plant.start() == ["train"], "no node of the shape that it was taken for is there"


async def test_one_that_runs_goes_on_whatever_nodes_come() -> None:
    plant = BatchPlant({})
    plant.node("a0", 8, rack="a")
    plant.job("train")
    only_on(plant, "train", "a")
    plant.look()
    assert plant.start() == ["train"]
    plant.pod("p0", "a0", job="train")
    plant.look()
    plant.node("b0", 8, rack="b")
    plant.look()
    assert (plant.stop(), plant.books.unfit) == ([], {})
    assert plant.free() == {"a0": 0, "b0": 8}


@pytest.mark.parametrize("case", ["a node came", "its node has another label"])
async def test_one_that_runs_is_known_after_a_restart_though_its_selector_covers_its_nodes_no_more(case: str) -> None:
    """Its 8 GPUs of a limit of 8 are its queue's still: nobody else of it is let in beside, and it may be stopped."""
    plant = BatchPlant({}, guaranteed=8, limit=8)
    plant.node("a0", 8, rack="a")
    plant.job("train")
    only_on(plant, "train", "a")
    plant.look()
    assert plant.start() == ["train"]
    plant.pod("p0", "a0", job="train")
    plant.look()
    plant.node("b0", 8, rack="b")
    if case != "a node came":
        plant.node("a0", 8, rack="c")
    plant.job("next")
    plant.begin()
    plant.look()
    assert plant.books.room.runs.all.keys() == {"job/ns/train"}
    assert plant.books.room.ledger.owners("a0", "h100") == {"batch": 8, "free": 0}
    assert (plant.due(), plant.stop(), plant.books.unfit) == ([], [], {})
    plant.edit("train", suspend=True)
    plant.gone("p0")
    plant.look()
    assert plant.books.unfit["job/ns/train"].reason in {"NARROWED", "UNKNOWN_SHAPE"}, "it waits for a place of its own"
    assert plant.due() == ["next"]


async def test_one_that_runs_is_of_the_shape_of_its_nodes_after_a_restart_and_not_of_the_first_one() -> None:
    plant = BatchPlant({}, shapes={"a100": Shape(sku="a100"), "h100": Shape(sku="h100")})
    plant.node("n0", 8)
    running(plant, "train")
    plant.node("m0", 8, product="A100")
    plant.begin()
    plant.look()
    assert plant.books.room.runs.all["job/ns/train"].gang.form.units() == {"h100": 8}


async def test_a_bug_met_while_nodes_are_looked_through_has_every_gang_read_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant = BatchPlant({})
    plant.node("a0", 8, rack="a")
    plant.job("train")
    only_on(plant, "train", "a")
    plant.look()

    def broken(*_: object) -> set[bytes]:
        raise KeyError("a bug of ours")

    monkeypatch.setattr(Around, "follow", broken)
    plant.node("b0", 8, rack="b")
    plant.look()
    assert plant.books.unfit["job/ns/train"].reason == "NARROWED"
