"""Features of the recent past, the same for training and for use: scale-free, newest history first."""

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.core.params import BIN_S

WINDOWS = (1, 3, 6, 12, 30, 60, 180, 360)
"""Bins over which means are taken: 10 s to an hour."""

NEED_WINDOWS = (6, 30, 90, 360)
"""Bins over which the highest need is taken."""

LOOKBACK_BINS = max(WINDOWS)

NAMES = (
    *(f"mean_{int(w * BIN_S)}s" for w in WINDOWS),
    *(f"peak_need_{int(w * BIN_S)}s" for w in NEED_WINDOWS),
    "deviation_300s",
    "slope_600s",
)
"""Names of the feature columns, in order."""


def window_means(count: F64, cover_s: F64) -> F64:
    """Return mean rates over `WINDOWS`, shape (N, len(WINDOWS)), NaN where a window is without data: the shortest."""
    total = np.add.accumulate(count, axis=1)
    seconds = np.add.accumulate(cover_s, axis=1)
    ends = [min(width, count.shape[1]) - 1 for width in WINDOWS]
    covered = seconds[:, ends]
    return np.where(covered > 0, total[:, ends] / np.maximum(covered, 1e-9), np.nan)


def build(count: F64, cover_s: F64, need: F64) -> tuple[F64, F64]:
    """Return features relative to a reference rate, and that reference.

    Args: arrays of shape (N, LOOKBACK_BINS), newest first; `need` is NaN where not measured. Returns features of
    shape (N, len(NAMES)) and references in requests/s of shape (N,), above zero wherever there was any traffic in the
    last hour and NaN otherwise.
    """
    means = window_means(count, cover_s)
    hour = means[:, -1]
    reference = np.maximum(means[:, WINDOWS.index(60)], 0.3 * hour)
    reference = np.where(reference > 0, reference, np.nan)
    measured = np.where(np.isfinite(need), need, 0.0)
    recent = count[:, :30] / np.maximum(cover_s[:, :30], 1e-9)
    deviation = np.where(cover_s[:, :30] > 0, recent, means[:, 4:5]).std(axis=1)
    slope = means[:, WINDOWS.index(12)] - means[:, WINDOWS.index(60)]
    raw = np.empty((len(count), len(NAMES)))
    raw[:, : len(WINDOWS)] = means
    for column, width in enumerate(NEED_WINDOWS, len(WINDOWS)):
        raw[:, column] = measured[:, :width].max(axis=1)
    raw[:, -2], raw[:, -1] = deviation, slope
    return raw / reference[:, None], reference
