"""Histories out of Debian's Prometheus over series whose truth is known to the sample, troubles included."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from autoscaler.adapters.engines.catalogue import VLLM
from autoscaler.adapters.prometheus.questions import Subject, Window, questions
from autoscaler.cli.preflight_prometheus import Fetched, read_prometheus
from autoscaler.cli.prometheus_flags import PrometheusOptions
from autoscaler.errors import InputError
from autoscaler.ports import PortError
from autoscaler.preflight.history import Gap, Missing, Spread, Track, WorkloadHistory
from autoscaler.preflight.recorded import recorded
from tests.prometheus.backfilled import Backfilled, Exposition
from tests.prometheus.past import archive

pytestmark = [pytest.mark.real, pytest.mark.needs("prometheus"), pytest.mark.timeout(300)]

STEP_S: Final = 30
BEGIN_S: Final = 1_700_006_400
"""2023-11-15 00:00 UTC."""
STEPS: Final = 1440
WINDOW: Final = {"from_text": "2023-11-15T00:30", "to_text": "2023-11-15T11:30"}
FIRST: Final = 60
"""Steps of the samples before the window."""
READ: Final = 1320
NASTY: Final = 'a"b}{c\\d'
POD: Final = "-7d4b9c6f58-x2x9"

AT = BEGIN_S + STEP_S * np.arange(STEPS)
HALF: Final = STEPS // 2
GAP: Final = slice(900, 1020)
"""An hour in which nobody scraped team/chat."""
ASLEEP: Final = slice(500, 800)
"""Hours in which team/sleeper had no replica."""


def wave(low: float, high: float, period: int = 240) -> np.ndarray:
    return np.round(low + (high - low) * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(STEPS) / period)))


RUNNING = wave(0, 40)
WAITING = np.where(RUNNING > 30, RUNNING - 30, 0.0)
RATE = 2.0 + RUNNING / 10.0
"""Requests per second in the step that begins with a sample."""
REQUESTS = np.concatenate(([0.0], np.cumsum(RATE[:-1]) * STEP_S))


def chat(past: Exposition) -> None:
    """Two pods of a Deployment and a third from half-time on; an hour's gap, a rename, two resets."""
    there = np.ones(STEPS, dtype=bool)
    there[GAP] = False
    for number, pod in enumerate(f"chat{POD}{letter}" for letter in "abc"):
        keep = there & (np.arange(STEPS) >= HALF) if number == 2 else there
        labels = {"namespace": "team", "pod": pod, "job": "pods", "model_name": "m"}

        def add(
            name: str, values: np.ndarray, keep: np.ndarray = keep, labels: dict[str, str] = labels, **more: str
        ) -> None:
            past.add(name, {**labels, **more}, AT[keep].tolist(), values[keep].tolist())

        share = RUNNING if number == 0 else np.zeros(STEPS)
        add("vllm:num_requests_running", share)
        add("vllm:num_requests_waiting", WAITING if number == 0 else np.zeros(STEPS))
        usage = np.full(STEPS, 0.25 + 0.25 * number)
        add("vllm:gpu_cache_usage_perc", usage, keep & (np.arange(STEPS) < HALF))
        add("vllm:kv_cache_usage_perc", usage, keep & (np.arange(STEPS) >= HALF))
        counted = REQUESTS - np.where(np.arange(STEPS) >= 400, REQUESTS[400], 0.0) if number == 0 else np.zeros(STEPS)
        add("vllm:request_success_total", counted)
        add("vllm:generation_tokens_total", 100 * counted)
        for le, part in (("0.5", 0.5), ("2.0", 0.9), ("+Inf", 1.0)):
            add("vllm:request_queue_time_seconds_bucket", part * counted, le=le)
        add("vllm:request_queue_time_seconds_count", counted)
        owned = {"namespace": "monitoring", "pod": "ksm-0", "exported_namespace": "team", "exported_pod": pod}
        by_set = {**owned, "owner_kind": "ReplicaSet", "owner_name": "chat-7d4b9c6f58"}
        past.add("kube_pod_owner", by_set, AT.tolist(), [1.0] * STEPS)
        gpus = {**owned, "resource": "nvidia_com_gpu"}
        past.add("kube_pod_container_resource_requests", gpus, AT.tolist(), [4.0] * STEPS)
        past.add("kube_pod_created", owned, AT.tolist(), [BEGIN_S - 1000.0] * STEPS)
        ready = [BEGIN_S - 910.0 + 30.0 * number] * HALF + [BEGIN_S + 9000.0] * (STEPS - HALF)
        past.add("kube_pod_status_ready_time", owned, AT.tolist(), ready)
    by_deployment = {"replicaset": "chat-7d4b9c6f58", "owner_kind": "Deployment", "owner_name": "chat"}
    past.add("kube_replicaset_owner", {"exported_namespace": "team", **by_deployment}, AT.tolist(), [1.0] * STEPS)


def others(past: Exposition) -> None:
    def add(name: str, labels: dict[str, str], values: np.ndarray) -> None:
        past.add(name, labels, AT.tolist(), values.tolist())

    for nasty, level in ((NASTY, 7.0), ("plain", 1.0)):
        labels = {"namespace": "odd", "pod": "x", "job": "pods", "service": nasty}
        add("vllm:num_requests_running", labels, np.full(STEPS, level))
        add("vllm:num_requests_waiting", labels, np.zeros(STEPS))
    for job in ("pods", "services"):
        labels = {"namespace": "twice", "pod": f"double{POD}a", "job": job}
        rows = RUNNING if job == "pods" else np.where(np.arange(STEPS) < HALF, np.nan, RUNNING)
        past.add("vllm:num_requests_running", labels, AT[~np.isnan(rows)].tolist(), rows[~np.isnan(rows)].tolist())
    for rank in "01":
        labels = {"namespace": "team", "pod": "ranks-0", "job": "pods", "tp_rank": rank, "priority": ""}
        add("sglang:num_running_reqs", labels, RUNNING)
        add("sglang:num_running_reqs", {**labels, "priority": "1"}, RUNNING)
        add("sglang:num_queue_reqs", labels, WAITING)
        add("sglang:token_usage", labels, np.full(STEPS, np.nan if rank == "1" else 0.5))
    asleep = np.isin(np.arange(STEPS), np.arange(ASLEEP.start, ASLEEP.stop))
    labels = {"namespace": "team", "pod": "sleeper-0", "job": "pods"}
    past.add("vllm:num_requests_running", labels, AT[~asleep].tolist(), RUNNING[~asleep].tolist())
    stands = {"namespace": "monitoring", "exported_namespace": "team", "statefulset": "sleeper"}
    add("kube_statefulset_status_replicas", stands, np.where(asleep, 0.0, 1.0))
    labels = {"namespace": "own", "app": "engine", "job": "pods", "pod": "e-0"}
    add("my_running", labels, RUNNING)
    add("my_kv", labels, np.full(STEPS, 55.0))
    picker = {"namespace": "team", "pod": "epp-1", "job": "pods"}
    add("llm_d_epp_flow_control_queue_size", {**picker, "inference_pool": "ranks"}, np.full(STEPS, 3.0))
    add("llm_d_epp_request_total", {**picker, "model_name": "m"}, REQUESTS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backfilled]:
    past = Exposition()
    chat(past)
    others(past)
    with Backfilled(tmp_path_factory.mktemp("past"), past) as made:
        made.wait_ready()
        yield made


def read(server: Backfilled, folder: Path, **options) -> dict[str, WorkloadHistory]:
    return {one.workload: one for one in fetch(server, folder, **options).histories}


def fetch(server: Backfilled, folder: Path, **options) -> Fetched:
    return read_prometheus(PrometheusOptions(server.url, **{**WINDOW, **options}), folder)


def values(signal) -> np.ndarray:
    assert isinstance(signal, Track), signal
    assert signal.values.shape == (READ,)
    return signal.values


def truth(whole: np.ndarray) -> np.ndarray:
    return whole[FIRST : FIRST + READ]


def gaps(signal) -> list[tuple[Gap, int, int]]:
    """Why, and the steps of the samples from which and to which."""
    return [
        (hole.gap, *(round((at - BEGIN_S) / STEP_S) for at in (hole.from_s, hole.until_s))) for hole in signal.holes
    ]


@pytest.fixture(scope="module")
def found(server: Backfilled, tmp_path_factory: pytest.TempPathFactory) -> dict[str, WorkloadHistory]:
    return read(server, tmp_path_factory.mktemp("parts"))


def test_workloads_are_found_by_owner_by_label_and_by_the_names_of_pods(found) -> None:
    assert sorted(found) == [f"odd/{NASTY}", "odd/plain", "team/chat", "team/ranks", "team/sleeper", "twice/double"]
    assert found["team/chat"].gpus_per_replica == 4.0
    assert found["team/chat"].facts == {"model": "m", "kind": "Deployment"}
    assert found["team/ranks"].facts == {"kind": "StatefulSet"}


def test_cold_starts_are_those_of_its_pods_and_no_flap_of_readiness(found) -> None:
    told = found["team/chat"].cold_start
    assert isinstance(told, Spread)
    assert (told.edges_s.tolist(), told.counts.tolist(), told.exact) == ([90.0, 120.0, 150.0], [1.0, 1.0, 1.0], True)
    assert isinstance(found["team/ranks"].cold_start, Missing)


def test_gauges_are_those_of_their_steps_to_the_sample(found) -> None:
    known = truth(np.isin(np.arange(STEPS), np.arange(GAP.start, GAP.stop), invert=True))
    told = found["team/chat"]
    assert (values(told.running)[known] == truth(RUNNING)[known]).all()
    assert (values(told.waiting)[known] == truth(WAITING)[known]).all()
    assert (values(told.replicas)[known] == np.where(truth(np.arange(STEPS)) < HALF, 2, 3)[known]).all()
    assert (values(told.busy_replicas)[known] == (truth(RUNNING) > 0)[known]).all()
    for signal in (told.running, told.waiting, told.replicas):
        assert np.isnan(values(signal)[~known]).all()
        assert gaps(signal) == [(Gap.NOT_RECORDED, GAP.start, GAP.stop)]


def test_rates_pass_over_resets_and_know_nothing_of_the_gap(found) -> None:
    told = values(found["team/chat"].arrivals_per_s)
    steady = truth(np.arange(STEPS))
    apart = (np.abs(steady - 400) > 3) & (np.abs(steady - HALF) > 3)
    apart &= (steady < GAP.start - 4) | (steady > GAP.stop + 4)
    assert told[apart] == pytest.approx(truth(RATE)[apart], abs=0.15)
    assert np.nanmin(told) >= 0, "a counter that begins anew is no negative load"
    assert np.nanmax(told) < 1.1 * RATE.max(), "nor a burst"
    ((gap, first, end),) = gaps(found["team/chat"].arrivals_per_s)
    assert (gap, abs(first - GAP.start) <= 2, abs(end - GAP.stop) <= 2) == (Gap.NOT_RECORDED, True, True)
    assert values(found["team/chat"].tokens_per_s)[apart] == pytest.approx(100 * told[apart])


def test_a_metric_that_was_renamed_half_way_is_one_signal_with_a_note(found) -> None:
    told = found["team/chat"].kv_usage_ratio
    known = ~np.isnan(values(told))
    assert (values(told)[known] == np.where(truth(np.arange(STEPS)) < HALF, 0.5, 0.75)[known]).all(), "of the fullest"
    assert known.sum() == READ - (GAP.stop - GAP.start)
    (renamed,) = [hole for hole in told.holes if hole.gap is Gap.RENAMED]
    assert renamed.from_s - 600 <= BEGIN_S + HALF * STEP_S <= renamed.until_s
    assert "vllm:gpu_cache_usage_perc until 2023-11-15 0" in renamed.text


def test_queue_waits_are_counted_over_the_whole_window(found) -> None:
    told = found["team/chat"].queue_wait
    assert isinstance(told, Spread)
    arrived = float(truth(RATE).sum() - RATE[GAP].sum()) * STEP_S
    assert told.edges_s.tolist() == [0.5, 2.0, np.inf]
    assert told.counts.sum() == pytest.approx(arrived, rel=0.02)
    assert told.counts / told.counts.sum() == pytest.approx([0.5, 0.4, 0.1], abs=1e-3)
    assert {hole.gap for hole in told.holes} == {Gap.NOT_RECORDED}
    assert isinstance(found["team/chat"].duration, Missing)
    assert "vllm:e2e_request_latency_seconds" in found["team/chat"].duration.text


def test_quotes_and_braces_in_a_label_get_out_of_no_query(found) -> None:
    assert set(values(found[f"odd/{NASTY}"].running)) == {7.0}
    assert set(values(found["odd/plain"].running)) == {1.0}


def test_a_replica_that_two_jobs_scrape_is_not_summed_in_silence(found) -> None:
    told = found["twice/double"].running
    assert (values(told)[: HALF - FIRST - 20] == truth(RUNNING)[: HALF - FIRST - 20]).all()
    assert np.isnan(values(told)[HALF - FIRST :]).all()
    ((gap, first, _end),) = gaps(told)
    assert (gap, abs(first - HALF) <= 20) == (Gap.AMBIGUOUS, True)
    assert "2 jobs" in told.holes[0].text


def test_the_job_that_counts_can_be_named(server: Backfilled, tmp_path: Path) -> None:
    told = read(server, tmp_path, workloads=("twice/double",), selectors=('job="pods"',))["twice/double"].running
    assert (values(told) == truth(RUNNING)).all()
    assert gaps(told) == []


def test_ranks_of_one_replica_and_its_priorities_are_not_counted_twice(found) -> None:
    told = found["team/ranks"]
    assert (values(told.running) == truth(RUNNING)).all()
    assert set(values(told.replicas)) == {1.0}
    assert isinstance(told.kv_usage_ratio, Track)
    assert set(values(told.kv_usage_ratio)) <= {0.5} or told.kv_usage_ratio.holes, "a rank's NaN is no share"


def test_what_a_gateway_holds_waits_too_and_what_it_sends_on_arrives(found) -> None:
    told = found["team/ranks"]
    assert (values(told.waiting) == truth(WAITING) + 3).all()
    assert values(told.arrivals_per_s) == pytest.approx(truth(RATE), abs=0.15)


def test_a_workload_that_was_scaled_to_zero_ran_nothing_and_that_is_known(found) -> None:
    told = found["team/sleeper"]
    asleep = truth(np.isin(np.arange(STEPS), np.arange(ASLEEP.start, ASLEEP.stop)))
    assert (values(told.running) == np.where(asleep, 0.0, truth(RUNNING))).all()
    assert (values(told.replicas) == np.where(asleep, 0.0, 1.0)).all()
    assert gaps(told.replicas) == []


def test_an_engine_of_ones_own_is_read_by_the_names_that_are_given(server: Backfilled, tmp_path: Path) -> None:
    how = {
        "workloads": ("own/engine",),
        "selectors": ('app=~"eng.*"',),
        "metrics": ("running=my_running", "kv_cache_usage=my_kv"),
    }
    told = read(server, tmp_path, **how)["own/engine"]
    assert (values(told.running) == truth(RUNNING)).all()
    assert np.isnan(values(told.kv_usage_ratio)).all()
    assert isinstance(told.kv_usage_ratio, Track)
    assert told.kv_usage_ratio.holes[0].text.startswith("a share above 1")


def selected(matchers: str) -> dict[str, tuple[str]]:
    return {"workloads": ("team/x",), "selectors": (matchers,)}


WRONG = {
    "a workload that is not there": ({"workloads": ("team/chatt",)}, InputError, "found: team/chat"),
    "a selector of nothing": (selected('pod="none"'), InputError, "matches no series"),
    "a window before all": ({"from_text": "2022-01-01", "to_text": "2022-01-02"}, InputError, "no series of a known"),
    "a namespace of nobody": ({"namespaces": ("nobody",)}, InputError, "no series of a known engine"),
    "a bad regular expression": (selected('pod=~"("'), PortError, "regexp|parse"),
}  # fmt: skip


@pytest.mark.parametrize(("how", "kind", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_finds_nothing_says_so(server: Backfilled, tmp_path: Path, how, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        fetch(server, tmp_path, **how)


def test_a_step_finer_than_the_scrape_repeats_samples_and_a_coarser_one_is_their_mean(
    server: Backfilled, tmp_path: Path
) -> None:
    how = {"workloads": ("team/ranks",)}
    coarse = read(server, tmp_path / "a", step_s=300, **how)["team/ranks"].running
    assert isinstance(coarse, Track)
    assert coarse.values == pytest.approx(truth(RUNNING).reshape(-1, 10).mean(axis=1))
    fine = read(server, tmp_path / "b", step_s=10, **how)["team/ranks"].running
    assert isinstance(fine, Track)
    assert fine.values.size == 3 * READ
    assert np.isfinite(fine.values).all()


def strict(folder: Path, flag: str) -> Backfilled:
    """A server with a limit, over the same samples of one workload."""
    past = Exposition()
    chat(past)
    return Backfilled(folder, past, [flag])


CHAT: Final = {"workloads": ("team/chat",), "selectors": ('pod=~"chat-.*"',)}


def test_a_server_that_loads_few_samples_is_asked_in_smaller_parts(tmp_path: Path, found) -> None:
    with strict(tmp_path / "strict", "--query.max-samples=3000") as small:
        small.wait_ready()
        fetched = fetch(small, tmp_path / "parts", workloads=("team/chat",))
        (told,) = fetched.histories
    assert fetched.asked > 10
    whole = found["team/chat"]
    for name in ("running", "waiting", "replicas", "arrivals_per_s", "kv_usage_ratio"):
        assert np.array_equal(getattr(told, name).values, getattr(whole, name).values, equal_nan=True), name
        assert gaps(getattr(told, name)) == gaps(getattr(whole, name))


def test_what_even_the_smallest_part_is_too_much_for_is_a_hole_with_a_remedy(tmp_path: Path) -> None:
    with strict(tmp_path / "strict", "--query.max-samples=50") as small:
        small.wait_ready()
        (told,) = fetch(small, tmp_path / "parts", **CHAT).histories
    assert isinstance(told.running, Missing)
    assert told.running.gap is Gap.TOO_MANY
    assert "--query.max-samples" in told.running.text


async def test_a_server_that_gives_queries_no_time_is_told_apart_from_one_without_data(tmp_path: Path) -> None:
    subject = Subject("team/chat", 'namespace="team"', VLLM)
    window = Window(BEGIN_S + FIRST * STEP_S, STEP_S, READ)
    asked = questions(subject, window)
    with strict(tmp_path / "strict", "--query.timeout=0s") as hasty:
        hasty.wait_ready()
        async with archive(hasty.url, tmp_path / "parts") as parts:
            await parts.fetch(asked, lambda _done, _parts: None)
    told = recorded(subject, window, {one.name: (one, parts.past(one)) for one in asked}).running
    assert isinstance(told, Missing) or {hole.gap for hole in told.holes} >= {Gap.UNREACHABLE}
    text = told.text if isinstance(told, Missing) else told.holes[0].text
    assert "timed out" in text or "deadline exceeded" in text
