"""What idle slots stood for: each depth of a pool with its hours and the rises that went as deep, and each hour."""

import numpy as np
import pytest

from autoscaler.sim.warm.causes import Watched, by_depth, by_hour
from autoscaler.sim.warm.demand import ReplicaDemand
from autoscaler.sim.warm.plant_parts import Stages
from autoscaler.sim.warm.run import StaticPool, run

LOOK_H = 1 / 60


def watched(size: int, demand: ReplicaDemand) -> Watched:
    policy = Watched(StaticPool(size))
    run(demand, policy, stages=Stages(spread=0.0), seed=0, step_s=60.0)
    return policy


def rising(*sizes: int) -> ReplicaDemand:
    """An hour of rest, and a rise of so many replicas for twenty minutes at the beginning of each further one."""
    hours = [np.concatenate((np.full(20, 1 + size), np.full(40, 1))) for size in (0, *sizes)]
    return ReplicaDemand(("m",), 60.0, np.concatenate(hours)[None, :])


def test_the_upper_slots_stand_for_the_one_large_rise() -> None:
    demand = rising(1, 1, 4, 1)
    rows = list(by_depth(demand, watched(4, demand), 3600.0))
    assert [row.slot for row in rows] == [1, 2, 3, 4]
    assert [row.rises for row in rows] == [4, 1, 1, 1]
    assert rows[0].idle_warm_h > rows[3].idle_warm_h > 2.5, "all four hours but for refills"


def test_the_hours_of_a_depth_add_up_to_what_stood_idle() -> None:
    demand = rising(1, 1, 4, 1)
    seen = watched(4, demand)
    idle_h = sum(count for at_s, count in zip(seen.at_s, seen.idle, strict=True) if at_s >= 3600.0) * LOOK_H
    assert sum(row.idle_warm_h for row in by_depth(demand, seen, 3600.0)) == pytest.approx(idle_h)
    assert sum(row.idle_warm_h for row in by_hour(demand, seen, 3600.0)) == pytest.approx(idle_h)


def test_each_hour_tells_what_stood_and_what_came() -> None:
    demand = rising(1, 1, 4, 1)
    rows = {row.hour: row for row in by_hour(demand, watched(4, demand), 3600.0)}
    assert sorted(rows) == [1, 2, 3, 4]
    assert [(rows[hour].rises, rows[hour].largest, rows[hour].as_large) for hour in (1, 2, 3, 4)] == [
        (1, 1, 0), (1, 1, 0), (1, 4, 1), (1, 1, 0),
    ]  # fmt: skip


def test_a_day_without_a_rise_has_rows_and_no_rises() -> None:
    demand = rising(0, 0)
    rows = list(by_hour(demand, watched(2, demand), 3600.0))
    assert [(row.kept, row.rises, row.largest) for row in rows] == [(2.0, 0, 0), (2.0, 0, 0)]
