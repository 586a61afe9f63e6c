"""Tables of calls per minute, as the Azure Functions traces are published: one history per function.

Enters: `minute, model, tenant, requests`, a pair without a row being zero, and the table of run times that lies beside
it under the same name with `functions` for `minutes` (Shahrad et al., "Serverless in the Wild", USENIX ATC 2020).
Leaves: a history per function, its run times as three published points of the distribution.
"""

from pathlib import Path
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.errors import InputError
from autoscaler.preflight.history import Distribution, Gap, Missing, Spread, Track, WorkloadHistory
from autoscaler.sim.traces.selection import DAY_S, TraceSelection, listed
from autoscaler.sim.traces.table import Table, checked, parse_csv, read_bytes

REQUIRED: Final = ("minute", "model", "tenant", "requests")
WHAT: Final = "a table of calls per minute"
STEP_S: Final = 60.0

_RUN_TIMES: Final = ("model", "tenant", "app", "trigger", "day_invocations", "avg_ms", "p50_ms", "p99_ms", "app_avg_mb")
_MOST_MINUTES: Final = 366 * 24 * 60
_REMEDY: Final = "a trace that records it, or a cluster's Prometheus"


def histories(table: Table, selection: TraceSelection) -> list[WorkloadHistory]:
    """Every function of the selection, by name, over the whole table. InputError where it offers no such part."""
    table.require(REQUIRED, (), WHAT)
    minutes, calls = table.numbers("minute", whole=True), table.numbers("requests", whole=True)
    if minutes.max() > _MOST_MINUTES:
        raise InputError(f"{table.path}: minute {minutes.max():g} is more than a year after the first; count from it")
    steps = int(minutes.max()) + 1
    if selection.rate_rps is not None:
        raise InputError(f"{table.path}: rate= draws no calls per minute; leave it out")
    names = _chosen(table, selection)
    counts = {name: np.zeros(steps) for name in names}
    for row, name in enumerate(table.columns["model"]):
        if name in counts and selection.tenant in {None, table.columns["tenant"][row]}:
            counts[name][int(minutes[row])] += calls[row]
    first, last = _days(table.path, selection, steps)
    times = _run_times(table.path)
    found = [_history(name, counts[name][first:last], first, table.path, times.get(name)) for name in names]
    return [history for history in found if isinstance(history.arrivals_per_s, Track)]


def _chosen(table: Table, selection: TraceSelection) -> list[str]:
    rows = zip(table.columns["model"], table.columns["tenant"], strict=True)
    offered = sorted({model for model, tenant in rows if selection.tenant in {None, tenant}})
    if not offered:
        tenants = sorted(set(table.columns["tenant"]))
        raise InputError(f"{table.path}: no tenant {selection.tenant!r}; it offers {listed(tenants)}")
    if selection.model is None:
        return offered
    if selection.model not in offered:
        raise InputError(f"{table.path}: no model {selection.model!r}; it offers {listed(offered)}")
    return [selection.model]


def _days(path: Path, selection: TraceSelection, steps: int) -> tuple[int, int]:
    if selection.day is None:
        return 0, steps
    per_day = round(DAY_S / STEP_S)
    first, last = selection.day * per_day, min((selection.day + selection.days) * per_day, steps)
    if first >= last:
        raise InputError(f"{path}: no day {selection.day}; it offers days 0 to {(steps - 1) // per_day}")
    return first, last


def _history(name: str, calls: F64, first: int, path: Path, times: Distribution | None) -> WorkloadHistory:
    untold = Missing(Gap.NOT_IN_TRACE, f"a table of calls per minute does not tell it ({path.name})")
    return WorkloadHistory(
        workload=name,
        start_s=first * STEP_S,
        step_s=STEP_S,
        steps=calls.size,
        arrivals_per_s=Track(calls / STEP_S, f"calls per minute in {path.name}"),
        running=untold,
        waiting=untold,
        tokens_per_s=untold,
        replicas=untold,
        busy_replicas=untold,
        kv_usage_ratio=untold,
        queue_wait=untold,
        duration=untold if times is None else times,
        cold_start=untold,
    )


def _run_times(path: Path) -> dict[str, Spread]:
    """Run times per function from the table beside the file, empty where there is none."""
    stem = path.name.split(".")[0]
    names = [stem.replace("minutes", "functions") + suffix for suffix in (".csv", ".csv.gz")]
    beside = next((path.with_name(name) for name in names if path.with_name(name).is_file()), None)
    if beside is None or "minutes" not in stem:
        return {}
    table = parse_csv(beside, checked(beside, read_bytes(beside)))
    table.require(_RUN_TIMES, (), "a table of run times")
    calls, p50, p99 = (table.numbers(field) for field in ("day_invocations", "p50_ms", "p99_ms"))
    origin = f"p50 and p99 in {beside.name}"
    found = {}
    for row, name in enumerate(table.columns["model"]):
        low, high, count = p50[row] / 1e3, max(p99[row], p50[row]) / 1e3, calls[row]
        if low > 0:
            edges = np.array([low, high, np.inf]) if high > low else np.array([low, np.inf])
            shares = np.array([0.5, 0.49, 0.01]) if high > low else np.array([0.99, 0.01])
            found[name] = Spread(edges, shares * count, origin)
    return found
