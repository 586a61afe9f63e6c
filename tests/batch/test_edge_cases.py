"""Edge cases of batch admission by number, and bad input; `cases.toml` says which test decides which case."""

from typing import Any

import pytest

from autoscaler.core.batch.gangs import Form, Gang, PodSet, Topology
from autoscaler.core.batch.loans import LoanBound
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.params import UNLIMITED, BatchParams, Order, QueueSpec, Quota, Shape
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.recalls import call_back
from tests.batch.builders import H100, gang, node, params, queue, racks
from tests.batch.story import Story


def forever(*queues: QueueSpec, nodes: Any = None, **more: Any) -> Story:
    return Story(params(*queues, **more), nodes or racks(1, 1), takes_s=lambda gang: 1e9)


def mended(*queues: QueueSpec, **old: Any) -> Story:
    """`old` has both nodes; the second was lost with the pod on it and is back, and the other pod is still leaving."""
    story = forever(*queues, nodes=racks(1, 2))
    story.submit(gang("old", pods=2, units=8, **old))
    story.settle()
    rest = [PodSeen("n1", H100, 8, Owner.BATCH, "old")]
    story.look([node("n1")], rest)
    story.look(racks(1, 2), rest)
    return story


def test_case_02_a_small_borrower_and_a_head_that_can_never_start_do_not_chase_each_other() -> None:
    story = forever(queue("a", 4), queue("b", 4))
    story.submit(gang("huge", "a", pods=5, units=8), *(gang(f"b{at}", "b", units=1) for at in range(8)))
    story.settle()
    for _ in range(50):
        story.to(story.now_s + 30.0)
    assert story.victims() == []
    verdict = story.why("huge")
    assert verdict is not None
    assert verdict.reason is BatchReason.UNLENT


def test_case_03_a_heavy_weight_does_not_make_the_victim_win_again() -> None:
    story = forever(queue("a", weight=1.0), queue("b", weight=10.0))
    story.submit(*(gang(f"b{at}", "b", units=2) for at in range(4)))
    story.settle()
    story.submit(*(gang(f"a{at}", "a", units=2, created_s=1.0) for at in range(4)))
    for _ in range(50):
        story.to(story.now_s + 30.0)
    assert len(story.victims()) <= 1
    assert story.holds("b") >= 6


def test_case_04_gangs_of_all_priorities_that_borrow_come_to_rest() -> None:
    story = forever(queue("a", 2), queue("b", 2), queue("c", 2))
    for at in range(12):
        story.submit(gang(f"g{at}", "abc"[at % 3], units=2, priority=-1 - at % 4, created_s=story.now_s))
        story.to(story.now_s + 60.0)
    before = len(story.victims())
    for _ in range(30):
        story.to(story.now_s + 60.0)
    assert len(story.victims()) == before


def test_case_06_a_share_that_drops_to_zero_by_an_eviction_does_not_bring_the_victim_back_first() -> None:
    story = forever(queue("a", 8), queue("b"))
    story.submit(gang("only", "b", units=8))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.run(1000.0)
    assert story.order() == ["only", "mine"]
    assert story.victims() == ["only"]


def test_case_07_and_08_single_pods_at_an_uneven_split_do_not_cycle() -> None:
    story = forever(queue("a", weight=3.0), queue("b", weight=3.0), queue("c", weight=3.0))
    story.submit(*(gang(f"{name}{at}", name, units=1) for name in "abc" for at in range(8)))
    for _ in range(50):
        story.to(story.now_s + 30.0)
    assert story.victims() == []
    assert sorted(story.holds(name) for name in "abc") == [2, 3, 3]


def test_case_12_a_head_that_changes_its_priority_keeps_one_place() -> None:
    story = forever(nodes=racks(1, 1))
    story.submit(gang("running", units=8))
    story.settle()
    story.submit(gang("x", units=8, priority=-5), gang("y", units=8, priority=-3))
    story.submit(gang("x", units=8, priority=-2))
    assert [each.gang.name for each in story.room.backlog.in_queue(1)] == ["x", "y"]
    story.room.finish("running", 1.0)
    story.settle()
    assert story.order() == ["running", "x"]


CHANGED_HEADS: dict[str, tuple[Gang | None, list[str]]] = {
    "stays as it is": (gang("a0", units=2, priority=-2), ["a0", "a1", "b0", "a2", "b1"]),
    "is deleted": (None, ["a1", "a2", "b0", "b1"]),
    "falls behind": (gang("a0", units=2, priority=-9), ["a1", "a2", "b0", "b1", "a0"]),
    "moves to the other queue": (gang("a0", "b", units=2, priority=-1), ["a1", "a0", "a2", "b0", "b1"]),
    "wants less": (gang("a0", units=1, priority=-2), ["a0", "a1", "b0", "a2", "b1"]),
    "wants more than is free": (gang("a0", pods=2, units=8, priority=-2), ["b0", "b1", "a1", "a2"]),
    "wants GPUs that nobody has": (gang("a0", shape="a10", priority=-2), ["a1", "a2", "b0", "b1"]),
}


@pytest.mark.parametrize(("becomes", "order"), CHANGED_HEADS.values(), ids=CHANGED_HEADS.keys())
def test_case_12_a_head_that_changes_while_the_order_is_made_is_taken_as_it_is_by_then(
    becomes: Gang | None, order: list[str]
) -> None:
    """The order is made, and used up to the bound of a cycle, one start; then whoever is next in it changes. Nobody
    starts twice, or as he was, and nobody behind him is left out."""
    shapes = (Shape(H100), Shape("a10"))
    story = forever(queue("a"), queue("b"), nodes=racks(1, 2), shapes=shapes, max_admissions=1)
    story.submit(gang("first", "b", units=2), gang("a0", units=2, priority=-2))
    story.submit(*(gang(name, name[0], units=2, priority=-3) for name in ("a1", "a2", "b0", "b1")))
    assert story.step()
    following = story.room.backlog.best()
    assert following is not None
    assert (story.order(), following.gang.name) == (["first"], "a0")
    if becomes is None:
        story.room.cancel("a0", 0.0)
    else:
        assert story.submit(becomes) is None
    story.settle()
    assert story.order() == ["first", *order]
    waits = [] if becomes is None or "a0" in order else ["a0"]
    assert list(story.room.backlog.waiting) == waits
    assert story.room.backlog.best() is None


def test_case_12_a_head_that_stood_aside_is_tried_at_once_when_it_wants_less_and_its_equals_are_not() -> None:
    story = forever(nodes=racks(1, 1))
    story.submit(gang("running", units=4), *(gang(name, units=8, priority=-2) for name in ("x", "y")))
    story.settle()
    assert story.order() == ["running"]
    story.submit(gang("x", units=4, priority=-2))
    story.settle()
    assert story.order() == ["running", "x"]
    assert [each.gang.name for each in story.room.backlog.in_queue(1)] == ["y"]


def test_case_13_two_queues_never_get_the_same_rack_in_one_cycle() -> None:
    story = forever(queue("a"), queue("b"), nodes=racks(2, 2))
    story.submit(gang("one", "a", pods=2, units=8, required="rack"), gang("two", "b", pods=2, units=8, required="rack"))
    done = story.cycles.cycle(0.0)
    assert len(done.admitted) == 2
    used = [spot.node for each in done.admitted for spot in each.spots]
    assert len(used) == len(set(used)) == 4


def test_case_16_a_strict_queue_that_waits_for_one_shape_blocks_no_other_queue() -> None:
    story = Story(
        params(queue("a", order=Order.STRICT), queue("b"), shapes=(Shape(H100), Shape("a10"))),
        [node("h"), node("s", shape="a10")],
    )
    story.submit(gang("big", "a", pods=2, units=8), gang("behind", "a", shape="a10", created_s=1.0))
    story.submit(gang("other", "b", units=8, shape="a10", created_s=2.0))
    story.settle()
    assert story.order() == ["other"]


def test_case_17_among_many_queues_the_last_one_does_not_always_lose() -> None:
    many = params(*(queue(f"q{at}") for at in range(64)), reserve_after_s=1e9)
    story = Story(many, racks(1, 4), takes_s=lambda gang: 10.0, checks=False)
    story.submit(*(gang(f"q{at}-{n}", f"q{at}", units=1) for at in range(64) for n in range(4)))
    story.run(11.0)
    assert {each.queue for _, each in story.admitted} == {f"q{at}" for at in range(64)}


def test_case_18_a_quota_lowered_under_running_work_evicts_nobody_and_admits_nobody() -> None:
    story = forever(queue("a"), nodes=racks(1, 2))
    story.submit(gang("service", units=8))
    story.settle()
    lowered = Story(params(queue("a", quota={"limit": 4})), racks(1, 2), [PodSeen("n0", H100, 8, gang="service")])
    assert lowered.room.adopt(gang("service", units=8), 0.0, 1.0) is None
    lowered.submit(gang("next", units=1))
    lowered.settle()
    assert lowered.order() == []
    verdict = lowered.why("next")
    assert verdict is not None
    assert (verdict.reason, verdict.changes[0].units) == (BatchReason.LIMIT, 5)


def test_case_18_a_service_without_end_shrinks_to_a_lowered_guarantee_once_others_want_theirs() -> None:
    """Four replicas of a service that never ends, 8 GPUs each; its queue's guarantee is lowered from 32 to 16."""
    running = [PodSeen(f"n{at}", H100, 8, gang=f"service-{at}") for at in range(4)]
    story = Story(params(queue("a", 16), queue("b", 16)), racks(1, 4), running, takes_s=lambda gang: 1e9)
    for at in range(4):
        assert story.room.adopt(gang(f"service-{at}", units=8), 0.0, 1.0) is None
    story.settle()
    assert story.victims() == [], "nobody wants it"
    story.now_s = 100.0
    story.submit(*(gang(f"b{at}", "b", units=8, created_s=100.0) for at in range(4)))
    story.run(1000.0)
    assert len(story.victims()) == 2
    assert (story.holds("a"), story.holds("b")) == (16, 16), "and no further than its guarantee"


BAD_TREES: dict[str, tuple[tuple[QueueSpec, ...], str]] = {
    "a circle": ((QueueSpec("a", "b"), QueueSpec("b", "a")), r"queues\[a\].parent: the parents go in a circle"),
    "its own parent": ((QueueSpec("a", "a"),), "circle: a -> a; leave one parent out"),
    "weight 0": ((QueueSpec("a", weight=0.0),), r"queues\[a\].weight: 0.0; give more than 0"),
    "a weight that is no number": ((QueueSpec("a", weight=float("nan")),), "weight: nan"),
    "an unknown shape": (
        (QueueSpec("a", quotas={"tpu": Quota(1)}),),
        r"quotas\[tpu\]: unknown shape; name one of h100",
    ),
    "an unknown parent": ((QueueSpec("a", "x"),), "parent: 'x'; make that queue"),
    "twice the same name": ((QueueSpec("a"), QueueSpec("a")), "'a' stands twice"),
    "a negative quota": ((QueueSpec("a", quotas={H100: Quota(-1)}),), "guaranteed: -1; give 0 to"),
    "a quota that overflows": ((QueueSpec("a", quotas={H100: Quota(limit=2**63)}),), "limit: 9223372036854775808"),
    "a limit below the guarantee": ((QueueSpec("a", quotas={H100: Quota(4, limit=2)}),), "2 is below guaranteed 4"),
    "children promised more": (
        (QueueSpec("p", quotas={H100: Quota(2)}), QueueSpec("a", "p", quotas={H100: Quota(3)})),
        "2 is less than the 3 of its children; raise it",
    ),
}


@pytest.mark.parametrize(("queues", "words"), BAD_TREES.values(), ids=BAD_TREES.keys())
def test_case_19_a_tree_that_cannot_be_served_is_refused_with_field_and_remedy(
    queues: tuple[QueueSpec, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        BatchParams((Shape(H100),), queues)


def test_case_19_quotas_without_bound_and_slices_of_a_gpu_add_up_without_rounding() -> None:
    shapes = (Shape(H100, speed=1.0), Shape("mig-1g", speed=1.0, parts=7))
    spec = QueueSpec("a", quotas={H100: Quota(UNLIMITED, lendable=UNLIMITED)}, grace_s=0.0)
    story = Story(params(spec, shapes=shapes), [node("n", shape="mig-1g", units=56)], takes_s=lambda gang: 5.0)
    story.submit(*(gang(f"g{at}", units=1, shape="mig-1g") for at in range(300)))
    story.run()
    assert len(story.finished) == 300
    assert story.room.tree.amounts == [[0, 0, 0], [0, 0, 0]]


def test_case_20_gangs_of_one_second_start_in_the_order_in_which_they_came() -> None:
    story = Story(params(), racks(1, 1), takes_s=lambda gang: 5.0)
    names = [f"g{at}" for at in (3, 1, 2, 0)]
    story.submit(*(gang(name, units=8, created_s=0.0) for name in names))
    story.run()
    assert story.order() == names


BAD_GANGS: dict[str, tuple[dict[str, Any], BatchReason]] = {
    "no pods": ({"pods": 0}, BatchReason.ABSURD),
    "a negative number of GPUs": ({"units": -1}, BatchReason.ABSURD),
    "no GPU": ({"units": 0}, BatchReason.ABSURD),
    "more than anybody has": ({"pods": 16_384, "units": 1_000_000}, BatchReason.ABSURD),
    "negative cores": ({"cpu": -1.0}, BatchReason.ABSURD),
    "a run time that is no number": ({"expected_s": float("nan")}, BatchReason.ABSURD),
    "no importance at all": ({"importance": 0.0}, BatchReason.ABSURD),
    "an unknown shape": ({"shape": "tpu"}, BatchReason.UNKNOWN_SHAPE),
    "an unknown level": ({"required": "planet"}, BatchReason.UNKNOWN_LEVEL),
    "an unknown queue": ({"queue": "x"}, BatchReason.UNKNOWN_QUEUE),
    "a queue with children": ({"queue": "top"}, BatchReason.UNKNOWN_QUEUE),
    "serving's priority": ({"priority": 0}, BatchReason.PRIORITY),
}


@pytest.mark.parametrize(("asked", "reason"), BAD_GANGS.values(), ids=BAD_GANGS.keys())
def test_case_22_a_gang_that_cannot_be_meant_is_refused_once_and_ends_no_cycle(
    asked: dict[str, Any], reason: BatchReason
) -> None:
    story = Story(params(queue("top"), queue("a", parent="top")), racks(1, 1))
    refused = story.submit(gang("g", **asked))
    assert refused is not None
    assert refused.reason is reason
    assert refused.remedy
    assert story.settle() == 0
    assert story.submit(gang("good")) is None
    story.settle()
    assert story.order() == ["good"]


def test_case_22_a_gang_of_two_shapes_that_wants_one_node_is_refused_and_ends_no_search() -> None:
    """One of lower priority fills its queue's limit, so that it looks for whom to stop: that ended with an error, and
    so did every look after it."""
    shapes = (Shape(H100), Shape("a10"))
    limited = queue("a", quota={"limit": 8})
    story = forever(limited, nodes=[node("h"), node("s", shape="a10")], shapes=shapes)
    story.submit(gang("runs", units=8, priority=-5))
    story.settle()
    story.now_s = 100.0
    both = Form((PodSet(1, 8, H100), PodSet(1, 1, "a10")), Topology(required="node"))
    refused = story.submit(gang("both", form=both, created_s=1.0))
    story.to(200.0)
    assert refused is not None
    assert (refused.reason, refused.what) == (
        BatchReason.ABSURD, "all pods on one node, of the shapes a10 and h100"
    )  # fmt: skip
    assert story.victims() == []


@pytest.mark.parametrize("queue_of_fresh", ["a", "b"])
def test_case_28_a_gang_that_lost_a_member_is_not_overtaken_by_a_fresh_one_of_lower_rank(queue_of_fresh: str) -> None:
    """A node is repaired under it: neither what its members leave nor the mended node is a fresh job's."""
    story = forever(queue("a"), queue("b"), nodes=racks(1, 2))
    story.submit(gang("old", pods=2, units=8))
    story.settle()
    story.now_s = 10.0
    rest = [PodSeen("n1", H100, 8, Owner.BATCH, "old")]
    story.look([node("n1")], rest)
    story.submit(gang("fresh", queue_of_fresh, units=8, created_s=10.0, expected_s=1e9))
    story.settle()
    assert (story.victims(), story.order()) == (["old"], ["old"]), "its other member holds its GPUs until it is gone"
    story.now_s = 20.0
    story.look(racks(1, 2), rest)
    story.settle()
    assert story.order() == ["old"], "the mended node is there before its other member is gone"
    story.now_s = 40.0
    story.room.left("old", 40.0)
    story.settle()
    assert story.order() == ["old", "old"]
    assert "fresh" in story.room.backlog.waiting


def test_case_28_who_ends_before_the_others_have_left_may_pass_over_the_mended_node() -> None:
    story = mended(notice_s=600.0)
    story.submit(gang("short", units=8, created_s=1.0, expected_s=60.0), gang("long", units=8, expected_s=7200.0))
    story.settle()
    assert story.order() == ["old", "short"]


def test_case_28_who_ends_before_the_others_have_left_may_pass_over_room_elsewhere_too() -> None:
    """Two nodes are free beside those it had: it can start there once its other pod is gone, and not at once."""
    story = forever(nodes=racks(1, 4))
    story.submit(gang("old", pods=2, units=8, notice_s=600.0))
    story.settle()
    story.look([node("n1"), node("n2"), node("n3")], [PodSeen("n1", H100, 8, Owner.BATCH, "old")])
    story.submit(gang("short", units=8, created_s=1.0, expected_s=60.0), gang("long", units=8, expected_s=7200.0))
    story.settle()
    assert story.order() == ["old", "short"]


def test_case_28_of_two_that_lost_a_node_each_has_the_place_that_it_leaves_itself() -> None:
    """Two nodes came back; the second gang leaves first, and a fresh job comes between."""
    story = forever(nodes=racks(1, 4))
    story.submit(*(gang(name, pods=2, units=8) for name in ("one", "two")))
    story.settle()
    rest = [PodSeen("n1", H100, 8, Owner.BATCH, "one"), PodSeen("n3", H100, 8, Owner.BATCH, "two")]
    story.look([node("n1"), node("n3")], rest)
    story.look(racks(1, 4), rest)
    story.submit(gang("fresh", units=8, created_s=1.0, expected_s=1e9))
    story.settle()
    story.now_s = 10.0
    story.room.left("two", 10.0)
    story.settle()
    assert story.order() == ["one", "two", "two"]


def test_case_28_the_mended_node_is_kept_no_longer_than_anybody_counts_on_the_others_to_leave() -> None:
    story = mended(notice_s=30.0)
    story.submit(gang("fresh", units=8, created_s=1.0, expected_s=1e9))
    last_s = 30.0 + story.room.params.stuck_s
    for story.now_s in (0.0, last_s):
        story.settle()
        assert story.order() == ["old"]
    story.now_s = last_s + 1.0
    story.settle()
    assert story.order() == ["old", "fresh"]


def test_case_28_who_has_a_guarantee_has_the_mended_node_all_the_same() -> None:
    story = mended(queue("a"), queue("b", 8))
    story.submit(gang("owed", "b", units=8))
    story.settle()
    assert story.order() == ["old", "owed"]


def test_case_29_interleaved_gangs_never_hold_parts_of_each_others_room() -> None:
    story = Story(params(queue("a"), queue("b")), racks(1, 2), takes_s=lambda gang: 50.0)
    story.submit(gang("one", "a", pods=9, units=1), gang("two", "b", pods=9, units=1))
    story.settle()
    assert len(story.room.ledger.holdings) == 1
    story.run()
    assert sorted(story.finished) == ["one", "two"]


def test_case_30_a_gang_whose_size_is_edited_while_it_waits_is_placed_at_its_new_size() -> None:
    story = forever(nodes=racks(1, 1))
    story.submit(gang("g", pods=9, units=1))
    story.settle()
    story.submit(gang("g", pods=3, units=1))
    story.settle()
    assert story.holds("a") == 3
    story.submit(gang("g", pods=8, units=1))
    story.settle()
    assert story.holds("a") == 3, "what runs is left as it is"


@pytest.mark.parametrize("end", ["finish", "cancel"])
def test_case_34_a_gang_that_ends_in_flight_leaves_no_books_behind(end: str) -> None:
    story = forever(queue("a", 8), queue("b"))
    story.submit(gang("borrower", "b", units=8))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    getattr(story.room, end)("borrower", 101.0)
    story.room.left("borrower", 102.0)
    story.settle()
    assert story.order() == ["borrower", "mine"]
    getattr(story.room, end)("mine", 103.0)
    getattr(story.room, end)("mine", 104.0)
    assert story.room.contradictions() == []
    assert story.room.ledger.owners("n0", H100) == {"free": 8}


def test_case_39_a_queue_below_its_share_hides_no_victim_behind_it() -> None:
    story = forever(queue("a", 4), queue("b"), queue("c"))
    story.submit(gang("small", "b", units=1), gang("large", "c", units=7))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=4, created_s=100.0))
    story.settle()
    assert story.victims() == ["large"]


def test_case_41_a_gang_of_many_pods_counts_once_for_each_pod() -> None:
    story = forever(nodes=racks(1, 2))
    story.submit(gang("g", pods=12, units=1))
    story.settle()
    assert story.holds("a") == 12
    assert story.room.ledger.owned[:, Owner.BATCH].sum() == 12


def test_case_44_room_is_judged_on_nodes_that_are_on_their_way_too() -> None:
    story = forever(nodes=[node("new", due_s=500.0)])
    story.submit(gang("g", units=8), gang("huge", pods=2, units=8))
    story.settle()
    kept = story.room.ledger.reservations["g"]
    assert kept.start_s == 500.0
    verdict = story.why("huge")
    assert (verdict.reason, verdict.changes[0].units) == (BatchReason.UNLENT, 8), "it is short of 8 with what comes"
    story.now_s = 500.0
    story.look([node("new")])
    story.settle()
    assert story.order() == ["g"]


def test_case_51_units_lent_while_a_replica_sleeps_come_back_for_the_first_cold_request() -> None:
    story = forever(nodes=[node("warm", warm_units=8)])
    story.room.lend({H100: LoanBound(8, expected_s=7200.0)})
    story.submit(gang("g", units=8, lendable=True))
    story.settle()
    evicted, _ = call_back(story.room, H100, 1, 50.0)
    story.room.lend({H100: LoanBound(0)})
    story.room.left(evicted[0].gang, 80.0)
    story.settle()
    assert story.room.ledger.owners("warm", H100) == {"serving": 8, "free": 0}


def test_case_53_a_tenant_that_swings_between_serving_and_training_pays_for_both() -> None:
    story = Story(params(queue("a"), queue("b"), half_life_s=7200.0), racks(1, 1))
    for at in range(10):
        story.room.serving_uses("a", 8.0 if at % 2 == 0 else -8.0, 60.0 * at)
    story.now_s = 700.0
    story.submit(gang("swings", "a", units=8), gang("steady", "b", units=8))
    story.settle()
    assert story.order() == ["steady"]


def test_case_54_only_units_of_the_wanted_shape_are_freed() -> None:
    shapes = (Shape(H100), Shape("mig-1g", parts=7))
    nodes = [node("n"), node("n", 56, shape="mig-1g")]
    story = Story(params(queue("a", 8), queue("b"), shapes=shapes), nodes, takes_s=lambda gang: 1e9)
    story.submit(gang("slices", "b", units=56, shape="mig-1g"), gang("whole", "b", units=8))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert story.victims() == ["whole"]


def test_case_55_what_another_scheduler_binds_is_foreign_and_never_booked_twice() -> None:
    story = forever(nodes=racks(1, 2))
    story.look(pods=[PodSeen("n0", H100, 8), PodSeen("n1", H100, 3)])
    story.submit(gang("g", pods=6, units=1))
    story.settle()
    assert story.order() == []
    story.look(pods=[PodSeen("n1", H100, 2)])
    story.settle()
    assert story.order() == ["g"]


def test_case_55_another_scheduler_that_is_first_has_the_place_of_who_has_no_pod_there_yet() -> None:
    """Two gangs were let in on one node, the second one's pod is on its way when another scheduler binds 3 GPUs."""
    story = forever(nodes=racks(1, 1))
    story.submit(gang("bound", units=4), gang("late", units=4))
    story.settle()
    mine = PodSeen("n0", H100, 4, Owner.BATCH, "bound")
    story.look(pods=[mine, PodSeen("n0", H100, 3)])
    story.settle()
    assert (story.order(), story.victims()) == (["bound", "late"], ["late"])
    assert story.room.ledger.owners("n0", H100) == {"batch": 4, "foreign": 3, "reserved": 1, "free": 0}
    story.look(pods=[mine])
    story.settle()
    assert story.order() == ["bound", "late", "late"], "its place in the queue it has kept"
    assert story.room.ledger.owners("n0", H100) == {"batch": 8, "free": 0}


def test_case_55_what_was_freed_for_one_and_is_bound_by_another_scheduler_is_waited_for_and_not_booked() -> None:
    story = forever(queue("a", 8), queue("b"))
    story.submit(gang("borrower", "b", units=8))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert story.victims() == ["borrower"]
    story.now_s = 130.0
    story.room.left("borrower", 130.0)
    story.look(pods=[PodSeen("n0", H100, 8)])
    story.settle()
    assert story.order() == ["borrower"]
    assert story.room.ledger.owners("n0", H100) == {"foreign": 8, "free": 0}
    assert story.why("mine").reason is BatchReason.TOO_LARGE, "nobody whom we could ask has it"
    story.now_s = 160.0
    story.look(pods=[])
    story.settle()
    assert story.order() == ["borrower", "mine"]


def test_case_56_a_clock_that_jumps_back_breaks_nothing() -> None:
    story = Story(params(reserve_after_s=30.0), racks(1, 1), takes_s=lambda gang: 10.0)
    story.submit(gang("one", units=8, created_s=1e6), gang("two", units=8, created_s=2e6))
    story.settle()
    story.now_s = -500.0
    story.settle()
    story.room.finish("one", -490.0)
    story.settle()
    assert story.order() == ["one", "two"]
    assert story.room.contradictions() == []


def test_case_56_a_clock_that_jumps_a_month_ahead_ends_nothing_that_runs_and_gives_nothing_twice() -> None:
    story = Story(params(queue("a", 8), queue("b", 8), reserve_after_s=30.0), racks(1, 2), takes_s=lambda gang: 1e9)
    story.submit(gang("one", units=8, expected_s=600.0), gang("two", "b", units=8, expected_s=600.0))
    story.settle()
    story.submit(gang("next", units=8, created_s=5.0))
    story.now_s = 30 * 86_400.0
    story.settle()
    assert (story.order(), story.victims()) == (["one", "two"], [])
    story.room.finish("one", story.now_s)
    story.settle()
    assert story.order() == ["one", "two", "next"]
    story.now_s = 60.0
    story.settle()
    assert (story.victims(), story.room.contradictions()) == ([], [])
