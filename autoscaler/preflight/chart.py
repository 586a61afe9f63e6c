"""Long series as few points: what a page draws of a demand and of the capacity beside it.

Enters: series on a history's grid. Leaves: bins with their mean and their highest step; a bin that is mostly unknown is
unknown.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64

POINTS = 700
"""Bins of a chart: about the pixels of its width."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn demand: instants of the bins' ends, mean and highest of each, and the capacity beside it if known.

    All of shape (bins,), NaN where it is not known.
    """

    at_s: F64
    mean: F64
    most: F64
    capacity: F64 | None
    unit: str


def chart(values: F64, capacity: F64 | None, *, unit: str, start_s: float, step_s: float) -> Chart:
    """The chart of a demand (steps,) with steps > 0."""
    edges = np.unique(np.linspace(0, values.size, min(POINTS, values.size) + 1).astype(np.int64))
    known = np.isfinite(values)
    highest = np.maximum.reduceat(np.where(known, values, -np.inf), edges[:-1])
    return Chart(
        at_s=start_s + edges[1:].astype(np.float64) * step_s,
        mean=binned(values, edges),
        most=np.where(np.isfinite(highest), highest, np.nan),
        capacity=None if capacity is None else binned(capacity, edges),
        unit=unit,
    )


def binned(values: F64, edges: I64) -> F64:
    """Means of the known values between edges, NaN where less than half is known."""
    known = np.isfinite(values)
    count = np.add.reduceat(known.astype(np.float64), edges[:-1])
    total = np.add.reduceat(np.where(known, values, 0.0), edges[:-1])
    return np.where(2 * count >= np.diff(edges), total / np.maximum(count, 1.0), np.nan)


def lines(drawn: Chart) -> dict[str, object]:
    """The chart as JSON's own values, what is not known as null."""
    return {
        "unit": drawn.unit,
        "x": _rounded(drawn.at_s, 12),
        "mean": _rounded(drawn.mean),
        "most": _rounded(drawn.most),
        "capacity": None if drawn.capacity is None else _rounded(drawn.capacity),
    }


def _rounded(values: F64, digits: int = 4) -> list[float | None]:
    """Four digits are more than a chart shows."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values.tolist()]
