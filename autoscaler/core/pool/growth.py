"""How much demand grows within a time: quantiles of growth by time of day, and after rises.

Enters: the history of demand in slots. Leaves: upper quantiles of the largest net growth within a number of seconds
(papers: echelon base stock over the refill lead). Demand that was not known leaves a hole; it is never zero.
Times of day are of UTC.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from autoscaler.core.columns import F64, Bools
from autoscaler.core.pool.history import BIN_S, DAY_S, DemandHistory

LEAST_BINS: Final = 60
"""An hour of known demand is the least that sizes by itself."""

AROUND_S: Final = 90 * 60.0
"""How far a time of day reaches in both directions. On recorded days narrower windows miss what comes a little earlier
or later than the days before, wider ones keep slots for other times of the day."""

LEAST_AROUND_BINS: Final = 120
"""With fewer known bins around a time of day, all times speak for it."""

LEVELS: Final = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, *(round(0.95 + 0.0025 * i, 4) for i in range(20)), 0.9995)
"""The quantiles of growth that are tried when one is chosen."""

LEAST_RISES: Final = 25
"""Rises like the present one that must have been seen before they decide about a refill; with five, recorded days lost
one hit in a hundred and saved nothing."""

SLOT_HAIR: Final = 1e-9
"""What growth in parts of slots, as a float, may be off."""

THIS_TIME: Final = "this time of day"

ALIKE: Final = 0.5
"""A rise is like the present one when it is at least this share of it."""


@dataclass(frozen=True, slots=True)
class Growth:
    """An upper quantile of growth in slots, and what it rests on."""

    slots: int
    samples: int
    seen_at: str
    """Which past speaks: this time of day, all times of day, or rises like the present one."""


def usual(history: DemandHistory, now_s: float, within_s: float, level: float) -> Growth | None:
    """The growth that is not exceeded within `within_s` at this time of day in a share `level` of cases.

    None while less than an hour of demand is known.
    """
    if history.known < LEAST_BINS:
        return None
    growth = grown(history, within_s)
    chosen, seen_at = _around(growth, _times_s(history), now_s % DAY_S)
    return Growth(_upper(chosen, level), chosen.size, seen_at) if chosen.size else None


def level_for(history: DemandHistory, within_s: float, hit_ratio: float) -> float | None:
    """The lowest quantile that, kept warm for at every time of day of the past, would have met a share `hit_ratio` of
    all new demand; the highest one where none would, None while less than an hour of demand is known.

    A new slot of demand is missed where demand had grown by more than was kept within the last `within_s`, which no
    refill could have followed; what came before the first refill could be there says nothing. One quantile for all
    times spends idle slots where they are missed least: a slot more is kept at the time of day at which growth beyond
    it is as frequent as at any other.
    """
    if history.known < LEAST_BINS:
        return None
    growth, times_s = grown(history, within_s), _times_s(history)
    hours = times_s // 3600.0
    new = np.maximum(np.diff(history.levels, prepend=np.nan), 0.0)
    new[: bins_of(within_s)] = 0.0
    behind = history.levels - _lowest_behind(history.levels, bins_of(within_s))
    missed, total = np.zeros(len(LEVELS)), 0.0
    for hour in sorted(set(hours[new > 0].tolist())):
        speaking = _around(growth, times_s, (hour + 0.5) * 3600.0)[0]
        came = (hours == hour) & (new > 0)
        if speaking.size:
            kept = np.ceil(np.quantile(speaking, LEVELS, method="higher") - SLOT_HAIR)
            short = np.maximum(behind[came][:, None] - kept[None, :], 0.0)
            missed += np.minimum(new[came][:, None], short).sum(axis=0)
            total += float(new[came].sum())
    enough = np.flatnonzero(missed <= (1.0 - hit_ratio) * total)
    return LEVELS[int(enough[0])] if enough.size else LEVELS[-1]


def kept_by_hour(history: DemandHistory, within_s: float, level: float) -> F64:
    """What `usual` would keep in the middle of each hour of the day, for each bin; NaN where nothing speaks for it."""
    growth, times_s = grown(history, within_s), _times_s(history)
    hours = times_s // 3600.0
    kept = np.full(hours.size, np.nan)
    for hour in sorted(set(hours.tolist())):
        speaking = _around(growth, times_s, (hour + 0.5) * 3600.0)[0]
        if speaking.size:
            kept[hours == hour] = _upper(speaking, level)
    return kept


def after_rise(history: DemandHistory, within_s: float, level: float) -> tuple[float, Growth] | None:
    """The present rise in slots, and how much further demand grew after rises like it; None where too few were seen."""
    if not math.isfinite(history.level):
        return None
    bins = bins_of(within_s)
    rises = history.levels - np.fmin(_lowest_behind(history.levels, bins), history.levels)
    recent = history.levels[-bins:]
    recent = recent[np.isfinite(recent)]
    rise = history.level - min(history.level, float(recent.min(initial=history.level)))
    growth = grown(history, within_s)
    alike: Bools = np.isfinite(growth) & (rises >= max(1.0, ALIKE * rise))
    starts = int(np.count_nonzero(alike[1:] & ~alike[:-1])) + int(alike[:1].sum())
    if rise < 1.0 or starts < LEAST_RISES:
        return None
    return rise, Growth(_upper(growth[alike], level), starts, "rises like the present one")


def grown(history: DemandHistory, within_s: float) -> F64:
    """The largest net growth within `within_s` after each bin, shape of the history; NaN where it is not known yet."""
    bins = bins_of(within_s)
    ahead = highest_ahead(history.peaks, bins)
    growth = np.maximum(ahead - history.levels, 0.0)
    growth[max(0, growth.size - bins) :] = np.nan
    growth[~np.isfinite(growth)] = np.nan
    return growth


def lately(history: DemandHistory, within_s: float) -> int:
    """The largest net growth in slots that has come already since some instant of the last `within_s`, the open bin
    included; 0 where none is known. It is no sample yet: it may grow further before its time is over."""
    return whole(float(came(history, within_s).max(initial=0.0)))


def came(history: DemandHistory, within_s: float) -> F64:
    """The largest net growth that has come already since each bin of the last `within_s`; 0 where it is not known."""
    bins = bins_of(within_s)
    levels, peaks = history.levels[-bins:], np.append(history.peaks[-bins:], history.peak)
    ahead = np.maximum.accumulate(np.where(np.isnan(peaks), -np.inf, peaks)[::-1])[::-1]
    grew = ahead[1:] - levels
    return np.where(np.isfinite(grew), np.maximum(grew, 0.0), 0.0)


def around(values: F64, history: DemandHistory, time_s: float) -> F64 | None:
    """The values, one for each bin of a history, that speak for a time of day; None where too few of them do."""
    chosen, seen_at = _around(values, _times_s(history), time_s)
    return chosen if seen_at == THIS_TIME else None


def bins_of(within_s: float) -> int:
    """Bins that a time reaches over, at least one."""
    return max(1, math.ceil(within_s / BIN_S))


def whole(slots: float) -> int:
    """Parts of slots rounded up."""
    return math.ceil(slots - SLOT_HAIR)


def _times_s(history: DemandHistory) -> F64:
    """The time of day of each bin."""
    assert history.last_bin is not None
    return np.asarray(np.arange(history.last_bin - history.levels.size, history.last_bin) * BIN_S % DAY_S)


def _around(growth: F64, times_s: F64, time_s: float) -> tuple[F64, str]:
    """The growth that speaks for a time of day, and which past that is."""
    known = np.isfinite(growth)
    away_s = np.abs(times_s - time_s)
    near = known & (np.minimum(away_s, DAY_S - away_s) <= AROUND_S)
    if int(near.sum()) >= LEAST_AROUND_BINS:
        return growth[near], THIS_TIME
    return growth[known], "all times of day"


def highest_ahead(values: F64, bins: int) -> F64:
    """For each place the highest of the next `bins` values, holes (NaN) passed over; minus infinity beyond the end."""
    best = np.full(values.size, -np.inf)
    best[:-1] = np.where(np.isnan(values[1:]), -np.inf, values[1:])
    width = 1
    while width < bins:
        step = min(width, bins - width)
        if step < best.size:
            best[:-step] = np.maximum(best[:-step], best[step:])
        width += step
    return best


def _lowest_behind(values: F64, bins: int) -> F64:
    """For each place the lowest of the `bins` values before it, holes passed over; infinity before the beginning."""
    return -highest_ahead(-values[::-1], bins)[::-1]


def _upper(growth: F64, level: float) -> int:
    return whole(float(np.quantile(growth, level, method="higher")))
