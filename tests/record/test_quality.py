"""Forecast quality: the band that chance allows, the alarm beyond it, and the model in force with its reason."""

from dataclasses import replace

import pytest

from autoscaler.core.view import View
from autoscaler.record.quality import Drift, binomial_band, quality_of

SKILL = (("last", 1.0), ("holt", 0.97), ("ridge", 1.08), ("trees", None))
VIEW = View(
    "prod/chat", 0.0, 12.0, 0.0, 4, 0, 4, 4.0, "proven", 60.0, 90.0, 3, 19.0, 15.0, "holt", 0.95, 0.95, SKILL,
    ("ridge",), 0.1, 0.0, (), None, asked_ratio=0.95, scored_bins=1000.0,
)  # fmt: skip
"""1000 bins of ten seconds, looking 100 s ahead: a hundred forecasts that do not overlap."""


@pytest.mark.parametrize(
    ("count", "share", "least", "most"),
    [
        # 0.5^10 = 1/1024 for none, 11/1024 for at most one: more than 0.5 %, so one of ten is the least.
        (10, 0.5, 0.1, 0.9),
        # 0.9^20 = 12 % that all hold; at most 13: 0.24 %, at most 14: 1.13 %.
        (20, 0.9, 0.7, 1.0),
        (20, 1.0, 1.0, 1.0),
        (1, 0.5, 0.0, 1.0),
    ],
)
def test_the_band_is_what_comes_about_by_chance_in_99_of_100_cases(
    count: int, share: float, least: float, most: float
) -> None:
    assert binomial_band(count, share) == pytest.approx((least, most))


@pytest.mark.parametrize(
    ("coverage", "drift"),
    [(0.95, None), (0.89, None), (0.86, Drift.MISSES), (1.0, None)],
    ids=["as asked", "a little low", "far too low", "all of a hundred held"],
)
def test_an_alarm_is_raised_where_chance_does_not_explain_what_held(coverage: float, drift: Drift | None) -> None:
    """Of a hundred at 95 %: 88 or fewer in 0.4 % of cases, all hundred in 0.59 %."""
    told = quality_of(replace(VIEW, coverage_ratio=coverage), 100.0)
    assert told.drift == (None if drift is None else drift.name)
    assert told.band == pytest.approx((0.89, 1.0))


def test_bounds_that_hold_far_too_often_keep_more_ready_than_was_asked_for() -> None:
    told = quality_of(replace(VIEW, coverage_ratio=1.0, asked_ratio=0.85), 100.0)
    assert told.drift == Drift.IDLE.name
    assert "more is kept ready than was asked for" in told.text


def test_forecasts_that_look_far_ahead_are_few_that_do_not_overlap_and_raise_no_alarm() -> None:
    """1000 bins of ten seconds are ten thousand seconds: ten forecasts of 1000 s, and below ten no band at all."""
    assert quality_of(replace(VIEW, coverage_ratio=0.6), 1001.0).band is None
    assert quality_of(replace(VIEW, coverage_ratio=0.6), 1001.0).drift is None
    assert quality_of(VIEW, 1000.0).scored == 10.0


def test_the_model_in_force_says_why_and_one_that_loses_is_off_and_says_by_how_much() -> None:
    told = quality_of(VIEW, 100.0)
    assert [(score.model, score.state) for score in told.models] == [
        ("last", "tried"), ("holt", "leads"), ("ridge", "off"), ("trees", "untried"),
    ]  # fmt: skip
    assert told.text == "Damped trend leads: its loss is 0.97 of last value's; switched off: ridge regression (1.08)"


def test_when_all_others_are_off_last_value_leads_and_that_is_an_alarm() -> None:
    view = replace(VIEW, forecast_model="last", switched_off=("holt", "ridge"))
    told = quality_of(replace(view, skill_ratio=(("last", 1.0), ("holt", 1.1), ("ridge", 1.08))), 100.0)
    assert told.drift == Drift.LOSING.name
    assert told.text.startswith(
        "Last value leads: no other model beats it, and all others are switched off: damped trend (1.1)"
    )


def test_before_anything_is_scored_nothing_is_called_good_or_bad() -> None:
    view = replace(VIEW, coverage_ratio=None, asked_ratio=None, scored_bins=0.0, forecast_model="last")
    told = quality_of(replace(view, skill_ratio=(("last", None), ("holt", None)), switched_off=()), 100.0)
    assert (told.band, told.drift) == (None, None)
    assert told.text == "Last value leads: nothing was scored yet"
