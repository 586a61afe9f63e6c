"""Pods that are there and do not answer: their silence is no lull, neither while it lasts nor when it ends."""

import math
from dataclasses import replace

import pytest

from autoscaler.core.observe import pods
from autoscaler.core.observe.pods import Interval, WorkloadTrack
from autoscaler.core.params import Params
from autoscaler.core.types import GatewayReading, PodReading, Readings, ReplicaReading, StartingReplica
from autoscaler.core.view import view
from tests.core.toy import NAME, Story, Tamper, Toy, counts


def pod(name: str, done: float, running: float = 2.0, waiting: float = 0.0) -> PodReading:
    return PodReading(name, -1000.0, waiting, None, running, done, 100.0 * done, 10.0 * done, 0.5)


def silent(name: str) -> PodReading:
    return PodReading(name, -1000.0)


def at(now_s: float, *read: PodReading, ready: int | None = None) -> Readings:
    return Readings(now_s, ReplicaReading(len(read), len(read) if ready is None else ready), read)


def between(*moments: Readings) -> Interval:
    track = WorkloadTrack()
    for moment in moments:
        result = pods.difference(track, moment)
    return result


def test_half_of_the_pods_speak_for_their_queue_and_for_nothing_else() -> None:
    seen = between(at(0, pod("a", 10), pod("b", 10)), at(10, pod("a", 20, waiting=7.0), silent("b")))
    assert seen.queue == 7.0, "at least"
    for name in ("arrivals", "completions", "running", "kv_used"):
        assert math.isnan(getattr(seen, name)), name
    assert (seen.saturated_pod_s, seen.free_pod_s) == (0.0, 0.0)


def test_an_empty_queue_of_half_of_the_pods_is_not_an_empty_queue() -> None:
    assert math.isnan(between(at(0, pod("a", 10), pod("b", 10)), at(10, pod("a", 20), silent("b"))).queue)


def test_what_arrived_in_the_silence_is_counted_once_when_it_ends_and_over_its_whole_length() -> None:
    whole = at(0, pod("a", 10), pod("b", 10))
    gap = [at(10.0 * k, pod("a", 10 + 10 * k), silent("b")) for k in (1, 2, 3)]
    seen = between(whole, *gap, at(40, pod("a", 50), pod("b", 50, running=5.0)))
    assert (seen.arrivals, seen.arrivals_s) == (83.0, 40.0)
    assert math.isnan(seen.completions), "of these ten seconds alone it is not known"
    after = between(whole, *gap, at(40, pod("a", 50), pod("b", 50)), at(50, pod("a", 60), pod("b", 58)))
    assert (after.arrivals, after.arrivals_s, after.completions) == (18.0, 10.0, 18.0)


def test_one_silent_pod_of_ten_stops_no_measurement() -> None:
    nine = [f"p{k}" for k in range(9)]
    seen = between(
        at(0, *(pod(name, 10) for name in nine), pod("x", 10)), at(10, *(pod(name, 20) for name in nine), silent("x"))
    )
    assert seen.completions == 90.0
    assert seen.running == 18.0
    assert math.isfinite(seen.arrivals)


@pytest.mark.parametrize("read", [(), (pod("a", 20),)], ids=["no pod", "one of four"])
def test_pods_that_are_ready_and_not_in_the_reading_are_silent_too(read: tuple[PodReading, ...]) -> None:
    seen = between(at(0, *(pod(name, 10) for name in "abcd")), at(10, *read, ready=4))
    assert math.isnan(seen.running)
    assert math.isnan(seen.queue)
    assert math.isnan(seen.arrivals)


def test_without_any_pod_ready_an_empty_reading_is_zero() -> None:
    assert between(at(0), at(10)).queue == 0.0
    assert between(at(0), at(10)).running == 0.0


COUNTED = GatewayReading(0.0, 50.0)
EMPTY = {
    "replicas were ordered and none is ready": (4, None, False),
    "a gateway shows its queue and counts nothing": (4, GatewayReading(0.0), False),
    "a gateway counts what arrives": (4, COUNTED, True),
    "nothing was ordered": (0, None, True),
}


@pytest.mark.parametrize(("desired", "gateway", "known"), EMPTY.values(), ids=EMPTY.keys())
def test_no_pod_at_all_is_no_load_only_where_none_was_ordered_or_a_gateway_says_so(
    desired: int, gateway: GatewayReading | None, known: bool
) -> None:
    moments = [Readings(at_s, ReplicaReading(desired, 0), (), gateway) for at_s in (0.0, 10.0)]
    seen = between(*moments)
    assert (seen.running == 0.0) is known
    assert math.isfinite(seen.arrivals) is known


def test_a_start_in_the_middle_of_a_network_split_shrinks_nothing() -> None:
    """A new controller meets eight replicas that serve, and all of them behind a split: none ready, none to ask."""

    def cut_off(readings: Readings) -> Readings:
        starting = tuple(StartingReplica(-86400.0, pod.name) for pod in readings.pods or ())
        return replace(readings, replicas=ReplicaReading(readings.replicas.desired, 0, starting), pods=(), gateway=None)

    story = Story(Toy.of(8, 12.0), Params(warmup_prior_s=120.0, tick_s=10.0))
    split = story.run(3600.0, cut_off)
    assert min(counts(split)) == 8
    seen = view(story.table, NAME)
    assert seen is not None
    assert seen.load_rps is None
    assert {state for _, state, _ in seen.signals} == {"absent"}


def half_silent(readings: Readings) -> Readings:
    """Every other pod is there without numbers, and there is no gateway that would know better."""
    numbered = enumerate(readings.pods or ())
    kept = tuple(silent(p.name) if i % 2 else p for i, p in numbered)
    return replace(readings, pods=kept, gateway=None)


def half_gone(readings: Readings) -> Readings:
    """Every other pod is missing from the reading."""
    return replace(readings, pods=tuple(readings.pods or ())[::2], gateway=None)


def pods_only(readings: Readings) -> Readings:
    return replace(readings, gateway=None)


@pytest.mark.parametrize("tamper", [half_silent, half_gone], ids=["silent", "gone"])
def test_ten_minutes_of_half_of_the_metrics_shrink_nothing_even_once_they_are_back(tamper: Tamper) -> None:
    story = Story(Toy.of(4, 6.0, queue=60.0), Params(warmup_prior_s=120.0, tick_s=10.0))
    story.run(1800.0, pods_only)
    stood = story.replicas
    assert set(counts(story.run(600.0, tamper))) == {stood}
    after = counts(story.run(600.0, pods_only))
    assert min(after) >= stood
    assert max(after) <= stood + 1, "nor is what comes back a burst"


def restarting() -> Tamper:
    """Counters that begin anew between any two looks: an exporter that dies of every page it gives."""
    left = 100.0

    def anew(readings: Readings) -> Readings:
        nonlocal left
        left *= 0.9
        kept = tuple(replace(p, requests_total=left, generation_tokens_total=left) for p in readings.pods or ())
        return replace(readings, pods=kept, gateway=None)

    return anew


def test_counters_that_begin_anew_at_every_look_are_no_lull() -> None:
    story = Story(Toy.of(4, 6.0), Params(warmup_prior_s=120.0, tick_s=10.0))
    story.run(1800.0, pods_only)
    stood = story.replicas
    assert set(counts(story.run(600.0, restarting()))) == {stood}
    seen = view(story.table, NAME)
    assert seen is not None
    assert {signal: state for signal, state, _ in seen.signals}["arrivals"] == "unknown"
    assert seen.load_rps is None, "and not nought"
