"""A BatchQueue's status says how the queue does and what to do, in conditions that turn with the tree alone."""

from dataclasses import replace

from autoscaler.api.batch_queue_status import BatchQueueStatus, QueueMemory
from autoscaler.app.batch_statuses import queue_status
from autoscaler.record.batch import QueueTold
from tests.record.batches import BROKEN, NOON_S, TOLD, VISION


def conditions(status: BatchQueueStatus) -> dict[str, tuple[str, str]]:
    return {c.type: (c.status.value, c.reason) for c in status.conditions}


def of(queue: QueueTold) -> BatchQueueStatus:
    return queue_status(queue, TOLD, 3, None)


def test_a_queue_that_is_well_says_so_with_its_counts() -> None:
    memory = QueueMemory(written_at_s=NOON_S)
    status = queue_status(VISION, TOLD, 3, memory)
    assert conditions(status) == {
        "Ready": ("True", "Served"), "Consistent": ("True", "Consistent"), "Admitting": ("True", "Admitting"),
        "TakenIn": ("True", "AllTakenIn"),
    }  # fmt: skip
    assert {c.observed_generation for c in status.conditions} == {status.observed_generation} == {3}
    assert (status.waiting_gangs, status.running_gangs, status.used_gpus, status.share_ratio) == (2, 1, 16, 0.125)
    assert [(one.reason, one.gangs) for one in status.waiting] == [("QUOTA", 1), ("ROOM", 1)]
    assert (status.reason, status.memory) == ("QUOTA", memory)
    assert status.shapes[0].wanted == 32


def test_a_queue_that_is_left_out_names_field_and_remedy_and_leaves_what_runs() -> None:
    status = of(BROKEN)
    assert conditions(status)["Ready"] == ("False", "UnknownParent")
    assert status.conditions[0].message.endswith(
        "make it, or leave the parent out; until then nothing of it is served, and what runs is left alone"
    )


def test_a_queue_that_is_held_says_that_it_is_served_as_before() -> None:
    held = replace(VISION, held=True, findings=(("Cycle", "spec.parent: the parents go in a circle"),))
    assert of(held).conditions[0].message.endswith("until then it is served as before")
    assert conditions(of(held))["Consistent"] == ("True", "Consistent")


def test_a_contradiction_that_stops_nothing_is_a_condition_of_its_own() -> None:
    found = (("PromisedTooMuch", "16 is less than 40"), ("NoNamespace", "name one"))
    status = of(replace(VISION, findings=found))
    assert conditions(status)["Ready"] == ("True", "Served")
    assert conditions(status)["Consistent"] == ("False", "PromisedTooMuch")
    assert status.conditions[1].message == "16 is less than 40; name one"


def test_a_cluster_that_only_watches_says_why() -> None:
    status = queue_status(
        VISION, replace(TOLD, acting=False, idle_reason="the whole cluster is frozen: night"), 3, None
    )
    assert conditions(status)["Admitting"] == ("False", "OnlyTold")
    assert status.conditions[2].message == "the whole cluster is frozen: night"
