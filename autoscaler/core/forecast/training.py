"""Training sets: features and targets from a workload's own history, for a fit that happens elsewhere."""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.core.forecast import features

STRIDE_BINS = 3
"""One training row per 30 s: neighbours share most of their minute."""

MIN_ROWS = 180
"""Rows before a fit is worth anything: an hour and a half."""

REFIT_S = 1800.0
"""A workload asks for a new fit every half hour."""

IN_FORCE_AFTER_S = 60.0
"""A fit takes effect at its data time plus this, whoever fitted it and however long that took."""


_FIRST = 59
"""The first ten minutes have no past to look at."""


@dataclass(frozen=True, slots=True)
class FitRequest:
    """One fit to be made: `x` of shape (rows, features), `y` of shape (rows,), both relative to a reference rate.

    The result takes effect at `in_force_at_s`.
    """

    workload: str
    horizon_bins: int
    x: F64
    y: F64
    in_force_at_s: float


def training_set(count: F64, cover_s: F64, need: F64, minute_need: F64, horizon_bins: int) -> tuple[F64, F64] | None:
    """Return (x, y) or ``None`` when there are fewer than `MIN_ROWS` usable rows.

    Args: one workload's closed bins in time order, shape (T,); `minute_need[i]` is the envelope over the minute that
    starts at bin i, NaN where unknown.
    """
    last = len(count) - horizon_bins - 7
    moments = np.arange(last, _FIRST, -STRIDE_BINS)[::-1]
    if len(moments) < MIN_ROWS:
        return None
    index = moments[:, None] - np.arange(features.LOOKBACK_BINS)
    inside = index >= 0
    index = np.maximum(index, 0)
    x, reference = features.build(
        np.where(inside, count[index], 0.0),
        np.where(inside, cover_s[index], 0.0),
        np.where(inside, need[index], np.nan),
    )
    y = minute_need[moments + 1 + horizon_bins] / reference
    usable = np.isfinite(y) & np.isfinite(x).all(axis=1)
    if usable.sum() < MIN_ROWS:
        return None
    return x[usable], np.clip(y[usable], 0.0, 20.0)


def needed_bins(horizon_bins: int) -> int:
    """Return the least history in bins from which `training_set` can make a set."""
    return _FIRST + horizon_bins + 6 + MIN_ROWS * STRIDE_BINS
