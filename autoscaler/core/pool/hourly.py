"""Growth by the minute of the hour: what is started by a clock starts together, on the hour, its half or its quarter.

Enters: the history of demand. Leaves: how much to keep at a minute, by how much demand grew at that minute of the last
hours; and whether that rule would have done better than the one by time of day, and than the same rule with intervals
that no clock has. It is judged on the past as it would have gone: each hour by those before it. Where hours are not
alike it asks for more, and is not chosen.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.core.pool import growth
from autoscaler.core.pool.growth import Growth
from autoscaler.core.pool.history import BIN_S, DemandHistory

HOUR_BINS: Final = 60

REACHES: Final = (1, 2, 3)
"""How many bins a minute of the hour reaches in both directions; each is tried. What starts at the edge of two bins
falls into either, and clocks and starts may differ by more (three is a guess)."""

HOURS: Final = (1, 2, 3, 6, 12, 24)
"""Of how many past hours the highest growth is kept; each is tried."""

LENT_HOURS: Final = 48
"""Hours that speak about loans, all of them: what comes once a day was seen twice."""

MORE: Final = (0, 1, 2, 4, 8, 16, 32, 64)
"""Slots on top of it for what no clock starts; each is tried."""

OTHERS: Final = (38, 41, 44, 68, 71, 74)
"""Intervals in bins that no clock has: 8, 11 and 14 minutes, beyond all reach, after the half hour and the hour."""

ALIKE: Final = 2
"""Of six intervals one does as well by chance; as many do where the hour says nothing."""

LONGEST_S: Final = (OTHERS[0] - REACHES[-1]) * BIN_S
"""Over a longer time growth is not known soon enough to be foretold by those intervals."""

JUDGED_BINS: Final = 2 * 1440
"""Two days judge: a schedule that was changed is not held against the pool for longer."""

LEAST_JUDGED_BINS: Final = 60
"""One hour beyond the first is the least that judges, where demand rose often in it."""

OFTEN: Final = 20
"""Bins in which demand rose: were each rise met by chance in four of five cases, 20 would be in 1 of 87. A few jumps
come an hour apart by chance, however many replicas each of them starts."""

JUDGED_ANYHOW_BINS: Final = 300
"""Five hours judge where it rose more seldom."""

LEAST_JUMPS: Final = 3
"""So many times it rose at least, however long each time: by chance a jump comes within three minutes of the minute of
the hour that another one had in one of nine cases, and three in a row do in one of 600. A second jump, or a second
climb of twenty minutes, an hour after the first speaks for no clock."""

WORTH: Final = 0.5
"""The rule by the minute of the hour is chosen where it would have kept at most this share of the idle slots of the one
by time of day, and of the same rule with other intervals: what knows no clock is alike by chance for a while, and as
alike after 41 minutes as after an hour. Of 100 stretches each of ServeGen's m-mid and deepseek-r1, which know no clock,
none chooses it after 2.3 to 6.3 h (`loadtests clocks`)."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The highest growth within reach of this minute of so many past hours, and so many slots on top."""

    hours: int
    more: int
    reach: int = REACHES[-1]


@dataclass(frozen=True, slots=True)
class _Judged:
    """What a rule would have come to."""

    missed: float
    """New slots of demand that found none."""
    new: float
    rises: int
    """Bins in which demand rose."""
    jumps: int
    """Of these, those before which it did not."""
    idle: float
    """Idle slots, over all bins."""
    bins: int
    """Of which the rule could be judged."""


def usual(history: DemandHistory, within_s: float, rhythm: Rhythm) -> Growth | None:
    """What to keep in the open minute; None where demand around this minute of none of the past hours is known.

    An hour with a hole may ask for more and speaks for no less: what jumped unseen was not nothing.
    """
    tail = HOUR_BINS * rhythm.hours + rhythm.reach
    levels = np.append(history.levels, history.level)[-tail - 1 :]
    grown = np.append(growth.grown(history, within_s), np.nan)[-tail - 1 :]
    kept = float(_kept(levels, grown, rhythm.reach, (rhythm.hours,))[rhythm.hours][-1])
    beyond = rhythm.reach + growth.bins_of(within_s) + 1
    places = [history.levels.size - HOUR_BINS * back for back in range(1, rhythm.hours + 1)]
    around = [history.levels[max(0, at - rhythm.reach) : at + beyond] for at in places if at >= 0]
    known = sum(bool(np.isfinite(each).all()) for each in around)
    if math.isnan(kept) or not known:
        return None
    return Growth(growth.whole(kept) + rhythm.more, known, "this minute of the hour")


def careful(history: DemandHistory, within_s: float, rhythm: Rhythm) -> Growth | None:
    """What `usual` says at the widest reach where each of the last `LENT_HOURS` speaks.

    None for a time over `LONGEST_S`, and where demand around this minute of one of those hours is not known.
    """
    if within_s > LONGEST_S:
        return None
    found = usual(history, within_s, Rhythm(LENT_HOURS, rhythm.more, REACHES[-1]))
    return None if found is None or found.samples < LENT_HOURS else found


def unforeseen(history: DemandHistory, within_s: float) -> int:
    """The largest growth since some instant of the last `within_s` (up to `LONGEST_S`) that is beyond what the hours of
    the past day had said of that minute; 0 where none is, all of it where they had said nothing."""
    came = growth.came(history, within_s)
    seen = came.size + HOURS[-1] * HOUR_BINS + REACHES[-1]
    levels, grown = history.levels[-seen:], growth.grown(history, within_s)[-seen:]
    kept = _kept(levels, grown, REACHES[-1], HOURS[-1:])[HOURS[-1]][-came.size :]
    return growth.whole(float(came[~(came <= kept)].max(initial=0.0)))


def rhythm_for(
    history: DemandHistory, within_s: float, hit_ratio: float, level: float, *, believed: bool = False
) -> Rhythm | None:
    """The rule that would have met a share `hit_ratio` of the new demand of the last days with the fewest idle slots.

    None where none would have, where the rule by time of day at the quantile `level` would have done about as well,
    where too little is known, and where a refill takes longer than `LONGEST_S`. No pool begins with it where the same
    rule with another interval would have done about as well; one that goes by it (`believed`) needs no such proof.
    """
    bins = growth.bins_of(within_s)
    if bins * BIN_S > LONGEST_S or history.levels.size < HOUR_BINS + LEAST_JUDGED_BINS:
        return None
    judged, seen = JUDGED_BINS + bins, JUDGED_BINS + bins + HOURS[-1] * HOUR_BINS + REACHES[-1]
    levels, grown = history.levels[-seen:], growth.grown(history, within_s)[-seen:]
    found: tuple[float, Rhythm, F64] | None = None
    for reach in REACHES:
        kept_by = _kept(levels, grown, reach, HOURS)
        cheapest = _cheapest(levels[-judged:], kept_by, bins, hit_ratio, math.inf if found is None else found[0])
        if cheapest is not None:
            idle, hours, more = cheapest
            found = idle, Rhythm(hours, more, reach), kept_by[hours]
    if found is None:
        return None
    idle, rhythm, kept = found
    other = growth.kept_by_hour(history, within_s, level)[-seen:]
    other[np.isnan(kept)] = np.nan
    if idle > WORTH * _judged(levels[-judged:], other[-judged:], bins).idle:
        return None
    alike = 0
    for interval in () if believed else OTHERS:
        kept_by = _kept(levels, grown, rhythm.reach, HOURS, interval)
        there = {hours: np.where(np.isnan(kept), np.nan, each) for hours, each in kept_by.items()}
        alike += _cheapest(levels[-judged:], there, bins, hit_ratio, idle / WORTH) is not None
    return None if alike >= ALIKE else rhythm


def _cheapest(
    levels: F64, kept_by: Mapping[int, F64], bins: int, hit_ratio: float, below: float
) -> tuple[float, int, int] | None:
    """Of the rules that would have hit so often with fewer idle slots than `below` the cheapest: its idle slots, hours
    and slots on top. None without any."""
    found: tuple[float, int, int] | None = None
    for hours, kept in kept_by.items():
        for more in MORE:
            judged = _judged(levels, kept[-levels.size :] + more, bins)
            least = LEAST_JUDGED_BINS if judged.rises >= OFTEN else JUDGED_ANYHOW_BINS
            if judged.bins < least or judged.jumps < LEAST_JUMPS or judged.idle >= below:
                break  # more slots on top are idle for longer
            if judged.missed <= (1.0 - hit_ratio) * judged.new:
                found, below = (judged.idle, hours, more), judged.idle
                break
    return found


def _kept(levels: F64, grown: F64, reach: int, hours: Sequence[int], interval: int = HOUR_BINS) -> dict[int, F64]:
    """What to keep in each bin by so many past hours, or intervals: shape of `levels`, NaN where it is not known."""
    size = levels.size
    highest, found = np.full(size + reach, np.nan), dict[int, F64]()
    for back in range(1, hours[-1] + 1):
        shift = interval * back
        earlier = grown[: max(0, size + reach - shift)]
        highest[shift : shift + earlier.size] = np.fmax(highest[shift : shift + earlier.size], earlier)
        if back in hours:
            found[back] = np.ceil(_reaching(highest, levels, reach) - growth.SLOT_HAIR)
    return found


def _reaching(highest: F64, levels: F64, reach: int) -> F64:
    """The highest growth within reach of each bin, holes passed over. What an hour before grew from an earlier minute
    on may have come already: what demand grew by since that minute is not kept for again."""
    found = highest[: levels.size].copy()
    for away in range(1, reach + 1):
        found = np.fmax(found, highest[away : away + levels.size])
        came = levels[away:] - levels[:-away]
        came = np.where(came > 0.0, came, 0.0)  # what is not known is none
        found[away:] = np.fmax(found[away:], highest[: levels.size - away] - came)
    return found


def _judged(levels: F64, kept: F64, bins: int) -> _Judged:
    """What a rule would have come to that keeps so many slots in each bin, with a refill of so many bins.

    What was there or under way a refill ago is what demand can have: its level then and what was kept then.
    """
    now, before, held = levels[bins:], levels[:-bins], kept[:-bins]
    known = np.isfinite(now) & np.isfinite(before) & np.isfinite(held)
    new = np.maximum(np.diff(levels, prepend=np.nan)[bins:], 0.0)
    new[~np.isfinite(new)] = 0.0
    left = np.where(known, before + held - now, 0.0)
    missed = np.minimum(new, np.maximum(-left, 0.0))
    idle = np.where(known, np.clip(left, 0.0, np.where(known, held, 0.0)), 0.0)
    rose = known & (new > 0.0)
    jumps = int(np.count_nonzero(rose & ~np.append(False, rose[:-1])))
    rises = int(np.count_nonzero(rose))
    return _Judged(float(missed.sum()), float(new[known].sum()), rises, jumps, float(idle.sum()), int(known.sum()))
