"""Surges: when they begin and end, what cuts them, and how much of them an order could have met."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.preflight.answers import Window
from autoscaler.preflight.bursts import bursts
from autoscaler.preflight.episodes import find, reactive_capacity
from autoscaler.preflight.offered import IN_FLIGHT, Demand
from tests.preflight.builders import DAY, STEP_S, value, why

LEAD_S = 90.0


def demand(values: list[float] | np.ndarray) -> Demand:
    array = np.asarray(values, dtype=np.float64)
    unknown_s = float(np.isnan(array).sum()) * STEP_S
    return Demand(array, IN_FLIGHT, 1.0, Window(0.0, array.size * STEP_S, unknown_s), "made by hand")


def seen(values: list[float], capacity: float | list[float]):
    held = np.full(len(values), capacity) if isinstance(capacity, float) else np.array(capacity)
    return find(np.array(values), held, start_s=0.0, step_s=STEP_S, cold_start_s=LEAD_S)


def test_a_surge_of_two_steps_lasts_a_minute_and_holds_what_is_above_capacity() -> None:
    found = seen([5, 12, 14, 9, 5], 10.0)
    assert found.began_s.tolist() == [30.0]
    assert found.duration_s.tolist() == [60.0]
    assert found.cut.tolist() == [False]
    assert found.peak.tolist() == [14.0]
    # (12 - 10 + 14 - 10) * 30 s
    assert found.excess.tolist() == [180.0]
    assert found.early.tolist() == [180.0], "all of it within the first 90 s"


def test_what_comes_after_the_cold_start_is_not_early() -> None:
    found = seen([5, 12, 12, 12, 12, 5], 10.0)
    assert (found.excess.tolist(), found.early.tolist()) == ([240.0], [180.0])


def test_exactly_at_capacity_is_no_surge() -> None:
    assert seen([10, 10, 10], 10.0).began_s.size == 0


def test_capacity_that_comes_meanwhile_does_not_end_a_surge() -> None:
    found = seen([5, 12, 12, 12, 9, 5], [10, 10, 20, 20, 20, 20])
    assert found.duration_s.tolist() == [90.0], "it ends where the load is back at 10, not where 20 are ready"
    assert found.excess.tolist() == [180.0], "and is measured from 10 all the way"


def test_a_hole_cuts_a_surge_and_what_follows_is_another_one() -> None:
    found = seen([5, 12, np.nan, 12, 5], 10.0)
    assert found.cut.tolist() == [True, False]
    assert found.duration_s.tolist() == [30.0, 30.0]


def test_the_record_s_end_cuts_a_surge() -> None:
    assert seen([5, 12, 12], 10.0).cut.tolist() == [True]


def test_unknown_capacity_begins_nothing() -> None:
    assert seen([5, 12, 5], [10, np.nan, 10]).began_s.size == 0


def test_a_surge_of_days_is_passed_over_whole() -> None:
    values = [5.0] + [12.0] * 5000 + [5.0, 12.0, 5.0]
    assert seen(values, 10.0).duration_s.tolist() == [150_000.0, 30.0]


@given(st.lists(st.one_of(st.integers(0, 5).map(float), st.just(np.nan)), min_size=1, max_size=300), st.integers(0, 4))
def test_the_quick_search_finds_what_a_walk_finds(values: list[float], capacity: int) -> None:
    walked, at = [], 0
    while at < len(values):
        if not values[at] > capacity:
            at += 1
            continue
        begin = at
        while at < len(values) and values[at] > capacity:
            at += 1
        walked.append((begin * STEP_S, (at - begin) * STEP_S, at == len(values) or bool(np.isnan(values[at]))))
    found = seen(values, float(capacity))
    assert list(zip(found.began_s, found.duration_s, found.cut, strict=True)) == walked


def test_a_reactive_scaler_holds_the_last_cold_start_s_mean_and_two_roots_of_it() -> None:
    held = reactive_capacity(demand([16.0] * 5 + [100.0]), STEP_S, LEAD_S)
    # sqrt(16) = 4, twice that above 16 is 24; two of three steps have to be known.
    assert np.isnan(held[:2]).all()
    assert held[2:].tolist() == pytest.approx([24.0] * 4)


def test_chance_alone_makes_few_surges_and_ten_minute_steps_make_theirs() -> None:
    rng = np.random.default_rng(5)
    quiet = rng.poisson(50.0, DAY).astype(np.float64)
    stepped = quiet.copy()
    for begin in range(100, DAY - 100, 120):
        stepped[begin : begin + 20] += 60.0
    few, many = (
        find(v, reactive_capacity(demand(v), STEP_S, 180.0), start_s=0.0, step_s=STEP_S, cold_start_s=180.0)
        for v in (quiet, stepped)
    )
    assert few.began_s.size < 0.05 * DAY
    assert int((many.duration_s >= 570.0).sum()) >= 20, "23 steps of ten minutes"


def measured(values: np.ndarray, capacity: float, lead_s: float):
    held = np.full(values.size, capacity)
    return bursts(demand(values), held, level="ten", step_s=STEP_S, cold_start_s=lead_s)


def test_twenty_second_spikes_are_noise_against_three_minutes() -> None:
    values = np.full(DAY, 5.0)
    values[::60] = 40.0
    found = measured(values, 10.0, 180.0)
    assert value(found.over_before) == 1.0
    assert value(found.excess_before) == 1.0
    assert value(found.per_day) == pytest.approx(48.0)
    # Were one in 17 to outlast it, 48 of 48 would still be seen 5 % of the time: 0.05 ** (1 / 48) = 0.94.
    assert found.over_before.low == pytest.approx(0.9395, abs=1e-3)


def test_half_hour_rises_outlast_three_minutes_and_hold_the_excess() -> None:
    values = np.full(DAY, 5.0)
    for begin in range(0, DAY, 120):
        values[begin : begin + 60] = 15.0
    found = measured(values, 10.0, 180.0)
    assert value(found.over_before) == 0.0
    assert found.over_before.high == pytest.approx(1 - 0.05 ** (1 / 24))
    assert value(found.excess_before) == pytest.approx(0.1), "3 of 30 minutes"


def test_a_mixture_is_told_in_its_shares_with_an_interval_around_them() -> None:
    values = np.full(DAY, 5.0)
    for number, begin in enumerate(range(0, DAY - 60, 60)):
        values[begin : begin + (2 if number % 4 else 20)] = 15.0
    found = measured(values, 10.0, 180.0)
    share = found.over_before
    assert value(share) == pytest.approx(0.75, abs=0.02)
    assert share.low < 0.75 < share.high


@pytest.mark.parametrize(
    ("spikes", "words"),
    [(0, "no surge above capacity was seen"), (1, "only one surge"), (7, "only 7 surges were seen to end in 24 h")],
)
def test_too_few_surges_say_nothing_about_the_next_one(spikes: int, words: str) -> None:
    values = np.full(DAY, 5.0)
    values[100 : 100 + 10 * spikes : 10] = 40.0
    found = measured(values, 10.0, 180.0)
    assert why(found.over_before) == why(found.excess_before) == "TOO_FEW"
    assert words in found.over_before.text
    assert value(found.per_day) == pytest.approx(spikes)
    assert found.survival is None
