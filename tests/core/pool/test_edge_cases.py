"""Edge cases of warm pools that belong to no other subject; tests/capacity/cases.toml lists all of them."""

from dataclasses import replace

import pytest

from autoscaler.core.pool import clock
from autoscaler.core.pool.clock import LEAST_SAMPLES, SlotClock, Stage, StartKind
from autoscaler.core.pool.intents import Aspect, CreateSlot, DeleteSlot
from autoscaler.core.pool.params import Sharing
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import PoolState, pack, unpack
from autoscaler.core.pool.view import UNLISTED_S
from autoscaler.core.pool.world import NodeSeen
from tests.core.pool.builders import CONTENT, NOW_S, fleet, node, of, pool, slot, taken, told, warm, world


def test_a_slot_that_vanishes_under_way_is_ordered_again() -> None:
    params, before = pool(min_slots=2), world([warm("p-0"), slot("p-1", node="n", scheduled_s=NOW_S - 5.0)])
    first = taken(params, before)
    assert of(CreateSlot, first) == []
    after = taken(params, world([warm("p-0")]), first.state, NOW_S + 5.0)
    assert [order.name for order in of(CreateSlot, after)] == ["p-1"]
    assert after.state.clock.outcomes.count(False) == 0, "it was taken, it did not fail"


@pytest.mark.parametrize(
    "nodes",
    [(), (node("n", units=None),), (node("n", gating_taints=("readiness.k8s.io/gpu",)),), (node("n", ready=False),)],
    ids=["not listed", "without its GPUs", "gated", "not ready"],
)
def test_a_slot_that_was_just_bound_counts_while_its_node_is_read_as_it_was_before(nodes: tuple[NodeSeen, ...]) -> None:
    bound = slot("p-0", node="n", scheduled_s=NOW_S - 1.0)
    assert of(CreateSlot, taken(pool(min_slots=1), world([bound], nodes=nodes))) == []
    later = taken(pool(min_slots=1), world([bound], nodes=nodes), PoolState(), NOW_S + UNLISTED_S)
    assert len(of(CreateSlot, later)) == 1


def test_a_slot_that_was_just_bound_to_a_node_that_is_taken_is_replaced_at_once() -> None:
    bound = slot("p-0", node="n", scheduled_s=NOW_S - 1.0)
    done = taken(pool(min_slots=1), world([bound], nodes=(node("n", interrupted=True),)))
    assert len(of(CreateSlot, done)) == 1


def test_after_hours_without_a_controller_ended_slots_are_replaced() -> None:
    ended = fleet(3, failed="DeadlineExceeded")
    done = taken(pool(min_slots=3), world(ended), PoolState())
    assert [gone.reason for gone in of(DeleteSlot, done)] == [PoolReason.EXPIRED] * 3
    assert len(of(CreateSlot, done)) == 3
    assert done.state.clock.outcomes.count(False) == 0, "their end is none of their fault"


def test_no_slot_is_ordered_by_a_name_that_another_pod_has() -> None:
    """As slots that a WarmPool left when it was deleted with --cascade=orphan: "already there" is taken for done."""
    done = taken(pool(min_slots=2), world([], taken=frozenset({"p-0", "p-2"})))
    assert [order.name for order in of(CreateSlot, done)] == ["p-1", "p-3"]


def test_a_marked_slot_on_a_node_that_is_divided_anew_goes() -> None:
    divided = node("n-p-0", sharing=Sharing.MIG, parts=7)
    done = taken(pool(), world([warm("p-0", lease="ns/chat", leased_s=NOW_S)], nodes=(divided,)))
    assert PoolReason.NODE_UNUSABLE in {gone.reason for gone in of(DeleteSlot, done)}


# The stage clock.

KIND = StartKind("h100", "a", "on-demand", "c1", True)


def started(kept: SlotClock, uid: str, at_s: float, *took_s: float, kind: StartKind = KIND) -> SlotClock:
    instants = [at_s]
    for each in took_s:
        instants.append(instants[-1] + each)
    return clock.noted(kept, [clock.Start(uid, kind, instants)])


def test_instants_out_of_order_give_no_sample_and_are_counted() -> None:
    kept = started(SlotClock(), "u", 100.0, 60.0, -5.0, 30.0, 20.0, 10.0)
    assert (dict(kept.walks), kept.dropped) == ({}, 1)
    year = started(kept, "v", 100.0, 3.2e7, 1.0, 1.0, 1.0, 1.0)
    assert (dict(year.walks), year.dropped) == ({}, 2)


def test_a_full_disk_costs_the_slots_of_its_node_and_stops_no_order_elsewhere() -> None:
    """The kubelet collects images that nobody runs before it evicts anybody: a slot that stays there is cold."""
    params, state = pool(min_slots=4), PoolState()
    full = (node("bad", units=4, disk_full=True, free_units=1), node("n-p-3"))
    cold = tuple(warm(f"p-{at}", "bad", failed="Evicted" if at else None) for at in range(3))
    seen = world((*cold, warm("p-3")), nodes=full)
    done = taken(params, seen, state)
    assert {gone.reason for gone in of(DeleteSlot, done)} == {PoolReason.DISK_FULL}
    assert len(of(DeleteSlot, done)) == len(of(CreateSlot, done)) == 3
    assert done.state.circuits.content.troubles_s == (), "the images are not to blame"
    assert done.decision.warm == 1


def test_weights_that_fill_the_disk_of_one_node_after_the_other_are_asked_for_no_more() -> None:
    params, state = pool(min_slots=2), PoolState()
    for turn, is_stopped in enumerate((False, False, True)):
        names = [f"p-{2 * turn}", f"p-{2 * turn + 1}"]
        cold = [slot(name, node=f"n{turn}", scheduled_s=NOW_S - 60.0) for name in names]
        done = taken(params, world(cold, nodes=(node(f"n{turn}", units=4, disk_full=True),)), state)
        assert {gone.name for gone in of(DeleteSlot, done)} == set(names)
        assert (of(CreateSlot, done) == []) is is_stopped, "two slots of one node are one that is full"
        state = replace(unpack(pack(done.state)), ordered={}, dropped={})
    assert "disks run full" in told(taken(params, world([]), state), Aspect.CONTENT_WARMS).message


def test_slots_that_hold_different_images_by_one_tag_are_told_and_those_of_a_digest_are_not() -> None:
    old, new = warm("p-0", age_s=9000.0, digests="sha256:old"), warm("p-1", digests="sha256:new")
    moved = told(taken(pool(), world([old, new])), Aspect.CONTENT_WARMS)
    assert (moved.holds, moved.word) == (True, "TagMoved")
    assert "1 of 2 slots hold another image than the one that was pulled last" in moved.message
    for slots in ([old], [old, replace(new, digests="sha256:old")], [replace(old, content="before"), new]):
        assert told(taken(pool(), world(slots)), Aspect.CONTENT_WARMS).word == "ContentWarms"


@pytest.mark.parametrize(("digests", "refill_s"), [("sha256:old", 300.0), ("sha256:new", 900.0)])
def test_a_tag_that_moved_begins_a_distribution_of_its_own(digests: str, refill_s: float) -> None:
    kept = SlotClock()
    for at in range(LEAST_SAMPLES):
        for digest, image_s in (("old", 100.0), ("new", 700.0)):
            kind = replace(KIND, content=f"{CONTENT}@sha256:{digest}")
            kept = started(kept, f"{digest}{at}", 1000.0 * at, 100.0, 10.0, 50.0, image_s, 40.0, kind=kind)
    seen = world([warm("p-0", age_s=9000.0, digests="sha256:old"), warm("p-1", digests=digests)])
    state = PoolState(clock=replace(kept, told=frozenset({"u-p-0", "u-p-1"})))
    assert taken(pool(), seen, state).decision.refill_s == refill_s


def test_what_is_left_of_a_start_shrinks_with_each_stage() -> None:
    kept = SlotClock()
    for at in range(10):
        kept = started(kept, f"u{at}", 1000.0 * at, 100.0 + at, 10.0, 50.0, 30.0, 20.0)
    left = [clock.remaining(kept, KIND, stage, 600.0).p90_s for stage in list(Stage)[:5]]
    assert left == [218.0, 110.0, 100.0, 50.0, 20.0]
    assert clock.remaining(SlotClock(), KIND, Stage.REQUESTED, 600.0).p90_s == 600.0


def test_a_kind_that_was_seldom_seen_is_spoken_for_by_the_next_coarser() -> None:
    kept = SlotClock()
    for at in range(LEAST_SAMPLES):
        kept = started(kept, f"u{at}", 1000.0 * at, 100.0, 10.0, 50.0, 30.0, 20.0)
    other_zone = replace(KIND, zone="b")
    assert clock.remaining(kept, other_zone, Stage.REQUESTED, 600.0).p90_s == 210.0
    again = replace(KIND, new_node=False)
    assert clock.remaining(kept, again, Stage.REQUESTED, 60.0).samples == 0, "a warm node says nothing of a new one"


def test_a_stage_is_given_up_after_thrice_its_measured_time() -> None:
    kept = SlotClock()
    assert clock.patience_s(kept, KIND, Stage.NODE_LAUNCHED) == 960.0
    for at in range(LEAST_SAMPLES):
        kept = started(kept, f"u{at}", 1000.0 * at, 100.0, 10.0, 50.0, 300.0, 20.0)
    assert clock.patience_s(kept, KIND, Stage.GPU_READY) == 900.0
    assert clock.patience_s(kept, KIND, Stage.IMAGE_PRESENT) == 120.0, "no sooner than this"


def test_a_slot_gives_its_sample_once_also_across_a_restart() -> None:
    params, seen = pool(min_slots=1), world([warm("p-0")])
    first = taken(params, seen)
    assert sum(len(walks) for walks in first.state.clock.walks.values()) == 1
    again = taken(params, seen, unpack(pack(first.state)), NOW_S + 5.0)
    assert sum(len(walks) for walks in again.state.clock.walks.values()) == 1


def test_a_slot_that_is_ready_anew_after_a_restart_gives_no_sample_of_an_hour() -> None:
    nodes = tuple(node(f"n-p-{at}", created_s=NOW_S - 3800.0) for at in range(3))
    params, first = pool(min_slots=3), fleet(3, age_s=3600.0)
    before = taken(params, world(first, nodes=nodes))
    assert before.decision.refill_s == 300.0
    back = tuple(replace(each, ready_s=NOW_S + 60.0) for each in first)  # its node was cut off for a minute
    after = taken(params, world(back, nodes=nodes), unpack(pack(before.state)), NOW_S + 90.0)
    assert after.state.clock.walks == before.state.clock.walks
    assert after.decision.refill_s == 300.0


def test_failed_starts_make_the_refill_count_longer() -> None:
    assert SlotClock().failing_ratio == 0.0
    assert clock.failed(SlotClock(outcomes=(True,) * 6), 2).failing_ratio == 2 / 12
    assert clock.failed(SlotClock(), 100).failing_ratio == 0.5
