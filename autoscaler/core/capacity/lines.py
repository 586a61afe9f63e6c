"""Lines of least squares from sums that are decayed look by look."""

from typing import NamedTuple

import numpy as np

from autoscaler.core.columns import F64, I64, Bools

MEMORY = 0.995
"""Forgetting per look: about 200 of them are kept, or half an hour at 10 s."""


class Fitted(NamedTuple):
    """A line of least squares, arrays of shape (B,)."""

    mean_x: F64
    mean_y: F64
    slope: F64
    known: Bools
    """There are enough looks, and they differ enough."""


LEAST_LOOKS = 12
"""Looks behind a line, as many as are kept, before it is believed."""


def add_point(sums: F64, rows: I64, x: F64, y: F64) -> None:
    """Add a point of each row to its sums of a line of `y` over `x`, to as many of them as are kept."""
    kept = sums.take(rows, axis=0) * MEMORY
    for place, grown in enumerate((1.0, x, y, x * x, x * y, y * y)[: sums.shape[1]]):
        kept[:, place] += grown
    sums[rows] = kept


def fitted_line(sums: F64) -> Fitted:
    """Return the line of y over x by their decayed sums (count, x, y, x * x, x * y and more), shape (B, 5 or more)."""
    n, sx, sy, sxx, sxy = sums.T[:5]
    safe = np.maximum(n, 1e-9)
    spread = sxx / safe - (sx / safe) ** 2
    mean_x, mean_y = sx / safe, sy / safe
    slope = np.where(spread > 0, (sxy / safe - mean_x * mean_y) / np.maximum(spread, 1e-12), np.nan)
    return Fitted(mean_x, mean_y, slope, (n >= LEAST_LOOKS) & (spread > (0.05 * np.maximum(mean_x, 1.0)) ** 2))
