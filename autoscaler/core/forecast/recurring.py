"""Bursts that come back faster than a replica starts: the need to expect of them, read off the past hours.

Such a load is missed anew at every onset, however fast the reaction, and no model of its level foresees the next burst.
From the third onset within the hour on, the forecast is the need that the load stayed below but for a twentieth of the
time, through the gaps as well, until a spell of quiet or of load lasts far longer than any before it. The hour says
whether there is such a habit; what it needs is told by all that is remembered, as long as the hour does not contradict.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, places, unknown
from autoscaler.core.params import BIN_S

LEVEL = 0.95
"""Share of the hour that is provided for. On two on/off traces it serves 95 % of the requests in time; what is needed
more rarely stands idle for 19 of 20 minutes."""

ON_RATIO = 0.5
OFF_RATIO = 0.25
"""A burst is on from half of that level and over at a quarter of it: a ramp wavers about any one mark."""

LEAST_ONSETS = 3
"""Two onsets are a step and its echo; the third makes a habit."""

LATE_RATIO = 0.05
"""Only where waiting for a start at every onset would make a twentieth of the bursts late."""

CHANCE_SIGMAS = 3.0
"""Deviations of a Poisson count: bursts of long requests that are no higher are none."""

USUAL_RATIO = 2.0
"""A spell twice as long as the longest of the hour is something else: the habit is over."""


@dataclass(frozen=True, slots=True)
class Habit:
    """What the last hour tells, arrays of shape (B,)."""

    need_rps: F64
    """The need to provide for in requests/s, NaN where no bursts come back."""
    over: Bools
    """Bursts came back until now, and the hour's peak no longer says what is to come."""


def look(needs: F64, lead_s: F64, stays_s: F64 | None = None) -> Habit:
    """Return whether bursts come back and what they need.

    `needs` has shape (B, bins), newest first, NaN where not measured; `lead_s` has shape (B,), and so has
    `stays_s`, how long a request is in an engine where that is long: few of those come and go in bursts by chance.
    """
    habit, over = unknown(len(needs)), np.zeros(len(needs), dtype=np.bool_)
    # Most loads are never away: only the others are worth a closer look. What is expected is at most the highest.
    at = places(np.fmin.reduce(needs, axis=1) < OFF_RATIO * np.fmax.reduce(needs, axis=1))
    if not len(at):
        return Habit(habit, over)
    lowest, expected = _expected(needs[at])
    away = (expected > 0) & (lowest < OFF_RATIO * expected)
    if stays_s is not None:
        away &= ~_by_chance(needs[at], expected, stays_s[at])
    at, expected = at[away], expected[away]
    if len(at):
        on, off = _spells(needs[at], expected)
        onsets = (on[:, :-1] & off[:, 1:]).sum(axis=1)
        bursts = (onsets >= LEAST_ONSETS) & (onsets * lead_s[at] >= LATE_RATIO * BIN_S * on.sum(axis=1))
        usual = _usual(on) & _usual(off)
        habit[at] = np.where(bursts & usual, expected, np.nan)
        over[at] = bursts & ~usual
    return Habit(habit, over)


def remembered(hour_rps: F64, needs: F64, *, ratio: float) -> F64:
    """Return what bursts need by all that is remembered, in requests/s, (B,); `hour_rps` if they contradict.

    `hour_rps` is the need that `look` found in the last hour; `needs` has shape (B, bins), NaN where not measured. An
    hour tells the size of bursts to within a third or so, and a longer past tells it better; where the two differ by
    more than `ratio` (above 1) the bursts are others than they were.
    """
    longer_rps = _expected(needs)[1]
    alike = (longer_rps <= ratio * hour_rps) & (hour_rps <= ratio * longer_rps)
    return np.where(alike, longer_rps, hour_rps)


def _by_chance(needs: F64, expected: F64, stays_s: F64) -> Bools:
    """Return where so many requests in service as `expected` are no more than chance makes of the hour's mean."""
    mean = stays_s * np.nanmean(needs, axis=1)
    return np.asarray(expected * stays_s <= mean + CHANCE_SIGMAS * np.sqrt(np.maximum(mean, 0.0)))


def _expected(needs: F64) -> tuple[F64, F64]:
    """Return the lowest need of the hour and the one that it stayed below but for a twentieth of it, shape (B,)."""
    known = np.isfinite(needs)
    place = np.maximum(np.ceil(LEVEL * known.sum(axis=1)).astype(np.int64) - 1, 0)
    ranked = np.partition(np.where(known, needs, np.inf), np.unique([0, *place]), axis=1)
    return ranked[:, 0], ranked[np.arange(len(ranked)), place]


def _spells(needs: F64, expected: F64) -> tuple[Bools, Bools]:
    """Return the bins of bursts and those between them, shape (B, bins) each; between the marks a spell goes on."""
    told = np.where(needs > ON_RATIO * expected[:, None], 1, np.where(needs < OFF_RATIO * expected[:, None], -1, 0))
    bins = needs.shape[1]
    newest_last = told[:, ::-1]
    said_at = np.maximum.accumulate(np.where(newest_last != 0, np.arange(bins), 0), axis=1)
    state = np.take_along_axis(newest_last, said_at, axis=1)[:, ::-1]
    return np.asarray(state > 0), np.asarray(state < 0)


def _usual(spell: Bools) -> Bools:
    """Return where the spell at the newest end is at most `USUAL_RATIO` times the longest whole one before it."""
    lengths = _lengths(spell)
    newest = np.where(spell.all(axis=1), spell.shape[1], (~spell).argmax(axis=1))
    begun = spell[:, :-1] & ~spell[:, 1:]
    before = np.arange(spell.shape[1] - 1) >= newest[:, None]
    longest = np.where(begun & before, lengths[:, :-1], 0).max(axis=1)
    return np.asarray(newest <= USUAL_RATIO * longest)


def _lengths(spell: Bools) -> I64:
    """Return at every bin how many bins of the spell lie between the spell's newest bin and it, both included."""
    index = np.arange(spell.shape[1])
    outside = np.maximum.accumulate(np.where(spell, -1, index), axis=1)
    return np.asarray(index - outside)
