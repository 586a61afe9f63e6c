"""Histograms out of cumulative buckets, piece by piece: how many requests lay between two bounds.

Enters: labels and increases of buckets over pieces of the window. Leaves: counts per bound, and how much of them fell,
which buckets that add up never do.
"""

from collections.abc import Mapping

import numpy as np

from autoscaler.core.columns import F64


def counts_of(bounds: F64, values: F64) -> tuple[F64, float]:
    """Counts per bound, ascending, from cumulative increases (bounds, pieces); and how much of them fell.

    Each piece is taken apart by the bounds that it has: a histogram may get other bounds half-way.
    """
    edges, at = np.unique(bounds, return_inverse=True)
    heights = np.zeros((edges.size, values.shape[1]))
    known = np.zeros(heights.shape, dtype=bool)
    np.add.at(heights, at, np.nan_to_num(values, nan=0.0, posinf=0.0))
    np.logical_or.at(known, at, np.isfinite(values))
    counts, falling = np.zeros(edges.size), 0.0
    for piece in range(heights.shape[1]):
        own = np.flatnonzero(known[:, piece])
        if own.size:
            steps = np.diff(heights[own, piece], prepend=0.0)
            counts[own] += np.maximum(steps, 0.0)
            falling -= float(np.minimum(steps, 0.0).sum())
    return counts, falling


def bound_of(labels: Mapping[str, str]) -> float:
    """The upper bound that a bucket's labels name; NaN where they name none."""
    try:
        return float(labels.get("le", "nan"))
    except ValueError:
        return float("nan")
