"""The traffic value: what it refuses, and what scaling and cutting keep."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.errors import InputError
from autoscaler.sim.traffic import Traffic, bin_counts


def traffic(arrivals=(1.0, 2.0, 0.0, 5.0), **changes) -> Traffic:
    fields: dict[str, Any] = {"name": "w", "step_s": 1.0, "arrivals": np.array(arrivals), "source": "a test"}
    return Traffic(**(fields | changes))


def requests(arrival_s=(0.0, 0.5, 1.25, 3.75)) -> Traffic:
    instants = np.array(arrival_s)
    tokens = np.arange(1.0, instants.size + 1)
    return traffic(bin_counts(instants, 4.0, 1.0), arrival_s=instants, prompt_tokens=tokens, output_tokens=tokens * 10)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"arrivals": np.array([1.0, np.nan])}, r"arrivals\[1\] is nan", id="a NaN count"),
        pytest.param({"arrivals": np.array([np.inf])}, r"arrivals\[0\] is inf", id="an infinite count"),
        pytest.param({"arrivals": np.array([-1.0])}, r"arrivals\[0\] is -1", id="a negative count"),
        pytest.param({"arrivals": np.array([])}, "arrivals is empty", id="no bin"),
        pytest.param({"arrivals": np.ones((2, 2))}, "arrivals has 2 dimensions", id="a matrix"),
        pytest.param({"step_s": 0.0}, "step_s is 0", id="a bin of no width"),
        pytest.param({"capacity_rps": 0.0}, "capacity_rps is 0", id="a replica that can do nothing"),
        pytest.param({"arrival_s": np.array([2.0, 1.0])}, "goes backwards", id="instants out of order"),
        pytest.param({"arrival_s": np.array([4.0])}, "after the last bin", id="an instant after the end"),
        pytest.param({"prompt_tokens": np.array([1.0])}, "prompt_tokens has 1", id="tokens without instants"),
    ],
)
def test_refuses_what_is_no_load(changes, named):
    with pytest.raises(InputError, match=named):
        traffic(**changes)


def test_keeps_its_own_copy_which_nobody_can_write():
    given_arrivals = np.array([1.0, 2.0])
    load = traffic(given_arrivals)
    given_arrivals[0] = 99.0
    assert load.arrivals.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        load.arrivals[0] = 5.0


def test_the_busiest_minute_may_begin_in_any_second():
    arrivals = np.zeros(300)
    arrivals[30:90] = 2.0
    assert traffic(arrivals).peak_minute_rps == 2.0


def test_the_busiest_minute_of_a_shorter_load_is_its_mean():
    assert traffic().peak_minute_rps == traffic().mean_rps == 2.0


def test_scaling_multiplies_counts_and_gives_up_whole_requests():
    scaled = requests().scaled_to_mean(3.0)
    assert scaled.mean_rps == pytest.approx(3.0)
    assert scaled.arrivals.tolist() == [6.0, 3.0, 0.0, 3.0]
    assert scaled.arrival_s is None
    assert scaled.prompt_tokens is None


def test_scaling_by_one_keeps_the_requests():
    assert requests().scaled_by(1.0).arrival_s is not None


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_refuses_a_scale_that_is_not_positive(factor):
    with pytest.raises(InputError, match="scale factor"):
        traffic().scaled_by(factor)


def test_an_empty_load_cannot_reach_a_mean():
    with pytest.raises(InputError, match="no request"):
        traffic([0.0, 0.0]).scaled_to_mean(1.0)


def test_a_window_starts_its_own_clock_for_bins_requests_and_onsets():
    part = Traffic(
        name="w", step_s=1.0, arrivals=requests().arrivals, source="a test", arrival_s=requests().arrival_s,
        prompt_tokens=requests().prompt_tokens, onsets_s=(0.5, 3.0),
    ).window(1.0, 4.0)  # fmt: skip
    assert part.arrivals.tolist() == [1.0, 0.0, 1.0]
    assert part.arrival_s is not None
    assert part.arrival_s.tolist() == [0.25, 2.75]
    assert part.prompt_tokens is not None
    assert part.prompt_tokens.tolist() == [3.0, 4.0]
    assert part.onsets_s == (2.0,)


@pytest.mark.parametrize("edges", [(0.5, 2.0), (2.0, 2.0), (0.0, 5.0), (-1.0, 2.0)])
def test_refuses_a_window_off_the_edges_of_its_bins(edges):
    with pytest.raises(InputError, match="window"):
        traffic().window(*edges)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=50), st.data())
def test_two_windows_that_meet_hold_all_requests(arrivals, data):
    load = traffic(arrivals)
    cut = data.draw(st.integers(1, len(arrivals) - 1))
    parts = load.window(0, cut).total + load.window(cut, len(arrivals)).total
    assert parts == pytest.approx(load.total)
