"""What a restart must not lose stands in the queues' statuses, each its own part, and comes back as it was."""

import json
from typing import Any

import pytest

from autoscaler.api.batch_memory import gathered, read_memory, spread
from autoscaler.api.batch_queue_status import MOST_KEPT, MOST_PLACES, BatchQueueStatus, QueueMemory
from autoscaler.api.schema import custom_resource
from autoscaler.core.batch.durable import VERSION
from autoscaler.errors import InputError

NOON_S = 1795863600.0
PACKED: dict[str, Any] = {
    "version": VERSION,
    "at_s": NOON_S,
    "reservations": [
        ["job/lab/big", "PREEMPTION", NOON_S - 60, NOON_S + 30, [["n1", "h100", 8], ["n2", "h100", 4]]],
        ["job/lab/next", "START", NOON_S - 20, NOON_S + 900, [["n3", "h100", 8]]],
        ["job/lab/gone", "START", NOON_S - 10, NOON_S + 900, [["n4", "h100", 8]]],
    ],
    "queues": [["vision", 3600.5, [0.5, 1.25]], ["text", 10.0, []]],
    "evictions": [["job/lab/next", 2]],
    "places": [["job/lab/hurt", "START", NOON_S - 90, NOON_S + 30, [["n5", "h100", 8]]]],
    "left_out": {"reservations": 0, "queues": 0, "evictions": 0, "places": 0},
}
QUEUE_OF = {"job/lab/big": "vision", "job/lab/next": "text", "job/lab/hurt": "text"}


def through_the_cluster(memory: QueueMemory) -> QueueMemory:
    written = custom_resource(BatchQueueStatus(memory=memory))
    back = read_memory(json.loads(json.dumps(written)))
    assert back is not None
    return back


def test_what_was_packed_comes_back_from_the_statuses() -> None:
    parts = spread(PACKED, QUEUE_OF)
    kept = {queue: [each.gang for each in part.reservations] for queue, part in parts.items()}
    assert kept == {"vision": ["job/lab/big"], "text": ["job/lab/next", "job/lab/hurt"]}
    back = gathered({queue: through_the_cluster(part) for queue, part in parts.items()}, 86_400, NOON_S)
    oldest_first = [*PACKED["places"], *PACKED["reservations"][:2]]
    assert back["reservations"] == oldest_first, "nobody waits for the third any more"
    assert sorted(back["queues"]) == sorted(PACKED["queues"])
    assert (back["evictions"], back["at_s"], back["version"]) == (PACKED["evictions"], NOON_S, VERSION)


def test_a_part_that_was_written_a_half_life_earlier_counts_half() -> None:
    early = QueueMemory(written_at_s=NOON_S - 86_400, used_gpu_s=1000)
    late = QueueMemory(written_at_s=NOON_S, used_gpu_s=1000)
    assert gathered({"a": early, "b": late}, 86_400, NOON_S)["queues"] == [["a", 500.0, []], ["b", 1000.0, []]]


def test_what_a_clock_wrote_that_was_a_day_ahead_is_put_back_by_that_day() -> None:
    day_s = 86_400.0
    row = ["job/lab/next", "START", NOON_S + day_s - 20, NOON_S + day_s + 900, [["n3", "h100", 8]]]
    packed = {**PACKED, "at_s": NOON_S + day_s, "reservations": [row], "places": [], "queues": [["text", 1000.0, []]]}
    early = QueueMemory(written_at_s=NOON_S - day_s, used_gpu_s=1000)
    back = gathered({**spread(packed, QUEUE_OF), "vision": early}, 86_400, NOON_S)
    assert back["reservations"] == [["job/lab/next", "START", NOON_S - 20, NOON_S + 900, [["n3", "h100", 8]]]]
    assert (back["at_s"], back["queues"]) == (NOON_S, [["text", 1000.0, []], ["vision", 500.0, []]])


def test_nothing_was_kept_where_nothing_was_written() -> None:
    assert read_memory({}) is None
    assert gathered({}, 86_400, NOON_S)["reservations"] == []


def test_a_queue_keeps_so_many_and_counts_the_rest() -> None:
    gangs = [f"job/lab/{at}" for at in range(MOST_KEPT + 3)]
    wide = [[f"n{at}", "h100", 1] for at in range(MOST_PLACES + 1)]
    rows = [[gang, "START", NOON_S, NOON_S, [["n", "h100", 1]]] for gang in gangs]
    packed = {**PACKED, "reservations": [["job/lab/wide", "START", NOON_S, NOON_S, wide], *rows]}
    parts = spread(packed, dict.fromkeys([*gangs, "job/lab/wide", "job/lab/hurt"], "vision"))
    kept = [each.gang for each in parts["vision"].reservations]
    assert kept == gangs[:MOST_KEPT], "a place of who leaves still comes last"
    assert parts["vision"].left_out == 5


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ({"usedGpuS": 1}, "status.memory.writtenAt: missing"),
        ({"writtenAt": "2026-11-28T11:00:00Z", "usedGpuS": -1}, "status.memory.usedGpuS: -1 is out of range"),
        ({"writtenAt": "2026-11-28T11:00:00Z", "evictions": [{"gang": "a"}]}, "status.memory.evictions[0].times"),
    ],
)
def test_a_memory_that_somebody_edited_is_refused_by_field(memory: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        read_memory({"memory": memory})
    assert words in str(refused.value)
