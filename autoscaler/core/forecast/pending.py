"""Forecasts that wait for their truth: what was forecast, for which bin, and with which bound in force."""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F32, F64, I64, Columns, column, flat, places
from autoscaler.core.forecast.models import Model
from autoscaler.core.params import NO_BIN

MODELS = len(Model)

KEEP = 256
"""Forecasts kept per workload: one per bin reaches 42 minutes ahead, beyond any lead time worth forecasting over."""

MAX_HORIZON_BINS = KEEP - 16


@dataclass(slots=True)
class PendingColumns(Columns):
    """Ring of forecasts; `target` is the first bin of the minute that was forecast, `NO_BIN` when free."""

    slot: I64 = column(fill=0, dtype=np.int64)
    target: I64 = column(KEEP, fill=NO_BIN, dtype=np.int64)
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
    at = rows * KEEP + slot
    for ring, value in (
        (pending.scale_rps, made.scale_rps),
        (pending.upper_rps, made.upper_rps),
        (pending.level, made.level),
    ):
        flat(ring)[at] = value
    flat(pending.target)[at] = made.target
    pending.base_rps[rows, slot], pending.bounds_rps[rows, slot] = made.base_rps, made.bounds_rps
    pending.slot[rows] = (slot + 1) % KEEP


def take(pending: PendingColumns, rows: I64, complete: I64) -> Due:
    """Remove and return the newest forecast of each row whose target is `complete`, dropping older ones."""
    target = pending.target.take(rows, axis=0)
    slot = (target == complete[:, None]).argmax(axis=1)
    at = places(flat(pending.target)[rows * KEEP + slot] == complete)
    mine, slot = rows[at], slot[at]
    lies = mine * KEEP + slot
    due = Due(
        at,
        pending.base_rps[mine, slot].astype(np.float64),
        flat(pending.scale_rps)[lies].astype(np.float64),
        pending.bounds_rps[mine, slot].astype(np.float64),
        flat(pending.upper_rps)[lies].astype(np.float64),
        flat(pending.level)[lies].astype(np.float64),
    )
    pending.target[rows] = np.where(target <= complete[:, None], NO_BIN, target)
    return due
