"""Pools that know the demand to come: slots that wait for minutes only, and patterns between that and a static pool."""

import numpy as np
import pytest

from autoscaler.sim.warm.demand import ReplicaDemand
from autoscaler.sim.warm.hindsight import PlannedPool, every_rise, pattern, shortfall
from autoscaler.sim.warm.plant_parts import Stages
from autoscaler.sim.warm.run import Outcome, PoolPolicy, Statics, run

FIXED = Stages(spread=0.0)
"""A refill of 593 s each time."""

DEMAND = ReplicaDemand(("m",), 60.0, np.array([np.tile([1] * 40 + [4] * 20, 6)]))
"""Three replicas more at forty minutes past each of six hours, for twenty minutes."""

MINUTES = np.arange(360) % 60


def tried(pool: PoolPolicy) -> Outcome:
    return run(DEMAND, pool, stages=FIXED, seed=0, step_s=60.0, score_from_s=3600.0)


def test_who_knows_every_rise_keeps_slots_for_the_minutes_between_refill_and_need() -> None:
    found = every_rise(DEMAND, 1.0, tried)
    assert found is not None
    assert (found.hit_ratio, found.demanded) == (1.0, 15)
    assert found.idle_warm_h <= 15 * 2 / 60, "at most two minutes each"


def test_who_knows_the_minutes_of_the_hour_needs_more_than_that_and_less_than_a_static_pool() -> None:
    known, found = every_rise(DEMAND, 1.0, tried), pattern(DEMAND, MINUTES, 1.0, tried, from_bin=60)
    statics = Statics(DEMAND, stages=FIXED, seed=0, step_s=60.0, score_from_s=3600.0)
    size, static = statics.smallest(1.0, 8)
    assert found is not None
    assert known is not None
    assert size == 3
    assert known.idle_warm_h <= found.idle_warm_h < 0.5 * static.idle_warm_h
    assert found.hit_ratio == 1.0


def test_a_pattern_that_says_nothing_needs_what_a_static_pool_needs() -> None:
    found = pattern(DEMAND, np.zeros(360, dtype=np.int64), 1.0, tried, from_bin=60)
    assert found is not None
    assert found.idle_warm_h == pytest.approx(tried(PlannedPool(np.full(360, 3), 60.0)).idle_warm_h, rel=0.05)


def test_a_share_that_no_plan_reaches_is_none() -> None:
    sudden = ReplicaDemand(("m",), 60.0, np.array([[0, 4] + [4] * 58]))

    def at_once(pool: PoolPolicy) -> Outcome:
        return run(sudden, pool, stages=FIXED, seed=0, step_s=60.0)

    assert every_rise(sudden, 1.0, at_once) is None


def test_what_ran_at_the_start_is_there_for_the_first_refill_and_what_was_given_back_a_while_ago_is_not() -> None:
    total = np.concatenate((np.full(30, 5), np.full(30, 2), np.full(10, 6)))
    short = shortfall(total)
    assert short[:30].tolist() == [0] * 30
    assert short[30:44].tolist() == [-3] * 14, "nodes that became free stay for a quarter of an hour"
    assert short[60:70].tolist() == [4] * 10
