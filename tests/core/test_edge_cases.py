"""The cases other autoscalers got wrong, each as a story with numbers; a name tells the incident.

A replica of the toy serves 2 requests/s unless a story says otherwise, so the need of a steady load is half of it.
"""

import itertools
import math
from dataclasses import replace

import pytest

from autoscaler.core.params import Params, Slo
from autoscaler.core.reasons import Reason
from autoscaler.core.types import Decision, PodReading, Readings, Verdict
from tests.core.toy import HOUR_S, Story, Tamper, Toy, calibrated, counts, cut, stepped, steps_of


def without(field: str) -> Tamper:
    """Readings whose pods lack a field."""

    def tamper(readings: Readings) -> Readings:
        assert readings.pods is not None
        return replace(readings, pods=tuple(replace(p, **{field: None}) for p in readings.pods))  # type: ignore[arg-type]

    return tamper


MISSING: dict[str, Tamper] = {
    "the pods' queue": without("waiting"),
    "requests in flight": without("running"),
    "token counters": without("generation_tokens_total"),
    "the KV cache": without("kv_cache_usage"),
    "the gateway": lambda readings: replace(readings, gateway=None),
    "half of the pods": lambda readings: replace(readings, pods=tuple(readings.pods or ())[::2]),
}


# 7 ---------------------------------------------------------------------------------------------------------------
def test_zero_ready_pods_with_waiting_requests_still_asks_for_some() -> None:
    story = Story(Toy.of(0, 5.0, queue=5.0), Params(min_replicas=0))
    first = story.tick()
    assert first.replicas >= 1
    assert Reason.WAKE in {step.reason for step in first.trace}


def test_zero_ready_pods_after_a_node_loss_keep_the_count_that_stood() -> None:
    story = calibrated(6.0)
    stood = story.replicas
    story.toy.pods.clear()
    story.toy.order(stood)  # its owner replaces what was lost
    after = counts(story.run(100.0))
    assert min(after) >= stood >= 3


# 8 ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MISSING)
def test_a_missing_signal_never_lowers_although_the_load_fell(name: str) -> None:
    story = calibrated(stepped(6.0, 0.5, 900.0))
    stood = story.replicas
    assert min(counts(story.run(900.0, MISSING[name]))) >= stood
    assert min(counts(story.run(600.0))) < stood, "with every signal back it shrinks"


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_signal_does_not_keep_the_others_from_raising(name: str) -> None:
    story = calibrated(stepped(6.0, 20.0, 900.0))
    assert max(counts(story.run(200.0, MISSING[name]))) > story.told[89].replicas


def test_a_burst_that_begins_while_the_gateway_is_silent_is_followed_by_what_the_pods_tell() -> None:
    """The gateway is not read for ten minutes, and the load is five times as high half a minute later. Nine replicas
    stood before a line of 6,000 requests: 1.3 times the load that was counted last was the most to be ordered."""
    story = calibrated(stepped(4.0, 20.0, 930.0), max_replicas=100)
    told = story.run(600.0, MISSING["the gateway"])
    assert max(counts(told[:30])) >= 11, "20 requests/s need 10, and a line of minutes is to be cleared"
    stood = story.replicas
    assert min(counts(story.run(60.0))) >= min(stood, 11)


def test_caches_that_longer_prompts_fill_ask_for_more_though_nobody_tells_whether_requests_wait() -> None:
    """A queue that is not known passed for none, and whoever is not known to wait asks for nothing."""

    def full(readings: Readings) -> Readings:
        assert readings.pods is not None
        pods = tuple(replace(pod, kv_cache_usage=1.0, waiting=None) for pod in readings.pods)
        return replace(
            readings, pods=pods, gateway=replace(readings.gateway, queued=None) if readings.gateway else None
        )

    story = calibrated(6.0)
    stood = story.replicas
    told = story.run(600.0, full)
    assert max(counts(told)) > stood
    assert Reason.MEMORY in {step.reason for step in steps_of(told)}


def test_caches_that_are_full_for_good_do_not_ask_for_a_replica_every_few_minutes() -> None:
    """Some engines count the blocks they keep for reuse. Each replica more was as full, and one more was ordered."""

    def full(readings: Readings) -> Readings:
        assert readings.pods is not None
        return replace(readings, pods=tuple(replace(pod, kv_cache_usage=0.99) for pod in readings.pods))

    story = Story(Toy.of(4, 4.0), Params(warmup_prior_s=120.0, tick_s=10.0), tamper=full)
    assert max(counts(story.run(HOUR_S, full))) <= 6
    story.toy.load = lambda now_s: 12.0 if now_s < 1.5 * HOUR_S else 2.0
    assert max(counts(story.run(HOUR_S, full))) >= 6
    assert story.replicas <= 3, "and what a burst needed is given back"


# 9 ---------------------------------------------------------------------------------------------------------------
def test_pods_that_are_starting_are_not_ordered_again_at_every_tick() -> None:
    story = calibrated(stepped(6.0, 12.0, 900.0), warmup_s=300.0)
    during = counts(story.run(290.0))
    orders = [now for before, now in itertools.pairwise(during) if now > before]
    assert max(during) <= 14, "6 for the load; 8 requests/s more clear what 300 s leave within half as long"
    assert len(orders) <= 5, f"29 ticks without a new pod, and each order is a correction: {orders}"


# 10 --------------------------------------------------------------------------------------------------------------
def test_unschedulable_pods_lose_their_credit_and_are_not_ordered_without_end() -> None:
    story = calibrated(stepped(6.0, 12.0, 900.0), max_replicas=1000, tick_s=20.0)
    story.toy.unschedulable = True
    stuck = story.run(1800.0)
    backlog = [dict(step.evidence) for step in steps_of(stuck[2:]) if step.reason is Reason.BACKLOG]
    assert backlog
    assert all(evidence["starting"] == 0 for evidence in backlog), "no credit without a node"
    assert max(counts(stuck)) <= 40, "orders end near the day's highest demand, however long the line"
    story.toy.unschedulable = False
    story.run(2400.0)
    assert 6 <= story.replicas < max(counts(stuck)), "once nodes came and the line is gone it shrinks again"


def test_a_start_far_beyond_its_measured_warm_up_is_late_and_ordered_again() -> None:
    story = calibrated(stepped(6.0, 12.0, 900.0), replicas=2)
    assert story.table.track(0).lead.samples_s, "the opening line made it start one"
    story.toy.slow_s = 1800.0
    late = [step for step in steps_of(story.run(1200.0)) if step.reason is Reason.LATE_START]
    assert late
    assert all(step.after > step.before and dict(step.evidence)["late_starts"] for step in late)


def test_late_starts_of_a_replica_whose_capacity_is_not_known_are_not_ordered_without_end() -> None:
    """Nothing but a queue is known, and an image that never becomes ready: 25 % more at every tick came to 1,000."""

    def only_a_queue(readings: Readings) -> Readings:
        pods = tuple(PodReading(p.name, p.ready_since_s, p.waiting) for p in readings.pods or ())
        return replace(readings, pods=pods, gateway=None)

    story = Story(Toy.of(2, 20.0, queue=60.0), Params(max_replicas=1000, warmup_prior_s=30.0))
    story.toy.slow_s = 1e6
    told = story.run(900.0, only_a_queue)
    assert Reason.LATE_START in {step.reason for step in steps_of(told)}
    assert max(counts(told)) <= 5, "half as many again as are ready and one more, and a quarter of that for the late"


def test_pods_that_start_at_once_do_not_multiply_while_nobody_knows_what_they_do_to_the_queue() -> None:
    """A queue of 500 that no counter explains, and starts of one second: growth waits half a minute each time."""

    def only_a_queue(readings: Readings) -> Readings:
        pods = tuple(PodReading(p.name, p.ready_since_s, p.waiting) for p in readings.pods or ())
        return replace(readings, pods=pods, gateway=None)

    toy = Toy.of(10, 20.0, queue=500.0, warmup_s=1.0, replica_rps=0.001)
    told = Story(toy, Params(max_replicas=100, warmup_prior_s=30.0, tick_s=1.0)).run(60.0, only_a_queue)
    grew_s = [d.now_s for d in told if d.verdict is Verdict.SCALE]
    assert len(grew_s) >= 2
    assert min(later - earlier for earlier, later in itertools.pairwise(grew_s)) >= 20.0


# 11, 12 ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("least", [0, 1, 3])
def test_an_idle_service_goes_to_its_minimum_and_never_panics(least: int) -> None:
    story = calibrated(stepped(6.0, 0.0, 900.0), min_replicas=least, tick_s=20.0)
    stood = story.replicas
    idle = story.run(2000.0)
    assert all(now <= before for before, now in itertools.pairwise([stood, *counts(idle)])), "it never rises"
    assert story.replicas == least


@pytest.mark.parametrize("least", [0, 1])
def test_a_service_that_never_had_a_request_goes_to_its_minimum(least: int) -> None:
    story = Story(Toy.of(3, 0.0), Params(min_replicas=least, tick_s=20.0))
    idle = story.run(0.5 * HOUR_S)
    assert max(counts(idle)) <= 3
    assert story.replicas == least


def test_no_traffic_divides_nothing_by_nothing() -> None:
    story = Story(Toy.of(3, stepped(0.0, 1.0, 1500.0)), Params(min_replicas=1, tick_s=20.0))
    for step in steps_of(story.run(2400.0)):
        assert all(not isinstance(v, float) or math.isfinite(v) for _, v in step.evidence), step


# 15 --------------------------------------------------------------------------------------------------------------
def test_an_empty_pool_reads_as_nothing() -> None:
    story = Story(Toy.of(0, 0.0), Params(min_replicas=0))
    assert set(counts(story.run(600.0))) == {0}


def test_idle_pods_whose_cache_reads_as_full_are_no_demand() -> None:
    """Pods that keep old entries in the cache read as 100 % full."""
    story = calibrated(stepped(6.0, 0.0, 900.0))
    story.run(300.0)
    stood = story.replicas

    def full(readings: Readings) -> Readings:
        return replace(readings, pods=tuple(replace(p, kv_cache_usage=1.0, running=0.0) for p in readings.pods or ()))

    assert max(counts(story.run(400.0, full))) <= stood


# 16 --------------------------------------------------------------------------------------------------------------
def loads_seen(decisions: list[Decision]) -> list[float]:
    """The load in the evidence of each decision that states it."""
    shown = [dict(step.evidence).get("load_rps") for step in steps_of(decisions)]
    return [load for load in shown if isinstance(load, float)]


def restarted(readings: Readings) -> Readings:
    """The first pod's counters start again from nought at 1000 s."""
    gone = {"pod-1": 1800.0}
    return replace(
        readings,
        pods=tuple(
            replace(p, requests_total=max(0.0, (p.requests_total or 0.0) - gone[p.name]))
            if p.name in gone and readings.now_s >= 1000.0
            else p
            for p in readings.pods or ()
        ),
    )


def newcomer(readings: Readings) -> Readings:
    """A pod appears whose counter already stands at a million (adopted from another owner)."""
    more = PodReading("adopted", readings.now_s - 600.0, 0.0, 0.0, requests_total=1e6 + readings.now_s * 0.0)
    ready = replace(readings.replicas, ready=readings.replicas.ready + 1)
    return replace(readings, replicas=ready, pods=(*(readings.pods or ()), more)) if readings.now_s > 1000 else readings


def gateway_reset(readings: Readings) -> Readings:
    """The gateway restarts at 1000 s and counts from nought."""
    gateway = readings.gateway
    assert gateway is not None
    if readings.now_s < 1000.0:
        return readings
    return replace(readings, gateway=replace(gateway, requests_total=(gateway.requests_total or 0.0) - 6000.0))


@pytest.mark.parametrize(
    ("tamper", "gateway"),
    [(restarted, False), (newcomer, False), (gateway_reset, True)],
    ids=["a pod restarts", "a pod with a high counter appears", "the gateway restarts"],
)
def test_counter_resets_and_new_pods_are_no_traffic(tamper: Tamper, gateway: bool) -> None:
    story = Story(Toy.of(4, 6.0, queue=60.0), Params(warmup_prior_s=120.0, tick_s=10.0))
    only_pods: Tamper = lambda r: r if gateway else replace(r, gateway=None)  # noqa: E731 - a one-line composition
    story.run(900.0, only_pods)
    stood = story.replicas
    after = story.run(600.0, lambda r: tamper(only_pods(r)))
    assert all(4.0 <= load <= 8.0 for load in loads_seen(after)), "6 requests/s, before and after"
    assert max(counts(after)) <= stood + 1
    assert min(counts(after)) >= 3


# 25 --------------------------------------------------------------------------------------------------------------
def test_a_replica_that_serves_one_request_at_a_time_can_still_grow() -> None:
    """0.1 requests/s of 10 s each: the target in flight is one per replica."""
    toy = Toy.of(1, stepped(0.05, 0.5, 1200.0), replica_rps=0.1, service_s=10.0)
    story = Story(toy, Params(warmup_prior_s=120.0, slo=Slo(wait_s=30.0), tick_s=20.0))
    story.run(3000.0)
    assert story.replicas >= 5


# 28 --------------------------------------------------------------------------------------------------------------
def hung(readings: Readings) -> Readings:
    """The first pod makes no token, and its line grows."""
    pods = tuple(readings.pods or ())
    line = 2.0 * (readings.now_s - 900.0)
    first = replace(
        pods[0], waiting=line, running=8.0, requests_total=7.0, prompt_tokens_total=7.0, generation_tokens_total=7.0
    )
    return replace(readings, pods=(first, *pods[1:]))


def test_a_pod_with_waiting_requests_and_no_tokens_is_broken_and_no_demand() -> None:
    story = calibrated(4.0, replicas=4, tick_s=20.0)
    stood = story.replicas
    after = story.run(1200.0, hung)
    assert max(counts(after)) <= stood + 1, "at most the one that is broken is replaced"


def test_a_broken_pod_is_named() -> None:
    after = calibrated(4.0, replicas=4).run(300.0, hung)
    assert any("wedged" in name for step in steps_of(after) for name, _ in step.evidence)


def test_a_service_whose_every_pod_hangs_is_not_scaled_without_end() -> None:
    story = calibrated(6.0, max_replicas=1000)
    for pod in story.toy.pods:
        pod.serving = False
    after = counts(story.run(110.0))  # until the first new pod could serve
    assert max(after) <= 30


# 29 --------------------------------------------------------------------------------------------------------------
def test_deferred_requests_are_no_capacity_demand() -> None:
    story = calibrated(6.0)
    stood = story.replicas

    def deferred(readings: Readings) -> Readings:
        return replace(readings, pods=tuple(replace(p, waiting_deferred=500.0) for p in readings.pods or ()))

    assert max(counts(story.run(600.0, deferred))) <= stood


# 35 --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("period_s", [120.0, 420.0])
def test_a_load_around_the_boundary_of_two_and_three_replicas_does_not_flap(period_s: float) -> None:
    story = calibrated(lambda t: 4.0 + 0.4 * math.sin(2.0 * math.pi * t / period_s), replicas=3, tick_s=20.0)
    after = counts(story.run(0.75 * HOUR_S))
    turns = [now - before for before, now in itertools.pairwise(after) if now != before]
    reversals = sum(a * b < 0 for a, b in itertools.pairwise(turns))
    assert reversals <= 2, turns


def test_outage_of_all_metrics_holds() -> None:
    story = calibrated(6.0)
    stood = story.replicas
    assert set(counts(story.run(600.0, cut))) == {stood}
