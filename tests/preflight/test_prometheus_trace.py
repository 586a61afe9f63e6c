"""The same hour of recorded requests, read as a trace file and out of a Prometheus that scraped it: the same answers.

What they may differ by, and why: a gauge that is scraped every 15 s is a sample of what the trace integrates (3 % on
levels that are held); requests are counted when they end, so that a rate is late by one request's duration.
"""

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from autoscaler.cli.preflight_prometheus import read_prometheus
from autoscaler.cli.prometheus_flags import PrometheusOptions
from autoscaler.preflight.answers import Measured
from autoscaler.preflight.bands import Bands
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Spread, Track, WorkloadHistory
from autoscaler.preflight.requests import durations_s
from autoscaler.preflight.study import study
from autoscaler.preflight.traces import histories
from autoscaler.sim.requestlevel import load_profile
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.traces import read_traffic
from tests.prometheus.backfilled import Backfilled, Exposition

pytestmark = [
    pytest.mark.real,
    pytest.mark.data,
    pytest.mark.needs("prometheus", "shared-data"),
    pytest.mark.timeout(180),
]

BEGIN_S: Final = 1_700_158_500
"""2023-11-16 18:15 UTC, a multiple of the step."""
SCRAPE_S: Final = 15
PODS: Final = 3
BOUNDS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, np.inf)


def scraped(path: str, profile: Profile, lasts_s: float) -> Exposition:
    """What three pods would have shown, request n on pod n mod 3."""
    traffic = read_traffic(path, seed=0, step_s=30.0, with_requests=True)
    assert traffic.arrival_s is not None
    assert traffic.prompt_tokens is not None
    assert traffic.output_tokens is not None
    took_s = durations_s(traffic.prompt_tokens, traffic.output_tokens, profile)
    t_s = np.arange(-300, lasts_s + 300, SCRAPE_S, dtype=np.float64)
    past = Exposition()
    lengths = np.asarray(traffic.output_tokens, dtype=np.float64)
    for pod in range(PODS):
        arrived, took, tokens = (values[pod::PODS] for values in (traffic.arrival_s, took_s, lengths))
        ended = np.sort(arrived + took)
        labels = {"namespace": "team", "pod": f"conv-7d4b9c6f58-x2x9{pod}", "job": "pods"}
        at = (BEGIN_S + t_s).tolist()
        done = np.searchsorted(ended, t_s, side="right").astype(np.float64)
        past.add("vllm:num_requests_running", labels, at, np.searchsorted(np.sort(arrived), t_s, side="right") - done)
        past.add("vllm:num_requests_waiting", labels, at, np.zeros(t_s.size))
        past.add("vllm:request_success_total", labels, at, done)
        summed = np.concatenate(([0.0], np.cumsum(tokens[np.argsort(arrived + took)])))
        past.add("vllm:generation_tokens_total", labels, at, summed[done.astype(np.int64)])
        for bound in BOUNDS:
            within = np.sort((arrived + took)[took <= bound])
            le = {**labels, "le": "+Inf" if np.isinf(bound) else f"{bound}"}
            counted = np.searchsorted(within, t_s, side="right").astype(np.float64)
            past.add("vllm:e2e_request_latency_seconds_bucket", le, at, counted)
        past.add("vllm:e2e_request_latency_seconds_count", labels, at, done)
    return past


@pytest.fixture(scope="module")
def both(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[WorkloadHistory, WorkloadHistory]:
    """The same hour by trace, and by Prometheus."""
    path, profile = str(shared_data / "inference" / "azure2023_conv.csv.gz"), load_profile(None)
    (by_trace,) = histories(path, profile=profile)
    lasts_s = by_trace.steps * by_trace.step_s
    past = scraped(path, profile, lasts_s)
    folder = tmp_path_factory.mktemp("trace")
    begin, end = (str(np.datetime64(int(at_s), "s")) for at_s in (BEGIN_S, BEGIN_S + lasts_s))
    with Backfilled(folder / "prometheus", past) as server:
        server.wait_ready()
        fetched = read_prometheus(PrometheusOptions(server.url, from_text=begin, to_text=end), folder / "parts")
        (by_prometheus,) = fetched.histories
    return by_trace, by_prometheus


def known(signal) -> np.ndarray:
    assert isinstance(signal, Track), signal
    return signal.values


def test_arrivals_and_tokens_are_the_same_but_for_a_requests_duration(both) -> None:
    by_trace, by_prometheus = both
    for name in ("arrivals_per_s", "tokens_per_s"):
        expected, told = known(getattr(by_trace, name)), known(getattr(by_prometheus, name))
        assert told.size == expected.size
        assert told[4:].mean() == pytest.approx(expected[:-4].mean(), rel=0.03), name
    arrived, ended = known(by_trace.arrivals_per_s), known(by_prometheus.arrivals_per_s)
    alike = [np.corrcoef(ended[late:], arrived[: arrived.size - late])[0, 1] for late in range(4)]
    assert max(alike) > 0.75, alike


def test_requests_in_flight_are_the_same_but_for_what_passes_between_two_scrapes(both) -> None:
    by_trace, by_prometheus = (known(one.running) for one in both)
    # The trace does not know what ran when it began; the Prometheus of this test was there before.
    told = np.isfinite(by_trace)
    assert np.flatnonzero(~told).max() < 3
    by_trace, by_prometheus = by_trace[told], by_prometheus[told]
    assert by_prometheus.mean() == pytest.approx(by_trace.mean(), rel=0.01)
    assert np.corrcoef(by_trace, by_prometheus)[0, 1] > 0.85
    assert np.abs(by_prometheus - by_trace).mean() < 0.06 * by_trace.mean()


def test_durations_are_the_same_within_a_bucket(both) -> None:
    by_trace, by_prometheus = (one.duration for one in both)
    assert isinstance(by_trace, Spread)
    assert isinstance(by_prometheus, Spread)
    exact = [by_trace.counts[by_trace.edges_s <= bound].sum() / by_trace.counts.sum() for bound in BOUNDS]
    told = np.cumsum(by_prometheus.counts) / by_prometheus.counts.sum()
    assert told == pytest.approx(exact, abs=0.02)


def test_the_answers_agree(both) -> None:
    levels = []
    for history in both:
        answers, _ = study(history, Given(cold_start_s=180.0, slots=64.0))
        bands = answers.concurrency
        assert isinstance(bands, Bands), bands
        levels.append(bands)
    by_trace, by_prometheus = levels
    for name in ("floor", "usual", "high", "highest", "peak"):
        expected, told = getattr(by_trace, name), getattr(by_prometheus, name)
        assert isinstance(expected, Measured), (name, expected)
        assert isinstance(told, Measured), (name, told)
        assert told.value == pytest.approx(expected.value, rel=0.05 if name == "peak" else 0.03), name
