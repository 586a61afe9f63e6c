"""More gangs than are taken in: who waits outside, what is told of it, and how the next ones come in."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.adapters.kube.meta import Thin
from autoscaler.api.batch_queue_status import QueueCondition
from autoscaler.app.batch_look import Look
from autoscaler.app.batch_statuses import queue_status
from autoscaler.app.batch_untaken import untaken_named
from autoscaler.record.batch import BatchCounts, BatchTold, GangState
from autoscaler.record.batch_lines import batch_lines
from autoscaler.record.batch_words import gang_page, queue_page
from tests.app.batch_plant import BatchPlant
from tests.app.test_batch_books import running

pytestmark = pytest.mark.looptime

TWO = {"flood": ("noisy",), "small": ("ns",)}


def made(second: int) -> dict[str, Any]:
    return {"creationTimestamp": f"2023-11-14T22:13:{second:02d}Z"}


def waiting(plant: BatchPlant) -> list[str]:
    """The Jobs that are waiting in the books."""
    return sorted(name.rpartition("/")[2] for name in plant.books.room.backlog.waiting)


def told(plant: BatchPlant) -> BatchTold:
    look = Look(plant.books, plant.tree, plant.now_s)
    return look.told(acting=True, idle="", counts=BatchCounts(), cycle_s=None)


def flooded() -> BatchPlant:
    """A node that is taken, a tenant with six Jobs, and one with two that came after them; six are taken in."""
    plant = BatchPlant({"n0": 8}, most=6, queues=TWO)
    running(plant, "runs", queue="small")
    for at in range(6):
        plant.job(f"f{at}", queue="flood", namespace="noisy", **made(at))
    plant.job("s0", queue="small", **made(30))
    plant.job("s1", queue="small", **made(31))
    plant.look()
    return plant


async def test_the_last_gangs_of_the_tenant_with_most_are_not_looked_at() -> None:
    plant = flooded()
    assert waiting(plant) == ["f0", "f1", "f2", "s0", "s1"]
    queues = {queue.name: queue for queue in told(plant).queues}
    assert {name: (queue.running, queue.waiting, queue.untaken) for name, queue in queues.items()} == {
        "flood": (0, 3, 3), "small": (1, 2, 0)
    }  # fmt: skip
    assert (told(plant).untaken, dict(told(plant).waiting)["UNTAKEN"]) == (3, 3)


async def test_it_is_told_on_the_queue_in_the_table_and_of_the_gang_with_the_remedy() -> None:
    plant = flooded()
    look = told(plant)
    flood = next(queue for queue in look.queues if queue.name == "flood")
    status = queue_status(flood, look, 1, None)
    (said,) = [each for each in status.conditions if each.type == QueueCondition.TAKEN_IN.value]
    assert (said.status.value, said.reason) == ("False", "TooMany")
    assert said.message == (
        "3 more are not looked at, for 6 of all are. Delete what is not needed, or have the administrator raise "
        "settings.limits.batch_work"
    )
    assert {each.reason: each.gangs for each in status.waiting} == {"ROOM": 3, "UNTAKEN": 3}
    line = next(line for line in batch_lines(look).queues if line.queue == "flood")
    assert (line.untaken, line.findings) == (3, (said.message,))
    assert "0 running, 3 waiting, 3 more not looked at" in queue_page(flood, look)
    (gang,) = untaken_named(plant.cluster.taken, "Job", None, "f5")
    assert (gang.state, gang.reason, gang.queue, gang.namespace) == (GangState.WAITING, "UNTAKEN", "flood", "noisy")
    assert "6 gangs are taken in at most" in gang_page(gang, plant.now_s)
    assert list(untaken_named(plant.cluster.taken, "job", "ns", "f5")) == []
    small = next(queue for queue in look.queues if queue.name == "small")
    (said,) = [each for each in queue_status(small, look, 1, None).conditions if each.type == "TakenIn"]
    assert said.status.value == "True"


async def test_of_what_is_not_taken_in_no_more_is_held_than_tells_its_versions_apart() -> None:
    plant = flooded()
    held = plant.cluster._kinds["Job"].items
    thin = {key: job for key, job in held.items() if isinstance(job.metadata, Thin)}
    assert sorted(thin) == ["noisy/f3", "noisy/f4", "noisy/f5"]
    assert not any(job.spec.template.spec.containers or job.metadata.labels for job in thin.values())


async def test_when_room_comes_back_the_next_are_read_anew_and_taken_in_by_age() -> None:
    plant = flooded()
    plant.delete("f0")
    plant.delete("s0")
    plant.look()
    assert waiting(plant) == ["f1", "f2", "s1"], "they have to be read anew first"
    await plant.bring()
    assert (waiting(plant), plant.asked) == (["f1", "f2", "f3", "f4", "s1"], ["noisy/f3", "noisy/f4"])
    form = plant.books.room.backlog.waiting["job/noisy/f3"].gang.form
    assert form.units() == {"h100": 8}, "with what it asks for"


async def test_one_that_changes_outside_is_taken_in_as_it_is_then() -> None:
    plant = flooded()
    plant.edit("f3", parallelism=3, completions=3)
    assert waiting(plant) == ["f0", "f1", "f2", "s0", "s1"]
    for name in ("f0", "f1", "s0"):
        plant.delete(name)
    plant.look()
    await plant.bring()
    assert plant.books.room.backlog.waiting["job/noisy/f3"].gang.form.units() == {"h100": 24}


async def test_one_that_is_gone_before_it_is_read_anew_takes_nobodys_place() -> None:
    plant = flooded()
    plant.delete("f0")
    plant.cluster.taken.settle()
    plant.delete("f3")
    plant.look()
    await plant.bring()
    assert waiting(plant) == ["f1", "f2", "f4", "s0", "s1"]


async def test_who_was_let_in_keeps_its_place_and_what_it_holds_whoever_comes() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8}, most=2, queues=TWO)
    for name in ("young", "younger"):
        running(plant, name, queue="small", **made(40))
    for at in range(6):
        plant.job(f"f{at}", queue="flood", namespace="noisy", **made(at))
    plant.look()
    assert sorted(plant.books.room.runs.all) == ["job/ns/young", "job/ns/younger"]
    assert (waiting(plant), told(plant).untaken) == ([], 6)
    plant.end("young")
    plant.look()
    await plant.bring()
    assert waiting(plant) == ["f0"], "a pod of the one that ended is there still"
    plant.gone("young-0")
    plant.look()
    assert plant.due() == ["f0"]


async def test_a_gang_for_which_others_leave_is_not_put_out_by_those_who_come_then() -> None:
    plant = BatchPlant({"n0": 8}, most=2, guaranteed=4, queues=TWO)
    running(plant, "first", queue="small", **made(1))
    plant.job("owed", gpus=4, queue="flood", namespace="noisy", **made(50))
    plant.look(after_s=600.0)
    assert list(plant.books.room.kept_for) == ["job/noisy/owed"]
    for at in range(4):
        plant.job(f"f{at}", gpus=4, queue="flood", namespace="noisy", **made(10 + at))
    plant.look()
    assert list(plant.books.room.kept_for) == ["job/noisy/owed"]
    assert told(plant).untaken == 4


async def test_a_restart_takes_in_the_same_ones_and_first_whom_a_status_says_something_is_kept_for() -> None:
    before = flooded()
    again = BatchPlant({"n0": 8}, most=6, queues=TWO)
    again.cluster.taken.remember("flood", ["job/noisy/f5"])
    for key in reversed(list(before._objects)):
        again._put_job(before._objects[key])
    again.cluster.taken.settle()
    await again.bring()
    mine = {name.rpartition("/")[2] for name in again.cluster.works}
    assert mine == {"runs", "f0", "f1", "f5", "s0", "s1"}
    assert {name.rpartition("/")[2] for name in before.cluster.works} == {"runs", "f0", "f1", "f2", "s0", "s1"}


async def test_a_label_of_others_takes_none_of_their_places() -> None:
    """Whoever may not use the queue is counted for its own namespace, under however many names of queues."""
    plant = BatchPlant({"n0": 8}, most=6, queues=TWO)
    for at in range(5):
        plant.job(f"f{at}", queue="small", namespace="noisy", **made(at))
        plant.job(f"g{at}", queue=f"no-queue-{at}", namespace="noisy", **made(at))
    for at in range(3):
        plant.job(f"s{at}", queue="small", **made(40 + at))
    plant.look()
    assert [name for name in plant.cluster.works if name.startswith("job/ns/")] == [f"job/ns/s{at}" for at in range(3)]
    small = next(queue for queue in told(plant).queues if queue.name == "small")
    assert (small.untaken, told(plant).untaken) == (0, 7)


async def test_when_a_queue_takes_other_namespaces_places_are_given_anew() -> None:
    plant = flooded()
    plant.cluster.taken.share_by(lambda namespace, queue: False)
    plant.look()
    await plant.bring()
    assert len(plant.cluster.works) == 6
    plant.cluster.taken.share_by(plant.tree.admits)
    plant.look()
    await plant.bring()
    assert waiting(plant) == ["f0", "f1", "f2", "s0", "s1"]


async def test_an_ended_job_takes_no_place_and_is_held_no_more() -> None:
    plant = flooded()
    plant.end("f0")
    plant.look()
    await plant.bring()
    assert waiting(plant) == ["f1", "f2", "f3", "s0", "s1"]
    assert isinstance(plant.cluster._kinds["Job"].items["noisy/f0"].metadata, Thin)


async def test_of_a_job_that_has_ended_no_more_is_held_than_who_it_was_and_how() -> None:
    """Such Jobs stay for ever where nobody deletes them, and take no place: each with its pods' template was 3 kB."""
    plant = flooded()
    plant.end("f0")
    over = plant.cluster.works["job/noisy/f0"]
    assert (over.ref.name, over.ended, over.finished, over.sets, dict(over.annotations)) == ("f0", True, True, (), {})


async def test_jobs_that_are_not_suspended_and_ask_for_no_pod_take_nobodys_place() -> None:
    plant = BatchPlant({"n0": 8}, most=4, queues=TWO)
    for at in range(6):
        plant.job(f"f{at}", queue="flood", namespace="noisy", **made(at))
        plant.edit(f"f{at}", suspend=False, parallelism=0, completions=0)
    plant.job("s0", queue="small", **made(30))
    plant.look()
    assert plant.due() == ["s0"]
    assert told(plant).untaken == 3


async def test_what_runs_at_a_size_that_is_not_known_is_taken_in_whoever_waits() -> None:
    """As a TrainJob whose runtime was not read yet."""
    plant = flooded()
    plant.classes(batch=20)
    plant.cluster.taken.settle()
    last = replace(plant.cluster.works["job/noisy/f0"], created_s=plant.now_s, sets=())
    last = replace(last, ref=replace(last.ref, name="last"))
    assert not plant.cluster.taken.put(last)
    assert plant.cluster.taken.put(replace(last, suspended=False))


async def test_a_crowd_whose_turn_comes_at_once_leaves_three_requests_of_five_to_others() -> None:
    plant = BatchPlant({"n0": 8}, most=160, queues=TWO)
    for at in range(80):
        plant.job(f"f{at}", queue="flood", namespace="noisy", **made(1))
    for at in range(160):
        plant.job(f"s{at}", queue="small", **made(2))
    plant.look()
    for at in range(80):
        plant.delete(f"f{at}")
    plant.look()
    await plant.bring(for_s=1.9)
    assert 30 <= len(plant.asked) <= 2 * 20 + 16
    await plant.bring(for_s=2.2)
    assert len(plant.cluster.works) == len(plant.asked) + 80 == 160


async def test_while_the_server_does_not_answer_it_is_asked_again() -> None:
    plant = flooded()
    plant.silent = 1
    plant.delete("f0")
    plant.look()
    await plant.bring()
    assert waiting(plant) == ["f1", "f2", "s0", "s1"]
    await plant.bring(for_s=3.0)
    assert waiting(plant) == ["f1", "f2", "f3", "s0", "s1"]


async def test_a_list_of_priority_classes_and_a_change_of_a_queue_give_places_once() -> None:
    """Each concerns all work there is: two hundred thousand Jobs, looked through for each, take the lead's time."""
    plant = flooded()
    asked = list[str]()

    def admits(namespace: str, queue: str) -> bool:
        asked.append(f"{namespace}/{queue}")
        return plant.tree.admits(namespace, queue)

    plant.cluster.taken.share_by(admits)
    plant.classes(**{f"class-{at}": at for at in range(30)})
    plant.look()
    assert sorted(asked) == ["noisy/flood", "ns/small"], "nine Jobs of two tenants"
    assert waiting(plant) == ["f0", "f1", "f2", "s0", "s1"]


async def test_a_class_that_only_gangs_outside_name_gives_them_another_turn() -> None:
    plant = BatchPlant({"n0": 8}, most=2)
    plant.classes(urgent=-30)
    running(plant, "runs")
    plant.job("first", **made(1))
    plant.job("urgent", priority_class="urgent", **made(2))
    plant.look()
    assert sorted(plant.cluster.works) == ["job/ns/first", "job/ns/runs"]
    plant.classes(urgent=-10)
    plant.look()
    await plant.bring()
    assert sorted(plant.cluster.works) == ["job/ns/runs", "job/ns/urgent"]


async def test_gangs_that_are_refused_or_left_alone_are_counted_by_why_as_those_that_wait_are() -> None:
    """Two of a class that is not there, one that was let in in vain and is left alone, one that has no room."""
    plant = BatchPlant({"n0": 8})
    plant.job("vain")
    plant.look()
    plant.books.was_refused(plant.work("vain"), "a webhook said no", plant.now_s)
    for name in ("x", "y"):
        plant.job(name, priority_class="none")
    plant.job("large", gpus=16)
    plant.job("asked")
    plant.look()
    look = told(plant)
    assert look.refused == (("UNKNOWN_CLASS", 2),)
    assert dict(look.waiting) == {"UNLENT": 1, "WRITE_REFUSED": 1}
    running(plant, "asked")
    plant.edit("asked", parallelism=0)
    plant.look()
    assert told(plant).refused == (("UNKNOWN_CLASS", 2),), "one that runs is not refused"


@pytest.mark.parametrize(
    ("classes", "who"),
    [({}, "of no class that is there"), ({"broken": 0}, "not below what serves"), ({"broken": 7}, "above it")],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_gangs_that_can_never_start_as_they_stand_take_no_place_of_those_that_can(
    classes: dict[str, int], who: str
) -> None:
    """Four of a tenant name a class that is not there, or is serving's: they go behind its two others, made later."""
    plant = BatchPlant({"n0": 4}, most=3)
    plant.classes(**classes)
    for at in range(4):
        plant.job(f"broken{at}", priority_class="broken", **made(at))
    for at in range(2):
        plant.job(f"good{at}", **made(30 + at))
    plant.look()
    await plant.bring()
    assert sorted(plant.cluster.works) == ["job/ns/broken0", "job/ns/good0", "job/ns/good1"], who
    assert plant.books.unfit["job/ns/broken0"].reason == ("PRIORITY" if classes else "UNKNOWN_CLASS")
    plant.classes(broken=-10)
    plant.look()
    await plant.bring()
    assert sorted(plant.cluster.works) == ["job/ns/broken0", "job/ns/broken1", "job/ns/broken2"], "as any other then"
