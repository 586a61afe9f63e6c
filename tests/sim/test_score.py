import json

import numpy as np
import pytest

from autoscaler.errors import InputError
from autoscaler.sim.score import Reference, direction_changes, score
from autoscaler.sim.simulate import Run, run
from tests.sim.scenes import Script, hold, make_spec, make_traffic

HOUR_S = 3600


def test_gpu_hours_split_into_busy_warming_and_idle_and_sum_to_what_was_held():
    policy = Script(lambda now_s: 2 if now_s < 1000 else 4)
    judged = score(run(make_traffic([15.0] * HOUR_S), make_spec(warmup_s=600.0), policy))
    assert judged.gpu_hours.serving == pytest.approx(1.5)
    assert judged.gpu_hours.warming == pytest.approx(2 * 600 / HOUR_S)
    assert judged.gpu_hours.total == pytest.approx((2 * 1000 + 4 * 2600) / HOUR_S)
    assert judged.starts_per_day == pytest.approx(2 * 24)


@pytest.mark.parametrize(
    ("desired", "changes"),
    [([3, 3, 3], 0), ([1, 2, 5, 9], 0), ([1, 2, 2, 1], 1), ([1, 2, 1, 2], 2), ([4, 2, 2, 3, 3, 1], 2)],
)
def test_a_direction_change_is_a_move_against_the_move_before(desired: list[int], changes: int):
    assert direction_changes(np.array(desired)) == changes


def step_run(*, grow_at_s: int, warmup_s: float = 100.0, to: int = 6) -> Run:
    """10 rps, then 30 rps from second 500 on; one replica serves 10 rps; more are ordered at `grow_at_s`."""
    traffic = make_traffic([10.0] * 500 + [30.0] * 1500, onsets_s=(500.0,))
    return run(traffic, make_spec(warmup_s=warmup_s), Script(lambda now_s: to if now_s >= grow_at_s else 1))


def test_recovery_is_the_time_until_arrivals_wait_within_the_objective_for_good():
    # 2,000 wait at 600 s; 60 rps against 30 clear it: an arrival at 600 + x waits (2,000 - 30 x) / 60, 10 s at x = 46.7
    assert score(step_run(grow_at_s=500)).recovery_s == pytest.approx(100 + 1400 / 30, abs=0.01)


def test_recovery_is_zero_when_capacity_was_there_and_none_without_onsets():
    assert score(step_run(grow_at_s=0)).recovery_s == 0.0
    assert score(run(make_traffic([1.0] * 60), make_spec(), hold(1))).recovery_s is None


def test_a_run_that_never_recovers_counts_to_its_end():
    assert score(step_run(grow_at_s=5000)).recovery_s == 1500.0


def test_the_settled_view_leaves_out_two_warm_ups_and_a_minute_after_an_onset():
    judged = score(step_run(grow_at_s=500))
    assert judged.settled.left_out_s == 260.0
    assert judged.attainment < 0.99
    assert judged.settled.attainment == 1.0
    held = (500 * 1 + (2000 - 760) * 6) / HOUR_S
    assert judged.settled.gpu_hours.total == pytest.approx(held)


def test_ratios_are_held_time_over_the_bounds():
    done = run(make_traffic([10.0] * HOUR_S), make_spec(), hold(2))
    judged = score(done, Reference(d1_s=HOUR_S, d2_s=HOUR_S / 2, d2_per_step_s=np.full(HOUR_S, 0.5)))
    assert judged.ratio_d1 == pytest.approx(2.0)
    assert judged.ratio_d2 == pytest.approx(4.0)
    assert judged.settled.ratio_d2 == pytest.approx(4.0)


def test_the_json_of_a_policy_has_the_agreed_keys():
    record = score(run(make_traffic([10.0] * 60), make_spec(seed=7), hold(1))).as_json("headroom simulate …")
    assert set(record) == {
        "attainment", "gpu_hours", "ratio_d1", "ratio_d2", "direction_changes_per_day", "starts_per_day",
        "recovery_s", "coverage", "seed", "command", "settled",
    }  # fmt: skip
    assert set(json.loads(json.dumps(record))["gpu_hours"]) == {"serving", "warming", "idle"}
    assert record["seed"] == 7


def test_traffic_without_requests_attains_everything():
    judged = score(run(make_traffic([0.0] * 120), make_spec(), hold(0)))
    assert judged.attainment == 1.0
    assert judged.gpu_hours.total == 0.0


def test_the_policy_is_asked_at_multiples_of_its_tick_and_once_per_step_when_faster():
    slow, fast = Script(lambda _: 1, tick_s=7.0), Script(lambda _: 1, tick_s=0.2)
    run(make_traffic([1.0] * 20), make_spec(), slow)
    run(make_traffic([1.0] * 20), make_spec(), fast)
    assert [readings.now_s for readings in slow.seen] == [0.0, 7.0, 14.0]
    assert [readings.now_s for readings in fast.seen] == [float(second) for second in range(20)]


def test_a_tick_of_zero_is_refused():
    with pytest.raises(InputError, match="tick_s"):
        run(make_traffic([1.0]), make_spec(), Script(lambda _: 1, tick_s=0.0))


def test_a_decision_sees_the_past_only():
    quiet = make_traffic([5.0] * 300)
    burst = make_traffic([5.0] * 200 + [80.0] * 100)
    seen = [Script(lambda now_s: 1 + int(now_s) % 3, tick_s=5.0) for _ in range(2)]
    for traffic, policy in zip((quiet, burst), seen, strict=True):
        run(traffic, make_spec(), policy)
    past = [[readings for readings in policy.seen if readings.now_s <= 200.0] for policy in seen]
    assert past[0] == past[1]


def test_a_pod_list_of_a_policy_carries_a_coverage_it_publishes():
    class Forecaster(Script):
        coverage = 0.93

    assert run(make_traffic([1.0] * 5), make_spec(), Forecaster(lambda _: 1)).coverage == 0.93
