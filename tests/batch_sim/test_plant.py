"""The plant: time, work that is saved and lost, orders that are refused."""

import pytest

from autoscaler.errors import HeadroomError, InputError
from autoscaler.sim.batch.plant import Orders, run
from autoscaler.sim.batch.rivals import Rival
from autoscaler.sim.batch.work import Case, Recovery, Tenant, racks
from tests.batch_sim.cases import case, fates, job, played


class Evicting(Rival):
    """First come, first served; tells job `a` to go once, at 100 s."""

    def __init__(self, of: Case) -> None:
        super().__init__("evicting", of)
        self.told = False

    def decide(self, now_s: float) -> Orders:
        if now_s >= 100.0 and not self.told:
            self.told = True
            return Orders(leaves=("a",))
        orders = super().decide(now_s)
        return Orders(orders.starts, again_s=100.0 if now_s < 100.0 else None)


def test_two_gangs_that_exclude_each_other_run_one_after_the_other():
    found = fates("fifo", case(job("a", 0, 100, 8), job("b", 10, 50, 8), job("c", 20, 30, 8, 2), nodes=2))
    assert {name: fate.end_s for name, fate in found.items()} == {"a": 100.0, "b": 60.0, "c": 130.0}
    assert found["c"].wait_s == 80.0
    assert found["c"].first_start_s == 100.0


@pytest.mark.parametrize(
    ("recovery", "end_s", "lost_gpu_s"),
    [
        pytest.param(Recovery(30.0, 10.0), 130 + 10 + 150, 8 * (130 + 10), id="who saves nothing begins anew"),
        pytest.param(Recovery(30.0, 10.0, 40.0), 130 + 10 + 50, 8 * (30 + 10), id="who saves on notice loses it"),
        pytest.param(Recovery(0.0, 0.0, 1000.0), 150, 0.0, id="without notice and restart nothing is lost"),
    ],
)  # fmt: skip
def test_an_eviction_costs_the_work_since_it_was_saved_the_notice_and_the_restart(recovery, end_s, lost_gpu_s):
    of = case(job("a", 0, 150, 8), recovery=recovery)
    (fate,) = run(of, Evicting(of)).fates
    assert (fate.end_s, fate.evictions, fate.lost_gpu_s) == (end_s, 1, lost_gpu_s)


def test_what_tenants_hold_and_want_is_sampled_at_equal_intervals():
    past = played("fifo", case(job("a", 0, 25, 8), job("b", 5, 10, 4, tenant="b")))
    assert past.held.tolist() == [[8, 0], [8, 0], [8, 0], [0, 4]]
    assert past.wanted.tolist() == [[0, 0], [0, 4], [0, 4], [0, 0]]


@pytest.mark.parametrize(
    ("spots", "message"),
    [
        pytest.param(((0, 4),), "cannot start a", id="half of a gang"),
        pytest.param(((0, 16),), "cannot start a", id="more than the node has"),
        pytest.param(((0, 4), (0, 4)), "cannot start a", id="one node twice"),
        pytest.param(((0, 6), (1, 2)), "cannot start a", id="a pod torn apart"),
    ],
)
def test_an_order_that_breaks_a_gang_or_a_node_is_an_error(spots, message):
    class Wrong(Rival):
        def decide(self, now_s: float) -> Orders:
            return Orders((("a", spots),))

    of = case(job("a", 0, 100, 4, 2), nodes=2)
    with pytest.raises(HeadroomError, match=message):
        run(of, Wrong("wrong", of))


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        pytest.param([job("a", 0, 10, 8, 3)], "job a: 3 pods of 8 gpu have no room", id="larger than the cluster"),
        pytest.param([job("a", 0, 10, 9)], "job a: 1 pods of 9 gpu have no room", id="a pod larger than any node"),
        pytest.param([job("a", 0, 10), job("a", 1, 10)], "job a: stands twice", id="a name twice"),
        pytest.param([job("a", 0, 0)], "job a: runs 0 s", id="no length"),
        pytest.param([job("a", 0, 10, 0)], "1 pods of 0 GPUs", id="no GPU"),
        pytest.param([job("a", float("inf"), 10)], "submitted at inf", id="never submitted"),
        pytest.param([], "2 nodes and 0 jobs", id="nothing"),
    ],
)
def test_a_case_that_nobody_could_run_is_refused_by_its_job(jobs, message):
    with pytest.raises(InputError, match=message):
        case(*jobs, nodes=2)
    with pytest.raises(InputError, match="tenant 'a' is not among"):
        Case("test", racks(1), (Tenant("b"),), (job("x", 0, 10),))
