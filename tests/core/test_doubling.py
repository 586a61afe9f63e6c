"""Pauses that double have an end, however long the trouble lasts."""

import pytest

from autoscaler.core.doubling import doubled


@pytest.mark.parametrize(
    ("times", "pause_s"), [(0, 5.0), (1, 10.0), (6, 320.0), (7, 600.0), (1023, 600.0), (1024, 600.0), (10**9, 600.0)]
)
def test_a_pause_of_five_seconds_doubles_up_to_ten_minutes_and_stays_there(times: int, pause_s: float) -> None:
    assert doubled(5.0, times, 600.0) == pause_s
