"""Idle nodes of serving are lent, left when serving grows, and what it had to wait for is told."""

import pytest

from autoscaler.sim.batch.joint import Lending, day, idle_gpu_s
from autoscaler.sim.batch.plant import run
from autoscaler.sim.batch.work import Recovery
from tests.batch_sim.cases import case, job

SAVING = Recovery(30.0, 10.0, 600.0)


def test_a_gang_runs_on_idle_nodes_and_one_node_stays_with_serving():
    of = case(job("a", 0, 5000, 8), job("b", 0, 5000, 8), job("c", 0, 5000, 8), nodes=4, recovery=SAVING)
    found = day(of, ((0.0, 1),), from_s=0.0, to_s=3600.0)
    assert found.idle_gpu_h == 24.0
    assert found.used_gpu_h == pytest.approx(16.0)
    assert found.evictions == 0


def test_a_burst_takes_nodes_back_and_waits_no_longer_than_the_notice():
    of = case(*(job(f"j{at}", 0, 50_000, 8) for at in range(4)), nodes=4, recovery=SAVING)
    policy = Lending(of, ((0.0, 0), (1000.0, 3), (2000.0, 0)))
    past = run(of, policy, sample_s=60.0, until_s=3000.0)
    assert policy.shortages == [(1000.0, 1030.0)]
    assert sum(fate.evictions for fate in past.fates) == 3, "serving keeps one node more than it wants, and had one"
    assert past.held[10].sum() == 24
    assert past.held[20].sum() == 0
    assert past.held[40].sum() == 24, "lent again"
    assert policy.room.contradictions() == []


def test_idle_is_what_serving_does_not_want():
    of = case(job("a", 0, 10), nodes=2)
    assert idle_gpu_s(((0.0, 2), (100.0, 1)), of, 50.0, 150.0) == 8 * 50.0
