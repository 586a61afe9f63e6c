"""The histogram of durations: never below the truth, close above it, and merged without loss."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.traffic.histogram import RELATIVE_ERROR, Histogram

SECONDS = st.lists(st.floats(0.0, 90_000.0), min_size=1, max_size=200)


def filled(values: list[float]) -> Histogram:
    made = Histogram()
    for value in values:
        made.record(value)
    return made


@settings(deadline=None)
@given(SECONDS, st.floats(0.0, 1.0))
def test_a_percentile_is_not_below_the_truth_and_at_most_the_stated_error_above(values: list[float], q: float) -> None:
    truth = sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
    found = filled(values).quantile(q)
    assert found is not None
    assert truth <= found * (1 + 1e-12)
    assert found <= truth * (1.0 + RELATIVE_ERROR) + 1.1e-6


@settings(deadline=None)
@given(SECONDS, SECONDS)
def test_two_merged_are_one_of_all(left: list[float], right: list[float]) -> None:
    both, whole = filled(left), filled(left + right)
    both.merge(filled(right))
    assert (both.counts, both.count, both.most_s) == (whole.counts, whole.count, whole.most_s)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(both), type=Histogram) == both


def test_the_percentiles_of_many_latencies_are_those_of_numpy() -> None:
    values = np.random.default_rng(0).lognormal(-2.0, 1.0, 100_000)
    made = filled(values.tolist())
    for q in (0.5, 0.9, 0.99, 0.999):
        assert made.quantile(q) == pytest.approx(float(np.quantile(values, q)), rel=2 * RELATIVE_ERROR)


def test_nothing_recorded_has_no_percentile_and_a_negative_duration_is_refused() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram().told() == dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "p99.9", "max")) | {"count": 0}
    with pytest.raises(ValueError, match="-1"):
        Histogram().record(-1.0)
