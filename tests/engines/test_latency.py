"""Percentiles over the last minute from the growth of histograms."""

import math

import pytest

from autoscaler.adapters.engines.facts import Buckets
from autoscaler.adapters.engines.latency import (
    LONG,
    LONG_FEWEST,
    MOST_BOUNDS,
    LatencyWindow,
    quantile,
    whole_requests,
)
from autoscaler.adapters.engines.profiles import Span

BOUNDS = (0.1, 0.5, 1.0, math.inf)


def buckets(*counts: float, bounds_s: tuple[float, ...] = BOUNDS) -> Buckets:
    return Buckets(bounds_s, counts)


QUANTILES = {
    "linear inside of a bucket": (buckets(0, 10, 10, 10), 0.1 + 0.4 * 0.9),
    "in the first bucket from zero": (buckets(10, 10, 10, 10), 0.09),
    "at a bound": (buckets(0, 9, 10, 10), 0.5),
    "in the unbounded bucket: at least the last bound": (buckets(0, 0, 5, 10), 1.0),
    "too few observations": (buckets(4, 4, 4, 4), None),
    "no finite bound": (buckets(50, bounds_s=(math.inf,)), None),
}


@pytest.mark.parametrize(("given", "expected"), QUANTILES.values(), ids=QUANTILES.keys())
def test_the_ninetieth_percentile_is(given: Buckets, expected: float | None) -> None:
    assert quantile(given) == (None if expected is None else pytest.approx(expected))


def test_growth_is_summed_over_pods_and_forgotten_after_a_minute() -> None:
    window = LatencyWindow()
    for pod in ("a", "b"):
        window.add(pod, 0.0, {Span.TTFT: buckets(1000, 1000, 1000, 1000)})
        window.add(pod, 5.0, {Span.TTFT: buckets(1000, 1010, 1010, 1010)})
    reading = window.reading(6.0)
    assert reading is not None
    assert reading.ttft_s_p90 == pytest.approx(0.46)
    assert reading.queue_s_p90 is None
    assert window.reading(60.0) is not None
    assert window.reading(71.0) is None, "what was seen a minute ago says nothing of now"


def test_a_first_page_and_a_restart_say_nothing() -> None:
    window = LatencyWindow()
    window.add("a", 0.0, {Span.QUEUE: buckets(0, 0, 0, 500)})
    assert window.reading(1.0) is None
    window.add("a", 5.0, {Span.QUEUE: buckets(0, 0, 0, 20)})
    assert window.reading(6.0) is None, "fewer than before: it was restarted"
    window.add("a", 10.0, {Span.QUEUE: buckets(10, 10, 10, 30)})
    assert window.reading(11.0) is not None


def test_pods_with_different_bounds_are_joined_and_never_flattered() -> None:
    window = LatencyWindow()
    coarse = (1.0, math.inf)
    window.add("a", 0.0, {Span.TPOT: buckets(0, 0, 0, 0)})
    window.add("b", 0.0, {Span.TPOT: buckets(0, 0, bounds_s=coarse)})
    window.add("a", 5.0, {Span.TPOT: buckets(10, 10, 10, 10)})
    window.add("b", 5.0, {Span.TPOT: buckets(10, 10, bounds_s=coarse)})
    reading = window.reading(6.0)
    assert reading is not None
    assert 0.5 < (reading.tpot_s_p90 or 0) <= 1.0, "the coarse pod's may all be just below 1 s"


def test_a_pod_whose_bounds_change_begins_anew() -> None:
    window = LatencyWindow()
    window.add("a", 0.0, {Span.TPOT: buckets(0, 0, 0, 0)})
    window.add("a", 5.0, {Span.TPOT: buckets(100, 100, bounds_s=(1.0, math.inf))})
    assert window.reading(6.0) is None


def test_a_dropped_pods_observations_stay_and_its_name_starts_over() -> None:
    window = LatencyWindow()
    window.add("a", 0.0, {Span.QUEUE: buckets(0, 0, 0, 0)})
    window.add("a", 5.0, {Span.QUEUE: buckets(10, 10, 10, 10)})
    window.drop("a")
    window.drop("a")
    window.add("a", 10.0, {Span.QUEUE: buckets(10, 10, 10, 9000)})
    reading = window.reading(11.0)
    assert reading is not None
    assert reading.queue_s_p90 == pytest.approx(0.09)


def test_how_long_whole_requests_take_is_kept_for_an_hour_and_known_of_a_hundred() -> None:
    """Ninety of a hundred end within half a second; the last one is cut off where pods are given less than it takes."""
    window = whole_requests()
    window.add("a", 0.0, {Span.DURATION: buckets(0, 0, 0, 0), Span.TTFT: buckets(0, 0, 0, 0)})
    window.add("a", 5.0, {Span.DURATION: buckets(0, 45, 50, 50), Span.TTFT: buckets(0, 45, 50, 50)})
    assert window.percentile(Span.DURATION, 6.0, LONG, LONG_FEWEST) is None
    assert window.percentile(Span.TTFT, 6.0) is None
    window.add("a", 1800.0, {Span.DURATION: buckets(0, 90, 100, 100)})
    assert window.percentile(Span.DURATION, 1801.0, LONG, LONG_FEWEST) == pytest.approx(0.95)
    assert window.percentile(Span.DURATION, 5500.0, LONG, LONG_FEWEST) is None


def test_no_decision_reads_how_long_whole_requests_take() -> None:
    window = LatencyWindow()
    for at_s, count in ((0.0, 0.0), (5.0, 50.0)):
        window.add("a", at_s, {Span.DURATION: buckets(0, count, count, count)})
    assert window.reading(6.0) is None


def test_a_pod_whose_bounds_change_with_every_page_costs_no_more_than_a_rollout() -> None:
    """5,000 new bounds every ten seconds were kept for an hour, 100 MB of one pod, and all joined at every look."""
    window = whole_requests()
    for turn in range(360):
        bounds = (*(turn + n / 100.0 for n in range(1, 50)), math.inf)
        for at_s, count in ((10.0 * turn, 0.0), (10.0 * turn + 5.0, 30.0)):
            window.add("a", at_s, {Span.DURATION: Buckets(bounds, (count,) * len(bounds))})
    assert len({bounds for _, slot in window._slots for bounds in slot.get(Span.DURATION, ())}) == MOST_BOUNDS
    assert window.percentile(Span.DURATION, 3600.0, LONG, LONG_FEWEST) is not None, "of the first four"
    for at_s, count in ((7300.0, 0.0), (7305.0, 200.0)):
        window.add("b", at_s, {Span.DURATION: buckets(0, count, count, count)})
    assert window.percentile(Span.DURATION, 7306.0, LONG, LONG_FEWEST) == pytest.approx(0.496), "an hour later"
