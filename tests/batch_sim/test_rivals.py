"""Each rival does what its name says, in a story small enough to be checked by hand."""

import pytest

from autoscaler.sim.batch.rivals import RIVALS, divided
from autoscaler.sim.batch.work import Case, Tenant
from tests.batch_sim.cases import case, fates, job, judged, played


def starts(name: str, of: Case) -> dict[str, float]:
    return {who: fate.first_start_s for who, fate in fates(name, of).items()}


BLOCKED = case(
    job("running", 0, 100, 4), job("head", 1, 10, 8), job("short", 2, 50, 4), job("long", 3, 500, 4), nodes=1
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("fifo", {"head": 100.0, "short": 110.0, "long": 110.0}, id="fifo lets nobody pass"),
        pytest.param("greedy", {"head": 552.0, "short": 2.0, "long": 52.0}, id="greedy lets a long one delay the head"),
        pytest.param("easy", {"head": 100.0, "short": 2.0, "long": 110.0}, id="easy lets pass who ends in time"),
        pytest.param("sjf", {"head": 552.0, "short": 2.0, "long": 52.0}, id="the shortest that fits goes first"),
    ],
)
def test_who_passes_the_gang_that_has_no_room(name, expected):
    found = starts(name, BLOCKED)
    assert {who: found[who] for who in expected} == expected


def test_easy_lets_a_long_one_pass_on_nodes_that_the_reservation_leaves():
    of = case(job("r0", 0, 100, 8), job("r1", 0, 300, 4), job("head", 1, 10, 8), job("long", 2, 900, 4), nodes=2)
    found = starts("easy", of)
    assert (found["long"], found["head"]) == (2.0, 100.0)


def test_sjf_believes_what_jobs_say():
    of = case(job("r", 0, 100, 8), job("honest", 1, 50, 8), job("liar", 2, 90, 8, says=10.0))
    assert starts("sjf", of) == {"r": 0.0, "liar": 100.0, "honest": 190.0}


def test_dominant_share_prefers_the_tenant_that_holds_less_by_weight():
    of = case(
        job("a0", 0, 100, 4), job("b0", 0, 50, 4, tenant="b"), job("a1", 1, 10, 4), job("b1", 2, 10, 4, tenant="b")
    )
    assert starts("drf", of)["b1"] == 50.0
    heavy = case(*of.jobs, tenants=(Tenant("a", 7), Tenant("b", 1)))
    assert starts("drf", heavy)["b1"] == 50.0, "who holds nothing is first whatever it weighs"


def test_kueue_takes_heads_within_nominal_first_and_holds_borrowers_to_their_cohort():
    tenants = (Tenant("a", 4, 0), Tenant("b", 4, 4))
    of = case(
        job("r", 0, 100, 8, tenant="b"), job("b1", 1, 10, 8, tenant="b"), job("a1", 2, 10, 4), job("a2", 3, 10, 4),
        tenants=tenants,
    )  # fmt: skip
    found = starts("kueue", of)
    assert found["a1"] == 100.0, "within nominal before one that borrows and is older"
    assert found["a2"] == 110.0, "borrowing nothing"
    assert found["b1"] == 120.0
    cohorts = (Tenant("a", 4, None, "left"), Tenant("b", 4, None, "right"))
    apart = case(job("a0", 0, 10, 4), job("a1", 0, 10, 4), job("b0", 5, 10, 1, tenant="b"), tenants=cohorts)
    assert starts("kueue", apart)["a1"] == 10.0, "the other cohort's GPUs are not its own"


def test_a_partition_follows_the_weights_and_a_gang_larger_than_its_part_never_runs():
    tenants = (Tenant("a", 24), Tenant("b", 8))
    of = case(job("a0", 0, 10, 8), job("b0", 0, 10, 8, 2, tenant="b"), nodes=4, tenants=tenants)
    assert {name: len(nodes) for name, nodes in divided(of).items()} == {"a": 3, "b": 1}
    past = played("partition", of)
    assert {fate.job.name: fate.ended for fate in past.fates} == {"a0": True, "b0": False}
    assert (judged(past).unfinished, judged(past).completion_ratio) == (1, None)


@pytest.mark.parametrize("name", RIVALS)
def test_every_rival_ends_all_jobs_and_evicts_none(name):
    jobs = [job(f"j{at}", at * 5, 20 + at % 7 * 30, 1 + at % 8, 1 + at % 2, tenant="ab"[at % 2]) for at in range(60)]
    past = played(name, case(*jobs, nodes=6))
    assert all(fate.ended for fate in past.fates)
    assert sum(fate.evictions for fate in past.fates) == 0
    assert all(fate.end_s == fate.first_start_s + fate.job.duration_s for fate in past.fates)
