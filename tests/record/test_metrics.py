"""The controller's own metrics: every one has a value somewhere, unknown is no value, and series are bounded."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from autoscaler.core.scale.overload import Overload
from autoscaler.record.batch import BatchTold
from autoscaler.record.families import Family, Kind, owner
from autoscaler.record.gpu_metrics import GpuUse
from autoscaler.record.http_metrics import HttpFigures
from autoscaler.record.keda_metrics import KedaFigures
from autoscaler.record.metrics import CATALOGUE, Process, families
from autoscaler.record.pool_status import PoolStatus
from autoscaler.record.status import fit_of
from autoscaler.record.stream import SignalFrame, WorkloadFrame
from autoscaler.record.tally import BOUNDS_S, Lags, Tally
from tests.record.batches import TOLD
from tests.record.pool_statuses import short_pool
from tests.web.builders import estimate, quality, signals, workload

SHORT = Overload(
    deficit_replicas=3, admissible_rps=16.0, shed_ratio=0.25, wait_s=4.0, retry_after_s=45.0, expires_s=10.0
)
PROCESS = Process(
    leading=True, frozen=False, lease_transitions=2, loop_lag_s=0.01, snapshot_age_s=0.0,
    watch_staleness_s={"pods": 1.0, "nodes": float("inf")}, scrape_targets={"up": 900, "down": 100},
    claims={"taken": 1000, "waiting": 7}, claims_limit=1000,
    api_requests={("GET", "2xx"): 5, ("PATCH", "timeout"): 1}, lost={"audit": 0, "events": 4}, waiting={"audit": 7},
    http=HttpFigures(1.8e9, refused=False),
    keda=KedaFigures(calls={("GetMetrics", "OK"): 9, ("IsActive", "UNAVAILABLE"): 1}, streams=2, plaintext=True,
                      certificate_ends_s=1.8e9, hpa={"demo/chat": (4, ("TOLERANCE",))}),
    gpus={"demo/chat": GpuUse(120e9, 40e9, 0.4)}, version="0.1.0", config_hash="3f2a",
)  # fmt: skip


def made(
    *frames: WorkloadFrame,
    tally: Tally | None = None,
    process: Process | None = None,
    now_s: float = 0.0,
    pools: Sequence[PoolStatus] = (),
    batch: BatchTold | None = None,
) -> dict[str, Family]:
    by_name = {frame.workload: frame for frame in frames}
    counts = (tally or Tally()).counts()
    return {f.metric.name: f for f in families(by_name, counts, process or Process(), now_s, pools, batch=batch)}


def full_tally(*names: str) -> Tally:
    tally = Tally()
    for name in names:
        tally.decided(name, "SCALE", "FORECAST", 0.3)
        tally.acted(name, "APPLIED", 0.5)
    tally.noted("SOURCE_LOST")
    return tally


def test_every_metric_of_the_catalogue_has_a_value_when_everything_is_known() -> None:
    known = workload(overload=SHORT, gpus_per_replica=2, shadow=estimate(), quality=quality(drift="MISSES"))
    unsure = workload(workload="demo/code", shadow=estimate(doubt="TOO_SHORT", saved_hours=None, avoided=None))
    told = made(
        known, unsure, tally=full_tally("demo/chat"), process=PROCESS, now_s=1.0, pools=[short_pool()], batch=TOLD
    )
    assert set(told) == {metric.name for metric in CATALOGUE}
    assert all(family.values for family in told.values())


def test_the_values_of_a_workload_are_those_of_its_newest_frame() -> None:
    told = made(workload(0.0, overload=SHORT, mode="Paused", gpus_per_replica=2), tally=full_tally("demo/chat"))
    chat = ("demo", "chat")
    expected = {
        "headroom_desired_replicas": 5, "headroom_ready_replicas": 4, "headroom_starting_replicas": 1,
        "headroom_wanted_replicas": 5, "headroom_desired_gpus": 10, "headroom_load_rps": 12.0,
        "headroom_queue_requests": 3.0, "headroom_forecast_upper_rps": 19.0, "headroom_forecast_coverage_ratio": 0.97,
        "headroom_warmup_p90_seconds": 90.0, "headroom_overloaded": 1.0, "headroom_overload_deficit_replicas": 3,
        "headroom_overload_shed_ratio": 0.25, "headroom_overload_retry_after_seconds": 45.0,
    }  # fmt: skip
    assert {name: told[name].values[chat] for name in expected} == expected
    assert told["headroom_mode"].values == {(*chat, "Paused"): 1.0}
    assert told["headroom_decisions_total"].values == {(*chat, "SCALE", "FORECAST"): 1.0}
    assert told["headroom_acts_total"].values == {(*chat, "APPLIED"): 1.0}
    assert told["headroom_notes_total"].values == {("SOURCE_LOST",): 1.0}


def test_a_figure_that_is_not_known_has_no_value_which_is_not_zero() -> None:
    blind = workload(load_rps=None, queue=None, needs=None, replica_rps=None, signals=signals("unknown", 90.0))
    told = made(blind, workload(workload="demo/code"))
    for name in ("load_rps", "queue_requests", "wanted_replicas", "overloaded", "overload_shed_ratio"):
        assert set(told[f"headroom_{name}"].values) == {("demo", "code")}
    assert "headroom_leader" not in told
    assert "headroom_desired_gpus" not in told
    assert "headroom_keda_certificate_not_after_timestamp_seconds" not in made(process=Process(keda=KedaFigures()))


def test_the_http_ports_certificate_is_told_of_where_it_has_one() -> None:
    refused, ends = "headroom_http_certificates_refused", "headroom_http_certificate_not_after_timestamp_seconds"
    assert not {refused, ends} & set(made(process=Process()))
    told = made(process=Process(http=HttpFigures(1.8e9, refused=True)))
    assert (told[refused].values, told[ends].values) == ({(): 1.0}, {(): 1.8e9})
    assert ends not in made(process=Process(http=HttpFigures(None, refused=False)))


def test_what_an_exporter_does_not_show_of_gpus_has_no_value() -> None:
    told = made(process=Process(gpus={"demo/chat": GpuUse(9.0, 0.0, None), "demo/code": GpuUse(None, None, 0.5)}))
    assert told["headroom_gpu_memory_used_bytes"].values == {("demo", "chat"): 9.0}
    assert told["headroom_gpu_memory_free_bytes"].values == {("demo", "chat"): 0.0}
    assert told["headroom_gpu_utilisation_ratio"].values == {("demo", "code"): 0.5}


def test_demand_that_fits_is_no_overload_and_zero_replicas_short() -> None:
    told = made(workload())
    assert fit_of(workload()) == "fits"
    assert told["headroom_overloaded"].values == {("demo", "chat"): 0.0}
    assert told["headroom_overload_deficit_replicas"].values == {("demo", "chat"): 0.0}
    assert "headroom_overload_admissible_rps" not in told


def test_an_estimate_is_three_accounts_its_error_and_what_it_comes_to() -> None:
    told = made(workload(shadow=estimate()))
    chat = ("demo", "chat")
    assert told["headroom_shadow_replica_hours"].values == {(*chat, "observed"): 10.0, (*chat, "ours"): 6.0}
    assert told["headroom_shadow_late_requests"].values == {
        (*chat, "observed"): 100.0, (*chat, "modelled"): 110.0, (*chat, "ours"): 10.0,
    }  # fmt: skip
    assert told["headroom_shadow_saved_replica_hours"].values == {chat: 4.0}
    assert told["headroom_shadow_saved_gpu_hours"].values == {chat: 8.0}
    assert told["headroom_shadow_avoided_requests"].values == {chat: 90.0}
    assert told["headroom_shadow_error_ratio"].values == {chat: 0.002}
    assert "headroom_shadow_doubt" not in told


def test_what_cannot_be_told_has_a_reason_and_no_figure() -> None:
    told = made(workload(shadow=estimate(doubt="MODEL_OFF", saved_hours=None, avoided=None)))
    assert told["headroom_shadow_doubt"].values == {("demo", "chat", "MODEL_OFF"): 1.0}
    for name in ("saved_replica_hours", "saved_gpu_hours", "avoided_requests"):
        assert f"headroom_shadow_{name}" not in told


def test_a_forecast_is_told_model_by_model_and_an_alarm_has_its_reason() -> None:
    told = made(workload(quality=quality(drift="MISSES")))
    chat = ("demo", "chat")
    assert told["headroom_forecast_loss_ratio"].values == {
        (*chat, "last"): 1.0, (*chat, "level"): 0.91, (*chat, "ridge"): 1.07,
    }  # fmt: skip
    assert told["headroom_forecast_model"].values == {(*chat, "level"): 1.0}
    assert told["headroom_forecast_off"].values == {(*chat, "ridge"): 1.0}
    assert told["headroom_forecast_coverage_band_ratio"].values == {(*chat, "least"): 0.9, (*chat, "most"): 1.0}
    assert told["headroom_forecast_drift"].values == {(*chat, "MISSES"): 1.0}


def test_ages_go_on_growing_while_nothing_is_decided() -> None:
    rows = (SignalFrame("queue", "fresh", 1.0, blocking=True), SignalFrame("kv", "absent", None, blocking=True))
    told = made(workload(100.0, signals=rows), now_s=130.0)
    assert told["headroom_input_age_seconds"].values == {("demo", "chat", "queue"): 31.0}
    assert told["headroom_decision_age_seconds"].values == {("demo", "chat"): 30.0}
    assert told["headroom_step_age_seconds"].values == {(): 30.0}
    assert told["headroom_signal_state"].values == {("demo", "chat", "queue"): 1, ("demo", "chat", "kv"): 0}


def test_the_series_of_a_workload_are_few_and_all_but_the_counted_ones_are_fixed() -> None:
    """41 of one workload whatever it does, 10 and 8 here for its estimate and its forecast; then one for each kind of
    decision and outcome that occurred."""
    names = [f"team-{number % 20}/chat-{number}" for number in range(1000)]
    tally = full_tally(*names)
    for name in names:
        tally.decided(name, "HOLD", "STEADY", 0.1)
    past: dict[str, Any] = {"shadow": estimate(), "quality": quality()}
    frames = [workload(workload=name, overload=SHORT, gpus_per_replica=1, **past) for name in names]
    told = made(*frames, tally=tally)
    owned = [family for family in told.values() if "workload" in family.metric.labels]
    assert sum(len(family.values) for family in owned) == 1000 * (41 + 10 + 8 + 2 + 1)


def test_no_label_names_a_pod_or_anything_else_without_bound() -> None:
    closed = {
        "namespace", "workload", "mode", "signal", "verdict", "reason", "outcome", "event", "resource", "state",
        "method", "answer", "code", "stream", "limit", "place", "version", "hash", "account", "model", "side",
        "pool", "stage", "sku", "zone", "capacity_type", "type", "status", "queue", "shape", "owner",
    }  # fmt: skip
    assert {label for metric in CATALOGUE for label in metric.labels} == closed


@pytest.mark.parametrize("metric", CATALOGUE, ids=[metric.name for metric in CATALOGUE])
def test_a_name_says_its_unit_and_its_kind(metric) -> None:
    assert re.fullmatch(r"headroom_[a-z0-9_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert not metric.name.endswith(("_s", "_ms", "_percent"))
    assert metric.text.endswith(".")


def test_names_occur_once() -> None:
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)


def test_what_is_forgotten_is_no_longer_counted() -> None:
    tally = full_tally("demo/chat", "demo/code")
    tally.forget("demo/chat")
    told = made(tally=tally)
    assert set(told["headroom_decisions_total"].values) == {("demo", "code", "SCALE", "FORECAST")}
    assert set(told["headroom_acts_total"].values) == {("demo", "code", "APPLIED")}


def test_counts_that_were_handed_out_stand_still() -> None:
    tally = full_tally("demo/chat")
    before = tally.counts()
    tally.decided("demo/chat", "SCALE", "FORECAST", 0.3)
    assert before.decisions["demo/chat", "SCALE", "FORECAST"] == 1
    assert sum(before.step_lag.counts) == 1


@pytest.mark.parametrize(
    ("seconds", "place"),
    [(-3.0, 0), (0.0, 0), (0.05, 0), (0.0501, 1), (1.2, BOUNDS_S.index(1.2)), (99.0, len(BOUNDS_S))],
)
def test_a_duration_falls_into_the_first_class_that_holds_it(seconds: float, place: int) -> None:
    lags = Lags().with_one(seconds)
    assert lags.counts[place] == sum(lags.counts) == 1
    assert lags.sum_s == max(0.0, seconds)


@pytest.mark.parametrize(("name", "labels"), [("prod/chat", ("prod", "chat")), ("chat", ("", "chat"))])
def test_a_workload_is_labelled_by_namespace_and_name(name: str, labels: tuple[str, str]) -> None:
    assert owner(name) == labels
