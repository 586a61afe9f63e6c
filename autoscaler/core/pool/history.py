"""What a pool's demand was, minute by minute of two weeks.

Enters: demand in slots, now and then. Leaves: its last value and its highest in each minute. Demand that was not known
leaves a hole; it is never zero. A history is never changed in place; what it foretells is not known here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from autoscaler.core.columns import F64

BIN_S: Final = 60.0
DAY_S: Final = 86_400.0
KEEP_BINS: Final = 14 * 1440
"""Two weeks, so that each hour of the week was seen twice."""


def _none() -> F64:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class DemandHistory:
    """Demand per bin of a minute, oldest first: the last value and the highest, NaN where not known."""

    last_bin: int | None = None
    """The number of the bin that is still open; None before any demand was told."""
    levels: F64 = field(default_factory=_none)
    peaks: F64 = field(default_factory=_none)
    level: float = math.nan
    """Of the open bin."""
    peak: float = math.nan

    @property
    def known(self) -> int:
        """Bins whose demand is known."""
        return int(np.isfinite(self.levels).sum())


def noted(history: DemandHistory, now_s: float, demand: float | None) -> DemandHistory:
    """The history after one more look; a look that is older than the last one changes nothing."""
    value = math.nan if demand is None else demand
    now_bin = math.floor(now_s / BIN_S)
    if history.last_bin is None:
        return replace(history, last_bin=now_bin, level=value, peak=value)
    if now_bin < history.last_bin:
        return history
    if now_bin == history.last_bin:
        level = history.level if math.isnan(value) else value
        return replace(history, level=level, peak=_highest(history.peak, value))
    holes = min(now_bin - history.last_bin - 1, KEEP_BINS)
    gap = np.full(holes, np.nan)
    levels = np.concatenate((history.levels, [history.level], gap))[-KEEP_BINS:]
    peaks = np.concatenate((history.peaks, [history.peak], gap))[-KEEP_BINS:]
    return DemandHistory(now_bin, levels, peaks, value, value)


def until(history: DemandHistory, now_s: float) -> DemandHistory:
    """The history without bins that have not begun at `now_s`; the history itself where there is none."""
    now_bin = math.floor(now_s / BIN_S)
    if history.last_bin is None or history.last_bin <= now_bin:
        return history
    last = history.levels.size - (history.last_bin - now_bin)
    if last < 0:
        return DemandHistory()
    levels, peaks = history.levels, history.peaks
    return DemandHistory(now_bin, levels[:last], peaks[:last], float(levels[last]), float(peaks[last]))


def pack(history: DemandHistory) -> dict[str, Any]:
    """The history as plain JSON values; holes are null."""
    return {
        "last_bin": history.last_bin,
        "levels": [_plain(value) for value in (*history.levels.tolist(), history.level)],
        "peaks": [_plain(value) for value in (*history.peaks.tolist(), history.peak)],
    }


def unpack(saved: Mapping[str, Any]) -> DemandHistory:
    """The history behind a checkpoint. Raises KeyError, OverflowError, TypeError or ValueError for another shape."""
    levels, peaks = (
        np.array([math.nan if value is None else float(value) for value in saved[name]]) for name in ("levels", "peaks")
    )
    if levels.size != peaks.size or not 1 <= levels.size <= KEEP_BINS + 1:
        raise ValueError(f"a history of {levels.size} levels and {peaks.size} peaks")
    last_bin = None if saved["last_bin"] is None else int(saved["last_bin"])
    return DemandHistory(last_bin, levels[:-1], peaks[:-1], float(levels[-1]), float(peaks[-1]))


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)


def _highest(first: float, second: float) -> float:
    return second if math.isnan(first) else first if math.isnan(second) else max(first, second)
