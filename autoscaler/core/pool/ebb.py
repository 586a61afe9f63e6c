"""By how much demand falls, and when: what serving is expected to leave to whoever waits for its GPUs.

Enters: the history of demand in slots. Leaves: for some times ahead, the slots of demand that are expected to be gone
by then and for half an hour after it: as often as not, and in nine of ten cases. Two pasts have to agree on each: by
how much demand fell at this time of day, and how much of it there was at that one; so that neither a spike at this
instant nor a month that grows foretells a fall. Where less than most of a day is known nothing is foretold.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.core.pool import growth
from autoscaler.core.pool.history import DAY_S, DemandHistory

AHEAD_S: Final = (900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0)
"""Times ahead at which it is asked; beyond a working day somebody else will have asked again (a guess)."""

LASTS_S: Final = 1800.0
"""For so long demand stays down: a gang's start takes minutes, and one that serving is back for at once helped nobody.
As the shortest loan (`loans.LENDING_S`)."""

USUAL: Final = 0.5
SURE: Final = 0.9
"""Of the cases."""


@dataclass(frozen=True, slots=True)
class Ebb:
    """A fall of demand."""

    within_s: float
    usual_slots: int
    """As often as not at least so many are gone by then."""
    sure_slots: int
    """The same in nine of ten cases."""


def ebbs(history: DemandHistory, now_s: float) -> tuple[Ebb, ...]:
    """The falls that are expected, the soonest first, each deeper than those before it; none where nothing speaks for
    one, or demand is not known now."""
    if not np.isfinite(history.level) or history.known < growth.LEAST_AROUND_BINS:
        return ()
    found: list[Ebb] = []
    least = (0, 0)
    for within_s in AHEAD_S:
        stays = _highest_after(history, within_s)
        fell = growth.around(np.maximum(history.levels - stays, 0.0), history, now_s % DAY_S)
        there = growth.around(_shifted(stays, within_s), history, (now_s + within_s) % DAY_S)
        if fell is None or there is None:
            continue
        usual, sure = (_fall(history.level, fell, there, level) for level in (USUAL, SURE))
        deepest = max(least[0], usual), max(least[1], sure)
        if deepest != least:
            least = deepest
            found.append(Ebb(within_s, *deepest))
    return tuple(found)


def _fall(level: float, fell: F64, there: F64, share: float) -> int:
    """Whole slots by which demand is lower in a share of the cases, by both pasts."""
    by_fall = float(np.quantile(fell, 1.0 - share, method="lower"))
    by_level = level - float(np.quantile(there, share, method="higher"))
    return max(0, int(min(by_fall, by_level) + growth.SLOT_HAIR))


def _highest_after(history: DemandHistory, within_s: float) -> F64:
    """For each bin the highest demand of the time that begins `within_s` after it; NaN where that is not all known."""
    first, bins = growth.bins_of(within_s), growth.bins_of(LASTS_S)
    unknown = np.isnan(history.peaks)
    ahead = growth.highest_ahead(np.where(unknown, np.inf, history.peaks), bins)
    out = np.full(ahead.size, np.nan)
    last = max(0, ahead.size - first - bins + 1)
    out[:last] = ahead[first - 1 : first - 1 + last]
    out[np.isinf(out)] = np.nan
    return out


def _shifted(stays: F64, within_s: float) -> F64:
    """The same at the bin at which that time begins."""
    out = np.full(stays.size, np.nan)
    first = growth.bins_of(within_s)
    out[first:] = stays[: max(0, stays.size - first)]
    return out
