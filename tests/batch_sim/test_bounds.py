"""Bounds: right where the optimum is known, and below every policy where it is not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.sim.batch.bounds import bounds_of, water_filling
from autoscaler.sim.batch.files import Minutes
from autoscaler.sim.batch.generate import kueue_baseline, mixed, overstated
from autoscaler.sim.batch.rivals import RIVALS
from autoscaler.sim.batch.score import fairness
from autoscaler.sim.batch.shared import gain
from autoscaler.sim.batch.work import Tenant
from tests.batch_sim.cases import case, job, judged, played

law = settings(max_examples=6, deadline=None)


@pytest.mark.parametrize(
    ("of", "mean_s", "makespan_s"),
    [
        pytest.param(case(job("a", 5, 30, 8)), 30.0, 30.0, id="one job"),
        pytest.param(case(job("a", 0, 30, 8), job("b", 0, 10, 8)), 25.0, 40.0, id="two full ones, the short one first"),
        pytest.param(case(job("a", 0, 30), job("b", 0, 10)), 20.0, 30.0, id="room for both"),
        pytest.param(
            case(*(job(f"j{at}", 0, 10, 5) for at in range(4))), (6.25 + 12.5 + 18.75 + 25 - 12.5) / 4 + 5, 40.0,
            id="gangs of five of eight GPUs: one at a time, which only the makespan knows",
        ),
        pytest.param(case(job("a", 0, 10, 8), job("b", 100, 10, 8)), 10.0, 110.0, id="a gap"),
    ],
)  # fmt: skip
def test_bounds_by_hand(of, mean_s, makespan_s):
    found = bounds_of(of)
    assert found.mean_completion_s == pytest.approx(mean_s)
    assert found.makespan_s == pytest.approx(makespan_s)


@given(seed=st.integers(0, 10_000), load=st.sampled_from([0.3, 0.8, 1.5]))
@law
def test_law_no_rival_is_below_a_bound(seed, load):
    of = mixed(load=load, seed=seed, jobs=40, nodes=4, tenants=2)
    found = bounds_of(of)
    for name in RIVALS:
        mine = judged(played(name, of))
        assert mine.unfinished == 0 or name == "partition"
        for ratio in (mine.completion_ratio, mine.makespan_ratio):
            assert ratio is None or ratio >= 1.0 - 1e-9, (name, found)
        assert 0.0 <= mine.utilisation <= 1.0 + 1e-9
        assert 0.0 <= mine.fairness.worst_ratio <= 1.0


@given(
    wanted=st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=5),
    weights=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    capacity=st.integers(1, 60),
)
@law
def test_law_water_filling_wastes_nothing_and_nobody_gains_at_the_cost_of_one_who_has_less(wanted, weights, capacity):
    asked, weight = np.array(wanted, dtype=float), np.array(weights, dtype=float)
    given_ = water_filling(asked, weight, float(capacity))
    assert np.all(given_ <= asked + 1e-9)
    np.testing.assert_allclose(given_.sum(axis=1), np.minimum(asked.sum(axis=1), capacity))
    level = given_ / weight
    short = given_ < asked - 1e-9
    for row in range(len(asked)):
        if short[row].any():
            assert level[row][short[row]].min() >= level[row].max() - 1e-9


def test_water_filling_refuses_no_weight():
    with pytest.raises(ValueError, match="weights must be above 0"):
        water_filling(np.ones((1, 2)), np.array([1.0, 0.0]), 1.0)


def test_a_tenant_whose_share_others_hold_is_seen():
    tenants = (Tenant("a", 4), Tenant("b", 4))
    jobs = (job("a0", 0, 100, 4), job("a1", 0, 100, 4), job("b0", 50, 50, 4, tenant="b"))
    found = fairness(played("fifo", case(*jobs, tenants=tenants)))
    assert found.worst_ratio == pytest.approx(0.5, abs=0.06), "b waits for half of the time it is entitled to four"
    assert found.jain < 0.95


def test_the_generator_meets_its_load_and_repeats_by_its_seed():
    one, again, other = (mixed(load=0.8, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert one.load_ratio == pytest.approx(0.8)
    assert len(one.jobs) == 1500
    assert all(each.duration_s <= each.expected_s <= 5 * each.duration_s for each in overstated(one, 5.0, 1).jobs)


def test_kueues_baseline_has_the_published_counts_and_the_floor_of_66_s():
    of = kueue_baseline()
    assert len(of.jobs) == 15_000
    work_s = sum(each.total_gpus * each.duration_s for each in of.jobs)
    assert work_s / of.total_gpus == pytest.approx(66.0)
    assert bounds_of(of).makespan_s == pytest.approx(66.0)


def test_sharing_lets_who_waits_use_what_others_leave_idle():
    capacity = np.full((2, 2), 8.0)
    running, pending = np.array([[4.0, 8.0], [4.0, 8.0]]), np.array([[0.0, 8.0], [0.0, 0.0]])
    found = gain(Minutes(("x", "y"), capacity, running, pending))
    assert (found.held_gpu_h, found.waiting_gpu_h) == (24 / 60, 8 / 60)
    assert found.shared_gpu_h == pytest.approx(28 / 60), "four of the eight that wait have room"
    assert found.worst_tenant_ratio == 1.0
