"""One workload's past out of Prometheus, read as preflight reads it, for `headroom replay`."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autoscaler.cli.preflight_prometheus import read_prometheus
from autoscaler.cli.prometheus_flags import PrometheusOptions
from autoscaler.core.columns import F64
from autoscaler.errors import InputError
from autoscaler.hindsight.history import Series
from autoscaler.preflight.history import Missing, Signal, Spread, WorkloadHistory


def series_of(options: PrometheusOptions, workload: str) -> tuple[Series, list[str]]:
    """The past of `workload` and what is missing of it, in words. Raises InputError where it cannot be replayed."""
    with tempfile.TemporaryDirectory() as folder:
        fetched = read_prometheus(options, Path(folder))
        found = [history for history in fetched.histories if history.workload == workload]
    if not found:
        raise InputError(f"--workload {workload}: Prometheus holds no serving pods of it in {options.days:g} days")
    return converted(found[0]), [*fetched.notes, *_gaps(found[0])]


def converted(history: WorkloadHistory) -> Series:
    """The series that a replay needs. Raises InputError, naming it, for one that was not recorded."""
    needed = {"arrivals": history.arrivals_per_s, "requests waiting": history.waiting, "replicas": history.replicas}
    for name, signal in needed.items():
        if isinstance(signal, Missing):
            raise InputError(f"{history.workload}: {name} cannot be read: {signal.text}; a replay needs them")
    start = history.cold_start
    return Series(
        history.workload,
        history.start_s,
        history.step_s,
        _values(history.arrivals_per_s, history.steps),
        _values(history.waiting, history.steps),
        _values(history.running, history.steps),
        _values(history.replicas, history.steps),
        warmup_s=_median(start) if isinstance(start, Spread) else None,
    )


def _values(signal: Signal, steps: int) -> F64:
    return np.full(steps, np.nan) if isinstance(signal, Missing) else signal.values


def _median(spread: Spread) -> float | None:
    """The edge below which half of the starts were; None without one, or beyond the last finite edge."""
    total = spread.counts.sum()
    if not total > 0:
        return None
    edge = float(spread.edges_s[int(np.searchsorted(np.cumsum(spread.counts), 0.5 * total))])
    return edge if np.isfinite(edge) and 0 < edge <= 7200 else None


def _gaps(history: WorkloadHistory) -> Sequence[str]:
    signals = {"arrivals": history.arrivals_per_s, "waiting": history.waiting, "replicas": history.replicas}
    return [
        f"{name}: {hole.text}"
        for name, signal in signals.items()
        if not isinstance(signal, Missing)
        for hole in signal.holes
    ]
