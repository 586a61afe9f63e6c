"""Requests in flight: as recorded, else from arrivals and durations; never a rate in their place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.preflight.offered import IN_FLIGHT, Demand, arriving, in_flight, offered_load
from autoscaler.preflight.requests import durations_s, ramp_s, running, spread
from autoscaler.sim.serving.profile import Profile
from tests.preflight import builders
from tests.preflight.builders import GONE, STEP_S, history, track, why


def test_those_that_wait_are_in_flight_too() -> None:
    found = in_flight(history(4, running=track([16, 16, 8, np.nan]), waiting=track([4, 0, 0, 0])))
    assert isinstance(found, Demand)
    assert found.values.tolist()[:3] == [20, 16, 8]
    assert np.isnan(found.values[3])
    assert (found.unit, found.window.unknown_s) == (IN_FLIGHT, 30.0)


def test_an_unknown_queue_makes_the_step_unknown_and_a_queue_never_recorded_is_said_to_be_missing() -> None:
    found = in_flight(history(4, waiting=track([np.nan, 0, 0, 0])))
    assert isinstance(found, Demand)
    assert np.isnan(found.values[0])
    found = in_flight(history(4, waiting=GONE))
    assert isinstance(found, Demand)
    assert "those that waited are not known" in found.how


def test_without_a_gauge_little_s_law_takes_its_place() -> None:
    # 4 per second, each for 6 seconds exactly: 24 in flight.
    taken = builders.spread([6.0], [100], exact=True)
    found = in_flight(history(8, running=GONE, duration=taken))
    assert isinstance(found, Demand)
    assert found.values[1:].tolist() == pytest.approx([24.0] * 7)
    assert np.isnan(found.values[0]), "a tenth of its load came before the record"


def test_without_durations_a_rate_is_not_passed_off_as_requests_in_flight() -> None:
    found = in_flight(history(8, running=GONE, duration=GONE))
    assert why(found) == "NOT_RECORDED"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([np.nan] * 10 + [1.0] * 6, "TOO_MANY_HOLES"),
        ([np.nan] * 16, "TOO_MANY_HOLES"),
        ([np.nan] * 5 + [1.0] * 3, "TOO_SHORT"),
    ],
    ids=["mostly unknown", "nothing is known", "four minutes in all"],
)
def test_what_is_mostly_unknown_is_refused(values: list[float], reason: str) -> None:
    assert why(arriving(history(len(values), arrivals_per_s=track(values)))) == reason


def test_that_nothing_came_is_known() -> None:
    found = arriving(history(8, arrivals_per_s=track(np.zeros(8))))
    assert isinstance(found, Demand)
    assert found.values.tolist() == [0.0] * 8


def test_a_request_that_outlasts_its_step_is_spread_over_those_that_follow() -> None:
    # 1 per second for one step of 30 s, each for 60 s exactly: in all 30 * 60 = 1,800 request-seconds. A request that
    # arrives anywhere in step 0 is half of step 0 in flight, all of step 1, half of step 2: means 15, 30, 15.
    arrivals = np.array([0.0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    load = offered_load(arrivals, builders.spread([60.0], [1], exact=True), STEP_S)
    assert load[3:7].tolist() == pytest.approx([15.0, 30.0, 15.0, 0.0], abs=0.5)
    assert np.nansum(load) * STEP_S == pytest.approx(1800.0, rel=1e-6)


def test_a_hole_in_the_arrivals_stays_one_for_as_long_as_their_requests_run() -> None:
    arrivals = np.ones(40)
    arrivals[10] = np.nan
    load = offered_load(arrivals, builders.spread([60.0], [1], exact=True), STEP_S)
    assert np.flatnonzero(np.isnan(load)).tolist() == [0, 1, 10, 11, 12]


@settings(deadline=None)
@given(st.floats(0.01, 600.0), st.floats(0.1, 50.0))
def test_a_steady_rate_is_rate_times_mean_duration_whatever_the_step(mean_s: float, rate: float) -> None:
    taken = builders.spread([0.5 * mean_s, 1.5 * mean_s], [1, 1], exact=True)
    load = offered_load(np.full(200, rate), taken, STEP_S)
    assert load[100] == pytest.approx(rate * mean_s, rel=1e-6)


def test_requests_of_a_trace_are_counted_for_as_long_as_they_run() -> None:
    # Two requests: 0-15 s and 10-70 s. Steps of 30 s hold 15 + 20, 30 and 10 request-seconds.
    found = running(np.array([0.0, 10.0]), np.array([15.0, 60.0]), steps=3, step_s=30.0)
    assert (found * 30.0).tolist() == pytest.approx([35.0, 30.0, 10.0])


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0, 100)), min_size=1, max_size=30))
def test_request_seconds_are_neither_lost_nor_made(pairs: list[tuple[float, float]]) -> None:
    arrival = np.sort(np.array([pair[0] for pair in pairs]))
    took = np.array([pair[1] for pair in pairs])
    found = running(arrival, took, steps=20, step_s=30.0)
    assert found.sum() * 30.0 == pytest.approx(took.sum(), abs=1e-6)
    assert found.max() <= len(pairs) + 1e-9


def test_a_record_s_beginning_lacks_what_began_before_it_for_as_long_as_that_matters() -> None:
    # A hundred requests of 1 s and one of 100 s: half of the load is the long one's. Its age beyond t matters while
    # 100 - t is more than 5 % of 200, so up to 90 s; the next one that is shorter lasts 1 s, so 100 s is taken.
    assert ramp_s(np.array([1.0] * 100 + [100.0])) == 100.0
    assert ramp_s(np.array([5.0, 5.0])) == 5.0
    assert ramp_s(np.array([0.0])) == 0.0


def test_a_profile_tells_how_long_a_request_runs_on_a_full_replica() -> None:
    profile = Profile("toy", "made by hand", ((100, 0.1), (200, 0.2)), ((1, 0.01), (4, 0.02)), 4, 10_000)
    # 0.2 s of prefill, then 9 steps of a batch of four, 0.02 s each; a single token needs the prefill only.
    found = durations_s(np.array([200.0, 100.0]), np.array([10.0, 1.0]), profile)
    assert found.tolist() == pytest.approx([0.38, 0.1])


def test_a_distribution_of_many_durations_keeps_their_quantiles_and_their_number() -> None:
    took = np.arange(1.0, 10_001.0)
    found = spread(took, "made by hand")
    assert found.counts.sum() == 10_000
    assert found.edges_s.size == 400
    assert found.edges_s[199] == pytest.approx(5_000.0)
