"""Lines of least squares from sums that are decayed look by look."""

from typing import NamedTuple

import numpy as np

from autoscaler.core.columns import F64, Bools


class Fitted(NamedTuple):
    """A line of least squares, arrays of shape (B,)."""

    mean_x: F64
    mean_y: F64
    slope: F64
    known: Bools
    """There are enough looks, and they differ enough."""


def fitted_line(sums: F64) -> Fitted:
    """Return the line of y over x by their decayed sums (count, x, y, x * x, x * y and more), shape (B, 5 or more)."""
    n, sx, sy, sxx, sxy = sums.T[:5]
    safe = np.maximum(n, 1e-9)
    spread = sxx / safe - (sx / safe) ** 2
    mean_x, mean_y = sx / safe, sy / safe
    slope = np.where(spread > 0, (sxy / safe - mean_x * mean_y) / np.maximum(spread, 1e-12), np.nan)
    return Fitted(mean_x, mean_y, slope, (n >= 12) & (spread > (0.05 * np.maximum(mean_x, 1.0)) ** 2))
