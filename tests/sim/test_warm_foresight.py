"""Plans that go by what was known a refill before: a rise that announces itself is met for minutes, one that does not
takes slots at all times."""

import numpy as np

from autoscaler.sim.warm.demand import ReplicaDemand
from autoscaler.sim.warm.foresight import foresight, parted, planned
from autoscaler.sim.warm.hindsight import REFILL_BINS, PlannedPool
from autoscaler.sim.warm.plant_parts import Stages
from autoscaler.sim.warm.run import Outcome, PoolPolicy, Statics, run

FIXED = Stages(spread=0.0)
"""A refill of 593 s each time."""

HOURS = 24
FOLD = 4 * 60


def demand(announced_min: int) -> ReplicaDemand:
    """A rise of four replicas every hour and a half or so, and a fifth replica so many minutes before it."""
    rng = np.random.default_rng(3)
    total = np.ones(HOURS * 60, dtype=np.int64)
    for at in (60 + np.cumsum(rng.integers(45, 120, size=16))).tolist():
        total[at : at + 20] += 4
        if announced_min:
            total[at - announced_min : at + 20] += 1
    return ReplicaDemand(("m",), 60.0, total[None, :])


def idle_h(
    wanted: ReplicaDemand, parts: int, hit_ratio: float = 0.99, *, held_out: bool = False
) -> tuple[float, float]:
    """Idle-warm hours of the best plan with so many parts, and of the smallest static pool that hits as often."""

    def tried(pool: PoolPolicy) -> Outcome:
        return run(wanted, pool, stages=FIXED, seed=0, step_s=60.0, score_from_s=3600.0)

    told = foresight(wanted, 60)
    plan_of = told.untuned(parts, FOLD) if held_out else told.tuned(parts)
    found = told.cheapest(plan_of, hit_ratio, wanted.step_s, tried)
    assert found is not None
    statics = Statics(wanted, stages=FIXED, seed=0, step_s=60.0, score_from_s=3600.0)
    return found.idle_warm_h, statics.smallest(found.hit_ratio, 8)[1].idle_warm_h


def test_a_rise_that_announces_itself_is_met_with_a_fraction_of_a_static_pools_hours() -> None:
    ours_h, static_h = idle_h(demand(20), 4)
    assert ours_h < 0.6 * static_h
    ours_h, static_h = idle_h(demand(20), 2, 0.9, held_out=True)
    assert ours_h < 0.6 * static_h, "on hours that it did not see, too"


def test_one_part_is_a_static_pool() -> None:
    ours_h, static_h = idle_h(demand(20), 1)
    assert 0.9 * static_h < ours_h < 1.1 * static_h


def test_a_rise_that_nothing_announces_is_learnt_by_heart_and_not_foreseen() -> None:
    wanted = demand(0)
    by_heart_h, static_h = idle_h(wanted, 32)
    assert by_heart_h < 0.9 * static_h
    told = foresight(wanted, 60)

    def tried(pool: PoolPolicy) -> Outcome:
        return run(wanted, pool, stages=FIXED, seed=0, step_s=60.0, score_from_s=3600.0)

    found = told.cheapest(told.untuned(32, FOLD), 0.99, 60.0, tried)
    assert found is None or found.idle_warm_h > 0.9 * static_h


def test_nothing_younger_than_a_refill_is_seen() -> None:
    before = foresight(demand(0), 60)
    changed = demand(0).replicas.copy()
    changed[0, 700:] += 7
    after = foresight(ReplicaDemand(("m",), 60.0, changed), 60).features
    assert len(before.names) == before.features.shape[0]
    assert np.array_equal(before.features[:, : 700 + REFILL_BINS], after[:, : 700 + REFILL_BINS])
    assert not np.array_equal(before.features[:, 700 + REFILL_BINS], after[:, 700 + REFILL_BINS])


def test_the_first_cut_is_where_demand_tells_most() -> None:
    wanted = demand(20)
    told = foresight(wanted, 60)
    cost, places = told.idle + 5.0 * told.missed, np.arange(60, told.features.shape[1])
    cuts, kept = parted(told.features, cost, 2, places)
    first = told.names[cuts[0].feature]
    assert first in {"level", "growth of 10 min", "growth of 20 min", "above the lowest of 30 min"}
    assert sorted(kept.tolist()) == [1, 4], "one for the fifth replica, which nothing announces"
    assert set(planned(told.features, cuts, kept).tolist()) == {1, 4}


def test_a_share_that_no_plan_reaches_is_none() -> None:
    sudden = ReplicaDemand(("m",), 60.0, np.array([[0, 4] + [4] * 258]))
    at_once = PlannedPool(np.zeros(260, dtype=np.int64), 60.0)
    outcome = run(sudden, at_once, stages=FIXED, seed=0, step_s=60.0)
    told = foresight(sudden, 0)
    assert told.cheapest(told.tuned(4), 0.99, 60.0, lambda _: outcome) is None
