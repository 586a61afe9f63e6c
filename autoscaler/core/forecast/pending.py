"""Forecasts that wait for their truth: what was forecast, for which bin, and with which bound in force."""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F32, F64, I64, Columns, column
from autoscaler.core.forecast.models import Model

MODELS = len(Model)

KEEP = 256
"""Forecasts kept per workload: one per bin reaches 42 minutes ahead, beyond any lead time worth forecasting over."""

MAX_HORIZON_BINS = KEEP - 16


@dataclass(slots=True)
class PendingColumns(Columns):
    """Ring of forecasts; `target` is the first bin of the minute that was forecast, -1 when free."""

    slot: I64 = column(fill=0, dtype=np.int64)
    target: I64 = column(KEEP, fill=-1, dtype=np.int64)
    base_rps: F32 = column(KEEP, MODELS, dtype=np.float32)
    scale_rps: F32 = column(KEEP, dtype=np.float32)
    bounds_rps: F32 = column(KEEP, MODELS, dtype=np.float32)
    upper_rps: F32 = column(KEEP, dtype=np.float32)
    level: F32 = column(KEEP, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Due:
    """Forecasts whose minute is complete, one per row of `rows` (positions in the batch)."""

    at: I64
    base_rps: F64
    scale_rps: F64
    bounds_rps: F64
    upper_rps: F64
    level: F64


@dataclass(frozen=True, slots=True)
class Made:
    """Forecasts made now, one per row: shapes (B,) and, per model, (B, MODELS)."""

    target: I64
    base_rps: F64
    scale_rps: F64
    bounds_rps: F64
    upper_rps: F64
    level: F64


def put(pending: PendingColumns, rows: I64, made: Made) -> None:
    """Remember one forecast per row; the oldest is overwritten."""
    slot = pending.slot[rows]
    for name in ("target", "base_rps", "scale_rps", "bounds_rps", "upper_rps", "level"):
        getattr(pending, name)[rows, slot] = getattr(made, name)
    pending.slot[rows] = (slot + 1) % KEEP


def take(pending: PendingColumns, rows: I64, complete: I64) -> Due:
    """Remove and return the newest forecast of each row whose target is `complete`, dropping older ones."""
    target = pending.target[rows]
    match = target == complete[:, None]
    has = match.any(axis=1)
    at = np.flatnonzero(has)
    slot = match[at].argmax(axis=1)
    mine = rows[at]
    due = Due(
        at,
        pending.base_rps[mine, slot].astype(np.float64),
        pending.scale_rps[mine, slot].astype(np.float64),
        pending.bounds_rps[mine, slot].astype(np.float64),
        pending.upper_rps[mine, slot].astype(np.float64),
        pending.level[mine, slot].astype(np.float64),
    )
    stale = (target >= 0) & (target <= complete[:, None])
    pending.target[rows] = np.where(stale, -1, target)
    return due
