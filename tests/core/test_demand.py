"""Demand apart from forecasts: the lateness budget, episodes above capacity, the day's peak, idleness."""

from collections.abc import Callable

import numpy as np
import pytest

from autoscaler.core.columns import F64
from autoscaler.core.demand import budget, climb, episodes, peaks
from autoscaler.core.demand.budget import BudgetColumns
from autoscaler.core.demand.episodes import EpisodeColumns
from autoscaler.core.demand.peaks import PeakColumns

ROW = np.array([0])
TARGET = np.array([0.99])
DAY_S = 86400.0


def one(value: float) -> F64:
    return np.array([value])


# budget
@pytest.mark.parametrize(
    ("wait_s", "ratio", "low", "high"),
    [
        (0.0, 0.0, 0.0, 0.0),
        (5.0, 0.5, 0.0, 0.0),
        (np.nan, np.nan, 0.0, 0.0),
        (10.0, 0.0, 0.3, 0.7),
        (30.0, 0.0, 1.0, 1.0),
        (0.0, 1.1, 0.3, 0.7),
        (0.0, 3.0, 1.0, 1.0),
    ],
)  # fmt: skip
def test_lateness_is_a_ramp_around_the_objective(wait_s: float, ratio: float, low: float, high: float) -> None:
    share = budget.late_share(one(wait_s), one(10.0), one(ratio))[0]
    assert low <= share <= high


@pytest.mark.parametrize(
    ("queue", "done", "chance"),
    [(1.0, 1.5, 0.223), (2.0, 1.5, 0.558), (1.0, 8.0, 0.0), (30.0, 8.0, 1.0), (0.0, 1.5, np.nan), (9.0, 80.0, np.nan)],
)
def test_whoever_waits_for_one_of_few_long_requests_to_end_is_late_by_chance(
    queue: float, done: float, chance: float
) -> None:
    """`done` end within the slack on average: of 1.5 none does in 22 % of cases, one at most in 56 %."""
    found = budget.in_line(one(queue), one(done), one(60.0))
    assert found[0] == pytest.approx(chance, abs=1e-3, nan_ok=True)
    assert np.isnan(budget.in_line(one(queue), one(done), one(np.nan))[0]), "short requests come in a steady flow"
    share = budget.late_share(one(0.5), one(10.0), one(0.0), found)[0]
    assert share == pytest.approx(0.0 if np.isnan(chance) else chance, abs=1e-3)


def spent(share: float, hours: float, *, then_calm_hours: float = 0.0) -> BudgetColumns:
    """A budget after hours at 10 requests/s of which `share` were late."""
    columns = BudgetColumns.allocate(1)
    for part, length in ((share, hours), (0.0, then_calm_hours)):
        for _ in range(int(length * 360)):
            budget.spend(columns, ROW, one(10.0), one(100.0), one(part))
    return columns


def tail(columns: BudgetColumns, *, rate_rps: float = 10.0, lead_s: float = 180.0) -> float:
    """The tail probability asked for two hours in."""
    asked = budget.tail(columns, ROW, one(7200.0), rate_rps=one(rate_rps), target_ratio=TARGET, lead_s=one(lead_s))
    return float(asked[0])


def test_the_more_was_spent_the_smaller_the_tail_that_is_asked_for() -> None:
    tails = [tail(spent(share, 2.0)) for share in (0.0, 0.002, 0.005, 0.02, 0.5)]
    assert tails == sorted(tails, reverse=True)
    assert tails[0] > 2 * tails[-1]
    assert 0.0 < tails[-1] < tails[0] < 0.5


@pytest.mark.parametrize("share", [0.0, 0.004, 0.5])
def test_the_longer_the_lead_the_smaller_the_tail_that_is_asked_for(share: float) -> None:
    tails = [tail(spent(share, 1.0), lead_s=lead_s) for lead_s in (20.0, 60.0, 180.0, 600.0, 7200.0)]
    assert tails == sorted(tails, reverse=True)
    assert tails[-1] > 0.0


@pytest.mark.parametrize(
    ("stays_s", "late", "asked"),
    [(np.nan, 0.0, 0.0833), (8.0, 0.0, 0.0833), (40.0, 0.0, 0.0208), (4000.0, 0.0, 0.01), (4000.0, 1.0, 0.0032)],
)
def test_the_longer_requests_stay_the_smaller_the_tail_down_to_what_may_be_late(
    stays_s: float, late: float, asked: float
) -> None:
    """No slack swallows a shortage in which nobody gets out in time; `late` is what was spent."""
    tail_asked = budget.tail(
        spent(late, 2.0), ROW, one(0.0), rate_rps=one(10.0), target_ratio=TARGET, lead_s=one(180.0),
        swallows=budget.swallowed(one(10.0), one(stays_s)),
    )  # fmt: skip
    assert tail_asked[0] == pytest.approx(asked, rel=0.01)


def test_a_spent_budget_is_earned_back_over_the_day() -> None:
    burns = [budget.burn(spent(0.5, 0.2, then_calm_hours=h), ROW, TARGET)[0] for h in (0.0, 4.0, 12.0)]
    assert burns[0] == pytest.approx(50.0)
    assert burns[0] > burns[1] > burns[2]


def test_unknown_arrivals_spend_nothing() -> None:
    columns = spent(0.01, 0.5)
    before = budget.burn(columns, ROW, TARGET)[0]
    for _ in range(100):
        budget.spend(columns, ROW, one(10.0), one(np.nan), one(1.0))
    assert budget.burn(columns, ROW, TARGET)[0] == before


def test_no_traffic_burns_nothing() -> None:
    columns = BudgetColumns.allocate(1)
    assert budget.burn(columns, ROW, TARGET)[0] == 0.0
    assert np.isfinite(tail(columns, rate_rps=np.nan))


# episodes
def lived(*durations_s: float, gap_s: float = 600.0) -> tuple[EpisodeColumns, float]:
    """Columns that saw an excess of each of these durations, and the time after the last."""
    columns, now_s = EpisodeColumns.allocate(1), 0.0
    for duration_s in durations_s:
        for span_s, load in ((gap_s, 5.0), (duration_s, 20.0)):
            for _ in range(int(span_s / 10.0)):
                episodes.follow(columns, ROW, one(now_s), one(load), one(10.0))
                now_s += 10.0
    episodes.follow(columns, ROW, one(now_s), one(5.0), one(10.0))
    return columns, now_s


def chance(columns: EpisodeColumns, now_s: float, age_s: float, lead_s: float, *, recurring: bool = False) -> float:
    told = episodes.outlives(columns, ROW, one(now_s), one(age_s), lead_s=one(lead_s), recurring=np.array([recurring]))
    return float(told[0])


def test_the_first_excess_of_all_is_bought() -> None:
    columns, now_s = lived()
    assert not episodes.is_noise(one(chance(columns, now_s, 10.0, 120.0)), one(10.0))[0]


def test_after_many_short_spikes_the_next_one_is_noise_until_it_lasts() -> None:
    columns, now_s = lived(*[30.0] * 8)
    assert episodes.is_noise(one(chance(columns, now_s, 0.0, 120.0)), one(0.0))[0]
    assert not episodes.is_noise(one(chance(columns, now_s, 60.0, 120.0)), one(60.0))[0], "none lasted that long"


def test_above_recurring_bursts_an_excess_like_none_before_is_noise_and_one_like_others_is_judged_by_them() -> None:
    columns, now_s = lived()
    assert episodes.is_noise(one(chance(columns, now_s, 10.0, 120.0, recurring=True)), one(10.0))[0]
    columns, now_s = lived(*[1200.0] * 5)
    assert not episodes.is_noise(one(chance(columns, now_s, 10.0, 120.0, recurring=True)), one(10.0))[0]


def test_after_long_excesses_the_next_one_is_bought_at_once() -> None:
    columns, now_s = lived(*[1200.0] * 5)
    assert not episodes.is_noise(one(chance(columns, now_s, 0.0, 120.0)), one(0.0))[0]


def test_the_longer_the_warm_up_the_less_an_excess_outlives_it() -> None:
    columns, now_s = lived(30.0, 60.0, 120.0, 300.0, 600.0, 900.0)
    chances = [chance(columns, now_s, 10.0, lead_s) for lead_s in (10.0, 100.0, 400.0, 1000.0)]
    assert chances == sorted(chances, reverse=True)


def test_episodes_of_yesterday_are_forgotten() -> None:
    columns, now_s = lived(*[30.0] * 8)
    assert chance(columns, now_s + 1.2 * DAY_S, 0.0, 120.0) == chance(EpisodeColumns.allocate(1), 0.0, 0.0, 120.0)


def test_capacity_that_arrives_does_not_end_an_episode() -> None:
    columns = EpisodeColumns.allocate(1)
    ages = [episodes.follow(columns, ROW, one(10.0 * i), one(20.0), one(10.0 if i < 6 else 40.0))[0] for i in range(12)]
    assert ages[-1] == 110.0


def test_without_a_load_nothing_begins_or_ends() -> None:
    columns = EpisodeColumns.allocate(1)
    assert np.isnan(episodes.follow(columns, ROW, one(0.0), one(np.nan), one(10.0))[0])
    episodes.follow(columns, ROW, one(10.0), one(20.0), one(10.0))
    assert episodes.follow(columns, ROW, one(40.0), one(np.nan), one(10.0))[0] == 30.0


# peaks
def peaked(*needs: tuple[float, float]) -> PeakColumns:
    """Columns after (now_s, need_rps) notes."""
    columns = PeakColumns.allocate(1)
    for now_s, need_rps in needs:
        peaks.note(columns, ROW, one(now_s), one(need_rps))
    return columns


def ceiling(columns: PeakColumns, now_s: float, present_rps: float, least_ratio: float = 1.0) -> float:
    told = peaks.ceiling_rps(columns, ROW, one(now_s), present_rps=one(present_rps), least_ratio=one(least_ratio))
    return float(told[0])


def test_without_any_need_there_is_no_ceiling() -> None:
    assert ceiling(PeakColumns.allocate(1), 0.0, 0.0) == np.inf
    assert ceiling(PeakColumns.allocate(1), 0.0, np.nan) == np.inf


def test_the_ceiling_never_cuts_into_the_growth_a_young_workload_must_allow_for() -> None:
    assert ceiling(peaked((0.0, 5.0)), 60.0, 5.0, least_ratio=2.0) == pytest.approx(10.0)
    assert ceiling(peaked((0.0, 5.0)), 60.0, 5.0, least_ratio=1.0) > 5.0


def test_the_ceiling_lies_above_the_highest_need_of_the_day_and_of_now() -> None:
    columns = peaked(*((600.0 * i, 50.0 if i == 20 else 8.0) for i in range(60)))
    assert 50.0 < ceiling(columns, 36_000.0, 8.0) <= 75.0
    assert 90.0 < ceiling(columns, 36_000.0, 90.0) <= 135.0


def test_a_peak_leaves_the_ceiling_after_a_day() -> None:
    hours = [(3600.0 * i, 50.0 if i == 2 else 8.0) for i in range(60)]
    assert ceiling(peaked(*hours[:24]), 3600.0 * 23, 8.0) > 50.0
    assert ceiling(peaked(*hours[:32]), 3600.0 * 31, 8.0) < 15.0


def test_an_unknown_need_leaves_the_peak() -> None:
    columns = peaked(*((600.0 * i, 20.0 if i < 5 else np.nan) for i in range(10)))
    assert ceiling(columns, 6000.0, np.nan) > 20.0


@pytest.mark.parametrize(
    ("works", "idle_s"),
    [([1.0] + [0.0] * 9, 90.0), ([0.0] * 10, 90.0), ([1.0] * 10, 0.0), ([1.0] + [np.nan] * 9, 0.0),
     ([0.0] * 5 + [np.nan] + [0.0] * 4, 40.0)],
    ids=["work, then none", "never any", "always", "not known counts as work", "a gap starts it again"],
)  # fmt: skip
def test_idle_time_is_since_work_was_last_seen_or_not_excluded(works: list[float], idle_s: float) -> None:
    columns = PeakColumns.allocate(1)
    for i, work in enumerate(works):
        idle = peaks.note_work(columns, ROW, one(10.0 * i), one(work))
    assert idle[0] == idle_s


def climbs(load: Callable[[float], float], lead_s: float, *, known_s: float = np.inf) -> float:
    """What is expected of a load, given by how many seconds ago it was, measured for `known_s`."""
    ago_s = np.arange(climb.LOOKBACK_BINS) * 10.0 + 5.0
    measured = np.where(ago_s < known_s, 10.0, 0.0)
    arrivals = np.array([load(ago) for ago in ago_s.tolist()]) * measured
    return float(climb.expected_rps(arrivals[None, :], measured[None, :], one(lead_s))[0])


@pytest.mark.parametrize(
    ("load", "lead_s", "expected_rps"),
    [
        pytest.param(lambda ago_s: 40.0 - 0.01 * ago_s, 600.0, 6.0, id="a ramp goes on for a lead time"),
        pytest.param(lambda ago_s: 40.0 - 0.01 * ago_s, 60.0, 0.6, id="a short lead is climbed a short way"),
        pytest.param(lambda ago_s: 40.0 - 0.01 * ago_s, 3600.0, 36.0, id="a long one at the slope of twenty minutes"),
        pytest.param(lambda _: 40.0, 600.0, 0.0, id="a steady load stays"),
        pytest.param(lambda ago_s: 40.0 + 0.01 * ago_s, 600.0, 0.0, id="a falling one never lowers anything"),
        pytest.param(lambda ago_s: 10.0 if ago_s > 40 else 50.0, 600.0, 0.0, id="a step that has just begun"),
        pytest.param(lambda ago_s: 10.0 if ago_s > 250 else 50.0, 600.0, 0.0, id="a step between two means"),
        pytest.param(lambda ago_s: 10.0 if ago_s > 445 else 50.0, 600.0, 0.0, id="a step within a mean"),
        pytest.param(lambda ago_s: 40.0 - 0.01 * ago_s, np.nan, 0.0, id="no lead time is known"),
    ],
)
def test_what_has_climbed_all_the_time_is_expected_to_go_on(
    load: Callable[[float], float], lead_s: float, expected_rps: float
) -> None:
    assert climbs(load, lead_s) == pytest.approx(expected_rps, abs=1e-9)


def test_a_climb_that_was_not_seen_from_its_beginning_is_none() -> None:
    assert climbs(lambda ago_s: 40.0 - 0.01 * ago_s, 600.0, known_s=620.0) == 0.0
    assert climbs(lambda ago_s: 40.0 - 0.01 * ago_s, 600.0, known_s=660.0) > 5.0
