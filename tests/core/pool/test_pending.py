"""What was asked for and is not seen yet: where it never left, and where the leader that asked had a clock ahead."""

from dataclasses import replace

from autoscaler.core.pool.circuits import Circuit
from autoscaler.core.pool.intents import CreateSlot, DeleteSlot, MarkNodeEnds
from autoscaler.core.pool.pending import without_unsent
from autoscaler.core.pool.state import Marked, Ordered, PoolState, pack, unpack
from tests.core.pool.builders import (
    NOW_S,
    claim,
    domain,
    known,
    node,
    of,
    pool,
    slot,
    taken,
    warm,
    with_circuits,
    world,
)

DAY_S = 86_400.0


def ahead(state: PoolState) -> PoolState:
    """What the next leader reads of a state, but for the history of demand, which is of now."""
    return replace(unpack(pack(state)), history=known().history)


def test_an_order_of_a_day_ahead_that_came_to_nothing_is_given_again() -> None:
    params = pool(min_slots=1)
    first = taken(params, world(), now_s=NOW_S + DAY_S)
    assert len(of(CreateSlot, first)) == 1
    later = taken(params, world(), ahead(first.state))
    assert [order.name for order in of(CreateSlot, later)] == ["p-0"]
    assert of(CreateSlot, taken(params, world(), ahead(later.state), NOW_S + 5.0)) == [], "it was given just now"


def test_a_deletion_of_a_day_ahead_is_given_again() -> None:
    params, seen = pool(min_slots=0), world((slot(failed="no image"),))
    first = taken(params, seen, now_s=NOW_S + DAY_S)
    assert len(of(DeleteSlot, first)) == 1
    assert len(of(DeleteSlot, taken(params, seen, ahead(first.state)))) == 1


def test_a_slot_that_was_asked_a_day_ahead_to_say_that_its_node_ends_is_asked_again() -> None:
    ends = node("n-p-0", units=8, free_units=7, ends_s=NOW_S + DAY_S + 500.0)
    claims = (claim("claim-n-p-0", launched_s=NOW_S - 9e4, initialized_s=NOW_S - 9e4),)
    params, there = pool(min_slots=1), warm("p-0", "n-p-0", deadline_s=NOW_S + 2 * DAY_S)
    first = taken(params, world((there,), nodes=(ends,), claims=claims), now_s=NOW_S + DAY_S)
    assert len(of(MarkNodeEnds, first)) == 1
    now = world((there,), nodes=(replace(ends, ends_s=NOW_S + 500.0),), claims=claims)
    assert len(of(MarkNodeEnds, taken(params, now, ahead(first.state)))) == 1


def test_a_probe_of_a_day_ahead_keeps_no_pool_from_asking_for_capacity() -> None:
    """One is asked for in 90 s while no tier has capacity."""
    out = Circuit(opened=1, until_s=NOW_S - 1.0)
    circuits = {domain(""): out}
    state = replace(with_circuits(known(), capacity=circuits), created_s=NOW_S + DAY_S)
    assert len(of(CreateSlot, taken(pool(min_slots=1), world(), state))) == 1
    asked = replace(state, created_s=NOW_S - 30.0)
    assert of(CreateSlot, taken(pool(min_slots=1), world(), asked)) == [], "half a minute ago one was"


def test_what_never_left_was_not_asked_for() -> None:
    """Two slots are missing, one has failed, and one that was asked before does not say that its node ends."""
    ends = node("n-p-0", units=8, free_units=7, ends_s=NOW_S + 500.0)
    params, there = pool(min_slots=4), (warm("p-0", "n-p-0"), slot("p-1", failed="no image"))
    before = replace(known(), marked={"u-p-0": Marked(NOW_S - 300.0, 2)})
    done = taken(params, world(there, nodes=(ends,)), before)
    assert {type(each) for each in done.intents} == {CreateSlot, DeleteSlot, MarkNodeEnds}
    assert done.state.marked["u-p-0"].times == 3
    left = without_unsent(done.state, before, done.intents)
    assert (left.ordered, left.dropped, left.marked) == ({}, {}, before.marked)
    again = taken(params, world(there, nodes=(ends,)), left, NOW_S + 5.0)
    assert {(type(each), each.name) for each in again.intents} == {(type(each), each.name) for each in done.intents}
    first = without_unsent(done.state, known(), of(MarkNodeEnds, done))
    assert (first.marked, len(first.ordered), len(first.dropped)) == ({}, len(done.state.ordered), 1)


def test_a_probe_that_never_left_is_asked_for_at_the_next_look() -> None:
    """One is asked for in 90 s while no tier has capacity."""
    out = Circuit(opened=1, until_s=NOW_S - 1.0)
    before = replace(with_circuits(known(), capacity={domain(""): out}), created_s=NOW_S - 100.0)
    params = pool(min_slots=1)
    done = taken(params, world(), before)
    assert len(of(CreateSlot, done)) == 1
    left = without_unsent(done.state, before, done.intents)
    assert [order.name for order in of(CreateSlot, taken(params, world(), left, NOW_S + 5.0))] == ["p-0"]
    assert without_unsent(done.state, before, ()).created_s == NOW_S
    again = replace(before, ordered={"p-0": Ordered("first", None, NOW_S - 100.0)})
    assert without_unsent(done.state, again, ()).created_s == NOW_S, "it has the name of one that never came"
