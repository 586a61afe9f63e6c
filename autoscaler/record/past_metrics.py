"""Metrics about the past: what shadow mode says it would have saved, and how good forecasts were.

Enters: frames. Leaves: families. What cannot be told has no value, and its reason has one. A workload has at most 26
series here: models, doubts and drifts are closed sets, of which it has one each or all.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from autoscaler.record.estimate import Estimate
from autoscaler.record.families import OWNER, Family, Kind, Labels, Metric, Value, owner
from autoscaler.record.quality import Quality
from autoscaler.record.stream import WorkloadFrame


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"headroom_{name}", Kind.GAUGE, text, (*OWNER, *labels))


_HELD: Final = _gauge("shadow_replica_hours", "Replica-hours held, as it happened and as ours.", "account")
_LATE: Final = _gauge(
    "shadow_late_requests", "Requests later than the objective: as measured, by the model, and as ours.", "account"
)
_SAVED: Final = _gauge("shadow_saved_replica_hours", "Replica-hours that ours would have saved; below 0, held more.")
_SAVED_GPUS: Final = _gauge("shadow_saved_gpu_hours", "GPU-hours that ours would have saved; below 0, held more.")
_AVOIDED: Final = _gauge("shadow_avoided_requests", "Late requests that ours would have avoided; below 0, made more.")
_ERROR: Final = _gauge("shadow_error_ratio", "Share of the requests that the model misplaced on what happened.")
_WAIT_ERROR: Final = _gauge("shadow_wait_error_seconds", "By how much the model missed a wait on what happened.")
_DOUBT: Final = _gauge("shadow_doubt", "1 for the reason why nothing can be told.", "reason")

_LOSS: Final = _gauge("forecast_loss_ratio", "Pinball loss of a model over last value's, of three hours.", "model")
_MODEL: Final = _gauge("forecast_model", "1 for the model that weighs most.", "model")
_OFF: Final = _gauge("forecast_off", "1 for a model that is switched off, because it loses to last value.", "model")
_BAND: Final = _gauge("forecast_coverage_band_ratio", "Where the coverage lies by chance.", "side")
_ASKED: Final = _gauge("forecast_asked_ratio", "Share of the scored upper bounds that were meant to hold.")
_DRIFT: Final = _gauge("forecast_drift", "1 for what is wrong with a forecast beyond chance.", "reason")

METRICS: Final = (
    _HELD, _LATE, _SAVED, _SAVED_GPUS, _AVOIDED, _ERROR, _WAIT_ERROR, _DOUBT, _LOSS, _MODEL, _OFF, _BAND, _ASKED,
    _DRIFT,
)  # fmt: skip
"""All of them."""

Values = Iterator[tuple[Metric, Labels, float | None]]


def past_families(frames: Mapping[str, WorkloadFrame]) -> Iterator[Family]:
    """The families of all frames; one without any value is left out."""
    found: dict[Metric, dict[Labels, Value]] = {metric: {} for metric in METRICS}
    for name, frame in frames.items():
        owned = owner(name)
        for values in (_of_estimate(frame.shadow), _of_quality(frame.quality)):
            for metric, labels, value in values:
                if value is not None:
                    found[metric][*owned, *labels] = value
    return (Family(metric, values) for metric, values in found.items() if values)


def _of_estimate(estimate: Estimate | None) -> Values:
    if estimate is None:
        return
    e = estimate
    yield _HELD, ("observed",), e.observed.held_hours
    yield _HELD, ("ours",), e.ours.held_hours
    for account, sums in (("observed", e.observed), ("modelled", e.modelled), ("ours", e.ours)):
        yield _LATE, (account,), sums.late
    yield _SAVED, (), e.saved_hours
    yield _SAVED_GPUS, (), e.saved_gpu_hours
    yield _AVOIDED, (), e.avoided
    yield _ERROR, (), e.late_error_ratio
    yield _WAIT_ERROR, (), e.wait_error_s
    if e.doubt is not None:
        yield _DOUBT, (e.doubt,), 1.0


def _of_quality(quality: Quality | None) -> Values:
    if quality is None:
        return
    for score in quality.models:
        yield _LOSS, (score.model,), score.loss_ratio
        if score.state == "off":
            yield _OFF, (score.model,), 1.0
    yield _MODEL, (quality.leading,), 1.0
    if quality.band is not None:
        yield _BAND, ("least",), quality.band[0]
        yield _BAND, ("most",), quality.band[1]
    yield _ASKED, (), quality.asked_ratio
    if quality.drift is not None:
        yield _DRIFT, (quality.drift,), 1.0
