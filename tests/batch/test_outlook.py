"""What is told of a gang that waits."""

import pytest

from autoscaler.core.batch.outlook import outlook
from autoscaler.core.batch.params import Order
from autoscaler.core.batch.reasons import BatchReason, Change
from tests.batch.builders import H100, gang, node, params, queue, racks
from tests.batch.story import Story


def told(story: Story, name: str):
    found = outlook(story.cycles, name, story.now_s)
    assert found is not None
    return found


def test_a_place_a_reason_what_is_missing_and_two_times() -> None:
    story = Story(params(), racks(1, 2))
    story.submit(gang("one", units=8, expected_s=1000.0), gang("two", units=8, expected_s=3000.0))
    story.settle()
    story.submit(gang("head", pods=2, units=8, created_s=1.0), gang("next", units=8, created_s=2.0))
    story.settle()
    head = told(story, "head")
    assert (head.position, head.reason, head.changes) == (1, BatchReason.ROOM, (Change(BatchReason.ROOM, H100, 16),))
    assert (head.p50_s, head.p90_s) == (3000.0, 4500.0)
    behind = told(story, "next")
    assert behind.position == 2
    assert behind.p50_s is not None
    assert behind.p50_s > 3000.0
    assert outlook(story.cycles, "one", 0.0) is None


def test_who_waits_in_a_strict_queue_waits_behind_the_first() -> None:
    story = Story(params(queue("a", order=Order.STRICT)), racks(1, 1))
    story.submit(gang("running", units=8))
    story.settle()
    story.submit(gang("first", units=8, created_s=1.0), gang("second", created_s=2.0))
    story.settle()
    assert told(story, "second").reason is BatchReason.BEHIND


def test_who_others_leave_for_knows_when_they_are_gone() -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    story.submit(gang("borrower", "b", units=8, notice_s=45.0))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    mine = told(story, "mine")
    assert (mine.reason, mine.p90_s) == (BatchReason.LEAVING, 145.0)


@pytest.mark.parametrize(
    ("asked", "required", "reason"),
    [
        pytest.param((9, 8), None, BatchReason.UNLENT, id="more than there is"),
        pytest.param((3, 8), "rack", BatchReason.TOO_LARGE, id="more than any rack has"),
        pytest.param((1, 8), None, BatchReason.FRAGMENTED, id="in pieces too small"),
        pytest.param((5, 2), "rack", BatchReason.TOPOLOGY, id="no rack has the room now"),
    ],
)
def test_a_verdict_tells_what_kind_of_room_is_missing(
    asked: tuple[int, int], required: str | None, reason: BatchReason
) -> None:
    story = Story(params(), racks(2, 2))
    story.submit(*(gang(f"part{at}", units=5) for at in range(4)))
    story.settle()
    story.submit(gang("g", pods=asked[0], units=asked[1], required=required, created_s=1.0))
    story.settle()
    assert told(story, "g").reason is reason


def test_quota_is_not_to_blame_where_what_it_guarantees_is_not_there() -> None:
    """A queue is guaranteed 64 units, and all nodes are cordoned: nobody is told to have it guaranteed 8 more."""
    nodes = racks(1, 2)
    story = Story(params(queue("a", 64), queue("b", 12, quota={"lendable": 0})), nodes)
    story.submit(gang("g", pods=2, units=8))
    story.settle()
    assert told(story, "g").changes == (Change(BatchReason.UNLENT, "a", 12),), "the other one lends nothing"
    story.look([node(each.name, cordoned=True) for each in nodes])
    story.settle()
    assert told(story, "g").changes == (Change(BatchReason.TOO_LARGE, "h100, 16 more than they have,", 16),)


def test_where_cores_or_memory_are_short_nobody_is_told_to_look_for_gpus() -> None:
    """Two nodes of eight free GPUs: strangers left one few cores and the other little memory."""
    story = Story(params(), [node("n0", cpu=4.0, memory_gib=512.0), node("n1", cpu=64.0, memory_gib=8.0)])
    held = gang("holds", units=1, cpu=2.0, memory_gib=1.0)
    story.submit(held, gang("g", units=4, cpu=3.0, memory_gib=16.0, created_s=1.0))
    story.settle()
    waits = told(story, "g")
    assert (waits.reason, waits.changes) == (BatchReason.CORES, (Change(BatchReason.CORES, H100, 4),))
    assert story.room.ledger.reservations["g"].plan, "it has a start kept for it as any that waits for room"
    story.submit(gang("all", units=8, cpu=65.0, memory_gib=1.0, created_s=2.0))
    story.submit(gang("two", pods=2, units=8, cpu=1.0, memory_gib=9.0, required="node", created_s=2.0))
    story.settle()
    (never,) = story.why("all").changes
    assert (never.reason, never.where) == (
        BatchReason.TOO_LARGE, "h100 with the cores and memory that its pods ask for,"
    )  # fmt: skip
    assert story.why("two").changes[0].where == "h100 in one node", "more GPUs than a node has"


def test_a_start_is_foretold_for_when_cores_and_memory_are_left_as_well() -> None:
    story = Story(params(), [node("n", cpu=64.0, memory_gib=512.0)])
    story.submit(gang("cores", units=1, cpu=60.0, expected_s=1000.0), gang("gpus", units=4, expected_s=400.0))
    story.settle()
    story.submit(gang("next", units=6, cpu=30.0, created_s=1.0))
    story.settle()
    assert told(story, "next").p50_s == 1000.0
    assert story.room.ledger.reservations["next"].start_s == 1000.0
    story.submit(gang("never", units=1, cpu=65.0, created_s=2.0))
    story.settle()
    assert told(story, "never").reason is BatchReason.TOO_LARGE


def test_what_somebody_leaves_for_another_is_foretold_to_nobody_else() -> None:
    story = Story(params(queue("a", 8), queue("b"), queue("c")), racks(1, 1), takes_s=lambda gang: 1e7)
    story.submit(gang("borrower", "b", units=8, notice_s=45.0))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0, expected_s=500.0))
    story.settle()
    story.submit(gang("next", "c", units=8, created_s=101.0))
    story.settle()
    assert told(story, "next").p50_s is None, "not at 145 s, when mine starts"
    story.run(150.0)
    assert told(story, "next").p50_s == 645.0
