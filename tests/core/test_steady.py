"""The bound without its jitter: held at its mean, raised at once, and let down within a fifth of the lead time."""

import numpy as np
import pytest

from autoscaler.core.columns import F64
from autoscaler.core.forecast import steady

TEN_MINUTES = np.array([60])
ONE_MINUTE = np.array([6])


def followed(bounds: list[float], horizon_bins: np.ndarray = TEN_MINUTES) -> list[float]:
    """What stands at each of these bounds, one after the other, from the first on."""
    held: F64 = np.array([np.nan])
    stood = []
    for bound in bounds:
        held = steady.follow(held, np.array([bound]), horizon_bins)
        stood.append(float(held[0]))
    return stood


def test_the_first_bound_stands_as_it_is() -> None:
    assert followed([24.0]) == [24.0]


def test_a_bound_that_wavers_by_four_percent_over_ten_minutes_stands_still_to_one() -> None:
    stood = followed([24.0, 25.0] * 60)[60:]
    assert max(stood) - min(stood) < 0.25
    assert min(stood) > 24.25
    assert max(stood) < 24.75


def test_a_bound_that_jumps_by_half_is_followed_at_once_but_for_a_twentieth() -> None:
    assert followed([24.0] * 60 + [36.0])[-1] >= 36.0 / 1.05


def test_a_bound_that_jumped_and_stays_is_reached_within_its_lead_time() -> None:
    assert followed([24.0] * 60 + [36.0] * 60)[-1] == pytest.approx(36.0, rel=0.001)


def test_what_is_over_is_let_go_of_by_two_thirds_within_two_minutes_of_ten() -> None:
    stood = followed([36.0] * 60 + [24.0] * 12)
    assert 27.0 < stood[-1] < 29.0


def test_over_a_lead_time_of_a_minute_a_bound_falls_within_half_a_minute() -> None:
    assert followed([36.0] * 60 + [24.0] * 3, ONE_MINUTE)[-1] < 24.5


def test_what_is_not_known_of_one_workload_says_nothing_of_another() -> None:
    held = steady.follow(np.array([np.nan, 30.0]), np.array([24.0, 30.0]), np.array([60, 60]))
    assert held.tolist() == [24.0, 30.0]
