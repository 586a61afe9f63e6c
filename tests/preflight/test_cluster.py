"""All workloads together: sums with holes, what sharing saves, and what cannot be added."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autoscaler.preflight.bands import Bands
from autoscaler.preflight.cluster import Cluster, ClusterStudy
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Fact, WorkloadHistory
from autoscaler.preflight.offered import Demand
from autoscaler.preflight.study import study
from autoscaler.preflight.summing import Joint
from tests.preflight.builders import DAY, GONE, HOUR, STEP_S, history, spread, track, value, wave, why

SLOTS = Given(slots=8.0)


def together(*made: WorkloadHistory, given: Given = SLOTS) -> ClusterStudy:
    cluster = Cluster()
    for one in made:
        cluster.add(*study(one, given))
    return cluster.finish()


def bands(found: ClusterStudy) -> Bands:
    assert isinstance(found.bands, Bands), found.bands
    return found.bands


def test_two_steady_loads_add_up_and_sharing_saves_nothing() -> None:
    found = together(history(workload="a"), history(workload="b"))
    # 16 in flight on 8 slots are 2 replicas of 2 GPUs each.
    assert (found.unit, value(bands(found).floor)) == ("GPUs", 8.0)
    assert value(found.floor.apart) == 8.0
    assert value(found.ceiling.gain) == pytest.approx(0.0)


def test_a_day_load_and_a_night_load_share_what_they_peak_at() -> None:
    day = wave(3, low=0.0, high=32.0)
    found = together(
        history(workload="day", running=track(day)),
        history(workload="night", running=track(32.0 - day)),
    )
    # Apart 8 GPUs each at the peak, together never more than 8.
    assert value(found.ceiling.joint) == pytest.approx(8.0)
    assert value(found.ceiling.apart) == pytest.approx(16.0, rel=1e-3)
    assert value(found.ceiling.gain) == pytest.approx(0.5, abs=1e-3)
    assert value(found.floor.joint) == pytest.approx(8.0)
    assert value(found.floor.apart) == pytest.approx(0.1, abs=0.02), "apart, each has next to nothing at its quietest"


def test_a_hole_in_one_small_workload_is_no_hole_in_the_sum_and_no_dip() -> None:
    small = np.full(3 * DAY, 0.5)
    small[HOUR:DAY] = np.nan
    found = together(history(workload="large"), history(workload="small", running=track(small)))
    assert bands(found).floor.window.unknown_s == 0.0  # type: ignore[union-attr]
    assert value(bands(found).floor) == pytest.approx(16.5 * 2 / 8)


def test_a_hole_in_a_large_workload_is_one_in_the_sum() -> None:
    large = np.full(3 * DAY, 16.0)
    large[HOUR : 2 * HOUR] = np.nan
    joint = Joint("x")
    for name, values in (("large", large), ("small", np.ones(3 * DAY))):
        joint.add(name, values, start_s=0.0, step_s=STEP_S, per_request=1.0)
    demand = joint.demand()
    assert isinstance(demand, Demand)
    assert np.flatnonzero(np.isnan(demand.values)).tolist() == list(range(HOUR, 2 * HOUR))
    assert demand.window.unknown_s == 3600.0


def test_records_that_begin_at_different_times_are_laid_over_each_other() -> None:
    joint = Joint("x")
    joint.add("late", np.full(6, 2.0), start_s=4 * STEP_S, step_s=STEP_S, per_request=1.0)
    joint.add("early", np.full(10, 1.0), start_s=2 * STEP_S, step_s=STEP_S, per_request=1.0)
    demand = joint.demand()
    assert isinstance(demand, Demand)
    assert demand.values.tolist() == [3.0] * 6, "before and after it, a third or more of the load is unknown"
    assert (demand.window.from_s, demand.window.until_s, demand.window.unknown_s) == (4 * STEP_S, 10 * STEP_S, 0.0)


def test_a_trace_and_a_cluster_s_past_have_no_moment_in_common_and_the_later_one_is_left_out() -> None:
    past = history(workload="past", running=track(np.full(3 * DAY, 8.0)))
    found = together(history(workload="trace"), replace(past, start_s=1.76e9))
    assert found.left_out == ("past",)
    assert value(bands(found).floor) == 4.0


def test_records_that_are_known_together_now_and_then_cannot_be_added() -> None:
    odd = np.where(np.arange(100) % 3 == 0, 1.0, np.nan)
    joint = Joint("x")
    joint.add("odd", odd, start_s=0.0, step_s=STEP_S, per_request=1.0)
    joint.add("whole", np.ones(100), start_s=0.0, step_s=STEP_S, per_request=1.0)
    refused = joint.demand()
    assert why(refused) == "TOO_MANY_HOLES"
    assert "for 34 % of the window only" in refused.text  # type: ignore[union-attr]


def test_another_grid_is_left_out_by_name() -> None:
    found = together(history(workload="a"), history(1000, workload="coarse", step_s=60.0))
    assert found.left_out == ("coarse",)
    assert found.workloads == 2


def test_a_workload_that_nobody_asks_anything_adds_its_waste_and_nothing_else() -> None:
    silent = track(np.zeros(3 * DAY))
    found = together(history(workload="a"), history(workload="idle", running=silent, busy_replicas=silent))
    assert (found.unit, value(bands(found).floor)) == ("GPUs", 4.0)
    assert value(found.provision.wasted) == pytest.approx(3 * (96.0 + 192.0))


@pytest.mark.parametrize(
    ("made", "unit"),
    [
        ({}, "GPUs"),
        ({"gpus_per_replica": None}, "requests in flight"),
        ({"running": GONE, "duration": GONE}, "requests/s"),
    ],
    ids=["all know their GPUs", "one does not", "one knows arrivals only"],
)
def test_the_sum_is_in_the_best_unit_that_all_of_them_have(made: dict[str, Any], unit: str) -> None:
    assert together(history(workload="a"), history(workload="b", **made)).unit == unit


def test_the_sum_s_cold_start_is_the_slowest_one_s() -> None:
    slow = history(workload="slow", cold_start=spread([600.0], [20], exact=True))
    found = together(history(workload="a"), slow)
    assert value(found.cold_start) == 600.0
    assert bands(found).width_s == 600.0


def test_hours_are_added_over_those_that_can_tell_and_counted() -> None:
    found = together(history(workload="a"), history(workload="b", gpus_per_replica=None))
    assert value(found.provision.held) == pytest.approx(3 * 192.0)
    assert found.provision.held.count == 1  # type: ignore[union-attr]
    assert "1 of 2 workloads" in found.provision.held.how  # type: ignore[union-attr]


def test_the_window_of_added_hours_is_that_of_all_workloads_and_so_is_its_unknown_share() -> None:
    later = replace(history(workload="later", steps=DAY, replicas=track([np.nan] * HOUR * 12 + [4.0] * HOUR * 12)),
                    start_s=2.5 * 86_400.0)  # fmt: skip
    window = together(history(workload="first"), later).provision.held.window  # type: ignore[union-attr]
    assert (window.from_s, window.until_s) == (0.0, 3.5 * 86_400.0)
    # Half a day of the four workload-days is unknown.
    assert window.unknown_s == pytest.approx(3.5 * 86_400.0 * 0.5 / 4.0)


def test_computing_is_weighted_by_what_is_held() -> None:
    small = history(workload="small", replicas=track(np.ones(3 * DAY)), busy_replicas=track(np.zeros(3 * DAY)))
    found = together(history(workload="large"), small)
    # 3 of 4 and 0 of 1 replicas compute.
    assert value(found.computing) == pytest.approx(3 / 5)


def test_the_mix_is_the_share_of_the_demand() -> None:
    found = together(
        history(workload="a", facts={Fact.WORK: "batch"}),
        history(workload="b", facts={Fact.PRIORITY_CLASS: "serving"}, running=track(np.full(3 * DAY, 32.0))),
        history(workload="c"),
    )
    assert dict(found.work) == pytest.approx({"batch": 0.25, "inference": 0.5, "not named": 0.25})


def test_the_longest_wait_is_told_with_whose_it_is() -> None:
    slow = history(workload="slow", queue_wait=spread([60.0], [100], exact=True))
    found = together(history(workload="a"), slow)
    assert (value(found.longest_wait), found.longest_wait_of) == (60.0, "slow")


def test_workloads_that_say_nothing_at_all_say_so_together() -> None:
    blank = history(running=GONE, waiting=GONE, arrivals_per_s=GONE, replicas=GONE, busy_replicas=GONE, queue_wait=GONE)
    found = together(blank)
    assert {why(part) for part in (found.bands, found.bursts)} == {"NO_LOAD"}
    assert {why(found.computing), why(found.longest_wait), why(found.provision.held)} == {"NOT_RECORDED"}
    assert found.capacity_for == ()
    assert found.work == ()
