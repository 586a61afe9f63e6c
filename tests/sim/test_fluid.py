import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.sim.score import attainment
from autoscaler.sim.serving import ServingPod, Waits
from autoscaler.sim.serving.fluid import FluidServing


def serve(arrivals: list[float], pods: list[int], *, capacity_rps: float = 10.0) -> FluidServing:
    serving = FluidServing(capacity_rps, 2.0)
    for step, (new, count) in enumerate(zip(arrivals, pods, strict=True)):
        serving.set_pods(float(step), tuple(ServingPod(f"p{n}", 0.0) for n in range(count)))
        serving.offer(float(step), 1.0, new)
    return serving


def by_atoms(arrivals: list[float], pods: list[int], parts: int) -> np.ndarray:
    """Waits of a FIFO queue of equal small parcels, each step cut into `parts` slots: (arrival, wait, size) rows."""
    rows, line, slot_s = [], [], 1.0 / parts
    for step, (new, count) in enumerate(zip(arrivals, pods, strict=True)):
        for part in range(parts):
            now_s = step + (part + 0.5) * slot_s
            if new > 0:
                line.append([now_s, new * slot_s])
            capacity = count * 10.0 * slot_s
            while line and capacity > 1e-12:
                done = min(capacity, line[0][1])
                capacity -= done
                rows.append((line[0][0], now_s - line[0][0], done))
                line[0][1] -= done
                if line[0][1] <= 1e-12:
                    line.pop(0)
    end_s = float(len(arrivals))
    rows += [(at_s, end_s - at_s, size) for at_s, size in line]
    return np.array(rows).reshape(-1, 3)


def test_an_unloaded_replica_makes_nobody_wait():
    waits = serve([5.0, 10.0, 0.0, 3.0], [1, 1, 1, 1]).waits(4.0)
    assert waits.requests.sum() == pytest.approx(18.0)
    assert waits.wait_from_s.max() == 0.0
    assert waits.wait_to_s.max() == 0.0


def test_a_burst_of_one_second_waits_up_to_its_surplus_over_the_rate():
    waits = serve([30.0, 0.0, 0.0], [1, 1, 1]).waits(3.0)
    assert waits.wait_from_s[0] == 0.0
    assert max(waits.wait_to_s) == pytest.approx(2.0)  # the last of 30 arrives at 1 s and leaves at 3 s
    assert attainment(waits, 1.0) == pytest.approx(0.5)  # the wait grows evenly from 0 to 2 s


def test_a_queue_that_empties_inside_a_step_stops_making_people_wait_there():
    waits = serve([20.0, 5.0], [1, 1], capacity_rps=15.0).waits(2.0)
    late = np.maximum(waits.wait_from_s, waits.wait_to_s) > 1e-9
    # 5 left over at 1 s; served at 15 against 5 arriving, it is gone half a second later
    assert waits.to_s[late].max() == pytest.approx(1.5)


def test_unserved_work_carries_its_wait_so_far():
    waits = serve([10.0, 0.0, 0.0], [0, 0, 0]).waits(3.0)
    assert waits.wait_from_s[0] == pytest.approx(3.0)
    assert waits.wait_to_s[-1] == pytest.approx(2.0)
    assert attainment(waits, 2.5) == pytest.approx(0.5)
    assert attainment(waits, 3.0) == 1.0


def test_the_queue_shows_at_the_gateway_until_a_pod_is_ready_and_then_in_the_pods():
    serving = serve([8.0], [0])
    assert serving.scrape(1.0).gateway.queued == pytest.approx(8.0)
    assert serving.scrape(1.0).pods == ()
    serving.set_pods(1.0, (ServingPod("a", 1.0), ServingPod("b", 1.0)))
    scrape = serving.scrape(1.0)
    assert scrape.gateway.queued == 0.0
    assert [pod.waiting for pod in scrape.pods] == [pytest.approx(4.0)] * 2


def test_running_is_what_was_admitted_within_the_service_time_and_never_more_than_the_slots():
    busy = serve([6.0] * 5, [1] * 5).scrape(5.0)
    assert busy.pods[0].running == pytest.approx(12.0)  # 6 rps for 2 s each
    full = serve([60.0] * 5, [1] * 5).scrape(5.0)
    assert full.pods[0].running == pytest.approx(20.0)
    assert full.pods[0].kv_cache_usage == pytest.approx(0.8)


def test_counters_start_at_zero_for_a_new_pod_and_never_fall():
    serving = serve([10.0] * 3, [1] * 3)
    serving.set_pods(3.0, (ServingPod("p0", 0.0), ServingPod("new", 3.0)))
    assert [pod.requests_total for pod in serving.scrape(3.0).pods] == [pytest.approx(30.0), 0.0]
    serving.offer(3.0, 1.0, 10.0)
    assert [pod.requests_total for pod in serving.scrape(4.0).pods] == [pytest.approx(35.0), pytest.approx(5.0)]


def test_the_latency_percentile_is_none_without_requests_and_zero_without_a_queue():
    assert serve([0.0], [1]).scrape(1.0).latency.queue_s_p90 is None
    assert serve([5.0] * 4, [1] * 4).scrape(4.0).latency.queue_s_p90 == 0.0


def test_the_latency_percentile_grows_with_the_queue():
    p90 = serve([20.0] * 20, [1] * 20).scrape(20.0).latency.queue_s_p90
    assert p90 is not None
    assert 8.0 <= p90 <= 10.0  # the wait of the work served last is 10 s by now


@given(
    arrivals=st.lists(st.integers(0, 40).map(float), min_size=1, max_size=12),
    pods=st.lists(st.integers(0, 4), min_size=12, max_size=12),
)
def test_waits_agree_with_a_queue_of_small_parcels(arrivals: list[float], pods: list[int]):
    pods = pods[: len(arrivals)]
    waits = serve(arrivals, pods).waits(float(len(arrivals)))
    parcels = by_atoms(arrivals, pods, parts=50)
    total = float(sum(arrivals))
    assert waits.requests.sum() == pytest.approx(total)
    mean = float((waits.requests * (waits.wait_from_s + waits.wait_to_s)).sum()) / 2.0
    assert mean == pytest.approx(float((parcels[:, 1] * parcels[:, 2]).sum()), abs=0.03 * total + 1e-9)
    assert bool(np.all(np.diff(waits.from_s) >= -1e-9))


def test_a_day_of_level_load_keeps_its_arithmetic():
    serving = serve([9.99] * 5000, [1] * 5000)
    waits: Waits = serving.waits(5000.0)
    assert attainment(waits, 1e-9) == 1.0
    assert serving.waiting == 0.0
