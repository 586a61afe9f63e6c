"""Our own policy in the plant: core/batch as it is, within the bounds, and the same for the same seed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.errors import InputError
from autoscaler.sim.batch.bounds import bounds_of
from autoscaler.sim.batch.contest import OURS, POLICIES, enter, make, parse
from autoscaler.sim.batch.generate import kueue_baseline, mixed
from autoscaler.sim.batch.plant import Past, run
from autoscaler.sim.batch.work import Case, Recovery, Tenant
from tests.batch_sim.cases import case, job


def ours(name: str, of: Case) -> Past:
    return run(of, make(name, of), sample_s=10.0)


def starts(name: str, of: Case) -> dict[str, float]:
    return {fate.job.name: fate.first_start_s for fate in ours(name, of).fates}


def test_the_head_keeps_its_reservation_and_who_ends_in_time_passes():
    blocked = case(
        job("running", 0, 1000, 4), job("head", 1, 10, 8), job("short", 40, 500, 4), job("long", 50, 5000, 4)
    )
    found = starts("headroom-one-queue", blocked)
    assert (found["short"], found["head"]) == (40.0, 1000.0)
    assert found["long"] >= 1010.0


def test_a_tenant_within_its_guarantee_makes_borrowers_give_way():
    tenants = (Tenant("a", 4), Tenant("b", 4))
    of = case(
        job("a0", 0, 10_000, 4), job("a1", 0, 10_000, 4), job("b0", 100, 50, 4, tenant="b"), tenants=tenants,
        recovery=Recovery(30.0, 0.0),
    )  # fmt: skip
    past = ours("headroom-guarantees", of)
    evicted = [fate.job.name for fate in past.fates if fate.evictions]
    assert len(evicted) == 1
    assert evicted[0] in {"a0", "a1"}
    found = {fate.job.name: fate.first_start_s for fate in past.fates}
    assert found["b0"] == 100.0 + 30.0, "after the other's notice: its grace is not awaited, as waiting would cost more"


def test_a_cohort_uses_no_more_than_its_tenants_are_guaranteed():
    tenants = (Tenant("a", 4, None, "left"), Tenant("b", 4, None, "right"))
    of = case(job("a0", 0, 10, 4), job("a1", 0, 10, 4), job("b0", 5, 10, 1, tenant="b"), tenants=tenants)
    assert starts("headroom-guarantees", of)["a1"] == 10.0


@pytest.mark.parametrize("name", OURS)
@given(seed=st.integers(0, 1000), load=st.sampled_from([0.5, 1.2]))
@settings(max_examples=3, deadline=None)
def test_law_ours_is_never_below_a_bound_and_ends_all_jobs(name, seed, load):
    of = mixed(load=load, seed=seed, jobs=40, nodes=4, tenants=2)
    mine = enter(name, of, bounds_of(of))
    assert mine.unfinished == 0
    assert mine.completion_ratio is not None
    assert mine.completion_ratio >= 1.0 - 1e-9
    assert mine.makespan_ratio is not None
    assert mine.makespan_ratio >= 1.0 - 1e-9


@pytest.mark.parametrize("name", OURS)
def test_the_same_seed_gives_the_same_fates(name):
    of = mixed(load=0.9, seed=3, jobs=60, nodes=4, tenants=2)
    assert ours(name, of).fates == ours(name, of).fates


def test_a_part_of_kueues_generator_ends_near_its_floor():
    of = kueue_baseline(cohorts=1, share=0.2)
    mine = enter("headroom-guarantees", of, bounds_of(of), sample_s=1.0)
    assert mine.unfinished == 0
    assert mine.makespan_ratio is not None
    assert mine.makespan_ratio <= 1.25


def test_policies_are_chosen_by_name():
    assert parse("all") == POLICIES
    assert parse("easy,headroom") == ("easy", "headroom")
    with pytest.raises(InputError, match="'esay' is not known; choose from headroom, "):
        parse("esay")
    with pytest.raises(InputError, match="stands twice"):
        parse("easy,easy")
