"""What of a pool's idle slots batch work may borrow: within what demand may need, told why, called back in time."""

from dataclasses import replace

import numpy as np
import pytest

from autoscaler.core.params import KnownEvent
from autoscaler.core.pool.intents import Aspect, CreateSlot, DeleteSlot
from autoscaler.core.pool.params import LoanTerms, SlotForm
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import LentSeen
from tests.core.pool.builders import NOW_S, demand, fleet, known, node, of, pool, slot, taken, told, warm, world

LENDS = pool(min_slots=4, loan=LoanTerms())


def test_idle_slots_beyond_those_that_are_kept_are_on_offer_for_as_long_as_demand_stays_low() -> None:
    done = taken(LENDS, world(fleet(4)))
    assert sum(slots for _, slots in done.lending.offer) == 3
    assert done.lending.expected_s == 3600.0, "two hours were seen, in which nothing grew within one"
    assert done.decision.trace[-1].reason is PoolReason.LENDS
    assert taken(pool(min_slots=4), world(fleet(4))).lending.offer == (), "nobody allowed it"


def test_what_demand_grew_by_within_a_reclaim_is_kept_and_more_where_a_loan_would_not_last() -> None:
    fast = taken(LENDS, world(fleet(4)), known(0.0, 2.0))
    assert sum(slots for _, slots in fast.lending.offer) == 2
    rare = taken(LENDS, world(fleet(4)), known(*[0.0] * 29, 3.0))
    assert sum(slots for _, slots in rare.lending.offer) == 1, "three more are wanted every half hour"


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({"demand": None}, id="demand was not read"),
        pytest.param({"demand": (demand(None),)}, id="the demand of one workload is not known"),
        pytest.param({"lent": None}, id="what is lent is not known"),
    ],
)
def test_nothing_is_lent_on_an_unknown_and_what_is_lent_stays(seen: dict[str, object]) -> None:
    done = taken(LENDS, world(fleet(4), **{"lent": (LentSeen("n-p-9", 1),), **seen}))
    assert (done.lending.offer, done.lending.recall) == ((), 0)
    assert done.decision.trace[-1].reason is PoolReason.LENDS_NOT


def test_a_pool_that_has_seen_less_than_an_hour_lends_nothing() -> None:
    done = taken(LENDS, world(fleet(4)), known(hours=0.5))
    assert done.lending.offer == ()
    assert done.decision.trace[-1].reason is PoolReason.LENDS_NOT


def test_slots_that_are_lent_are_supply_and_no_others_are_ordered_for_them() -> None:
    lent = (LentSeen("n-p-2", 1), LentSeen("n-p-3", 1))
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    done = taken(LENDS, world(fleet(2), nodes=nodes, lent=lent))
    assert done.decision.supply == 4
    assert of(CreateSlot, done) == []
    assert of(DeleteSlot, done) == []
    assert done.lending.missing == 0
    back = taken(LENDS, world(fleet(2), nodes=nodes))
    assert len(of(CreateSlot, back)) == back.lending.missing == 2


def test_a_slot_that_is_about_to_give_way_is_not_counted_beside_the_gang_that_takes_its_place() -> None:
    done = taken(LENDS, world(fleet(4), lent=(LentSeen("n-p-3", 1, coming=1),)))
    assert (done.decision.supply, done.decision.warm) == (4, 3)
    assert of(DeleteSlot, done) == []
    assert "n-p-3" not in dict(done.lending.offer)


def test_while_nobody_says_what_is_lent_nothing_is_ordered_in_its_place() -> None:
    done = taken(LENDS, world(fleet(2), lent=None))
    assert of(CreateSlot, done) == []
    assert PoolReason.LOANS_UNKNOWN in [step.reason for step in done.decision.trace]


def test_a_loan_is_called_back_when_idle_slots_no_longer_cover_what_demand_may_need() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    lent = tuple(LentSeen(f"n-p-{at}", 1) for at in (1, 2, 3))
    calm = world(fleet(1), nodes=nodes, lent=lent)
    assert taken(LENDS, calm).lending.recall == 0
    burst = world((), nodes=nodes, lent=lent, demand=(demand(1.0),))
    done = taken(LENDS, burst)
    assert done.lending.recall == 1
    assert done.decision.trace[-1].reason is PoolReason.RECALLS
    waits = replace(burst, demand=(demand(3.0, waiting=2),))
    assert taken(LENDS, waits).lending.recall == 3, "two replicas wait, and one slot is never lent"
    leaving = replace(burst, lent=(LentSeen("n-p-1", 1, leaving=1), *lent[1:]))
    assert taken(LENDS, leaving).lending.recall == 0, "one comes back already"


def test_what_does_not_come_back_is_no_supply_and_others_are_called_back_or_ordered_in_its_place() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    hangs = LentSeen("n-p-1", 1, overdue=1)
    burst = world((), nodes=nodes, lent=(hangs, LentSeen("n-p-2", 1)), demand=(demand(0.0, waiting=1),))
    done = taken(LENDS, burst)
    assert (done.lending.recall, done.lending.lent, done.lending.overdue) == (1, 1, 1)
    leaves = replace(burst, lent=(LentSeen("n-p-1", 1, leaving=1), LentSeen("n-p-2", 1)))
    assert len(of(CreateSlot, done)) == len(of(CreateSlot, taken(LENDS, leaves))) + 1
    returned = told(done, Aspect.LOANS_GIVEN_BACK)
    assert (returned.holds, returned.word) == (False, "NotLoansGivenBack")
    assert "1 slots on n-p-1 were called back" in returned.message
    assert "0 and 1 lent of" in told(done, Aspect.READY).message.replace("only ", "")
    full = taken(replace(LENDS, max_slots=4), world(fleet(3), nodes=nodes, lent=(hangs,)))
    assert of(CreateSlot, full) == [], "its GPUs are held all the same: the pool's maximum stands"


def test_what_is_less_than_a_slot_and_does_not_come_back_is_told_in_units() -> None:
    """Slots are of 8 GPUs since the gang took 4 of a node."""
    params = replace(LENDS, slot=SlotForm(count=8))
    full = (node("n-p-1", units=8),)
    done = taken(params, world((), nodes=full, lent=(LentSeen("n-p-1", 4, overdue=4),)))
    returned = told(done, Aspect.LOANS_GIVEN_BACK)
    assert returned.holds is False
    assert returned.message.startswith("4 of nvidia.com/gpu, less than a slot, on n-p-1 were called back")


def test_before_loans_are_known_nobody_can_tell_whether_they_come_back() -> None:
    assert told(taken(LENDS, world(fleet(2), lent=None)), Aspect.LOANS_GIVEN_BACK).holds is None


def test_a_slot_on_its_way_to_a_node_that_is_there_spares_a_loan_and_one_that_waits_for_a_node_does_not() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    lent = tuple(LentSeen(f"n-p-{at}", 1) for at in (1, 2, 3))
    bound = slot("p-0", node="n-p-0", scheduled_s=NOW_S - 5.0)
    assert taken(LENDS, world((bound,), nodes=nodes, lent=lent)).lending.recall == 0
    assert taken(LENDS, world((slot("p-0"),), nodes=nodes, lent=lent)).lending.recall == 1


def test_a_known_need_calls_back_though_demand_slots_or_nodes_are_not_known() -> None:
    lent = (LentSeen("n-p-3", 2),)
    waits = (demand(None, waiting=1),)
    assert taken(LENDS, world((), lent=lent, demand=waits)).lending.recall == 2, "and the one that is never lent"
    blind = taken(LENDS, world(nodes=None, lent=lent, demand=waits))
    assert (blind.lending.recall, blind.lending.offer) == (1, ())


def test_a_pool_that_lends_no_more_calls_everything_back() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    done = taken(pool(min_slots=4), world(fleet(3), nodes=nodes, lent=(LentSeen("n-p-3", 1),)))
    assert done.lending.recall == 1
    assert done.decision.trace[-1].reason is PoolReason.RECALLS_ALL


def test_before_a_known_event_what_it_asks_for_is_not_lent() -> None:
    soon = replace(LENDS, events=(KnownEvent(NOW_S + 900.0, NOW_S + 1800.0, 4, None),))
    assert taken(soon, world(fleet(4))).lending.offer == ()


def test_when_less_is_needed_a_loan_is_let_go_of_before_a_slot_goes() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    less = pool(min_slots=2, loan=LoanTerms(), idle_hot_s=60.0)
    done = taken(less, world(fleet(2), nodes=nodes, lent=(LentSeen("n-p-2", 1), LentSeen("n-p-3", 1))))
    assert of(DeleteSlot, done) == []
    assert done.lending.recall == 0


def test_whole_nodes_are_on_offer_first() -> None:
    slots = (warm("p-0", "small"), warm("p-1", "large"), warm("p-2", "large"), warm("p-3", "small2"))
    assert taken(LENDS, world(slots)).lending.offer[0] == ("large", 2)


def test_a_lowered_maximum_lets_go_of_loans_and_neither_deletes_an_idle_slot_for_them_nor_calls_a_gang_back() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    lent = (LentSeen("n-p-2", 1), LentSeen("n-p-3", 1))
    lowered = pool(min_slots=2, max_slots=2, loan=LoanTerms())
    done = taken(lowered, world(fleet(2), nodes=nodes, lent=lent))
    assert of(DeleteSlot, done) == []
    assert (done.lending.recall, done.lending.missing) == (0, 0), "what the gangs leave one day is nobody's slot"
    back = taken(lowered, world(fleet(2), nodes=nodes, lent=(LentSeen("n-p-2", 1),)))
    assert of(CreateSlot, back) == []


def test_beyond_a_budget_that_allows_no_slot_a_gang_is_called_back_only_for_a_replica_that_waits() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    lent = (LentSeen("n-p-2", 1), LentSeen("n-p-3", 1))
    nothing = pool(min_slots=0, max_gpus=0.5, loan=LoanTerms())
    seen = world(fleet(2), nodes=nodes, lent=lent)
    done = taken(nothing, seen)
    assert len(of(DeleteSlot, done)) == 2, "a hard limit is kept at once where nobody is at work"
    assert done.lending.recall == 0, "one idle slot is never lent, and here none may be idle"
    waits = taken(nothing, replace(seen, slots=(), demand=(demand(1.0, waiting=1),)))
    assert waits.lending.recall == 1


def test_a_pool_at_its_maximum_loses_no_slot_to_a_gang_that_calls_its_own_gpus_lent() -> None:
    full = pool(min_slots=2, max_slots=2, loan=LoanTerms())
    claimed = tuple(LentSeen(f"own-{at}", 1) for at in range(8))
    nodes = (*(node(f"n-p-{at}") for at in range(2)), *(node(f"own-{at}") for at in range(8)))
    done = taken(full, world(fleet(2), nodes=nodes, lent=claimed))
    assert of(DeleteSlot, done) == []
    assert done.decision.warm == 2


def test_what_is_lent_is_told_in_slots_and_is_not_nothing_while_nobody_knows() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    lent = (LentSeen("n-p-2", 1), LentSeen("n-p-3", 1, leaving=1))
    assert taken(LENDS, world(fleet(2), nodes=nodes, lent=lent)).lending.lent == 2
    assert taken(LENDS, world(fleet(4))).lending.lent == 0
    assert taken(LENDS, world(fleet(4), lent=None)).lending.lent is None
    assert taken(LENDS, world(nodes=None, lent=lent)).lending.lent == 2


def test_a_gang_is_not_called_back_for_an_idle_slot_that_the_pool_would_delete() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    unused = pool(min_slots=0, loan=LoanTerms(keep_slots=1))
    done = taken(unused, world((), nodes=nodes, lent=(LentSeen("n-p-3", 1),)))
    assert (done.decision.target, done.lending.recall) == (0, 0)


def test_what_a_burst_of_these_minutes_took_is_not_lent_again_before_it_is_a_sample_of_the_past() -> None:
    """Three replicas came and went within the last minute; that they came is learnt when half an hour is over."""
    state = known(0.0)
    burst = replace(state, history=replace(state.history, level=0.0, peak=3.0))
    assert sum(slots for _, slots in taken(LENDS, world(fleet(4)), state).lending.offer) == 3
    assert sum(slots for _, slots in taken(LENDS, world(fleet(4)), burst).lending.offer) == 1
    earlier = replace(state, history=replace(state.history, peaks=np.r_[state.history.peaks[:-20], 3.0, np.zeros(19)]))
    assert sum(slots for _, slots in taken(LENDS, world(fleet(4)), earlier).lending.offer) == 1


@pytest.mark.parametrize(("bound_s", "missing"), [(1.0, 1), (6.0, 0)], ids=["just bound", "known to everybody"])
def test_a_place_is_the_pools_until_whoever_else_admits_pods_has_heard_of_the_slot_on_it(
    bound_s: float, missing: int
) -> None:
    new = slot("p-3", node="n-p-3", scheduled_s=NOW_S - bound_s)
    assert taken(LENDS, world((*fleet(3), new))).lending.missing == missing


def test_a_pool_whose_slots_are_warm_or_lent_is_ready_and_one_that_lacks_another_says_how_many_are_lent() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(4))
    full = taken(LENDS, world(fleet(3), nodes=nodes, lent=(LentSeen("n-p-3", 1),)))
    assert told(full, Aspect.READY).holds is True
    short = told(taken(LENDS, world(fleet(2), nodes=nodes, lent=(LentSeen("n-p-3", 1),))), Aspect.READY)
    assert (short.holds, "only 2 and 1 lent of 4 slots are warm" in short.message) == (False, True)
