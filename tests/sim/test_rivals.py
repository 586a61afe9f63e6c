import math
from collections.abc import Sequence

import numpy as np
import pytest

from autoscaler.core.types import (
    GatewayReading,
    LatencyReading,
    PodReading,
    Readings,
    ReplicaReading,
    StartingReplica,
)
from autoscaler.errors import InputError
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.policy import Policy
from autoscaler.sim.rivals import RIVALS, make_rival, view_of
from autoscaler.sim.rivals.hpa import Behavior, Rule
from autoscaler.sim.score import score
from autoscaler.sim.simulate import Run, run
from autoscaler.sim.traffic import Traffic
from tests.sim.scenes import make_spec, make_traffic


def made(name: str, *knob: float, rate_rps: float = 25.0, **spec: object) -> Policy:
    view = view_of(make_traffic([rate_rps] * 60), make_spec(**spec))  # type: ignore[arg-type]
    return make_rival(name, view, knob or None)


def reading(
    now_s: float, ready: int, running: float, *,
    waiting: float = 0.0, queued: float = 0.0, starting: Sequence[float] = (), p90_s: float | None = 0.0,
    desired: int | None = None,
) -> Readings:  # fmt: skip
    """`running` and `waiting` are sums over the pods."""
    pods = tuple(
        PodReading(f"p{n}", 0.0, waiting=waiting / ready, running=running / ready, requests_total=0.0)
        for n in range(ready)
    )
    return Readings(
        now_s=now_s,
        replicas=ReplicaReading(
            desired=ready + len(starting) if desired is None else desired,
            ready=ready,
            starting=tuple(StartingReplica(at_s, f"s{n}") for n, at_s in enumerate(starting)),
        ),
        pods=pods,
        gateway=GatewayReading(queued=queued, requests_total=0.0),
        latency=LatencyReading(queue_s_p90=p90_s),
    )


def played(name: str, traffic: Traffic, spec: PlantSpec, *knob: float) -> Run:
    return run(traffic, spec, make_rival(name, view_of(traffic, spec), knob or None))


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_runs_at_its_default_under_its_own_name(name: str):
    assert RIVALS[name].DEFAULT
    assert all(len(knob) == len(RIVALS[name].KNOB_NAMES) for knob in (*RIVALS[name].KNOBS, RIVALS[name].DEFAULT))
    done = played(name, make_traffic([25.0] * 300), make_spec())
    assert done.policy == name
    assert done.timeline.desired.min() >= 1


def test_an_unknown_rival_is_refused_with_the_names_that_exist():
    with pytest.raises(InputError, match="kpa-credit"):
        made("vpa")


@pytest.mark.parametrize("name", ["hpa", "kpa", "kpa-credit", "llm-d"])
def test_an_outage_changes_nothing(name: str):
    rival = made(name)
    dark = Readings(0.0, ReplicaReading(desired=7, ready=3))
    assert rival.decide(dark) == 7


@pytest.mark.parametrize("name", [name for name in RIVALS if name not in ("perfect", "static")])
def test_no_rival_sees_the_future(name: str):
    calm = [25.0] * 900
    storm = [25.0] * 600 + [200.0] * 300
    desired = [played(name, make_traffic(load), make_spec()).timeline.desired[:600] for load in (calm, storm)]
    assert (desired[0] == desired[1]).all()


class TestHpa:
    @pytest.mark.parametrize(
        ("running", "waiting", "wanted"),
        [
            (42.0, 0.0, 3),  # 14 per replica is the target: 42 need 3
            (46.0, 0.0, 3),  # within 10 % of what 3 should carry
            (47.0, 0.0, 4),
            (60.0, 100.0, 7),  # ceil(160 / 14) = 12, but at most 3 + 4 in 15 s
        ],
    )
    def test_the_count_is_the_sum_over_the_target(self, running: float, waiting: float, wanted: int):
        assert made("hpa").decide(reading(0.0, 3, running, waiting=waiting)) == wanted

    def test_it_falls_to_the_highest_advice_of_five_minutes_and_never_below_one(self):
        rival, counts = made("hpa"), list[int]()
        for tick in range(45):
            load = 70.0 if tick < 10 else 0.0
            counts.append(rival.decide(reading(15.0 * tick, 5, load, desired=counts[-1] if counts else 5)))
        assert counts[:29] == [5] * 29  # the last advice of 5 was given at 135 s
        assert counts[-1] == 1
        assert counts.index(1) == 29

    def test_a_restart_takes_the_count_it_finds_as_its_first_advice(self):
        assert made("hpa").decide(reading(0.0, 9, 0.0)) == 9

    def test_a_queue_at_the_gateway_counts(self):
        assert made("hpa").decide(reading(0.0, 1, 0.0, queued=56.0)) == 4

    @pytest.mark.parametrize(
        ("wants", "counts"),
        [
            ([20, 20, 20], [8, 16, 20]),  # max(100 %, 4) per minute
            ([3, 3, 3], [4, 4, 3]),  # starting at 4: one per two minutes, once the advice of 4 has aged
        ],
    )
    def test_behaviour_limits_the_rate_in_both_directions(self, wants: list[int], counts: list[int]):
        behavior = Behavior(Rule(4, 1.0, 60.0, 0.0), Rule(1, 0.0, 120.0, 90.0))
        current, seen = 4, []
        for tick, wanted in enumerate(wants):
            current = behavior.limit(60.0 * tick, current, wanted)
            seen.append(current)
        assert seen == counts

    def test_a_period_counts_what_was_added_within_it(self):
        behavior = Behavior(Rule(4, 1.0, 60.0, 0.0), Rule(1, 0.0, 120.0, 90.0))
        assert behavior.limit(0.0, 4, 20) == 8
        assert behavior.limit(15.0, 8, 20) == 8
        assert behavior.limit(60.0, 8, 20) == 16

    def test_stabilisation_upwards_takes_the_lowest_advice_of_the_window(self):
        behavior = Behavior(Rule(4, 1.0, 60.0, 30.0), Rule(1, 0.0, 120.0, 180.0))
        assert [behavior.limit(15.0 * tick, 4, 6) for tick in range(3)] == [4, 4, 6]


class TestKpa:
    def feed(self, rival, loads: Sequence[float], ready: int, *, start_s: float = 0.0) -> list[int]:
        return [rival.decide(reading(start_s + 2.0 * n, ready, load)) for n, load in enumerate(loads)]

    def calm(self, ready: int = 3):
        """A rival that has left the panic it starts in, at 14 per replica, and the second it has come to."""
        rival = made("kpa")
        self.feed(rival, [14.0 * ready] * 60, ready)
        return rival, 120.0

    def test_calm_load_is_the_stable_mean_over_the_target(self):
        rival, now_s = self.calm()
        assert self.feed(rival, [42.0], 3, start_s=now_s) == [3]
        assert self.feed(rival, [44.0] * 40, 3, start_s=now_s + 2)[-1] == 4

    def test_a_burst_is_met_within_six_seconds_and_kept_for_a_minute_after_it(self):
        rival, now_s = self.calm()
        burst = self.feed(rival, [140.0] * 3, 3, start_s=now_s)
        assert burst[-1] == 10
        after = self.feed(rival, [42.0] * 60, 3, start_s=now_s + 6)
        assert after[:30] == [10] * 30
        assert after[-1] == 3

    def test_it_never_falls_below_half_of_the_ready_pods_in_one_step(self):
        rival, now_s = self.calm(ready=12)
        assert min(self.feed(rival, [1.0] * 60, 12, start_s=now_s)) == 6

    def test_a_restart_with_several_pods_begins_in_panic_and_holds_them(self):
        assert self.feed(made("kpa"), [0.0] * 30, 3) == [3] * 30

    def test_zero_comes_after_a_stable_window_and_the_grace_period(self):
        rival = made("kpa", rate_rps=1.0)
        counts = self.feed(rival, [5.0] + [0.0] * 60, 1)
        assert counts.index(0) == 1 + 45  # 90 s after the first empty sample, at 2 s
        assert self.feed(rival, [3.0], 1, start_s=122.0) == [1]

    def test_the_queue_of_warming_replicas_makes_it_order_more_and_the_credited_one_less(self):
        traffic = make_traffic([25.0] * 300 + [100.0] * 900)
        starts = {name: played(name, traffic, make_spec()).timeline.starts for name in ("kpa", "kpa-credit")}
        assert starts["kpa-credit"] < 0.7 * starts["kpa"]
        assert starts["kpa-credit"] >= 8

    def test_credit_weighs_the_queue_by_the_ready_share(self):
        rival = made("kpa-credit", 0.5, rate_rps=1.0)  # target 10 per replica
        assert rival.decide(reading(0.0, 2, 40.0, waiting=100.0, starting=[0.0] * 8)) == math.ceil((40 + 20) / 10)

    def test_without_a_ready_replica_the_queue_counts_in_full(self):
        rival = made("kpa-credit", 0.5, rate_rps=1.0)
        assert rival.decide(reading(0.0, 0, 0.0, queued=100.0, starting=[0.0])) == 10


class TestLlmD:
    def settle(self, p90_s: float, *, ready: int = 10, starting: int = 0, busy: float = 1.0, knob: float = 1.0) -> int:
        """Its first move away from what it holds, within five minutes of the same readings; else what it holds."""
        rival, held = made("llm-d", knob), ready + starting
        for tick in range(21):
            wanted = rival.decide(
                reading(15.0 * tick, ready, busy * 20.0 * ready, p90_s=p90_s, starting=[0.0] * starting)
            )
            if wanted != held:
                return wanted
        return held

    def test_between_the_thresholds_it_holds(self):
        assert self.settle(0.0) == 10  # 0.45
        assert self.settle(0.9) == 10  # 0.54

    def test_above_it_asks_for_the_excess_of_the_signal(self):
        assert self.settle(2.0) == 10 + math.ceil(10 * (0.65 / 0.55 - 1))

    def test_what_is_starting_is_credited_and_nothing_is_shed_while_the_signal_is_high(self):
        assert self.settle(2.0, ready=10, starting=2) == 12
        assert self.settle(5.0, ready=10, starting=2) == 12 + math.ceil(12 * (0.95 * 10 / 12 / 0.55 - 1))
        assert self.settle(30.0, ready=10, starting=2) == 24  # asks for 37, may double

    def test_below_it_removes_one_at_a_time(self):
        assert self.settle(0.0, busy=0.2) == 9

    def test_a_tighter_objective_acts_earlier(self):
        assert self.settle(0.0, knob=0.75) == 10 + math.ceil(10 * (0.6 / 0.55 - 1))


class TestPerfect:
    def test_it_orders_one_warm_up_and_a_tick_ahead(self):
        traffic = make_traffic([10.0] * 300 + [40.0] * 300)
        timeline = played("perfect", traffic, make_spec(warmup_s=100.0), 1.0, 1.0).timeline
        assert int(np.argmax(timeline.desired > 1)) == 190
        assert timeline.ready[300] == 4

    @pytest.mark.parametrize(("gap_s", "starts"), [(80, 3), (130, 6)])
    def test_it_keeps_replicas_through_gaps_shorter_than_a_warm_up(self, gap_s: int, starts: int):
        busy = [40.0] * 200
        traffic = make_traffic([10.0] * 200 + busy + [10.0] * gap_s + busy)
        assert played("perfect", traffic, make_spec(warmup_s=100.0), 1.0, 1.0).timeline.starts == starts

    def test_it_serves_a_foreseen_burst_on_time_at_nearly_the_bound(self):
        traffic = make_traffic([20.0] * 600 + [90.0] * 600 + [20.0] * 600)
        judged = score(played("perfect", traffic, make_spec(), 1.0, 10.0))
        assert judged.attainment == 1.0


def test_static_holds_what_the_busiest_minute_needs():
    traffic = make_traffic([10.0] * 300 + [41.0] * 60)
    assert set(played("static", traffic, make_spec()).timeline.desired) == {5}
    assert set(played("static", traffic, make_spec(), 0.5).timeline.desired) == {3}
