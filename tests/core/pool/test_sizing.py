"""How many slots are wanted: each term asks, each bound refuses, and what is not known never shrinks a pool."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autoscaler.core.params import KnownEvent
from autoscaler.core.pool import growth
from autoscaler.core.pool.history import BIN_S, KEEP_BINS, DemandHistory, noted
from autoscaler.core.pool.intents import Aspect, CreateSlot, DeleteSlot
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import PoolState
from tests.core.pool.builders import (
    NOW_S,
    demand,
    fleet,
    known,
    node_pools,
    of,
    pool,
    reasons,
    slot,
    taken,
    told,
    world,
)

STEPS = (5.0,) * 10 + (2.0,) * 27
"""Demand that rises by three every 37 minutes, which no clock does, and is low now."""


def test_growth_over_the_refill_lead_is_kept_warm() -> None:
    done = taken(pool(), world(demand=(demand(2.0),)), known(*STEPS, hours=24.0))
    assert (done.decision.target, done.decision.reason) == (3, PoolReason.GROWTH)
    assert len(of(CreateSlot, done)) == 3


def test_models_are_pooled_and_one_that_falls_while_another_rises_asks_for_nothing() -> None:
    state = known(6.0, hours=24.0)
    seen = world(demand=(demand(2.0), demand(4.0, "ns/other")))
    assert taken(pool(), seen, state).decision.target == 0


def test_a_replica_of_several_slots_counts_them_all() -> None:
    done = taken(pool(), world(demand=(demand(2.0, slots_per_replica=4, forecast=3.0),)), known(8.0))
    assert (done.decision.target, done.decision.reason) == (4, PoolReason.FORECAST)


def test_a_forecast_raises() -> None:
    done = taken(pool(), world(demand=(demand(2.0, forecast=6.4),)), known(*STEPS, hours=24.0))
    assert (done.decision.target, done.decision.reason) == (5, PoolReason.FORECAST)


@pytest.mark.parametrize("forecast", [0.0, 5.0, math.nan, -3.0, None])
def test_a_forecast_never_lowers(forecast: float | None) -> None:
    done = taken(pool(), world(demand=(demand(2.0, forecast=forecast),)), known(*STEPS, hours=24.0))
    assert (done.decision.target, done.decision.reason) == (3, PoolReason.GROWTH)


def test_a_forecast_of_nothing_beside_waiting_replicas_keeps_what_growth_asks_for() -> None:
    seen = world(demand=(demand(2.0, forecast=0.0, waiting=4),))
    assert taken(pool(), seen, known(*STEPS, hours=24.0)).decision.target == 3


UNKNOWN: dict[str, Any] = {
    "demand was not read": None,
    "one workload is silent": (demand(5.0), demand(None, "ns/other")),
    "a demand of NaN": (demand(math.nan),),
    "an infinite demand": (demand(math.inf),),
    "a negative demand": (demand(-1.0),),
}


@pytest.mark.parametrize("told_demand", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_never_shrinks(told_demand: Any) -> None:
    done = taken(pool(), world(fleet(4), demand=told_demand), known(5.0))
    assert (done.decision.target, done.decision.reason) == (4, PoolReason.STALE)
    assert of(DeleteSlot, done) == []


def test_slots_that_were_not_read_are_left_alone() -> None:
    unread = replace(world(), slots=None)
    done = taken(pool(min_slots=3), unread)
    assert (done.intents, reasons(done)) == ((), {PoolReason.UNREAD})
    assert told(done, Aspect.SIGNALS_FRESH).holds is False
    assert told(done, Aspect.CAPACITY_AVAILABLE).holds is None


def test_a_pool_that_has_seen_less_than_an_hour_keeps_what_stands() -> None:
    done = taken(pool(), world(fleet(4), demand=(demand(0.0),)), PoolState())
    assert (done.decision.target, done.decision.reason) == (4, PoolReason.YOUNG)


def test_a_pool_that_nothing_needs_goes_to_nothing() -> None:
    done = taken(pool(), world(fleet(4), demand=(demand(0.0),)), known(0.0))
    assert (done.decision.target, done.decision.reason) == (0, PoolReason.UNUSED)
    assert len(of(DeleteSlot, done)) == 4


def test_slots_stay_warm_for_a_while_after_they_were_needed() -> None:
    params, seen = pool(idle_hot_s=900.0), world(fleet(4), demand=(demand(0.0),))
    state = replace(known(0.0), targets=((NOW_S - 600.0, 3),))
    done = taken(params, seen, state)
    assert (done.decision.target, done.decision.keep, len(of(DeleteSlot, done))) == (0, 3, 1)
    assert PoolReason.IDLE_HOT in reasons(done)
    later = taken(params, seen, state, NOW_S + 301.0)
    assert len(of(DeleteSlot, later)) == 4


def minutes(*levels: float, before: float = 2.0) -> DemandHistory:
    """A day of steady demand with the last minutes as given."""
    seen = np.array([before] * 1440 + list(levels))
    return DemandHistory(int(NOW_S // BIN_S), seen, seen.copy(), levels[-1], levels[-1])


def test_a_refill_is_not_ordered_where_bursts_end_before_it_is_warm() -> None:
    # Bursts of three for five minutes, every hour at another minute; a refill takes ten.
    day = np.full(2 * 1440, 2.0)
    for hour in range(47):
        begin = hour * 60 + 7 * hour % 40
        day[begin : begin + 5] = 5.0
    day[-3:] = 5.0
    state = PoolState(DemandHistory(int(NOW_S // BIN_S), day, day.copy(), 5.0, 5.0), level=0.98)
    burst = taken(pool(), world(fleet(1), demand=(demand(5.0),)), state)
    assert (burst.decision.target, burst.decision.reason) == (1, PoolReason.NOISE)
    assert burst.intents == ()
    day[-3:] = 2.0
    calm = PoolState(DemandHistory(int(NOW_S // BIN_S), day, day.copy(), 2.0, 2.0), level=0.98)
    assert taken(pool(), world(fleet(1), demand=(demand(2.0),)), calm).decision.target == 3


def test_few_rises_prove_nothing_about_a_refill() -> None:
    assert growth.after_rise(minutes(5.0), 600.0, 0.98) is None


EVENTS: dict[str, tuple[KnownEvent, int, PoolReason]] = {
    "a floor that has begun": (KnownEvent(NOW_S - 60.0, NOW_S + 60.0, floor=6), 6, PoolReason.EVENT),
    "a floor within one refill": (KnownEvent(NOW_S + 500.0, NOW_S + 900.0, floor=6), 6, PoolReason.EVENT),
    "a floor further away": (KnownEvent(NOW_S + 900.0, NOW_S + 1800.0, floor=6), 3, PoolReason.GROWTH),
    "a floor that is over": (KnownEvent(NOW_S - 60.0, NOW_S, floor=6), 3, PoolReason.GROWTH),
    "a floor above the maximum": (KnownEvent(NOW_S, NOW_S + 60.0, floor=60), 10, PoolReason.MAXIMUM),
    "a ceiling": (KnownEvent(NOW_S, NOW_S + 60.0, ceiling=1), 1, PoolReason.EVENT_CEILING),
    "a ceiling that has not begun": (KnownEvent(NOW_S + 1.0, NOW_S + 60.0, ceiling=1), 3, PoolReason.GROWTH),
}


@pytest.mark.parametrize(("event", "target", "reason"), EVENTS.values(), ids=EVENTS)
def test_known_events_are_prepared_for(event: KnownEvent, target: int, reason: PoolReason) -> None:
    done = taken(pool(events=(event,)), world(demand=(demand(2.0),)), known(*STEPS, hours=24.0))
    assert (done.decision.target, done.decision.reason) == (target, reason)


def test_the_minimum_goes_before_a_ceiling() -> None:
    event = KnownEvent(NOW_S, NOW_S + 60.0, ceiling=0)
    assert taken(pool(min_slots=2, events=(event,)), world()).decision.target == 2


def test_minimum_zones_maximum_and_budget_bound_the_target() -> None:
    assert taken(pool(min_slots=2), world()).decision.reason is PoolReason.MINIMUM
    zones = taken(pool(zone_minima=(("a", 1), ("b", 2))), world())
    assert (zones.decision.target, zones.decision.reason) == (3, PoolReason.ZONE_MINIMUM)
    busy = world(demand=(demand(0.0, forecast=50.0),))
    assert taken(pool(), busy).decision.reason is PoolReason.MAXIMUM
    budget = taken(pool(max_gpus=4.0), busy)
    assert (budget.decision.target, budget.decision.reason) == (4, PoolReason.BUDGET)
    assert "10 slots are needed and 4 allowed (the pool's GPU budget)" in told(budget, Aspect.WITHIN_LIMITS).message
    assert told(budget, Aspect.WITHIN_LIMITS).holds is False


def test_a_lowered_maximum_shrinks_also_on_stale_demand() -> None:
    done = taken(pool(max_slots=2), world(fleet(5), demand=None))
    assert (done.decision.target, len(of(DeleteSlot, done))) == (2, 3)


def test_no_order_is_given_while_an_overshoot_is_being_deleted() -> None:
    dropped = world([*fleet(4), slot("p-4", deleting_s=NOW_S)], demand=(demand(0.0, forecast=5.0),))
    assert of(CreateSlot, taken(pool(max_slots=5), dropped)) == []
    assert len(of(CreateSlot, taken(pool(max_slots=6), dropped))) == 1


def test_what_the_past_may_miss_follows_what_is_missed() -> None:
    # Jumps of two every hour, jumps of six in one hour of twelve.
    day = np.tile(np.array([4.0] * 5 + [2.0] * 55), 72)
    for hour in range(5, 70, 12):
        day[hour * 60 : hour * 60 + 5] = 8.0
    history = DemandHistory(int(NOW_S // BIN_S), day, day.copy(), 2.0, 2.0)
    seen, params = world(demand=(demand(2.0),), node_pools=node_pools()), pool(hit_ratio=0.9)
    levels = [
        taken(params, seen, PoolState(history, hits=1000.0, misses=misses)).state.level for misses in (500.0, 1.0)
    ]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > levels[-1]


def test_a_pool_that_has_just_begun_has_missed_nothing() -> None:
    state = replace(PoolState(), demand={"ns/chat": 1.0})
    assert taken(pool(), world(demand=(demand(9.0),)), state).state.misses == 0.0
    too_soon = replace(known(1.0, hours=1.1), demand={"ns/chat": 1.0})
    assert taken(pool(), world(demand=(demand(9.0),)), too_soon).state.misses == 0.0, "no order could be warm by now"
    state = replace(known(1.0), demand={"ns/chat": 1.0}, warm=3)
    done = taken(pool(), world(demand=(demand(9.0),)), state)
    assert (done.state.hits, done.state.misses) == (3.0, 5.0)


def test_the_jump_that_a_history_begins_with_chooses_no_quantile() -> None:
    day = np.tile(np.array([4.0] * 5 + [2.0] * 55), 6)
    began = day.copy()
    day[:3], began[:3] = 2.0, (0.0, 40.0, 60.0)
    chosen = [
        growth.level_for(DemandHistory(int(NOW_S // BIN_S), seen, seen.copy(), 2.0, 2.0), 600.0, 0.9)
        for seen in (day, began)
    ]
    assert chosen[0] == chosen[1]


def test_history_keeps_holes_apart_from_zero_and_forgets_after_two_weeks() -> None:
    history = DemandHistory()
    for minute, value in enumerate((3.0, None, 0.0, 4.0)):
        history = noted(history, minute * BIN_S, value)
    assert np.isnan(history.levels[1])
    assert (history.known, history.level) == (2, 4.0)
    history = noted(history, 30 * 86_400.0, 1.0)
    assert (history.levels.size, history.known) == (KEEP_BINS, 0)
    assert noted(history, 0.0, 9.0) is history, "a look from the past changes nothing"


def test_growth_looks_ahead_from_every_minute() -> None:
    levels = np.array([1.0, 3.0, 2.0, 5.0, 1.0])
    history = DemandHistory(5, levels, np.array([1.0, 4.0, 2.0, 5.0, 1.0]), 1.0, 1.0)
    assert growth.grown(history, 2 * BIN_S)[:3].tolist() == [3.0, 2.0, 3.0]
    assert np.isnan(growth.grown(history, 2 * BIN_S)[3:]).all()
