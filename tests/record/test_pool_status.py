"""What is told of a warm pool: figures, rows, metrics and the whole explanation."""

from dataclasses import replace

import msgspec
import pytest

from autoscaler.core.pool.loans import Lending
from autoscaler.record.loans import LoanTold
from autoscaler.record.pool_metrics import pool_families
from autoscaler.record.pool_status import WORST_FIRST, PoolCounts, PoolStatus, pool_line, pool_status, with_loans
from autoscaler.record.status import Condition
from tests.record.pool_statuses import DECISION, LEARNT, NOW_S, short_pool, young_pool


def test_the_figures_are_the_decisions_and_what_the_pool_learnt() -> None:
    pool = short_pool()
    assert (pool.warm, pool.target, pool.starting, pool.supply, pool.reason) == (2, 4, 1, 3, "MINIMUM")
    assert (pool.hit_ratio, pool.refill_s) == (0.99, 640.0)
    assert pool.stages == (("requested", 1), ("weights_warm", 2)), "a stage without slots is left out"
    assert [(b.sku, b.zone, b.state) for b in pool.breakers] == [("h100", "a", "open")]


def test_the_explanation_tells_the_stage_clock_the_breakers_and_every_condition() -> None:
    told = short_pool().explained
    assert "found warm: 99 of 100 slots of growing demand" in told
    assert "idle warm: 1.0 slot-hours since this controller began to lead" in told
    assert "no capacity: h100 on-demand a: open, asks again at" in told
    assert "a slot on a new node, h100 on-demand in a (sha256:0123456789ab): warm after 9.67 min" in told
    assert "medians: launch 4.67 min, join 20 s, GPUs 2 min, images 100 s, weights 60 s" in told
    assert "Ready=False: NotReady: only 2 of 4 slots are warm" in told


def test_the_explanation_tells_what_a_step_of_the_demand_of_now_wants_warm() -> None:
    state = replace(LEARNT, demand={"prod/chat": 6.0, "prod/code": 3.0})
    told = pool_status(DECISION, state, (), PoolCounts(), "slots").explained
    assert (
        "a step: to twice the demand of now (9 slots) wants 24 warm slots for its queue to be gone within 1.6" in told
    )
    assert "to three times 48; with only what it adds (9 and 18) its queue waits for new nodes" in told
    assert "a step:" not in short_pool().explained, "nothing is a multiple of no demand"


def test_what_is_not_known_is_neither_zero_nor_told() -> None:
    pool = young_pool()
    assert pool.hit_ratio is None
    assert "found warm" not in pool.explained
    named = {family.metric.name: family.values for family in pool_families([pool])}
    assert named["headroom_pool_hit_ratio"] == {}
    assert named["headroom_pool_breaker"] == {}
    assert named["headroom_pool_warm_slots"] == {("chat",): 4.0}


def test_the_metrics_count_every_stage_and_name_the_breaker() -> None:
    named = {family.metric.name: family.values for family in pool_families([short_pool()])}
    assert named["headroom_pool_slots"]["chat", "weights_warm"] == 2.0
    assert named["headroom_pool_slots"]["chat", "registered"] == 0.0, "an empty stage is a known zero"
    assert named["headroom_pool_breaker"] == {("chat", "h100", "a", "on-demand"): 2.0}
    assert named["headroom_pool_idle_warm_seconds_total"] == {("chat",): 3600.0}
    assert named["headroom_pool_condition"] == {("chat", "Ready", "False"): 1.0}


def test_what_is_lent_is_a_figure_a_metric_and_a_line_of_the_explanation() -> None:
    loan = LoanTold("job/lab/train", 8, short_pool().now_s - 60.0)
    pool = with_loans(short_pool(), Lending(lent=1, overdue=2), (loan,))
    assert "  loan: 8 units lent to job/lab/train since 60 s; back within 60 s of a recall" in pool.explained
    (row,) = pool_line(pool).loans
    assert (pool_line(pool).lent, row.gang, row.state) == (1, "job/lab/train", "lent")
    values = {family.metric.name: family.values for family in pool_families([pool])}
    assert values["headroom_pool_lent_slots"] == {("chat",): 1.0}
    assert values["headroom_pool_overdue_slots"] == {("chat",): 2.0}
    unknown = with_loans(short_pool(), Lending(lent=None), None)
    values = {family.metric.name: family.values for family in pool_families([unknown])}
    assert values["headroom_pool_lent_slots"] == {}, "what is not known is no zero"
    assert values["headroom_pool_overdue_slots"] == {}
    assert (pool_line(unknown).lent, pool_line(unknown).loans) == (None, ())


def test_gpus_that_are_held_for_gangs_are_a_metric_and_absent_while_they_are_not_known() -> None:
    for gpus, told in ((12.0, {("chat",): 12.0}), (0.0, {("chat",): 0.0}), (None, {})):
        values = {f.metric.name: f.values for f in pool_families([replace(short_pool(), gang_gpus=gpus)])}
        assert values["headroom_pool_gang_gpus"] == told


def test_a_pool_that_cannot_be_used_has_its_fault_and_no_figures() -> None:
    faulty = PoolStatus("chat", 0.0, "", conditions=(Condition("Accepted", "False", "Invalid", "…"),))
    values = {family.metric.name: family.values for family in pool_families([faulty])}
    assert values.pop("headroom_pool_condition") == {("chat", "Accepted", "False"): 1.0}
    counted = {name: found for name, found in values.items() if found}
    assert all(name.endswith("_total") for name in counted)
    assert pool_line(faulty).state == "invalid"


@pytest.mark.parametrize(("aspect", "words"), WORST_FIRST.items(), ids=WORST_FIRST)
def test_a_row_says_the_worst_that_is_true(aspect: str, words: str) -> None:
    wrong = Condition(aspect, "False", "…", "…")
    assert pool_line(replace(short_pool(), conditions=(short_pool().conditions[0], wrong))).state == words


def test_capacity_that_may_be_back_is_told_as_such_and_makes_no_row_that_lacks_it() -> None:
    """A zone where nothing was asked for since stays half-open for as long as others have capacity."""
    pool = pool_status(replace(DECISION, now_s=NOW_S + 7200.0, warm=4), LEARNT, (), PoolCounts(), "slots")
    assert [each.state for each in pool.breakers] == ["half-open"]
    assert pool_line(pool).state == "warm"
    assert "capacity may be back: h100 on-demand a: half-open since" in pool.explained
    assert "no capacity" not in pool.explained


def test_a_row_without_a_fault_says_whether_the_target_is_met() -> None:
    assert pool_line(replace(short_pool(), breakers=())).state == "filling"
    assert pool_line(young_pool()).state == "warm"


def test_a_status_survives_the_way_over_http() -> None:
    pool = short_pool()
    assert msgspec.json.decode(msgspec.json.encode(pool), type=PoolStatus) == pool
