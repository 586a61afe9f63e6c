"""Stories of pods that do not count what they complete, behind a gateway that counts what arrives."""

from dataclasses import replace

import pytest

from autoscaler.core.observe import pods
from autoscaler.core.observe.pods import Interval, WorkloadTrack
from autoscaler.core.params import Params
from autoscaler.core.types import GatewayReading, PodReading, Readings, ReplicaReading
from tests.core.toy import Story, Tamper, Toy, counts, stepped


def uncounted(readings: Readings) -> Readings:
    """The same moment, read from engines without a counter of requests or tokens."""
    pods_read = tuple(
        replace(pod, requests_total=None, prompt_tokens_total=None, generation_tokens_total=None)
        for pod in readings.pods or ()
    )
    return replace(readings, pods=pods_read)


def most_after_a_step(tamper: Tamper | None) -> int:
    toy = Toy.of(3, stepped(4.0, 14.0, 1800.0), replica_rps=2.0, service_s=2.0)
    story = Story(toy, Params(tick_s=10.0, max_replicas=200))
    return max(counts(story.run(3600.0, tamper)))


def test_a_queue_before_pods_that_count_nothing_orders_about_what_it_does_before_pods_that_count() -> None:
    """Eight carry the step. Nobody knew what one does, and a queue that grew through the start of those it had ordered
    asked for a place for each that waits: 200, the maximum."""
    told, untold = most_after_a_step(None), most_after_a_step(uncounted)
    assert 8 <= untold <= 1.3 * told


def moment(
    now_s: float, arrived: float | None, *held: tuple[float | None, float | None], queued: float = 0.0
) -> Readings:
    """Pods as (waiting, running), without counters."""
    read = tuple(PodReading(f"p{i}", -1000.0, waits, None, runs, None) for i, (waits, runs) in enumerate(held))
    return Readings(now_s, ReplicaReading(len(read), len(read)), read, GatewayReading(queued, arrived))


def between(*moments: Readings) -> Interval:
    track = WorkloadTrack()
    return [pods.difference(track, each) for each in moments][-1]


def test_what_came_and_is_not_there_any_more_was_completed() -> None:
    """Ten come within ten seconds, and eight more are in the system at their end: two left it."""
    first = moment(0.0, 100.0, (0.0, 4.0), (0.0, 2.0))
    for last in (
        moment(20.0, 120.0, (4.0, 4.0), (4.0, 2.0)),
        moment(20.0, 120.0, (0.0, 4.0), (0.0, 2.0), queued=8.0),
    ):
        seen = between(first, moment(10.0, 110.0, (0.0, 4.0), (0.0, 2.0)), last)
        assert seen.completions == pytest.approx(2.0)


def test_pods_that_hold_more_completed_more() -> None:
    """The first pod's line stands at both ends: what it did of nine, six by what it holds, is all it can do."""
    held = (2.0, 4.0), (0.0, 2.0)
    seen = between(moment(0.0, 0.0, *held), moment(10.0, 9.0, *held), moment(20.0, 18.0, *held))
    assert (seen.saturated_completions, seen.saturated_pod_s) == pytest.approx((6.0, 10.0))
    assert (seen.free_completions, seen.free_pod_s) == pytest.approx((3.0, 10.0))


@pytest.mark.parametrize(
    "middle",
    [
        moment(10.0, None, (0.0, 4.0), (0.0, 2.0)),
        moment(10.0, 50.0, (0.0, 4.0), (0.0, None)),
        moment(10.0, 50.0, (None, 4.0), (0.0, 2.0), queued=0.0),
    ],
    ids=["no count at the gateway", "a pod that does not tell what runs", "a pod whose line is at the gateway"],
)
def test_nothing_is_known_of_completions_where_something_is_missing(middle: Readings) -> None:
    ends = [moment(at_s, 5.0 * at_s, (0.0, 4.0), (0.0, 2.0)) for at_s in (0.0, 20.0)]
    complete = middle.gateway is not None and middle.pods is not None and middle.pods[0].waiting is None
    assert (between(ends[0], middle, ends[1]).completions == pytest.approx(50.0)) == complete


def test_a_gateway_that_began_anew_tells_of_no_completion() -> None:
    held = (0.0, 4.0), (0.0, 2.0)
    before = [moment(10.0 * i, 100.0 * i, *held) for i in range(3)]
    assert between(*before).completions == pytest.approx(100.0)
    assert not between(*before, moment(30.0, 7.0, *held)).completions >= 0.0
