"""What pools expect their replicas to leave, in what a gang is told: when, by what, and what it is without that."""

from dataclasses import replace
from typing import cast

import pytest

from autoscaler.adapters.kube.pool_cluster import PoolCluster
from autoscaler.app.batch_look import Look
from autoscaler.app.loan_desk import LoanDesk, Offer, Terms
from autoscaler.app.pool_leads import PoolLeads
from autoscaler.app.pool_offers import Offers
from autoscaler.core.batch.ebb import Fall
from autoscaler.core.pool.loans import Lending
from autoscaler.core.pool.params import SlotForm
from autoscaler.core.pool.reconcile import reconcile
from autoscaler.core.pool.state import PoolState
from autoscaler.record.batch import GangTold
from tests.app.batch_plant import BatchPlant
from tests.core.pool.builders import EVENING, days, pool, world

EIGHT_H_S = 28_800.0


def served() -> tuple[BatchPlant, Offer]:
    """A node full of serving, which is a pool's, and a second one that a Job of a day has."""
    desk = LoanDesk(is_open=True)
    plant = BatchPlant({"w0": 8, "n1": 8}, guaranteed=16, desk=desk)
    plant.pod("serving-0", "w0", 4)
    plant.pod("serving-1", "w0", 4)
    offer = Offer(Terms("nvidia.com/gpu", 8), frozenset({"w0"}), Lending(), desk.lent_version)
    desk.looked("chat", offer)
    desk.looked_at_all()
    plant.look()
    plant.job("day", annotations={"headroom.dev/expected-duration": "1d"})
    plant.look()
    assert plant.start() == ["day"]
    plant.pod("day-0", "n1", job="day", phase="Running")
    plant.job("next")
    plant.look()
    return plant, offer


def told(plant: BatchPlant) -> GangTold:
    return Look(plant.books, plant.tree, plant.now_s).gang("job/ns/next")


@pytest.mark.looptime
async def test_a_gang_is_told_that_its_start_counts_on_serving_and_when_it_is_else() -> None:
    plant, offer = served()
    assert plant.desk is not None
    alone = told(plant)
    falls = (Fall(plant.now_s + EIGHT_H_S, 8, 4),)
    plant.desk.looked("chat", replace(offer, falls=falls))
    plant.look()
    seen = told(plant)
    assert seen.start_p50_s == falls[0].at_s
    assert seen.start_p90_s == alone.start_p90_s, "in one of ten cases half of it is left only"
    (remark,) = seen.remarks
    assert remark.startswith("that counts on GPUs which serving is expected to leave, as it did at this time of other")
    assert remark.endswith("; else it is expected to start in 24 h")


@pytest.mark.looptime
async def test_a_pool_whose_demand_cannot_be_read_is_expected_to_leave_nothing() -> None:
    plant, offer = served()
    assert plant.desk is not None
    alone = told(plant)
    plant.desk.looked("chat", replace(offer, falls=(Fall(plant.now_s + EIGHT_H_S, 8, 8),)))
    plant.desk.looked_in_vain("chat", frozenset())
    plant.look()
    assert told(plant).start_p50_s == alone.start_p50_s
    assert plant.books.room.ebbing == ()


def test_a_pool_says_once_a_minute_what_its_demand_is_expected_to_fall_by_in_units_of_its_slots() -> None:
    """Ten slots of two units by day and two by night, for six days: at two in the afternoon eight go in eight hours."""
    params = pool(slot=SlotForm(count=2))
    history = days(EVENING, 6, 14.0)
    now_s = 60.0 * (history.last_bin or 0)
    looked = reconcile(params, world(()), PoolState(), now_s)
    looked = replace(looked, state=replace(looked.state, history=history))
    for is_open, falls in ((True, (Fall(now_s + EIGHT_H_S, 16, 16),)), (False, ())):
        desk = LoanDesk(is_open=is_open)
        offers = Offers(cast(PoolCluster, None), PoolLeads(lambda _: None, lambda _: None), desk)
        first = offers.offer(params, world(()), looked, 0)
        assert first is not None
        assert first.falls == falls
        soon = replace(looked, decision=replace(looked.decision, now_s=now_s + 5.0))
        again = offers.offer(params, world(()), soon, 0)
        assert again is not None
        assert again.falls is first.falls or again.falls == ()
