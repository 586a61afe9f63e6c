"""GPU memory held against GPUs computing, and what was held beyond need."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.preflight import given as facts
from autoscaler.preflight.answers import Measured
from autoscaler.preflight.given import Given, slots
from autoscaler.preflight.history import WorkloadHistory
from autoscaler.preflight.offered import in_flight
from autoscaler.preflight.provision import highest_before, needed_replicas, provision
from autoscaler.preflight.residency import residency
from tests.preflight.builders import DAY, GONE, HOUR, history, track, value, why


def held(made: WorkloadHistory, given: Given | None = None):
    return residency(made, slots(made, given or Given()))


def test_three_of_four_replicas_computing_is_three_quarters() -> None:
    assert value(held(history()).computing) == 0.75


def test_an_unknown_step_counts_neither_as_held_nor_as_computing() -> None:
    busy = np.full(100, 4.0)
    busy[50:] = np.nan
    found = held(history(100, busy_replicas=track(busy))).computing
    assert value(found) == 1.0
    assert found.window.unknown_s == 1500.0


def test_without_busy_replicas_running_requests_bound_them() -> None:
    # 4 replicas, 2 requests: at most 2 compute; with 16 slots each, the requests fill an eighth of one.
    made = history(100, busy_replicas=GONE, running=track(np.full(100, 2.0)))
    found = held(made, Given(slots=16.0)).computing
    assert isinstance(found, Measured)
    assert (found.low, found.high) == pytest.approx((0.03125, 0.5))


def test_busy_replicas_that_were_never_known_leave_it_to_running_requests() -> None:
    made = history(100, busy_replicas=track(np.full(100, np.nan)), running=track(np.full(100, 2.0)))
    found = held(made, Given(slots=16.0)).computing
    assert isinstance(found, Measured)
    assert (found.low, found.high) == pytest.approx((0.03125, 0.5))


def test_without_slots_either_the_lower_bound_is_zero() -> None:
    made = history(100, busy_replicas=GONE, running=track(np.full(100, 2.0)))
    found = held(made).computing
    assert isinstance(found, Measured)
    assert (found.low, found.high) == (0.0, 0.5)


def test_hours_without_work_are_counted_in_replicas_and_the_longest_stretch_is_told() -> None:
    running = np.full(DAY, 16.0)
    running[0:HOUR] = 0.0
    running[5 * HOUR : 8 * HOUR] = 0.0
    found = held(history(DAY, running=track(running)))
    assert value(found.idle_hours) == pytest.approx(16.0), "four hours of four replicas"
    assert value(found.longest_idle) == 3 * 3600.0


def test_a_waiting_request_is_work_and_a_hole_is_no_idleness() -> None:
    quiet = history(DAY, running=track(np.zeros(DAY)), waiting=track(np.ones(DAY)))
    assert value(held(quiet).idle_hours) == 0.0
    unknown = np.zeros(DAY)
    unknown[HOUR:] = np.nan
    assert value(held(history(DAY, running=track(unknown))).longest_idle) == 3600.0


def test_without_a_record_of_who_waits_idle_hours_are_at_most_those_without_a_running_request() -> None:
    found = held(history(DAY, running=track(np.zeros(DAY)), waiting=GONE))
    assert isinstance(found.idle_hours, Measured)
    assert isinstance(found.longest_idle, Measured)
    assert (found.idle_hours.low, found.idle_hours.value, found.idle_hours.high) == (0.0, 96.0, 96.0)
    assert found.idle_hours.how.endswith("without a running request; whether requests waited is not known")
    assert found.longest_idle.low == 0.0
    assert "without a running request" in found.longest_idle.how


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"replicas": GONE}, "NOT_RECORDED"),
        ({"replicas": track(np.zeros(100))}, "NO_LOAD"),
        ({"busy_replicas": GONE, "running": GONE}, "NOT_RECORDED"),
        ({"busy_replicas": GONE, "running": track(np.full(100, np.nan))}, "TOO_MANY_HOLES"),
    ],
    ids=["replicas not recorded", "never a replica", "nothing tells compute", "never known together"],
)
def test_residency_that_cannot_be_told_says_why(given: dict[str, Any], reason: str) -> None:
    assert why(held(history(100, **given)).computing) == reason


def test_a_replica_is_kept_for_one_cold_start_after_its_last_use() -> None:
    demand = np.array([0.0, 9.0, 0, 0, 0, 0])
    # 9 requests on 8 slots need 2; a cold start of 60 s is two steps.
    assert needed_replicas(demand, 8.0, step_s=30.0, cold_start_s=60.0).tolist() == [0, 2, 2, 2, 0, 0]


@given(st.lists(st.one_of(st.integers(0, 9).map(float), st.just(np.nan)), min_size=1, max_size=60), st.integers(0, 70))
def test_the_highest_before_is_what_a_look_back_finds(values: list[float], steps: int) -> None:
    array = np.array(values)
    found = highest_before(array, steps)
    for at in range(array.size):
        back = array[max(0, at - steps) : at + 1]
        expected = np.nan if np.isnan(array[at]) else np.nanmax(back)
        np.testing.assert_equal(found[at], expected)


def provided(made: WorkloadHistory, given: Given):
    return provision(
        made, in_flight(made), slots=facts.slots(made, given), cold_start=facts.cold_start(made, given),
        gpus=facts.gpus_per_replica(made, given), price=facts.price(made, given),
    )  # fmt: skip


def test_four_replicas_of_two_gpus_for_a_day_where_two_are_needed_waste_half() -> None:
    # 16 in flight on 8 slots: 2 replicas. Held 4 * 2 * 24 = 192 GPU-hours, needed 96, at 3 a GPU-hour 288.
    found = provided(history(DAY), Given(slots=8.0, price_per_gpu_hour={"": 3.0}))
    assert [value(part) for part in (found.held, found.needed, found.wasted, found.short, found.cost)] == pytest.approx(
        [192.0, 96.0, 96.0, 0.0, 288.0]
    )


def test_what_is_missing_at_noon_is_not_made_good_by_what_is_held_at_night() -> None:
    running = np.concatenate((np.full(12 * HOUR, 8.0), np.full(12 * HOUR, 48.0)))
    found = provided(history(DAY, running=track(running)), Given(slots=8.0))
    # 1 and 6 replicas needed, 4 held: 3 * 2 * 12 = 72 beyond (less the cold start), 2 * 2 * 12 = 48 missing.
    assert value(found.wasted) == pytest.approx(72.0)
    assert value(found.short) == pytest.approx(48.0)


@pytest.mark.parametrize(
    ("made", "given", "field", "reason"),
    [
        ({"replicas": GONE}, {"slots": 8.0}, "held", "NOT_RECORDED"),
        ({"gpus_per_replica": None}, {"slots": 8.0}, "held", "NO_GPUS"),
        ({}, {}, "needed", "NO_CAPACITY"),
        ({"cold_start": GONE}, {"slots": 8.0}, "needed", "NO_COLD_START"),
        ({"running": GONE, "duration": GONE}, {"slots": 8.0}, "wasted", "NOT_RECORDED"),
        ({}, {"slots": 8.0}, "cost", "NO_PRICE"),
    ],
    ids=["no replicas", "no GPUs", "no slots", "no cold start", "no demand", "no price"],
)
def test_waste_that_cannot_be_told_says_why(
    made: dict[str, Any], given: dict[str, Any], field: str, reason: str
) -> None:
    assert why(getattr(provided(history(DAY, **made), Given(**given)), field)) == reason
