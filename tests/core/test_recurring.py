"""Bursts that come back: when the hour shows a habit, what it asks for, and when the habit is over."""

from functools import cache

import numpy as np
import pytest

from autoscaler.core.forecast import recurring
from autoscaler.core.params import Params
from tests.core.toy import Story, Toy, copied

HOUR_BINS = 360


def hour(*spells: tuple[float, float]) -> list[float]:
    """Needs of an hour in time order, told by its last spells of (seconds, need); the hour before them was quiet."""
    told = [need for seconds, need in spells for _ in range(int(seconds / 10))]
    return ([0.0] * HOUR_BINS + told)[-HOUR_BINS:]


def expected(needs: list[float], lead_s: float = 60.0) -> float:
    """What is provided for at the end of the hour, requests/s; NaN without a habit."""
    return float(recurring.look(np.array([needs[::-1]]), np.array([lead_s])).need_rps[0])


HABIT = ((60.0, 20.0), (120.0, 0.0)) * 8


@pytest.mark.parametrize(
    ("needs", "lead_s", "told"),
    [
        (hour(*HABIT), 60.0, 20.0),
        (hour(*HABIT, (60.0, 20.0)), 60.0, 20.0),
        (hour(*HABIT, (60.0, 20.0)), 600.0, 20.0),
        (hour(*HABIT, (120.0, 0.0)), 60.0, 20.0),
        (hour(*HABIT, (60.0, 300.0)), 60.0, 20.0),
        (hour(*HABIT[:4]), 60.0, np.nan),
        (hour(*HABIT, (3000.0, 8.0)), 60.0, np.nan),
        (hour(*HABIT, (180.0, 0.0)), 60.0, np.nan),
        (hour(*HABIT, (150.0, 20.0)), 60.0, np.nan),
        (hour(*HABIT), 2.0, np.nan),
        (hour((3600.0, 20.0)), 60.0, np.nan),
        (hour(*((60.0, 20.0), (120.0, 12.0)) * 8), 60.0, 20.0 * np.nan),
        (hour(), 60.0, np.nan),
        ([np.nan] * HOUR_BINS, 60.0, np.nan),
        ([np.nan] * 180 + hour(*HABIT)[180:], 60.0, 20.0),
    ],
    ids=[
        "a minute in three", "during a burst", "whatever the lead", "a gap no longer than twice the others",
        "a burst that towers above all", "two bursts only", "long since something else", "a gap that is too long",
        "a burst that is too long", "a start is quicker than it matters", "steady", "never below half",
        "silence", "nothing measured", "half of it measured",
    ],
)  # fmt: skip
def test_a_habit_is_seen_and_ends(needs: list[float], lead_s: float, told: float) -> None:
    assert expected(needs, lead_s) == pytest.approx(told, nan_ok=True)


def test_what_is_needed_for_less_than_a_twentieth_of_the_hour_is_not_provided_for() -> None:
    bursts = hour(*HABIT)
    for rare, told in ((15, 20.0), (20, 35.0)):
        high = list(bursts)
        on = [i for i, need in enumerate(bursts) if need > 0][:rare]
        for i in on:
            high[i] = 35.0
        assert expected(high) == told


def test_few_long_requests_that_come_by_chance_are_no_bursts() -> None:
    """Of requests of a minute four are in service on average, up to eight and at times none; forty are no chance."""
    needs = np.array([hour(*((60.0, 8 / 60), (120.0, 1 / 60)) * 20)[::-1]])
    stays, short = np.array([60.0]), np.array([np.nan])
    assert np.isnan(recurring.look(needs, stays, stays).need_rps[0])
    assert recurring.look(needs, stays, short).need_rps[0] == pytest.approx(8 / 60)
    assert recurring.look(5 * needs, stays, stays).need_rps[0] == pytest.approx(40 / 60)


def test_a_row_says_the_same_alone_and_beside_others() -> None:
    rows = [hour(*HABIT), hour((3600.0, 5.0)), hour(*HABIT, (180.0, 0.0)), hour(*HABIT, (60.0, 30.0))]
    together = recurring.look(np.array([needs[::-1] for needs in rows]), np.full(4, 60.0)).need_rps
    assert together.tolist() == pytest.approx([expected(needs) for needs in rows], nan_ok=True)


@pytest.mark.parametrize(
    ("hour_rps", "before_rps", "told_rps"),
    [(16.0, 20.0, 20.0), (20.0, 16.0, 20.0), (16.0, 24.0, 16.0), (24.0, 16.0, 24.0), (16.0, np.nan, 16.0)],
    ids=["a fifth lower by chance", "a fifth higher", "other bursts, lower", "other bursts, higher", "nothing known"],
)
def test_what_bursts_need_is_told_by_six_hours_unless_the_last_one_contradicts(
    hour_rps: float, before_rps: float, told_rps: float
) -> None:
    """Of five hours before, bursts of a minute in three needed `before_rps`; the twentieth of all six decides."""
    spells = [hour(*((60.0, need), (120.0, 0.0)) * 20) for need in (*[before_rps] * 5, hour_rps)]
    needs = np.array([np.concatenate(spells)[::-1]])
    assert recurring.remembered(np.array([hour_rps]), needs, ratio=1.3).tolist() == [told_rps]


@cache
def _hour() -> Story:
    load = Toy.of(2, lambda t: 16.0 if t % 360.0 < 120.0 else 0.2, queue=30.0)
    story = Story(load, Params(tick_s=10.0, warmup_prior_s=120.0, max_replicas=60))
    story.run(3600.0)
    return story


def bursting() -> Story:
    """After an hour of two replicas' worth for two minutes of every six; a start takes two minutes."""
    return copied(_hour())


def test_what_the_bursts_need_is_kept_through_the_gaps() -> None:
    story = bursting()
    gaps = [d for d in story.run(1800.0) if d.now_s % 360.0 > 180.0]
    assert {d.replicas for d in gaps} <= {8, 9, 10}


def test_while_a_burst_lasts_the_forecast_stays_what_bursts_need() -> None:
    """A start takes ten minutes, the bursts of 16 requests/s one of every three; a higher one is gone before it lands.

    Neither the level of a model in the midst of a burst nor how it climbs says anything of ten minutes later.
    """
    load = Toy.of(10, lambda t: (22.0 if 7200.0 <= t < 7260.0 else 16.0) if t % 180.0 < 60.0 else 0.2, warmup_s=600.0)
    story = Story(load, Params(tick_s=10.0, warmup_prior_s=600.0, max_replicas=60))
    story.run(5400.0)
    bounds_rps = set()
    for _ in range(240):
        story.tick()
        bounds_rps.add(round(float(story.table.forecaster.out.upper_rps[0]), 1))
    assert bounds_rps == {16.0}
    assert {decision.replicas for decision in story.told[-240:]} == {8}


def test_when_the_bursts_stay_away_the_replicas_go() -> None:
    story = bursting()
    story.toy.load = lambda _s: 0.2
    assert story.run(1500.0)[-1].replicas == 1


def test_a_load_that_stays_is_followed_beyond_the_habit() -> None:
    story = bursting()
    story.toy.load = lambda _s: 60.0
    assert story.run(900.0)[-1].replicas >= 30
