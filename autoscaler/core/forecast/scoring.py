"""Scores of the models against last value, their weights, and the switch that turns a losing one off."""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, Columns, column, filled
from autoscaler.core.forecast.models import Model
from autoscaler.core.params import BIN_S

MODELS = len(Model)

MEMORY_S = 3 * 3600.0
"""Losses forget over three hours: a model must win now, not last week."""

SHARPNESS = 12.0
"""Weight of a model falls by e for each 1/12 of extra loss (exponential weighting)."""

TRIAL = 30.0
"""Scored bins before a model may weigh in: five minutes."""

OFF_AT = 1.02
ON_AT = 0.99
"""A model is switched off when its loss exceeds last value's by 2 %, and on again when it beats it by 1 %."""


@dataclass(slots=True)
class ScoreColumns(Columns):
    """Decayed pinball losses per workload and model, and which models are switched off."""

    loss: F64 = column(MODELS, fill=0, keep=True)
    last_loss: F64 = column(MODELS, fill=0, keep=True)
    """Last value's loss over the same bins as the model's."""
    count: F64 = column(MODELS, fill=0, keep=True)
    off: Bools = column(MODELS, fill=False, dtype=np.bool_)


def pinball(value: F64, bound: F64, level: F64) -> F64:
    """Return the pinball loss of `bound` as the `level` quantile of `value` (Koenker and Bassett 1978)."""
    gap = value - bound
    return np.maximum(level * gap, (level - 1.0) * gap)


def learn(columns: ScoreColumns, rows: I64, loss: F64) -> None:
    """Add one loss per model, shape (B, MODELS), NaN where it made no forecast; then switch models off or on."""
    forget = np.exp(-BIN_S / MEMORY_S)
    last = loss[:, Model.LAST, None]
    known = np.isfinite(loss) & np.isfinite(last)
    for name, value in (("loss", loss), ("last_loss", np.broadcast_to(last, loss.shape))):
        sums = getattr(columns, name)
        sums[rows] = sums.take(rows, axis=0) * forget + np.where(known, value, 0.0)
    count = columns.count.take(rows, axis=0) * forget + known
    columns.count[rows] = count
    ratio = skill(columns, rows)
    off = columns.off.take(rows, axis=0)
    off = np.where(ratio > OFF_AT, True, np.where(ratio < ON_AT, False, off))
    off[:, Model.LAST] = False
    columns.off[rows] = off & (count >= TRIAL)


def skill(columns: ScoreColumns, rows: I64) -> F64:
    """Return each model's loss over last value's, shape (B, MODELS); 1 is par, NaN before any score."""
    base = columns.last_loss.take(rows, axis=0)
    return np.where(base > 0, columns.loss.take(rows, axis=0) / np.maximum(base, 1e-300), np.nan)


def weights(columns: ScoreColumns, rows: I64, present: Bools) -> F64:
    """Return weights that sum to 1 over the models that are present, tried and not off; last value always is."""
    tried = columns.count.take(rows, axis=0) >= TRIAL
    usable = present & tried & ~columns.off.take(rows, axis=0)
    usable[:, Model.LAST] = True
    ratio = np.where(usable, filled(skill(columns, rows), 1.0), np.inf)
    best = ratio.min(axis=1, keepdims=True)
    raw = np.where(usable, np.exp(-SHARPNESS * (np.minimum(ratio, 1e6) - best)), 0.0)
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))
