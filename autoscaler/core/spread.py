"""A window of durations as two quantiles, for every room that measures starts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles in seconds, and how many samples stand behind them."""

    p50_s: float
    p90_s: float
    samples: int


def spread(window: Sequence[float]) -> Spread:
    """The quantiles of a window with at least one sample, by rank."""
    ranked = sorted(window)
    p50_s, p90_s = (ranked[math.ceil(level * len(ranked)) - 1] for level in (0.5, 0.9))
    return Spread(p50_s, p90_s, len(ranked))
