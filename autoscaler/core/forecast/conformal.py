"""Calibrated upper quantiles: a decaying histogram of what each model missed by, and a feedback on coverage.

The score of a forecast is its error over the usual error of the last hour, which follows the load and its unrest and
cannot vanish: purely relative errors explode after near-zero load. The level asked of the histogram is moved by what
was covered (adaptive conformal inference: Gibbs and Candes, "Adaptive conformal inference under distribution shift",
NeurIPS 2021).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F32, F64, I64, Bools, Columns, clipped, column, filled, flat
from autoscaler.core.forecast.models import Model
from autoscaler.core.params import BIN_S

EDGES = np.concatenate([np.linspace(-5.0, 5.0, 81), np.geomspace(5.25, 120.0, 24)])
"""Edges of the score histogram, in units of the usual error: fine where levels fall, coarse far out."""

CELLS = len(EDGES) - 1

MODELS = len(Model)

MEMORY_S = 6 * 3600.0
"""The histogram forgets with this time constant: long enough for a 98 % level, short enough to follow a regime."""

PRIOR_WEIGHT = 60.0
"""The prior counts as ten minutes of bins."""

PRIOR_FREEDOM = 3.0
"""The prior is a Student t with three degrees of freedom: errors of load forecasts have such tails."""

ADAPT = 0.003
"""Step of the coverage feedback per scored bin; errors come in runs of minutes, hence smaller than in the paper."""

LEVELS = (0.5, 0.999)


def _prior() -> F64:
    centre = 0.5 * (EDGES[1:] + EDGES[:-1])
    width = np.diff(EDGES)
    density = (1.0 + centre**2 / PRIOR_FREEDOM) ** (-0.5 * (PRIOR_FREEDOM + 1.0))
    weight = density * width
    return np.asarray(PRIOR_WEIGHT * weight / weight.sum(), dtype=np.float64)


PRIOR = _prior()


@dataclass(slots=True)
class ConformalColumns(Columns):
    """Score histograms per workload and model, and the adapted level per workload."""

    weight: F32 = column(MODELS, CELLS, dtype=np.float32, keep=False)
    shift: F64 = column(fill=0, keep=True)
    """Added to the asked level, in log-odds."""
    covered: F64 = column(fill=0, keep=True)
    """Bounds that held, of all that were scored, whatever came: what is published hides no miss."""
    scored: F64 = column(fill=0, keep=True)
    asked: F64 = column(fill=0, keep=True)
    """Sum of the levels asked of the bounds that were scored: over `scored`, the share that was meant to hold."""


def reset(columns: ConformalColumns, row: int) -> None:
    """Give a row the prior histogram."""
    columns.weight[row] = PRIOR.astype(np.float32)


SHOCK_UNITS = 6.0
"""A shock counts as a miss of six usual errors, however far it went."""

SHOCK_WEIGHT = 0.1
"""A model's score of a load more than twice its own forecast counts as a tenth: dozens of forecasts miss by one event.
Where that event is one step, its scores count as one together (`forecaster`)."""


def learn(
    columns: ConformalColumns,
    rows: I64,
    scores: F64,
    covered: F64,
    level: F64,
    *,
    shock: Bools | None = None,
    worth: F64 | None = None,
    steers: Bools | None = None,
) -> None:
    """Add one score per model, shape (B, MODELS), NaN where a model made no forecast.

    `shock` (same shape) marks scores of a truth beyond twice the forecast; `worth` (B,) is what a row's scores count at
    most, 0..1, one without it.

    `covered` is 1, 0 or NaN per row: whether the bound in force then held; `level` is the level it asked for. It moves
    the level of the rows that `steers` (B,) marks, of all without it.
    """
    forget = np.float32(np.exp(-BIN_S / MEMORY_S))
    columns.weight[rows] = columns.weight.take(rows, axis=0) * forget
    if shock is not None:
        scores = np.where(shock, np.minimum(scores, SHOCK_UNITS), scores)
    cell = np.minimum(np.maximum(EDGES.searchsorted(filled(scores), side="right") - 1, 0), CELLS - 1)
    count = np.ones(scores.shape) if shock is None else np.where(shock, SHOCK_WEIGHT, 1.0)
    if worth is not None:
        count = np.minimum(count, worth[:, None])
    count = np.where(np.isfinite(scores), count, 0.0)
    flat(columns.weight)[_histograms(rows) + cell] += count.astype(np.float32)
    counted = np.isfinite(covered)
    hit = np.where(counted, covered, 0.0)
    columns.covered[rows] = columns.covered[rows] * forget + hit
    columns.scored[rows] = columns.scored[rows] * forget + counted
    columns.asked[rows] = columns.asked[rows] * forget + np.where(counted, level, 0.0)
    error = np.where(counted if steers is None else counted & steers, level - hit, 0.0)
    columns.shift[rows] = clipped(columns.shift[rows] + ADAPT * error / np.maximum(1.0 - level, 0.01), -1.0, 2.0)


def _histograms(rows: I64) -> I64:
    """Where each row's histogram of each model begins (`flat`), shape (B, MODELS)."""
    return (rows * (MODELS * CELLS))[:, None] + np.arange(0, MODELS * CELLS, CELLS)


def adapted(columns: ConformalColumns, rows: I64, level: F64) -> F64:
    """Return the level to ask of the histogram so that `level` is covered."""
    odds = np.log(level / (1.0 - level)) + columns.shift[rows]
    return clipped(1.0 / (1.0 + np.exp(-odds)), *LEVELS)


def quantile(columns: ConformalColumns, rows: I64, level: F64) -> F64:
    """Return the score at `level` (shape (B,)) for every model, shape (B, MODELS), linear inside a cell."""
    return next(quantiles(columns, rows, level))


def quantiles(columns: ConformalColumns, rows: I64, *levels: F64) -> Iterator[F64]:
    """Yield the same at each of some levels of one histogram."""
    weight = columns.weight.take(rows, axis=0).astype(np.float64)
    total = np.add.accumulate(weight, axis=2)
    for level in levels:
        yield _at(level, weight, total)


def _at(level: F64, weight: F64, total: F64) -> F64:
    want = level[:, None] * total[:, :, -1]
    cell = (total >= want[:, :, None]).argmax(axis=2)  # the first: what is asked for is a part of the whole
    at = _histograms(np.arange(len(cell))) + cell
    taken, inside = flat(total)[at], flat(weight)[at]
    part = np.where(inside > 0, 1.0 - (taken - want) / np.maximum(inside, 1e-12), 1.0)
    return np.asarray(EDGES[cell] + clipped(part, 0.0, 1.0) * (EDGES[cell + 1] - EDGES[cell]))
