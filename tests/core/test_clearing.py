"""How a queue is cleared: leaving as much as may wait anyhow, on time after a delay, and with nothing held after it."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.columns import F64
from autoscaler.core.scale import clearing
from autoscaler.core.scale.clearing import ClearingColumns
from autoscaler.core.types import Readings
from tests.core.toy import Story, calibrated, copied, counts, stepped

ROW = np.array([0])
SLACK_S = 10.0


def one(number: float) -> F64:
    return np.array([number])


# the law ---------------------------------------------------------------------------------------------------------
def needed(waiting: float, level_rps: float, within_s: float) -> float:
    return float(clearing.needed_rps(one(waiting), one(level_rps), within_s=one(within_s), slack_s=one(SLACK_S))[0])


def planned(left: float, *, lead_s: float = 600.0, withheld_s: float = 0.0, level_rps: float = 10.0) -> float:
    rate, lead, slack = one(level_rps), one(lead_s), one(SLACK_S)
    return float(clearing.within_s(one(left), rate, lead_s=lead, slack_s=slack, withheld_s=one(withheld_s))[0])


def waits_s(replicas: float, waiting: float, level_rps: float, at_s: float) -> float:
    """How long who comes `at_s` after the landing waits, second by second; a replica serves one a second."""
    for _ in range(round(at_s)):
        waiting = max(0.0, waiting + level_rps - replicas)
    return waiting / replicas


@pytest.mark.parametrize(
    ("waiting", "within_s", "replicas"), [(1890.0, 30.0, 83), (5130.0, 90.0, 84), (600.0, 20.0, 45)]
)
def test_whoever_comes_before_the_end_less_the_slack_is_in_time_and_with_one_replica_less_is_not(
    waiting: float, within_s: float, replicas: int
) -> None:
    """30 requests/s go on. Less the slack of the three replicas that stood, and not of those that come, the first asked
    for 123."""
    exact = needed(waiting, 30.0, within_s)
    assert round(exact) == replicas
    assert waits_s(exact, waiting, 30.0, within_s - SLACK_S) == pytest.approx(SLACK_S)
    assert waits_s(exact - 1.0, waiting, 30.0, within_s - SLACK_S) > SLACK_S


def test_a_queue_that_may_wait_asks_for_no_fewer_than_the_load_does() -> None:
    assert needed(10.0, 30.0, 20.0) == 30.0


def test_an_order_that_was_withheld_for_a_minute_has_a_minute_less_for_the_queue() -> None:
    assert planned(6000.0) == 300.0
    assert planned(6000.0, withheld_s=60.0) == 240.0


def test_a_quarter_of_the_time_is_caught_up_with_at_most() -> None:
    assert planned(6000.0, withheld_s=1e6) == 225.0
    assert planned(150.0, lead_s=60.0, withheld_s=1e6) == clearing.LEAST_S, "and nobody buys replicas for two ticks"


@given(
    queues=st.tuples(st.floats(1.0, 1e5), st.floats(1.0, 1e5)),
    standing=st.floats(0.0, 500.0),
    level_rps=st.floats(0.1, 500.0),
    lead_s=st.floats(5.0, 1800.0),
    withheld_s=st.floats(0.0, 900.0),
)
def test_a_longer_queue_never_asks_for_fewer_than_stand_or_than_a_shorter_one(
    queues: tuple[float, float], standing: float, level_rps: float, lead_s: float, withheld_s: float
) -> None:
    def asked(left: float) -> float:
        within_s = planned(left, lead_s=lead_s, withheld_s=withheld_s, level_rps=level_rps)
        return max(standing, needed(left + SLACK_S * standing, level_rps, within_s))

    shorter, longer = (asked(left) for left in sorted(queues))
    assert longer >= shorter * (1.0 - 1e-9)


# what is remembered ----------------------------------------------------------------------------------------------
def test_what_was_withheld_counts_until_an_order_goes_out_and_stays_until_the_queue_is_gone() -> None:
    columns, told = ClearingColumns.allocate(1), []
    for at_s, what in [(10, "no"), (15, "no"), (25, ""), (30, ""), (40, "no"), (45, ""), (90, "gone"), (95, "")]:
        told.append(float(clearing.withheld_s(columns, ROW, one(at_s))[0]))
        stands, withheld = np.array([what != "gone"]), np.array([what == "no"])
        clearing.note_withheld(columns, ROW, one(at_s), stands=stands, withheld=withheld)
    assert told == [0.0, 5.0, 15.0, 15.0, 15.0, 20.0, 20.0, 0.0]


def test_a_queue_is_over_with_nothing_on_its_way_and_next_to_nothing_waiting() -> None:
    columns = ClearingColumns.allocate(1)

    def over(queue: float, *, buys: bool = False, starts: float = 0.0) -> bool:
        told = clearing.cleared(
            columns, ROW, one(0.0), buys=np.array([buys]), queue=one(queue), may_wait=one(100.0), starts=one(starts)
        )
        return bool(told[0])

    assert not over(0.0), "nothing was bought"
    assert not over(900.0, buys=True, starts=5.0)
    assert [over(0.0, starts=5.0), over(90.0), over(np.inf), over(20.0), over(0.0)] == [False, False, False, True, True]
    clearing.end(columns, ROW)
    assert not over(0.0)


def lone(needs: list[float], *, bought_min_ago: float = 11.0) -> bool:
    """Whether what was bought for the last twelve minutes may go; `needs` are those of each tenth of an hour."""
    columns = ClearingColumns.allocate(1)
    columns.bought_s[0] = -60.0 * bought_min_ago
    each = np.repeat(needs, clearing.HOUR_BINS // len(needs))[None, :]
    return bool(clearing.lone(columns, ROW, one(0.0), each, ratio=1.3)[0])


@pytest.mark.parametrize(
    ("needs", "free"),
    [
        pytest.param([40.0, 40.0, 4, 4, 4, 4, 4, 4, 4, 4], True, id="four requests/s all the hour, and then forty"),
        pytest.param([40.0, 40.0, 4, 4, 4, 4, 4, 4, 35.0, 4], False, id="nearly as many 50 minutes ago"),
        pytest.param([40.0, 40.0, 4, 4, 4, 4, 4, 4, 30.0, 4], True, id="far fewer 50 minutes ago"),
        pytest.param([40.0, 40.0, 4, 4, 4, 4, 4, 4, np.nan, 4], False, id="six minutes of the hour are not known"),
    ],
)
def test_what_was_bought_for_a_burst_that_the_hour_knew_is_held(needs: list[float], free: bool) -> None:
    assert lone(needs) is free


def test_what_was_bought_more_than_an_hour_ago_is_held_as_anything_else() -> None:
    assert not lone([40.0] * 10, bought_min_ago=61.0)


# stories ---------------------------------------------------------------------------------------------------------
@functools.cache
def _until(onset_s: float, *bursts_s: float) -> Story:
    """Replicas of 2 requests/s; 4 requests/s become 40 at each burst for two minutes, and a start takes a minute."""
    story = calibrated(lambda t: 40.0 if any(b <= t < b + 120.0 for b in bursts_s) else 4.0, warmup_s=60.0)
    story.run(onset_s - 900.0)
    return story


def burst(onset_s: float, *before_s: float) -> Story:
    """From now on ten times the load, as after each of the bursts before."""
    story = copied(_until(onset_s, *before_s))
    story.toy.load = stepped(4.0, 40.0, onset_s)
    return story


def given_back(story: Story) -> tuple[int, int]:
    """The most that was ordered within four minutes, and what of it is left a minute after the queue is gone."""
    onset_s = story.toy.now_s
    told = story.run(300.0)
    most = max(counts(told))
    waiting = {r.now_s: sum(pod.waiting or 0.0 for pod in r.pods or ()) for r in story.seen}
    gone_s = next(s for s, queue in waiting.items() if s > onset_s + 70.0 and queue == 0.0)
    for decision in told:
        if decision.now_s < gone_s and waiting[decision.now_s] > 100.0:
            assert decision.replicas >= decision.seen_replicas
    assert max(queue for s, queue in waiting.items() if s > gone_s) <= 2.0 * SLACK_S * 20, "it does not come back"
    return most, next(d.replicas for d in told if d.now_s >= gone_s + 60.0)


def test_what_was_bought_for_a_queue_is_given_back_when_it_is_gone_and_not_before() -> None:
    """20 carry the load."""
    most, left = given_back(burst(3660.0))
    assert most >= 40
    assert 20 <= left <= 28


@pytest.mark.parametrize(
    ("onset_s", "before_s"),
    [(1200.0, ()), (4500.0, (2700.0,))],
    ids=["in its first hour", "half an hour after another"],
)
def test_where_a_burst_may_come_again_what_was_bought_for_it_is_held(
    onset_s: float, before_s: tuple[float, ...]
) -> None:
    most, left = given_back(burst(onset_s, *before_s))
    assert most >= 40
    assert left == most


def test_an_order_that_the_limit_of_growth_held_up_is_larger_for_it() -> None:
    """Three replicas meet 60 requests/s for 3. 83 are asked for and 48 allowed; 20 s later 83 would come too late."""
    story = calibrated(stepped(3.0, 60.0, 900.0), warmup_s=60.0, tick_s=5.0, replicas=2)
    told = story.run(90.0)
    assert [(d.now_s, d.replicas) for d in told if d.replicas != d.seen_replicas] == [(910.0, 48), (930.0, 88)]


def test_a_queue_that_the_limit_of_growth_left_is_cleared_in_time_where_starts_are_faster_than_the_slack() -> None:
    """8 requests/s become 400 and a start takes 8 s; the limit lets 160 serve within a minute. The ceiling's 260 would
    have cleared the rest by 175 s."""
    story = calibrated(stepped(8.0, 400.0, 900.0), warmup_s=8.0, tick_s=5.0, replicas=5, max_replicas=3000)
    told = story.run(180.0)
    waiting = {r.now_s: sum(pod.waiting or 0.0 for pod in r.pods or ()) for r in story.seen}
    assert max(counts(told)) < 400, "and not at any price"
    assert max(at_s for at_s, queue in waiting.items() if queue > 400.0 * SLACK_S) <= 900.0 + 115.0


def late_for_s(story: Story, span_s: float) -> float:
    """From now on until the queue was last longer than what may wait, as the looks show it."""
    onset_s = story.toy.now_s
    story.run(span_s)
    late = [r.now_s for r in story.seen if r.now_s >= onset_s and _queue(r) > SLACK_S * 2.0 * len(r.pods or ())]
    return max(late, default=onset_s) - onset_s


def _queue(readings: Readings) -> float:
    return sum(pod.waiting or 0.0 for pod in readings.pods or ())


@pytest.mark.parametrize(("warmup_s", "at_most_s"), [(10.0, 15.0), (12.0, 20.0), (15.0, 25.0)])
def test_over_starts_of_seconds_no_plan_ends_at_the_objective(warmup_s: float, at_most_s: float) -> None:
    """Four replicas of 2 requests/s each meet 24 for 6; counting on all of the slack took 25 to 30 s."""
    story = calibrated(stepped(6.0, 24.0, 900.0), warmup_s=warmup_s, tick_s=5.0)
    assert late_for_s(story, 200.0) <= at_most_s


@pytest.mark.parametrize(
    ("slack_s", "lead_s", "spared_s"), [(10.0, 600.0, 10.0), (10.0, 40.0, 10.0), (10.0, 12.0, 3.0), (60.0, 60.0, 15.0)]
)
def test_a_plan_counts_on_a_quarter_of_a_start_at_most(slack_s: float, lead_s: float, spared_s: float) -> None:
    assert float(clearing.spared_s(slack_s, one(lead_s))[0]) == spared_s
