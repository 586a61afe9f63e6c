"""Readings to intervals, bins and freshness: counters, gauges, gaps, and what a pod's reading may not be taken for."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autoscaler.core.observe import history, pods
from autoscaler.core.observe.freshness import Freshness, FreshnessTrack
from autoscaler.core.observe.history import HistoryColumns
from autoscaler.core.observe.pods import Interval, WorkloadTrack
from autoscaler.core.params import BIN_S, HISTORY_BINS
from autoscaler.core.types import GatewayReading, LatencyReading, PodReading, Readings, ReplicaReading

ROW = np.array([0])


def pod(name: str = "a", done: float | None = 0.0, **fields: float | None) -> PodReading:
    given = {"ready_since_s": -1000.0, "waiting": 0.0, "running": 0.0, "kv_cache_usage": 0.0, **fields}
    return PodReading(name, requests_total=done, generation_tokens_total=None if done is None else 50.0 * done, **given)


def at(now_s: float, *read: PodReading, gateway: GatewayReading | None = None, ready: int | None = None) -> Readings:
    return Readings(now_s, ReplicaReading(len(read), len(read) if ready is None else ready), read, gateway)


def between(*moments: Readings) -> Interval:
    track = WorkloadTrack()
    for moment in moments:
        result = pods.difference(track, moment)
    return result


# counters
@pytest.mark.parametrize(
    ("first", "second", "completions"),
    [
        (pod(done=100), pod(done=130), 30.0),
        (pod(done=100), pod(done=5), math.nan),
        (pod(done=None), pod(done=900), math.nan),
        (pod(done=100), pod(done=None), math.nan),
        (pod("old", 100), pod("new", 1e9), math.nan),
        (pod(done=100), pod(done=100), 0.0),
    ],
    ids=["it grew", "it was reset", "first sight", "it vanished", "another pod", "it stood still"],
)
def test_a_counter_counts_only_what_both_samples_saw(first: PodReading, second: PodReading, completions: float) -> None:
    assert between(at(0, first), at(10, second)).completions == pytest.approx(completions, nan_ok=True)


def test_one_pod_of_two_restarts_and_the_other_still_counts() -> None:
    result = between(at(0, pod("a", 50), pod("b", 70)), at(10, pod("a", 3), pod("b", 90)))
    assert result.completions == 20.0


def test_arrivals_are_the_growth_of_the_gateways_counter() -> None:
    result = between(
        at(0, pod(), gateway=GatewayReading(0.0, 1000.0)), at(10, pod(), gateway=GatewayReading(4.0, 1064.0))
    )
    assert (result.arrivals, result.arrivals_s, result.queue) == (64.0, 10.0, 4.0)


def test_without_a_gateway_arrivals_are_completions_and_what_is_more_in_flight() -> None:
    result = between(at(0, pod(done=10, running=2, waiting=1)), at(10, pod(done=25, running=5, waiting=6)))
    assert result.arrivals == 15 + (5 + 6) - (2 + 1)


def test_in_flight_that_falls_never_makes_arrivals_negative() -> None:
    result = between(at(0, pod(done=10, running=8, waiting=90)), at(10, pod(done=12, running=0, waiting=0)))
    assert result.arrivals == 0.0


BEGAN_ANEW: dict[str, tuple[Readings, Readings, bool]] = {
    "the only pod": (at(0, pod(done=500)), at(10, pod(done=3)), True),
    "all pods": (at(0, pod("a", 500), pod("b", 700)), at(10, pod("a", 3), pod("b", 0)), True),
    "one of two": (at(0, pod("a", 500), pod("b", 700)), at(10, pod("a", 3), pod("b", 720)), True),
    "one of ten": (
        at(0, *(pod(str(k), 500) for k in range(10))),
        at(10, *(pod(str(k), 520 if k else 3) for k in range(10))),
        False,
    ),
    "all pods are others": (at(0, pod("a", 500), pod("b", 700)), at(10, pod("c", 9), pod("d", 9)), True),
    "the gateway": (
        at(0, pod(), gateway=GatewayReading(0.0, 900.0)), at(10, pod(), gateway=GatewayReading(0.0, 4.0)), True,
    ),
    "more pods join": (at(0, pod("a", 500)), at(10, pod("a", 520), pod("b", 0), pod("c", 0)), False),
    "the first pod": (at(0), at(10, pod(done=0, running=3)), False),
    "nobody counts": (at(0, pod(done=None, running=1)), at(10, pod(done=None, running=3)), False),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "anew"), BEGAN_ANEW.values(), ids=BEGAN_ANEW)
def test_where_most_counters_began_anew_it_is_not_known_what_arrived(
    first: Readings, second: Readings, anew: bool
) -> None:
    """A fleet that restarts as one would else show a moment without any traffic, as fresh as can be."""
    seen = between(first, second)
    assert seen.anew is anew
    assert math.isnan(seen.arrivals) is anew


def test_counters_that_began_anew_count_from_the_very_next_sample() -> None:
    reset = at(0, pod(done=500, running=4)), at(10, pod(done=3))
    seen = between(*reset, at(20, pod(done=33, running=2)))
    assert (seen.arrivals, seen.arrivals_s, seen.anew) == (30 + 2, 10.0, False)


def test_arrivals_are_no_reading_of_now_in_the_moment_in_which_the_counters_began_anew() -> None:
    track = FreshnessTrack()
    states = []
    for now_s, anew in ((0, False), (10, True), (20, False)):
        track.note(at(now_s, pod(done=5)), anew=anew)
        states.append((track.state("arrivals", now_s, 10.0), track.state("queue", now_s, 10.0)))
    assert states == [
        (Freshness.FRESH, Freshness.FRESH),
        (Freshness.HELD, Freshness.FRESH),
        (Freshness.FRESH, Freshness.FRESH),
    ]


def test_a_gateway_that_went_silent_is_waited_for_and_its_next_count_covers_the_gap() -> None:
    first = at(0, pod(done=0), gateway=GatewayReading(0.0, 1000.0))
    silent = at(10, pod(done=40))
    assert math.isnan(between(first, silent).arrivals)
    back = between(first, silent, at(20, pod(done=80), gateway=GatewayReading(0.0, 1080.0)))
    assert (back.arrivals, back.arrivals_s) == (80.0, 20.0)


def test_a_gateway_that_is_silent_for_more_than_a_minute_is_no_longer_waited_for() -> None:
    """Its counter is not read from 10 s to 90 s on; the pods complete 4 requests/s and 6 more come."""
    first = at(0, pod(done=0), gateway=GatewayReading(0.0, 1000.0))
    silent = [at(10.0 * i, pod(done=40 * i, waiting=60 * i)) for i in range(1, 9)]
    assert math.isnan(between(first, *silent[:6]).arrivals)
    assert math.isnan(between(first, *silent[:7]).arrivals), "nothing to compare with yet"
    told = between(first, *silent)
    assert (told.arrivals, told.arrivals_s) == (100.0, 10.0)
    back = [at(90.0 + 10.0 * i, pod(done=360), gateway=GatewayReading(0.0, 1900.0 + 100.0 * i)) for i in range(2)]
    assert math.isnan(between(first, *silent, back[0]).arrivals), "what it counted meanwhile was counted"
    assert between(first, *silent, *back).arrivals == 100.0


def test_a_gateways_next_count_covers_the_gap_where_no_pod_told_what_arrived_meanwhile() -> None:
    """As where a controller is cut off from all pods for two minutes."""
    first = at(0, pod(done=0), gateway=GatewayReading(0.0, 1000.0))
    silent = [replace(at(10.0 * i, ready=1), pods=None) for i in range(1, 12)]
    back = between(first, *silent, at(120, pod(done=480), gateway=GatewayReading(0.0, 1480.0)))
    assert (back.arrivals, back.arrivals_s) == (480.0, 120.0)


def test_the_first_sample_says_nothing_about_traffic() -> None:
    result = between(at(0, pod(done=5000), gateway=GatewayReading(3.0, 9000.0)))
    assert math.isnan(result.arrivals)
    assert math.isnan(result.dt_s)
    assert result.queue == 3.0, "a gauge counts at once"


def test_a_sample_at_the_same_instant_refreshes_gauges_and_counts_nothing_twice() -> None:
    first, second = at(0, pod(done=0)), at(10, pod(done=30, waiting=2))
    again = between(first, second, replace(second))
    assert (again.dt_s, again.queue) == (0.0, 2.0)
    assert not again.completions
    assert math.isnan(again.arrivals)


# gauges
def test_deferred_requests_are_not_in_the_queue() -> None:
    assert between(at(0, pod(waiting=2, waiting_deferred=70))).queue == 2.0


@pytest.mark.parametrize(
    ("readings", "queue"),
    [
        (at(0, pod(waiting=2), pod("b", waiting=3), gateway=GatewayReading(4.0, 1.0)), 9.0),
        (at(0, pod(waiting=2)), 2.0),
        (at(0, pod(waiting=None), gateway=GatewayReading(4.0, 1.0)), 4.0),
        (Readings(0, ReplicaReading(1, 1), None, GatewayReading(4.0, 1.0)), 4.0),
        (at(0, pod(waiting=None)), math.nan),
        (Readings(0, ReplicaReading(1, 1)), math.nan),
    ],
    ids=["gateway and pods add up", "pods alone", "silent pods", "no pods read", "nobody says", "nothing read"],
)
def test_the_queue_is_the_sum_of_what_was_read_and_unknown_when_nothing_was(readings: Readings, queue: float) -> None:
    assert between(readings).queue == pytest.approx(queue, nan_ok=True)


def test_pods_that_do_not_report_their_cache_are_taken_for_the_average() -> None:
    result = between(at(0, pod("a", kv_cache_usage=0.6), pod("b", kv_cache_usage=None), pod("c", kv_cache_usage=0.2)))
    assert result.kv_used == pytest.approx(1.2)


# saturation
@pytest.mark.parametrize(
    ("first", "second", "saturated"),
    [
        (pod(done=0, waiting=20), pod(done=20, waiting=20), True),
        (pod(done=0, waiting=0), pod(done=20, waiting=20), False),
        (pod(done=0, waiting=20), pod(done=20, waiting=0), False),
        (pod(done=0, waiting=1), pod(done=200, waiting=1), False),
    ],
    ids=["a line stood at both ends", "it only came", "it only went", "a line of half a second"],
)
def test_a_pod_was_full_only_if_a_line_stood_all_the_time(
    first: PodReading, second: PodReading, saturated: bool
) -> None:
    result = between(at(0, first), at(10, second))
    assert (result.saturated_pod_s, result.free_pod_s) == ((10.0, 0.0) if saturated else (0.0, 10.0))


def test_a_pod_that_has_just_become_ready_says_nothing_about_capacity() -> None:
    result = between(
        at(0, pod(done=0, waiting=9, ready_since_s=-2.0)), at(10, pod(done=4, waiting=9, ready_since_s=-2.0))
    )
    assert (result.saturated_pod_s, result.free_pod_s, result.completions) == (0.0, 0.0, 4.0)


# wedges
@pytest.mark.parametrize(
    ("gap_s", "saturated_s"),
    [(5.0, 10.0), (10.0, 15.0), (15.0, 0.0)],
    ids=["one look without it", "two", "too long to know whether the line stood"],
)
def test_what_full_pods_did_while_a_new_one_was_not_read_still_says_what_they_can_do(
    gap_s: float, saturated_s: float
) -> None:
    """Two pods of 4 requests/s with a line; a third becomes ready, and its first page comes after `gap_s`."""

    def fleet(now_s: float, *others: PodReading) -> Readings:
        full = {"waiting": 90.0, "running": 16.0}
        return at(now_s, *(pod(name, 4.0 * now_s, **full) for name in "ab"), *others)

    new = PodReading("c", 4.0)
    moments = [fleet(float(now_s), new) for now_s in range(5, round(gap_s) + 1, 5)]
    back_s = gap_s + 5.0
    result = between(fleet(0.0), *moments, fleet(back_s, pod("c", 0.0, ready_since_s=4.0)))
    assert result.saturated_pod_s == 2 * saturated_s
    assert result.saturated_completions == 4.0 * result.saturated_pod_s
    assert math.isnan(result.completions), "not of this interval"
    assert result.dt_s == 5.0


@pytest.mark.parametrize(
    ("queued", "saturated_pod_s"),
    [
        pytest.param((40.0, 40.0, 40.0, 40.0), 30.0, id="there all the time"),
        pytest.param((0.0, 0.0, 40.0, 40.0), 0.0, id="there for the last of three spans"),
        pytest.param((40.0, 0.0, 40.0, 40.0), 0.0, id="gone and there again"),
        pytest.param((40.0, None, 40.0, 40.0), 0.0, id="not read in between"),
    ],
)
def test_a_line_at_the_gateway_fills_pods_for_as_long_as_it_was_seen(
    queued: tuple[float | None, ...], saturated_pod_s: float
) -> None:
    """Two pods are not counted for 15 s, as a third is not read yet: what they did is of all that time."""

    def fleet(now_s: float, waits: float | None, *others: PodReading) -> Readings:
        gateway = None if waits is None else GatewayReading(waits, None)
        return at(now_s, *(pod(name, 4.0 * now_s, running=16.0) for name in "ab"), *others, gateway=gateway)

    first, *between_s, last = queued
    moments = [fleet(5.0 * (i + 1), waits, PodReading("c", 4.0)) for i, waits in enumerate(between_s)]
    result = between(fleet(0.0, first), *moments, fleet(15.0, last, pod("c", 0.0, ready_since_s=4.0)))
    assert result.saturated_pod_s == saturated_pod_s
    assert result.saturated_pod_s + result.free_pod_s == 30.0


def test_a_line_at_a_gateway_that_was_not_read_for_long_is_none_of_the_last_span() -> None:
    """Its last word, 300 s old, is of a line; it is back with another one, and nobody saw where that began."""
    moments = [at(5.0 * i, pod(done=20.0 * i, running=16.0)) for i in range(1, 60)]
    line = GatewayReading(50.0, 1000.0)
    back = [
        at(s, pod(done=4.0 * s, running=16.0), gateway=replace(line, requests_total=2000.0)) for s in (300.0, 305.0)
    ]
    first = at(0.0, pod(running=16.0), gateway=line)
    assert between(first, *moments, back[0]).saturated_pod_s == 0.0
    assert between(first, *moments, *back).saturated_pod_s == 5.0


def hanging(spans: int, *, running: float = 4.0, waiting: float = 7.0, done: float | None = 10.0) -> Interval:
    return between(*(at(10.0 * i, pod(done=done, running=running, waiting=waiting)) for i in range(spans)))


def test_a_pod_with_a_line_and_no_progress_is_wedged_and_its_line_no_demand() -> None:
    before, after = hanging(3), hanging(6)
    assert (before.wedged, before.queue) == (0, 7.0)
    assert (after.wedged, after.queue) == (1, 0.0)


BUSY = pod("x", 0.0, running=8.0)
LONG = replace(BUSY, generation_tokens_total=800.0)
OTHER = pod("y", 70.0, running=8.0)


def later(tokens: float) -> PodReading:
    """It holds the same requests of which none is done, and became ready five seconds ago."""
    return replace(LONG, ready_since_s=5.0, generation_tokens_total=tokens)


@pytest.mark.parametrize(
    ("before", "after", "desired", "ready", "died"),
    [
        pytest.param(BUSY, (), 2, 1, 1, id="it is gone with its first requests"),
        pytest.param(BUSY, (replace(BUSY, ready_since_s=5.0),), 2, 2, 1, id="it is ready anew"),
        pytest.param(LONG, (later(900.0),), 2, 2, 0, id="it was unready for a moment, and its tokens went on"),
        pytest.param(LONG, (later(70.0),), 2, 2, 1, id="it is ready anew, and its tokens began anew"),
        pytest.param(BUSY, (BUSY,), 2, 2, 0, id="it is busy with them"),
        pytest.param(BUSY, (), 1, 1, 0, id="one fewer was ordered"),
        pytest.param(BUSY, (), 2, 2, 0, id="it is ready and only not in the reading"),
        pytest.param(pod("x", 1.0, running=8.0), (), 2, 1, 0, id="it had completed one"),
        pytest.param(pod("x", None, running=8.0), (), 2, 1, 0, id="whether it had is not known"),
        pytest.param(pod("x", 0.0), (), 2, 1, 0, id="it had nothing to do"),
    ],
)
def test_a_pod_that_is_lost_with_its_first_requests_died_of_them(
    before: PodReading, after: tuple[PodReading, ...], desired: int, ready: int, died: int
) -> None:
    first = Readings(0.0, ReplicaReading(2, 2), (before, OTHER))
    second = Readings(10.0, ReplicaReading(desired, ready), (*after, replace(OTHER, requests_total=90.0)))
    assert between(first, second).died == died


YOUNG = tuple(pod(name, 0.0, running=8.0) for name in "xyz")
"""Three with their first requests."""
SILENT = (PodReading("x", 0.0), *YOUNG[1:])
"""The first tells nothing and is ready by the API, or is not:"""
ENDED = (PodReading("x"), *YOUNG[1:])


def look(now_s: float, ready: int, pods: tuple[PodReading, ...] | None) -> Readings:
    return Readings(now_s, ReplicaReading(3, ready), pods)


@pytest.mark.parametrize(
    ("meanwhile", "died"),
    [
        pytest.param([look(10.0, 3, SILENT)], 1, id="one, which may have ended right before the only look at it"),
        pytest.param([look(10.0, 3, None)], 1, id="all, which may have ended right before the only look at them"),
        pytest.param([look(10.0, 3, SILENT), look(14.0, 3, SILENT)], 1, id="one, and it is ready four seconds later"),
        pytest.param([look(5.0, 3, SILENT), look(10.0, 3, SILENT)], 0, id="one, and it is ready at two looks"),
        pytest.param([look(10.0, 3, None), look(15.0, 3, None)], 0, id="all, and they are ready at two looks"),
        pytest.param([look(5.0, 3, None), look(10.0, 3, None), look(15.0, 2, None)], 0, id="all, until one is not"),
        pytest.param([look(10.0, 2, ENDED)], 1, id="one that is not ready"),
        pytest.param(
            [look(3.0, 3, SILENT), look(8.0, 2, ENDED), look(13.0, 3, SILENT)],
            1,
            id="one, which was not ready between two looks that found it ready",
        ),
        pytest.param(
            [look(3.0, 3, None), look(8.0, 2, None), look(13.0, 3, None)],
            1,
            id="all, of which one was not ready between two looks that found them ready",
        ),
        pytest.param([look(10.0, 0, None)], 1, id="all, and none is ready"),
        pytest.param([look(10.0, 3, None), look(12.0, 3, YOUNG)], 1, id="all, and they told something since"),
        pytest.param([look(3.0, 3, SILENT), look(8.0, 2, ENDED)], 1, id="one, before the kubelet says that it ended"),
        pytest.param([look(3.0, 3, None), look(8.0, 0, None)], 1, id="all, before the kubelet says that they ended"),
        pytest.param([look(3.0, 3, SILENT), look(8.0, 3, SILENT)], 0, id="one, and it is ready five seconds later"),
    ],
)
def test_a_pod_that_told_nothing_while_it_was_ready_did_not_die_of_its_requests(
    meanwhile: list[Readings], died: int
) -> None:
    """A small fleet is told of by its last word of a pod, which was there without numbers for a while."""
    gone = look(20.0, 2, tuple(replace(each, requests_total=5.0) for each in YOUNG[1:]))
    assert between(look(0.0, 3, YOUNG), *meanwhile, gone).died == died


@pytest.mark.parametrize(
    "result",
    [hanging(20, waiting=0.0, running=0.0), hanging(20, done=None), hanging(20, waiting=0.0)],
    ids=["idle", "no counter to judge by", "one long request, nobody waits"],
)
def test_a_pod_without_a_line_or_counters_is_not_called_wedged(result: Interval) -> None:
    assert result.wedged == 0


def test_a_wedged_pod_that_makes_progress_again_counts_again() -> None:
    stuck = [at(10.0 * i, pod(done=10, running=4, waiting=7)) for i in range(6)]
    back = between(*stuck, at(60, pod(done=12, running=4, waiting=7)))
    assert (back.wedged, back.queue) == (0, 7.0)


# freshness
FULL = replace(at(0, pod(), gateway=GatewayReading(0.0, 1.0)), latency=LatencyReading(queue_s_p90=0.1))


@pytest.mark.parametrize(
    ("age_s", "state"),
    [
        (0.0, Freshness.FRESH),
        (2.5, Freshness.FRESH),
        (10.0, Freshness.HELD),
        (15.0, Freshness.HELD),
        (16.0, Freshness.UNKNOWN),
    ],
)
def test_a_signal_is_fresh_then_held_then_unknown(age_s: float, state: Freshness) -> None:
    track = FreshnessTrack()
    track.note(FULL)
    assert {track.state(s, age_s, 5.0) for s in ("arrivals", "queue", "kv", "tokens", "latency")} == {state}


def test_a_signal_that_never_existed_is_absent_for_ever() -> None:
    track = FreshnessTrack()
    track.note(at(0, pod(kv_cache_usage=None)))
    assert track.state("kv", 1e6, 5.0) is Freshness.ABSENT


@pytest.mark.parametrize(("reporting", "present"), [(5, True), (4, True), (3, False), (0, False)])
def test_a_signal_is_fresh_when_four_fifths_of_the_ready_pods_report_it(reporting: int, present: bool) -> None:
    track = FreshnessTrack()
    track.note(at(0, *(pod(f"p{i}", kv_cache_usage=0.5 if i < reporting else None) for i in range(5))))
    assert (track.state("kv", 0.0, 5.0) is Freshness.FRESH) == present


def test_ready_pods_that_were_not_read_count_as_silent() -> None:
    track = FreshnessTrack()
    track.note(at(0, pod("a"), pod("b"), ready=5))
    assert track.state("queue", 0.0, 5.0) is Freshness.ABSENT


# history
def absorbed(
    columns: HistoryColumns, now_s: float, arrivals: float, span_s: float, slack_s: float, *, stays_s: float = math.nan
) -> bool:
    closed = history.absorb(
        columns,
        ROW,
        np.array([now_s]),
        arrivals=np.array([arrivals]),
        span_s=np.array([span_s]),
        slack_s=np.array([slack_s]),
        stays_s=np.array([stays_s]),
    )
    return bool(closed[0])


def filled(samples: list[tuple[float, float, float]], slack_s: float = 10.0) -> HistoryColumns:
    """Columns after (now_s, arrivals, span_s) samples."""
    columns = HistoryColumns.allocate(1)
    for now_s, arrivals, span_s in samples:
        absorbed(columns, now_s, arrivals, span_s, slack_s)
    return columns


@pytest.mark.parametrize("period_s", [1.0, 5.0, 7.0, 10.0, 25.0, 60.0])
def test_bins_hold_what_arrived_in_them_whatever_the_sampling(period_s: float) -> None:
    samples = int(600.0 / period_s)
    columns = filled([(period_s * (i + 1), 3.0 * period_s, period_s) for i in range(samples)])
    count, cover_s = history.recent(columns, ROW, 50)
    assert count[cover_s > 0] / cover_s[cover_s > 0] == pytest.approx(3.0, rel=1e-5)
    assert cover_s.sum() == pytest.approx(10.0 * 50, abs=1.0)


def test_a_gap_is_a_gap_and_never_zero_traffic() -> None:
    steady = [(10.0 * (i + 1), 30.0, 10.0) for i in range(20)]
    columns = filled([*steady, (3800.0, 9000.0, 3600.0), (3810.0, 30.0, 10.0)])
    count, cover_s = history.recent(columns, ROW, 200)
    assert count.sum() == 30.0
    assert cover_s.sum() == BIN_S
    assert np.isnan(history.recent_needs(columns, ROW, 200)).all()


def test_the_ring_forgets_what_it_goes_over() -> None:
    columns = filled([(10.0 * (i + 1), float(i), 10.0) for i in range(2500)])
    count, _ = history.recent(columns, ROW, 3)
    assert count[0].tolist() == [2499.0, 2498.0, 2497.0]


@pytest.mark.parametrize("arrivals", [math.nan, 60.0])
def test_a_row_closes_its_bin_with_or_without_arrivals(arrivals: float) -> None:
    columns = HistoryColumns.allocate(1)
    closed = [absorbed(columns, now_s, arrivals, 5.0, 10.0) for now_s in (3.0, 8.0, 11.0, 19.9, 20.0)]
    assert closed == [False, False, True, False, True]


# the envelope
def waits_of(minute: np.ndarray, rate_rps: float) -> float:
    """The longest wait in a first-in-first-out line, second by second, that starts empty before this minute."""
    line, longest = 0.0, 0.0
    for arrivals in np.repeat(minute / BIN_S, int(BIN_S)):
        line += arrivals
        line = max(0.0, line - rate_rps)
        longest = max(longest, line / rate_rps)
    return longest


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("slack_s", [0.5, 5.0, 10.0, 30.0])
def test_the_envelope_keeps_waits_within_the_slack_of_a_simulated_line(seed: int, slack_s: float) -> None:
    """A line served at the envelope's rate, against one simulated request by request; and it is not much too high:
    at least the mean, at most the busiest bin."""
    rng = np.random.default_rng(seed)
    minute = rng.gamma(0.6, 40.0, 6)
    need = float(history.envelope(minute[None], np.full((1, 6), BIN_S), np.array([slack_s]))[0])
    assert waits_of(minute, need) <= slack_s * 1.02 + 1.0
    assert minute.mean() / BIN_S * 0.999 <= need <= minute.max() / BIN_S * 1.001
    assert need == pytest.approx(
        float(history.envelope(minute[None, ::-1], np.full((1, 6), BIN_S), np.array([slack_s]))[0])
    )


def test_the_envelope_is_unknown_when_less_than_half_of_the_minute_was_measured() -> None:
    cover = np.array([[10.0, 10.0, 9.0, 0.0, 0.0, 0.0], [10.0, 10.0, 10.0, 0.0, 0.0, 0.0]])
    need = history.envelope(np.where(cover > 0, 20.0, 0.0), cover, np.array([10.0, 10.0]))
    assert np.isnan(need[0])
    assert need[1] >= 2.0


@pytest.mark.parametrize(("stays_s", "need_rps"), [(math.nan, 0.164), (15.0, 0.1125), (60.0, 0.05), (200.0, 0.15)])
def test_a_need_is_no_higher_than_that_of_one_stay(stays_s: float, need_rps: float) -> None:
    """Three requests came in the last minute, all in its first ten seconds, and 27 in the 140 s before it."""
    columns = HistoryColumns.allocate(1)
    for at_s in range(10, 201, 10):
        late, came = at_s > 140, 3.0 if at_s == 150 else 0.0
        absorbed(columns, float(at_s), came if late else 27.0 / 14, 10.0, 10.0, stays_s=stays_s)
    absorbed(columns, 210.0, 0.0, 10.0, 10.0, stays_s=stays_s)
    assert history.recent_needs(columns, ROW, 2)[0, 1] == pytest.approx(need_rps, abs=0.002)


def test_the_newest_bins_of_each_row_are_read_over_the_end_of_its_own_ring() -> None:
    """Three rows whose open bins are the ring's first, its fourth and its last but one: five bins before each."""
    columns = HistoryColumns.allocate(4)
    columns.count[:] = np.arange(4)[:, None] * 10_000 + np.arange(HISTORY_BINS)
    columns.need_rps[:] = -columns.count
    rows = np.array([3, 0, 2])
    columns.head[rows] = 7 * HISTORY_BINS + np.array([0, 3, HISTORY_BINS - 2])
    last = HISTORY_BINS - 1
    expected = [
        [30_000 + last - i for i in range(5)],
        [2, 1, 0, last, last - 1],
        [20_000 + last - 2 - i for i in range(5)],
    ]
    assert history.recent(columns, rows, 5)[0].tolist() == expected
    assert history.recent_needs(columns, rows, 5).tolist() == [[-bin_ for bin_ in row] for row in expected]
    assert history.recent(columns, rows, 4, back=1)[0].tolist() == [row[1:] for row in expected]
