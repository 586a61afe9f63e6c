"""By how much demand is expected to fall, and when: whole slots, by two pasts that have to agree."""

import math

import numpy as np
import pytest

from autoscaler.core.pool.ebb import Ebb, ebbs
from autoscaler.core.pool.history import DemandHistory, noted
from tests.core.pool.builders import DAY_BINS, EVENING, days, known


def at(history: DemandHistory) -> float:
    assert history.last_bin is not None
    return history.last_bin * 60.0


@pytest.mark.parametrize(
    ("hour", "expected"),
    [
        pytest.param(3.0, [], id="at night nothing falls"),
        pytest.param(10.0, [], id="the evening is more than eight hours away"),
        pytest.param(
            14.0, [Ebb(28_800.0, 8, 8)], id="eight hours ahead it has fallen, four hours ahead it has not"
        ),
        pytest.param(17.9, [Ebb(14_400.0, 8, 8)], id="two hours ahead are too soon"),
        pytest.param(21.5, [], id="it has fallen"),
    ],
)  # fmt: skip
def test_demand_that_falls_every_evening_is_expected_to_fall_this_evening(hour: float, expected: list[Ebb]) -> None:
    history = days(EVENING, 6, hour)
    assert list(ebbs(history, at(history))) == expected


def test_before_most_of_a_day_is_known_nothing_is_foretold() -> None:
    for count, hour in ((0, 18.0), (0, 23.9)):
        history = days(EVENING, count, hour)
        assert ebbs(history, at(history)) == ()
    assert ebbs(known(3.0, hours=1.0).history, 3600.0) == ()
    assert ebbs(DemandHistory(), 0.0) == ()


def test_demand_that_is_not_known_now_falls_nowhere() -> None:
    history = days(EVENING, 6, 14.0)
    assert ebbs(history, at(history)) != ()
    unknown = noted(history, at(history) + 60.0, None)
    assert math.isnan(unknown.level)
    assert ebbs(unknown, at(unknown)) == ()


def test_a_spike_at_this_instant_foretells_no_fall_that_other_days_did_not_have() -> None:
    """Thirty slots at three in the afternoon, where there were ten: eight went in the evening of each day."""
    history = days(EVENING, 6, 15.0, level=30.0)
    assert ebbs(history, at(history)) == (Ebb(28_800.0, 8, 8),)
    assert ebbs(days(EVENING, 6, 3.0, level=30.0), at(days(EVENING, 6, 3.0))) == ()


def test_a_day_on_which_little_is_there_has_little_to_fall() -> None:
    """Five slots instead of ten: three go where the evening has two, though eight went on other days."""
    history = days(EVENING, 6, 15.0, level=5.0)
    assert ebbs(history, at(history)) == (Ebb(28_800.0, 3, 3),)


def test_what_falls_on_six_days_of_ten_is_usual_and_not_sure() -> None:
    high = np.full(DAY_BINS, 10.0)
    low = high.copy()
    low[20 * 60 :] = 2.0
    levels = np.concatenate([low if day % 5 < 3 else high for day in range(10)] + [high[: 14 * 60]])
    history = DemandHistory(levels.size, levels, levels, 10.0, 10.0)
    assert ebbs(history, at(history)) == (Ebb(28_800.0, 8, 0),)


def test_a_dip_of_ten_minutes_every_hour_is_no_fall() -> None:
    """Whoever started in it would be in the way before it had begun."""
    minutes = np.arange(6 * DAY_BINS)
    levels = np.where(minutes % 60 < 10, 2.0, 10.0)
    history = DemandHistory(levels.size, levels, levels, 10.0, 10.0)
    assert ebbs(history, at(history)) == ()


def test_minutes_that_nobody_saw_foretell_nothing() -> None:
    """Every night was missed: that demand was ten before says nothing of what it fell to."""
    history = days(EVENING, 6, 15.0)
    levels = history.levels.copy()
    hours = np.arange(levels.size) % DAY_BINS / 60
    levels[(hours >= 20) | (hours < 8)] = np.nan
    holes = DemandHistory(history.last_bin, levels, levels, history.level, history.peak)
    assert ebbs(holes, at(holes)) == ()
