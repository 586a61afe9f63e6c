"""Episodes of demand above capacity: when each began, how long it lasted, how much of it capacity could have met.

Enters: a demand and the capacity beside it. An episode begins when demand exceeds the capacity of the moment and ends
when it is back at or below that same level, however much capacity came meanwhile: capacity that arrives must not look
like noise that went away. One that meets a hole or the end of the record is cut: it lasted at least that long.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools
from autoscaler.preflight.offered import Demand

CHANCE = 2.0
"""Standard deviations of independent requests that a staff holds above the mean (square-root staffing, Halfin and
Whitt, Operations Research 29, 1981): what stays within them is chance and no episode."""


@dataclass(frozen=True, slots=True)
class Episodes:
    """Episodes in time order, all arrays of shape (episodes,).

    `excess` is demand above the level at the beginning, times seconds; `early` is the part of it before `cold_start_s`
    had passed, which no order placed at the beginning could have met.
    """

    began_s: F64
    duration_s: F64
    cut: Bools
    peak: F64
    excess: F64
    early: F64
    level: F64


def reactive_capacity(demand: Demand, step_s: float, cold_start_s: float) -> F64:
    """The capacity that would stand at each step if it followed demand one cold start later, and no forecast; (steps,).

    The mean over the cold start before the step, and `CHANCE` roots of it above. NaN where none of that was known.
    """
    width = max(1, int(np.ceil(cold_start_s / step_s - 1e-9)))
    known = np.isfinite(demand.values)
    total = np.concatenate(([0.0], np.cumsum(np.where(known, demand.values, 0.0))))
    count = np.concatenate(([0], np.cumsum(known)))
    steps = np.arange(demand.values.size)
    first = np.maximum(steps - width, 0)
    seen = count[steps] - count[first]
    mean = np.maximum(total[steps] - total[first], 0.0) / np.maximum(seen, 1)
    held = mean + CHANCE * np.sqrt(mean * demand.per_request)
    return np.where(seen * 2 > width, held, np.nan)


def find(values: F64, capacity: F64, *, start_s: float, step_s: float, cold_start_s: float) -> Episodes:
    """Every episode of `values` (steps,) above `capacity` (steps,); NaN in either is unknown and begins nothing."""
    opens = np.flatnonzero(values > capacity).tolist()
    level_of, stops = capacity.tolist(), _Stops(values)
    spans: list[tuple[int, int, bool]] = []
    place = 0
    while place < len(opens):
        begin = opens[place]
        end, cut = stops.after(begin, level_of[begin])
        spans.append((begin, end, cut))
        place = bisect_left(opens, end, place)
    begins = np.array([span[0] for span in spans], dtype=np.int64)
    ends = np.array([span[1] for span in spans], dtype=np.int64)
    early_ends = np.minimum(ends, begins + max(1, round(cold_start_s / step_s)))
    level = capacity[begins]
    total = np.concatenate(([0.0], np.cumsum(np.where(np.isfinite(values), values, 0.0))))
    return Episodes(
        began_s=start_s + begins.astype(np.float64) * step_s,
        duration_s=(ends - begins).astype(np.float64) * step_s,
        cut=np.array([span[2] for span in spans], dtype=np.bool_),
        peak=_highest(values, begins, ends),
        excess=np.maximum(total[ends] - total[begins] - level * (ends - begins), 0.0) * step_s,
        early=np.maximum(total[early_ends] - total[begins] - level * (early_ends - begins), 0.0) * step_s,
        level=level,
    )


def _highest(values: F64, begins: I64, ends: I64) -> F64:
    """The highest of `values` in each span [begin, end), none of which overlaps another."""
    if not begins.size:
        return np.empty(0)
    edges = np.stack((begins, ends), axis=1).ravel()
    return np.maximum.reduceat(np.append(values, -np.inf), edges)[::2]


class _Stops:
    """Finds the first step from some step on that is at or below a level, or unknown.

    Lowest values of blocks are kept, so that a long episode is passed over block by block.
    """

    _BLOCK = 64

    def __init__(self, values: F64) -> None:
        self._size = values.size
        # An unknown step stops an episode whatever its level.
        stops = np.where(np.isfinite(values), values, -np.inf)
        padded = np.full(-(-values.size // self._BLOCK) * self._BLOCK, -np.inf)
        padded[: values.size] = stops
        self._values: list[float] = padded.tolist()
        self._lowest: list[float] = padded.reshape(-1, self._BLOCK).min(axis=1).tolist()

    def after(self, begin: int, level: float) -> tuple[int, bool]:
        """The step that ends the episode from `begin` on, and whether it was cut there."""
        values, lowest, at = self._values, self._lowest, begin + 1
        while at < self._size:
            if at % self._BLOCK == 0 and lowest[at // self._BLOCK] > level:
                at += self._BLOCK
            elif values[at] <= level:
                return at, values[at] == -np.inf
            else:
                at += 1
        return self._size, True
