"""A slot gives way to a waiting replica: marked first, deleted when the mark is seen, never two for one."""

from dataclasses import replace
from typing import Any

from autoscaler.core.pool import state as pool_state
from autoscaler.core.pool.intents import Aspect, CreateSlot, DeleteSlot, MarkSlot
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import ModelDemand, SlotSeen
from tests.core.pool.builders import (
    FIRST,
    NOW_S,
    demand,
    fleet,
    known,
    node,
    node_pools,
    of,
    pool,
    taken,
    told,
    warm,
    world,
)

CHOOSE = pool(choose=True, min_slots=3)


def waits(count: int = 1, workload: str = "ns/chat", **fields: Any) -> ModelDemand:
    return demand(float(count), workload, waiting=count, **fields)


def marks(done: Any) -> list[tuple[str, str | None]]:
    return [(mark.name, mark.lease) for mark in of(MarkSlot, done)]


def test_the_slot_that_was_warm_for_longest_is_marked_first() -> None:
    slots = (warm("p-0", age_s=500.0), warm("p-1", age_s=900.0), warm("p-2", age_s=700.0))
    assert marks(taken(CHOOSE, world(slots, demand=(waits(2),)))) == [("p-1", "ns/chat"), ("p-2", "ns/chat")]


def test_nodes_that_go_soon_are_taken_last() -> None:
    slots = (warm("p-0", age_s=900.0), warm("p-1", age_s=800.0), warm("p-2", age_s=700.0))
    nodes = (node("n-p-0", drifted=True), node("n-p-1", ends_s=NOW_S + 9000.0), node("n-p-2"))
    done = taken(CHOOSE, world(slots, nodes=nodes, demand=(waits(),)))
    assert marks(done) == [("p-2", "ns/chat")]


def test_a_marked_slot_is_deleted_once_the_mark_is_seen_and_the_replica_still_waits() -> None:
    slots = (warm("p-0", lease="ns/chat", leased_s=NOW_S - 5.0), warm("p-1"))
    done = taken(CHOOSE, world(slots, demand=(waits(),)))
    assert [(gone.name, gone.reason) for gone in of(DeleteSlot, done)] == [("p-0", PoolReason.HANDED_OVER)]
    assert marks(done) == []


def test_a_replica_that_waits_no_more_gives_the_slot_back() -> None:
    slots = (warm("p-0", lease="ns/chat", leased_s=NOW_S - 5.0),)
    done = taken(CHOOSE, world(slots, demand=(demand(1.0),)))
    assert (marks(done), of(DeleteSlot, done)) == ([("p-0", None)], [])


def test_a_mark_that_leads_to_nothing_ends() -> None:
    slots = (warm("p-0", lease="ns/chat", leased_s=NOW_S - 121.0),)
    assert marks(taken(CHOOSE, world(slots, demand=(waits(),)))) == [("p-0", None)]


def test_two_bursts_never_get_the_same_slot() -> None:
    slots = (warm("p-0"), warm("p-1"))
    done = taken(CHOOSE, world(slots, demand=(waits(2), waits(2, "ns/other"))))
    assert marks(done) == [("p-0", "ns/chat"), ("p-1", "ns/chat")]


def test_one_replica_of_two_slots_gets_both_on_one_node() -> None:
    slots = (warm("p-0", "n1", age_s=900.0), warm("p-1", "n2"), warm("p-2", "n2"))
    nodes = (node("n1"), node("n2", units=2))
    done = taken(CHOOSE, world(slots, nodes=nodes, demand=(waits(slots_per_replica=2),)))
    assert marks(done) == [("p-1", "ns/chat"), ("p-2", "ns/chat")]


def test_the_scheduler_chooses_where_it_is_left_to_it() -> None:
    done = taken(pool(min_slots=1), world((warm("p-0"),), demand=(waits(),)))
    assert (marks(done), of(DeleteSlot, done)) == ([], [])


def test_a_model_of_another_pool_and_one_by_resource_claim_get_nothing() -> None:
    other = replace(waits(), model="other")
    assert marks(taken(CHOOSE, world((warm("p-0"),), demand=(other,)))) == []
    assert marks(taken(CHOOSE, world((warm("p-0"),), demand=(waits(uses_claims=True),)))) == []


def test_a_marked_slot_counts_no_more_and_is_replaced() -> None:
    slots = (warm("p-0", lease="ns/chat", leased_s=NOW_S), warm("p-1"), warm("p-2"))
    done = taken(CHOOSE, world(slots, demand=(waits(),)))
    assert (done.decision.supply, len(of(CreateSlot, done))) == (2, 1)


def test_an_observer_marks_nothing() -> None:
    params = replace(CHOOSE, observe=True)
    done = taken(params, world((warm("p-0"),), demand=(waits(),)))
    assert (done.intents, done.decision.target) == ((), 3)


def test_a_node_that_is_consolidated_between_the_slots_end_and_the_bind_costs_a_slot_and_no_replica() -> None:
    """The slot went for the replica; Karpenter found its node empty and took it: the next warm slot gives way."""
    first, second = warm("p-0", lease="ns/chat", leased_s=NOW_S - 5.0, age_s=900.0), warm("p-1", age_s=500.0)
    done = taken(CHOOSE, world((first, second), demand=(waits(),)))
    assert [gone.name for gone in of(DeleteSlot, done)] == ["p-0"]
    later = world((second,), demand=(waits(),))
    again = taken(CHOOSE, later, done.state, NOW_S + 10.0)
    assert marks(again) == [("p-1", "ns/chat")]
    assert of(DeleteSlot, again) == []
    assert (len(of(CreateSlot, done)), len(of(CreateSlot, again))) == (2, 0), "what is missing is ordered once"


def test_whose_replica_dies_after_its_slot_went_has_one_slot_come_back_on_the_empty_node_and_none_thrashes() -> None:
    """The NodePool is full: a slot that were not for the empty node would wait for one that may never be launched."""
    slots = (warm("p-0", lease="ns/chat", leased_s=NOW_S - 5.0, age_s=900.0), warm("p-1"), warm("p-2"))
    full = node_pools(FIRST, limit_nodes=3, used_nodes=3)
    done = taken(CHOOSE, world(slots, demand=(waits(),), node_pools=full))
    assert [gone.name for gone in of(DeleteSlot, done)] == ["p-0"]
    empty = (node("n-p-0", free_units=1), node("n-p-1"), node("n-p-2"))
    dead = world(slots[1:], nodes=empty, demand=(demand(0.0),), node_pools=full)
    state, given = done.state, len(of(CreateSlot, done))
    assert given == 0, "there is no room for one more while the replica comes"
    for at in range(1, 13):
        again = taken(CHOOSE, dead, state, NOW_S + 5.0 * at)
        given, state = given + len(of(CreateSlot, again)), again.state
        assert (marks(again), of(DeleteSlot, again)) == ([], [])
    assert given == 1, "ordered once, for the node that is empty, and waited for"


def refilled(slots: dict[str, SlotSeen], done: Any, now_s: float) -> dict[str, SlotSeen]:
    """Marks are written, deleted slots go, and what is ordered is warm at once on the node that one of them left."""
    left = {name: each for name, each in slots.items() if name not in {gone.name for gone in of(DeleteSlot, done)}}
    for mark in of(MarkSlot, done):
        left[mark.name] = replace(left[mark.name], lease=mark.lease, leased_s=now_s if mark.lease else None)
    for order in of(CreateSlot, done):
        free = next(f"n-p-{at}" for at in range(4) if f"n-p-{at}" not in {each.node for each in left.values()})
        left[order.name] = warm(order.name, free, uid=f"u-{order.name}-{now_s:.0f}")
    return left


def watched(minutes: int, waiting: Any) -> tuple[list[int], Any]:
    """The seconds at which slots of four gave way, and the last look; `waiting` gives the replicas that wait then."""
    params, state, given = pool(choose=True, min_slots=4), known(), []
    slots = {each.name: each for each in fleet(4)}
    for second in range(0, 60 * minutes, 5):
        now_s = NOW_S + second
        held = {each.node for each in slots.values()}
        nodes = tuple(node(f"n-p-{at}", free_units=int(f"n-p-{at}" not in held)) for at in range(4))
        seen = world(tuple(slots.values()), nodes=nodes, demand=(waits(waiting(second)),))
        done = taken(params, seen, pool_state.unpack(pool_state.pack(state)), now_s)
        slots, state = refilled(slots, done, now_s), done.state
        given += [second] * len(of(DeleteSlot, done))
    return given, done


def test_a_replica_that_waits_for_something_else_than_gpus_costs_two_slots_and_then_one_ever_more_seldom() -> None:
    """Its volume is not bound, say: each slot that gives way is warm again seconds later."""
    given, done = watched(60, lambda second: 1)
    assert given == [5, 15, 140, 385, 870, 1835], "pauses of 120, 240, 480 and 960 s, also over restarts"
    support = told(done, Aspect.MODELS_SUPPORTED)
    assert support.holds is False
    assert "6 slots gave way to ns/chat and 1 of its replicas wait all the same" in support.message


def test_a_burst_behind_a_replica_that_waits_for_something_else_has_slots_at_once() -> None:
    given, _ = watched(5, lambda second: 1 if second < 60 else 3)
    assert len([at for at in given if 60 <= at < 80]) >= 2


def test_a_workload_that_preempts_nobody_is_told_where_slots_are_left_to_the_scheduler() -> None:
    seen = world((warm("p-0"),), demand=(demand(1.0, preempts=False),))
    usable = told(taken(pool(min_slots=1), seen), Aspect.PRIORITY_USABLE)
    assert usable.holds is False
    assert "pods of ns/chat preempt nobody" in usable.message
    assert "set spec.handOver: Choose" in usable.message
    assert told(taken(CHOOSE, seen), Aspect.PRIORITY_USABLE).holds
    assert told(taken(pool(), world(demand=(demand(1.0),))), Aspect.PRIORITY_USABLE).holds
