"""The time from an order to a served request: matching starts with pods, quantiles, credit and its end."""

import pytest

from autoscaler.core.capacity import leadtime
from autoscaler.core.capacity.leadtime import LeadTime, LeadTrack, Starts
from autoscaler.core.types import PodReading, Readings, ReplicaReading, StartingReplica


def at(
    now_s: float,
    desired: int,
    pods: dict[str, float] | None,
    *starting: StartingReplica,
    ready: int | None = None,
) -> Readings:
    """A moment: pods by name with the instant each became ready."""
    read = None if pods is None else tuple(PodReading(name, since_s) for name, since_s in pods.items())
    return Readings(now_s, ReplicaReading(desired, len(pods or ()) if ready is None else ready, starting), read)


def start(since_s: float, name: str | None = None, *, unschedulable: bool = False) -> StartingReplica:
    return StartingReplica(since_s, name, unschedulable)


def told(*moments: Readings, prior_s: float | None = 100.0) -> tuple[Starts, LeadTime]:
    track = LeadTrack()
    for moment in moments:
        result = leadtime.follow(track, moment, prior_s)
    return result


def test_a_start_is_measured_from_its_order_to_the_instant_its_pod_was_ready() -> None:
    starts, lead = told(at(0, 1, {"a": -9}), at(10, 2, {"a": -9}, start(10, "b")), at(90, 2, {"a": -9, "b": 82.5}))
    assert starts.finished_s == (72.5,)
    assert (lead.samples, lead.l50_s, lead.l90_s) == (1, 72.5, 72.5)


@pytest.mark.parametrize(
    ("starting", "pods", "finished"),
    [
        ((start(10, "b"), start(30, "c")), {"c": 95.0, "b": 99.0}, (89.0, 65.0)),
        ((start(10), start(30)), {"x": 95.0, "y": 99.0}, (85.0, 69.0)),
        ((start(10, "b"), start(30)), {"b": 99.0, "x": 95.0}, (89.0, 65.0)),
    ],
    ids=["names decide", "without names the oldest start took the first pod", "a name first, then age"],
)
def test_starts_and_pods_are_matched(
    starting: tuple[StartingReplica, ...], pods: dict[str, float], finished: tuple[float, ...]
) -> None:
    starts, _ = told(at(0, 0, {}), at(40, 2, {}, *starting), at(100, 2, pods))
    assert sorted(starts.finished_s) == sorted(finished)
    assert (starts.failed, starts.cancelled) == (0, 0)


@pytest.mark.parametrize(
    ("desired", "failed", "cancelled"),
    [(3, 2, 0), (2, 1, 1), (1, 0, 2), (0, 0, 2)],
    ids=["the order stands: both failed", "one was cancelled", "both were cancelled", "no more than there were"],
)
def test_a_start_that_leaves_no_pod_failed_unless_the_order_was_lowered(
    desired: int, failed: int, cancelled: int
) -> None:
    starts, lead = told(at(0, 1, {"a": 0}), at(10, 3, {"a": 0}, start(10), start(10)), at(50, desired, {"a": 0}))
    assert (starts.failed, starts.cancelled, starts.finished_s) == (failed, cancelled, ())
    assert lead.samples == 0


def test_without_pod_readings_ready_replicas_are_counted() -> None:
    starts, _ = told(at(0, 2, None, start(0), ready=1), at(60, 2, None, ready=2))
    assert starts.finished_s == (60.0,)


def test_pods_of_before_the_first_reading_are_no_starts() -> None:
    starts, lead = told(at(0, 3, {"a": -5, "b": -5, "c": -5}))
    assert (starts.finished_s, lead.samples) == ((), 0)


def test_a_pod_that_appears_without_a_start_is_no_sample() -> None:
    starts, lead = told(at(0, 1, {"a": 0}), at(60, 2, {"a": 0, "adopted": 55}))
    assert (starts.finished_s, starts.failed, lead.samples) == ((), 0, 0)


def test_without_a_sample_the_prior_holds_and_stretches_with_the_oldest_start() -> None:
    _, young = told(at(0, 1, {}, start(0)), at(60, 1, {}, start(0)))
    _, old = told(at(0, 1, {}, start(0)), at(250, 1, {}, start(0)))
    assert (young.l50_s, young.samples) == (100.0, 0)
    assert old.l50_s == 250.0
    assert young.l50_s <= young.l90_s <= young.l99_s


def test_quantiles_are_those_of_the_samples_and_ordered() -> None:
    track = LeadTrack(samples_s=[float(s) for s in range(10, 110, 10)])
    lead = leadtime.distribution(track, None, 0.0)
    assert (lead.l50_s, lead.l90_s, lead.samples) == (50.0, 90.0, 10)
    assert lead.l99_s > 100.0


def test_only_the_latest_samples_count_so_that_a_faster_image_is_believed() -> None:
    track = LeadTrack()
    for i in range(80):
        took_s = 600.0 if i < 40 else 60.0
        leadtime.follow(track, at(1000.0 * i, 1, {}, start(1000.0 * i, f"p{i}")), None)
        leadtime.follow(track, at(1000.0 * i + took_s, 1, {f"p{i}": 1000.0 * i + took_s}), None)
    assert leadtime.distribution(track, None, 0.0).l90_s == 60.0


@pytest.mark.parametrize(
    ("age_s", "credited", "late"), [(50.0, 1, 0), (119.0, 1, 0), (10_000.0, 0, 1)], ids=["young", "near", "far beyond"]
)
def test_a_start_far_beyond_every_measured_one_loses_its_credit(age_s: float, credited: int, late: int) -> None:
    track = LeadTrack(samples_s=[100.0] * 5)
    starts, _ = leadtime.follow(track, at(age_s, 1, {}, start(0.0)), None)
    assert (len(starts.credited), starts.late, starts.unschedulable) == (credited, late, 0)


def test_an_unschedulable_start_has_no_credit_and_does_not_stretch_the_lead_time() -> None:
    starts, lead = told(at(500, 2, {}, start(0, unschedulable=True), start(480)))
    assert starts.credited == (20.0,)
    assert (starts.unschedulable, starts.late) == (1, 0)
    assert lead.l50_s == 100.0


def node_came() -> Starts:
    """A start waited 1800 s for a node; now it has one and warms up."""
    track = LeadTrack(samples_s=[100.0] * 5)
    leadtime.follow(track, at(1800, 1, {}, start(0, "b", unschedulable=True)), None)
    starts, _ = leadtime.follow(track, at(1810, 1, {}, start(0, "b")), None)
    return starts


def test_a_start_that_finds_its_node_has_not_failed() -> None:
    assert node_came().failed == 0


def test_a_start_that_finds_its_node_late_is_not_ordered_again() -> None:
    assert node_came().late == 0
