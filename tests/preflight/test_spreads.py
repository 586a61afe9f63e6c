"""Quantiles of what was recorded as buckets: between the edges, and no number beyond the last one."""

import numpy as np
import pytest

from autoscaler.preflight.answers import Measured, Window
from autoscaler.preflight.spreads import answer, mean_of, quantile, survival_at
from tests.preflight.builders import GONE, spread, why

WINDOW = Window(0.0, 3600.0)


def told(found, level: float):
    return answer(found, level, WINDOW, what="queue waits", needed="a histogram")


@pytest.mark.parametrize(
    ("level", "expected"), [(0.25, 0.5), (0.5, 1.0), (0.75, 2.0), (1.0, 3.0)], ids=["p25", "p50", "p75", "p100"]
)
def test_within_a_bucket_values_are_evenly_spread(level: float, expected: float) -> None:
    assert quantile(spread([1.0, 3.0], [50, 50]), level).value_s == pytest.approx(expected)


def test_the_bucket_is_the_interval() -> None:
    found = told(spread([1.0, 3.0], [50, 50]), 0.9)
    assert isinstance(found, Measured)
    assert (found.low, found.high, found.count) == (1.0, 3.0, 100)


def test_observed_values_are_quantiles_themselves_with_ranks_for_an_interval() -> None:
    found = told(spread([float(i) for i in range(1, 101)], [1] * 100, exact=True), 0.5)
    assert isinstance(found, Measured)
    # 1.645 * sqrt(0.25 / 100) = 0.082: ranks 42 and 59.
    assert (found.value, found.low, found.high) == (50.0, 42.0, 59.0)


def test_beyond_the_last_edge_there_is_no_number() -> None:
    found = told(spread([1.0, np.inf], [50, 50]), 0.9)
    assert why(found) == "NOT_RECORDED"
    assert "p90 of queue waits lies above 1 s" in found.text


def test_nineteen_values_are_too_few() -> None:
    assert why(told(spread([1.0], [19]), 0.5)) == "TOO_FEW"
    assert isinstance(told(spread([1.0], [20]), 0.5), Measured)


def test_what_was_not_recorded_says_so() -> None:
    assert why(told(GONE, 0.5)) == "NOT_RECORDED"


def test_a_mean_is_of_the_buckets_middles_and_a_lower_bound_where_the_last_is_open() -> None:
    assert mean_of(spread([2.0, 4.0], [1, 1])) == pytest.approx(2.0)
    assert mean_of(spread([2.0, np.inf], [1, 1])) == pytest.approx(1.5)
    assert mean_of(spread([2.0, 4.0], [1, 1], exact=True)) == pytest.approx(3.0)
    assert np.isnan(mean_of(spread([2.0], [0])))


def test_the_share_above_an_age_falls_within_a_bucket() -> None:
    ages = np.array([0.0, 1.0, 2.0, 3.0, 9.0])
    assert survival_at(spread([2.0, 4.0], [1, 1]), ages).tolist() == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])
    assert survival_at(spread([2.0, 4.0], [1, 1], exact=True), ages).tolist() == pytest.approx([1, 1, 0.5, 0.5, 0])
