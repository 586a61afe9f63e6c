"""Starts that all take longer than they did: they are expected later, and nothing is ordered anew for them."""

from autoscaler.core.capacity import leadtime
from autoscaler.core.capacity.leadtime import LeadTime, LeadTrack, Starts
from autoscaler.core.types import PodReading, Readings, ReplicaReading, StartingReplica
from tests.core.toy import calibrated, counts, stepped


def test_a_queue_is_not_ordered_for_anew_when_its_starts_take_ten_times_as_long() -> None:
    """A step orders 41. When all of them were late they lost their credit at once, and what was ordered again counted
    for what had to be ordered again: 100, the maximum, for the same queue."""
    story = calibrated(stepped(6.0, 30.0, 2400.0))
    story.run(1400.0)
    story.toy.slow_s = 9.0 * story.toy.warmup_s
    told = counts(story.run(1500.0))
    ordered = max(told[:20])
    assert ordered >= 15
    assert max(told) <= 1.4 * ordered


def starts_at(track: LeadTrack, now_s: float, since_s: list[float], *ready: str) -> tuple[Starts, LeadTime]:
    """Starts begun at these instants, named by them, and pods that are ready by now."""
    starting = tuple(StartingReplica(at_s, f"p{i}@{at_s:.0f}") for i, at_s in enumerate(since_s))
    pods = tuple(PodReading(name, now_s, 0.0, None, 0.0, 0.0) for name in ready)
    stands = len(pods) + len(starting)
    return leadtime.follow(track, Readings(now_s, ReplicaReading(stands, len(pods), starting), pods, None), None)


def test_starts_that_are_late_together_keep_their_credit_and_stretch_the_lead_time() -> None:
    track = LeadTrack(samples_s=[100.0] * 5)
    starts, lead = starts_at(track, 300.0, [0.0, 0.0, 10.0])
    assert (starts.credited, starts.late, starts.slow) == ((300.0, 300.0, 290.0), 3, 3)
    assert (lead.l50_s, lead.l90_s) == (300.0, 300.0)
    starts, lead = starts_at(track, 5000.0, [0.0, 0.0, 10.0])
    assert (len(starts.credited), lead.l50_s) == (3, 600.0), "they are expected for no longer than six times as usual"


def test_what_began_since_the_first_was_late_replaces_as_many() -> None:
    starts, _ = starts_at(LeadTrack(samples_s=[100.0] * 5), 300.0, [0.0, 0.0, 0.0, 120.0, 140.0, 150.0])
    assert (starts.late, starts.slow, starts.replaced) == (6, 6, 2), "late at 130 s: what began at 120 s was no answer"


def test_one_late_start_is_lost_and_so_are_those_that_a_younger_one_overtook() -> None:
    lone, _ = starts_at(LeadTrack(samples_s=[100.0] * 5), 300.0, [0.0])
    assert (lone.credited, lone.late, lone.slow) == ((), 1, 0)
    track = LeadTrack(samples_s=[100.0] * 5)
    assert starts_at(track, 260.0, [0.0, 0.0, 0.0, 170.0])[0].slow == 3
    landed, lead = starts_at(track, 270.0, [0.0, 0.0, 0.0], "p3@170")
    assert (landed.finished_s, landed.credited, landed.late, landed.slow) == ((100.0,), (), 3, 0)
    assert lead.l50_s == 100.0
