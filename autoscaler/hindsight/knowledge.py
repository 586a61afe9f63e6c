"""What the core has measured of a workload: the part of its memory that holds whoever scales, lent to another row.

Enters: a table and a row of it. Leaves: capacity and warm-up as plain figures, and the same memory in a second row, so
that what would have been is decided with what was really learned. It decides nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autoscaler.core import checkpoint, recall
from autoscaler.core.capacity.leadtime import LeadTrack
from autoscaler.core.capacity.throughput import SATURATED_LEFT_POD_S
from autoscaler.core.columns import I64
from autoscaler.core.observe.pods import WorkloadTrack
from autoscaler.core.params import Feature, Params
from autoscaler.core.state import Table

PROVEN = ("proven_rps", "proven_at_s")
LEARNED = ("saturated_done", "saturated_pod_s", "saturated_running", *PROVEN, "residence_s")
"""What the core knows of a replica; what it smooths of the present is each row's own."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What one replica carries and how long it takes to start, as measured so far."""

    capacity_rps: float
    least: bool
    """The capacity is a lower bound: no replica was ever seen with requests waiting."""
    warmup_s: float
    """The middle of the measured starts."""
    warmup_samples: int
    """0: the warm-up is assumed."""
    residence_s: float | None
    """How long a request is served; None before it was measured."""
    kv_per_request: float | None
    """Share of one replica's KV cache that a request in service holds; None where pages do not tell."""


def know(table: Table, workload: str) -> Knowledge | None:
    """What is known after the last step; None before the capacity is. Raises KeyError for an unknown workload."""
    row = table.rows[workload]
    track = table.track(row)
    lead50_s = track.lead50_s
    if lead50_s is None:
        return None
    columns = table.throughput
    full_s = float(columns.saturated_pod_s[row])
    least = full_s < SATURATED_LEFT_POD_S
    proven_rps = float(columns.proven_rps[row])
    # The core may try a little more than was proven, or allow less for the sake of token times; a queue is served at
    # what was seen.
    measured_rps = math.nan if least else float(columns.saturated_done[row]) / full_s
    capacity_rps = measured_rps if measured_rps > proven_rps or math.isnan(proven_rps) else proven_rps
    if not capacity_rps > 0:
        return None
    running, kv = float(columns.running[row]), float(columns.kv_used[row])
    residence_s = float(columns.residence_s[row])
    return Knowledge(
        capacity_rps=capacity_rps,
        least=least,
        warmup_s=lead50_s,
        warmup_samples=len(track.lead.samples_s),
        residence_s=residence_s if math.isfinite(residence_s) else None,
        kv_per_request=kv / running if running > 0 and math.isfinite(kv) else None,
    )


def begin_like(twins: Table, twin: str, table: Table, workload: str, params: Params | None = None) -> None:
    """Give `twin` a row that remembers what `workload` remembers; `params` in the place of its own."""
    _put(twins, twin, table.track(table.rows[workload]).params if params is None else params)
    checkpoint.restore(twins, twin, checkpoint.checkpoint(table, workload))


def begin_whole(twins: Table, twin: str, table: Table, workload: str, params: Params) -> None:
    """The same to the last bit, but for pods, starts and signals, of which the twin will have others."""
    _put(twins, twin, params)
    memory = recall.remember(table, workload)
    lead = LeadTrack(samples_s=list(memory.lead.samples_s))
    own = replace(memory, pods=WorkloadTrack(), lead=lead, seen_s=(), sources=frozenset())
    recall.recall(twins, twin, own)


def _put(twins: Table, twin: str, params: Params) -> None:
    if twin in twins.rows:
        twins.remove(twin)
    # Models are fitted for the real row and shared, so the twin asks for none.
    twins.put(twin, replace(params, without=params.without | {Feature.LEARNED}))


def lend(twins: Table, table: Table, pairs: Sequence[tuple[str, str]]) -> None:
    """Let each twin know what its workload learned since: measured capacity, warm-ups, and the models in force.

    `pairs` are (twin, workload); a twin is nobody's workload. All at once: a column costs as much as a number of it.
    """
    if not pairs:
        return
    others = [twins.rows[twin] for twin, _ in pairs]
    rows = [table.rows[workload] for _, workload in pairs]
    _lend_capacity(twins, np.asarray(others, dtype=np.int64), table, np.asarray(rows, dtype=np.int64))
    for row, other in zip(rows, others, strict=True):
        twins.track(other).lead.samples_s = table.track(row).lead.samples_s
        model = table.fitted.get(row)
        if model is not None:
            twins.fitted[other] = model


def _lend_capacity(twins: Table, others: I64, table: Table, rows: I64) -> None:
    mine, theirs = table.throughput, twins.throughput
    measured = mine.saturated_pod_s[rows] >= SATURATED_LEFT_POD_S
    proven = ~measured & (mine.proven_rps[rows] > theirs.proven_rps[others])
    for some, names in ((measured, LEARNED), (proven, PROVEN)):
        if some.any():
            to, of = (others, rows) if some.all() else (others[some], rows[some])
            for name in names:
                getattr(theirs, name)[to] = getattr(mine, name)[of]
