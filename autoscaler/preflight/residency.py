"""Residency: how long a model holds GPU memory against how long it computes, and what today's replicas waste.

Enters: a history with its replicas, and what one replica carries. Leaves: shares of time and GPU-hours. Holding is
counted in replicas that answer; what starts or is stuck is not seen here and comes on top.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why
from autoscaler.preflight.given import whole_window
from autoscaler.preflight.history import Missing, Track, WorkloadHistory

_HOUR_S = 3600.0
_NOTHING = 1e-9
"""Requests in flight below which there is no work: means of gauges leave float noise."""


@dataclass(frozen=True, slots=True)
class Residency:
    """Where held GPU memory went.

    `computing` is the share of held replica-time with a request in computation; `idle_hours` replica-hours held while
    the whole workload had no work, `longest_idle` the longest such stretch; `kv_used` the median and `kv_peak` the 95th
    percentile of the fullest replica's KV cache.
    """

    computing: Answer
    idle_hours: Answer
    longest_idle: Answer
    kv_used: Answer
    kv_peak: Answer


def residency(history: WorkloadHistory, slots: Answer) -> Residency:
    """The residency of one workload."""
    return Residency(
        computing=_computing(history, slots),
        idle_hours=_idle_hours(history),
        longest_idle=_longest_idle(history),
        kv_used=_kv(history, 0.5),
        kv_peak=_kv(history, 0.95),
    )


def _no_replicas(history: WorkloadHistory) -> CannotTell | None:
    replicas = history.replicas
    if isinstance(replicas, Missing):
        text = f"how long GPU memory is held is not known: {replicas.text}"
        return CannotTell(Why.NOT_RECORDED, text, "the number of replicas over time")
    if not np.any(replicas.values > 0):
        return CannotTell(Why.NO_LOAD, "no replica was up in the whole window", "a window with replicas in it")
    return None


def _computing(history: WorkloadHistory, slots: Answer) -> Answer:
    refusal = _no_replicas(history)
    if refusal is not None:
        return refusal
    replicas, busy, running = history.replicas, history.busy_replicas, history.running
    assert isinstance(replicas, Track)
    if isinstance(busy, Track):
        known = np.isfinite(busy.values) & np.isfinite(replicas.values)
        held = float(replicas.values[known].sum())
        if held > 0:
            share = min(1.0, float(np.minimum(busy.values[known], replicas.values[known]).sum()) / held)
            window = whole_window(history, int(known.sum()))
            how = "replicas with a running request over replicas that answered"
            return Measured(share, "ratio", window, int(known.sum()), "steps", how, share, share)
    if isinstance(running, Track):
        return _bounded(history, replicas.values, running.values, slots)
    needed = "replicas with a running request, or running requests"
    return CannotTell(Why.NOT_RECORDED, "how many replicas compute is not known: neither they nor running requests "
                      "were recorded", needed)  # fmt: skip


def _bounded(history: WorkloadHistory, replicas: F64, running: F64, slots: Answer) -> Answer:
    """Without busy replicas: no more compute than requests run, no fewer than these requests fill."""
    known = np.isfinite(replicas) & np.isfinite(running)
    held = float(replicas[known].sum())
    if held <= 0:
        return CannotTell(Why.TOO_MANY_HOLES, "replicas and running requests are never known together",
                          "a record with fewer holes")  # fmt: skip
    most = float(np.minimum(replicas, running)[known].sum()) / held
    filled = running / slots.value if isinstance(slots, Measured) else np.zeros(running.size)
    least = min(most, float(np.minimum(replicas, filled)[known].sum()) / held)
    how = "bounds: at most one replica per running request computes, at least as many as these requests fill"
    window = whole_window(history, int(known.sum()))
    return Measured(0.5 * (least + most), "ratio", window, int(known.sum()), "steps", how, least, most, sure=1.0)


def _idle(history: WorkloadHistory) -> tuple[F64, int] | CannotTell:
    """Replicas held without any work per step, and how many steps are known; where requests that wait were not
    recorded, those without a running request, of which some may have had work."""
    refusal = _no_replicas(history)
    if refusal is not None:
        return refusal
    replicas, running = history.replicas, history.running
    assert isinstance(replicas, Track)
    if isinstance(running, Missing):
        text = f"whether the workload had work is not known: {running.text}"
        return CannotTell(Why.NOT_RECORDED, text, "running requests")
    work = running.values + (history.waiting.values if isinstance(history.waiting, Track) else 0.0)
    known = np.isfinite(work) & np.isfinite(replicas.values)
    return np.where(known & (work <= _NOTHING), replicas.values, 0.0), int(known.sum())


def _idle_hours(history: WorkloadHistory) -> Answer:
    found = _idle(history)
    if isinstance(found, CannotTell):
        return found
    idle, steps = found
    hours = float(idle.sum()) * history.step_s / _HOUR_S
    window = whole_window(history, steps)
    if isinstance(history.waiting, Missing):
        how = "at most: replicas held in steps without a running request; whether requests waited is not known"
        return Measured(hours, "replica-hours", window, steps, "steps", how, 0.0, hours, sure=1.0)
    how = "replicas held in steps without a running or waiting request"
    return Measured(hours, "replica-hours", window, steps, "steps", how, hours, hours)


def _longest_idle(history: WorkloadHistory) -> Answer:
    found = _idle(history)
    if isinstance(found, CannotTell):
        return found
    idle, steps = found
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (idle > 0).astype(np.int8), [0]))))
    longest_s = float((edges[1::2] - edges[::2]).max()) * history.step_s if edges.size else 0.0
    how, low = "longest run of steps with replicas and without work; a hole ends it", longest_s
    if isinstance(history.waiting, Missing):
        how, low = "longest run of steps with replicas and without a running request; a hole ends it", 0.0
    return Measured(longest_s, "s", whole_window(history, steps), edges.size // 2, "idle stretches", how, low, None)


def _kv(history: WorkloadHistory, level: float) -> Answer:
    kv = history.kv_usage_ratio
    if isinstance(kv, Missing):
        return CannotTell(Why.NOT_RECORDED, f"use of the KV cache is not known: {kv.text}", "the engine's KV gauge")
    known = kv.values[np.isfinite(kv.values)]
    if not known.size:
        return CannotTell(Why.TOO_MANY_HOLES, "use of the KV cache is unknown throughout", "a record with fewer holes")
    value = float(np.quantile(known, level))
    how = f"p{100 * level:g} over time of the fullest replica's KV cache"
    return Measured(value, "ratio", whole_window(history, known.size), known.size, "steps", how)
