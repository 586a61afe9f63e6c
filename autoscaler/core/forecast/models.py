"""Point models of the need at the horizon. Each maps the recent past to one number per workload, in requests/s.

*last* carries the last minute's need forward; *level* smooths it (simple exponential smoothing); *holt* adds a damped
trend (Gardner and McKenzie, "Forecasting trends in time series", 1985); *ridge* and *trees* are fitted elsewhere and
evaluated here from arrays; *peak* is the highest need of the last hour, and where bursts come back faster than anything
can start it is what they usually need, and stands alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoscaler.core.columns import F64, I64, Columns, column

LEVEL = 0.15
"""Smoothing of the level per 10 s bin, a span of two minutes: the best of 1 to 13 minutes on eight ServeGen days at
horizons of 60, 180 and 600 s (pinball loss at 85, 90, 95 and 97 %)."""

HOLT_TREND = 0.001
HOLT_DAMPING = 0.99
"""The trend learns over hours and is damped with a half-life of 12 minutes: faster ones lose at every horizon."""

MOST_KEPT = 128
"""Rows whose trees are kept put together, of 28 bytes a node: a megabyte or two."""


class Model(IntEnum):
    """The point models, in the order of their columns."""

    LAST = 0
    HOLT = 1
    RIDGE = 2
    TREES = 3
    PEAK = 4
    LEVEL = 5


@dataclass(slots=True)
class HoltColumns(Columns):
    """Level and trend per workload, in requests/s and requests/s per bin."""

    level: F64 = column(keep=True)
    smooth: F64 = column(keep=True)
    trend: F64 = column(fill=0, keep=True)


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """A boosted ensemble as arrays of shape (trees, nodes): go left where ``feature value <= threshold``.

    A leaf has `left` equal to itself and its share of the prediction in `value`; `depth` bounds the walk.
    """

    feature: NDArray[np.int32]
    threshold: F64
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: F64
    baseline: float
    depth: int


@dataclass(frozen=True, slots=True)
class FittedModel:
    """Models of one workload as arrays, relative to the reference rate of the features, and when they take effect.

    `coefficients` has one entry per feature; `horizon_bins` is the horizon they were fitted for.
    """

    in_force_at_s: float
    horizon_bins: int
    coefficients: F64
    intercept: float
    trees: Trees | None
    rows: int


def holt_step(columns: HoltColumns, rows: I64, rate: F64) -> None:
    """Advance both levels and the trend by one bin with the bin's mean rate (NaN leaves them as they are)."""
    level, trend = columns.level[rows], columns.trend[rows]
    fresh = ~np.isfinite(level)
    ahead = level + HOLT_DAMPING * trend
    new_level = np.where(fresh, rate, ahead + LEVEL * (rate - ahead))
    new_trend = np.where(fresh, 0.0, HOLT_DAMPING * trend + HOLT_TREND * (rate - ahead))
    smooth = columns.smooth[rows]
    new_smooth = np.where(np.isfinite(smooth), smooth + LEVEL * (rate - smooth), rate)
    known = np.isfinite(rate)
    columns.level[rows] = np.where(known, new_level, level)
    columns.trend[rows] = np.where(known, new_trend, trend)
    columns.smooth[rows] = np.where(known, new_smooth, smooth)


def holt_ahead(columns: HoltColumns, rows: I64, horizon_bins: I64) -> F64:
    """Return the damped forecast `horizon_bins` ahead, at least 0; shape (B,)."""
    run = HOLT_DAMPING * (1.0 - HOLT_DAMPING**horizon_bins) / (1.0 - HOLT_DAMPING)
    return np.maximum(columns.level[rows] + columns.trend[rows] * run, 0.0)


def ridge_ahead(model: FittedModel, features: F64, reference: float) -> float:
    """Return the linear model's forecast in requests/s for one row of features."""
    return max(0.0, float(features @ model.coefficients) + model.intercept) * reference


def trees_ahead(trees: Sequence[Trees], features: F64, reference: F64) -> F64:
    """Return each ensemble's forecast in requests/s for its own row of features, shape (B,).

    Ensembles of the same size are walked together: a call for each would cost more than the walk.
    """
    found = np.empty(len(trees))
    for at, forest in (_kept if len(trees) <= MOST_KEPT else _grown)(tuple(trees)):
        found[at] = _walked(forest, features[at])
    return found * reference


class _Forest(NamedTuple):
    """Ensembles of one size, one after the other in flat arrays."""

    depth: int
    feature: NDArray[np.int32]
    threshold: F64
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: F64
    root: I64
    """Where each row's own trees begin, shape (B, trees)."""
    baseline: F64


def _grown(trees: tuple[Trees, ...]) -> list[tuple[list[int], _Forest]]:
    """Ensembles by size, with the places of their rows."""
    forests = []
    for count, depth in {(len(each.value), each.depth) for each in trees}:
        at = [place for place, each in enumerate(trees) if (len(each.value), each.depth) == (count, depth)]
        forests.append((at, _forest([trees[place] for place in at], depth)))
    return forests


_kept = lru_cache(maxsize=1)(_grown)
"""Who forecasts for the same rows again and again has their trees put together once, until one gets others."""


def _forest(trees: Sequence[Trees], depth: int) -> _Forest:
    kinds = {id(each): each for each in trees}
    first = dict(zip(kinds, np.cumsum([0, *(each.value.size for each in kinds.values())]).tolist(), strict=False))
    feature, threshold, left, right, value = (
        np.concatenate([getattr(each, name).ravel() for each in kinds.values()])
        for name in ("feature", "threshold", "left", "right", "value")
    )
    roots = {key: first[key] + np.arange(len(each.value)) * each.value.shape[1] for key, each in kinds.items()}
    root = np.stack([roots[id(each)] for each in trees])
    return _Forest(depth, feature, threshold, left, right, value, root, np.array([each.baseline for each in trees]))


def _walked(forest: _Forest, features: F64) -> F64:
    """The sums of the leaves that each row comes to in its own trees, at least 0; shape (B,)."""
    begin = (np.arange(len(features)) * features.shape[1])[:, None]
    at = root = forest.root
    for _ in range(forest.depth):
        go_left = features.take(begin + forest.feature.take(at)) <= forest.threshold.take(at)
        at = root + np.where(go_left, forest.left.take(at), forest.right.take(at))
    found: F64 = np.maximum(forest.value.take(at).sum(axis=1) + forest.baseline, 0.0)
    return found
