"""The ordered bounds: each takes a count and returns a count; the chain records every change.

Soft bounds know the recent past (what was wanted, what was ordered); hard limits come last. A lowered hard limit is an
order, not a measurement: it shrinks at the rate-down pace even on stale data.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, Columns, column, flat, some
from autoscaler.core.params import BIN_S, NO_BIN
from autoscaler.core.reasons import Reason

KEEP = 192
"""Bins of wanted and ordered counts kept: 32 minutes, the longest stabilisation."""

RATE_UP_FACTOR = 16.0
RATE_UP_S = 60.0
"""At most 16 times per minute, as HPA by default (twice per 15 s): a guard against absurd input, which one bad reading
is for a minute, as long as it stays in the mean."""

RATE_UP_ADD = 40
RATE_UP_ADD_S = 15.0
"""Or 40 more per 15 s, ten times HPA's four: no brake on a few replicas that meet ten times their load, with a queue
that must be cleared as well. Four times that in a minute: where 16 times is more, this adds nothing."""

RATE_DOWN_RATIO = 0.5
RATE_DOWN_S = 60.0
"""At most half per minute, and always at least one: what was bought to clear a queue is not paid for twice."""

HYSTERESIS = 0.8
HYSTERESIS_RATIO = 0.4
"""To shrink, the need must lie this share of a replica below the smaller count, but no more than this share of that
count: of two replicas the second would else be kept until the first is four fifths idle, at a need that already looks
one lead time ahead. Only the step from two to one is that small."""

STABILISE_MIN_S = 120.0
STABILISE_MAX_S = 1800.0
STABILISE_LEADS = 0.25
"""A replica is held through gaps of a quarter of its lead time. The ski-rental break-even (all of it) cost 6 % more on
ServeGen days at ten minutes: the bound already looks one lead time ahead."""

YOUNG_S = 3600.0
STABILISE_YOUNG_S = 300.0
"""In its first hour a workload has shown few of its gaps: a replica is held for five minutes, HPA's default."""

BACK_OFF_AFTER = 3
BACK_OFF_S = 60.0
BACK_OFF_MOST_S = 960.0
"""After three failed starts in a row growth pauses for 1, 2, 4 … 16 minutes: twice as long each time that starts fail
after a pause, for only then was anything tried anew."""


@dataclass(slots=True)
class BoundColumns(Columns):
    """Rings of the highest count wanted and of the ordered count per bin, and the failure back-off."""

    bin: I64 = column(KEEP, fill=NO_BIN, dtype=np.int64)
    wanted: I64 = column(KEEP, fill=0, dtype=np.int64)
    ordered_high: I64 = column(KEEP, fill=0, dtype=np.int64)
    ordered_low: I64 = column(KEEP, fill=0, dtype=np.int64)
    met_at_s: F64 = column(keep=True)
    met_with: I64 = column(fill=0, dtype=np.int64, keep=True)
    """Replicas that stood for longer than a minute when the last minute was not remembered, and when that was."""
    failures: I64 = column(fill=0, dtype=np.int64, keep=True)
    died: I64 = column(fill=0, dtype=np.int64, keep=True)
    """Those of them that died of their first requests, while nobody has completed one since."""
    pauses: I64 = column(fill=0, dtype=np.int64, keep=True, later=True)
    """How often growth was paused for them. Builds before this column doubled the pause with each failure."""
    back_off_until_s: F64 = column(keep=True)


@dataclass(frozen=True, slots=True)
class BoundInputs:
    """What the bounds read, arrays of shape (B,)."""

    now_s: F64
    desired: I64
    exact: F64
    lead_s: F64
    shrinkable: Bools
    """False while any expected signal is not fresh."""
    young: Bools
    """Known for less than `YOUNG_S`, with a measured capacity: a count that rests on a guess is not held for longer."""
    unready: Bools
    """Less than half of what was ordered is ready."""
    loading: Bools
    """A replica is starting and none serves: never zero."""
    zero_allowed: Bools
    busy: Bools
    """There was work within the residency limit."""
    event_floor: I64
    event_ceiling: I64
    min_replicas: I64
    max_replicas: I64
    quota: I64
    budget: I64


@dataclass(frozen=True, slots=True)
class Change:
    """One bound's effect on the batch: counts before and after, shape (B,)."""

    reason: Reason
    before: I64
    after: I64
    within_s: F64 | None = None
    """The span it looked back over, where that is this bound's own."""
    stood: I64 | None = None
    """The count that stood within the minute of a pace, and that the pace goes from."""


def note(
    columns: BoundColumns,
    rows: I64,
    now_s: F64,
    wanted: I64,
    ordered: I64,
    *,
    begun: I64 | None = None,
    landed: I64 | None = None,
    tick_s: F64 | float = 0.0,
) -> None:
    """Remember what was wanted and what stands on the target.

    What stands at the first sight of a workload counts as wanted, as HPA has it: nobody shrinks what they just met.
    What a clock kept that was ahead of this one is dropped: it would be the newest for as long as that was ahead. What
    was wanted of late is not known then, and what stands counts as wanted again.
    Where the last minute is `forgotten`, the starts `begun` in it and the pods `landed` in it are taken for growth: a
    controller that crashes after each order would else have the whole minute's growth again at every restart. As many
    as stood when it was last looked are none: a rollout or a lost node has them start anew.
    """
    number = np.floor(now_s / BIN_S).astype(np.int64)
    bins = columns.bin.take(rows, axis=0)
    newest = bins.max(axis=1)
    ahead = newest > number
    if some(ahead):
        columns.bin[rows] = np.where(bins > number[:, None], NO_BIN, bins)
    wanted = np.where(ahead | (newest == NO_BIN), np.maximum(wanted, ordered), wanted)
    slot = number % KEEP
    starts = np.zeros_like(ordered) if begun is None else begun
    young = starts if landed is None else starts + landed
    stood = ordered
    if some(young > 0):
        newest = columns.bin[rows].argmax(axis=1)
        had = columns.bin[rows, newest] != NO_BIN
        known = np.where(had, np.minimum(ordered, columns.ordered_high[rows, newest]), 0)
        anew = forgotten(columns, rows, now_s, tick_s)
        stood = np.where(anew, np.maximum(ordered - starts, known), ordered)
        columns.met_at_s[rows] = np.where(anew, now_s, columns.met_at_s[rows])
        columns.met_with[rows] = np.where(anew, np.maximum(ordered - young, known), columns.met_with[rows])
    at = rows * KEEP + slot
    same = flat(columns.bin)[at] == number
    for ring, value, further in (
        (flat(columns.wanted), wanted, np.maximum),
        (flat(columns.ordered_high), ordered, np.maximum),
        (flat(columns.ordered_low), stood, np.minimum),
    ):
        ring[at] = np.where(same, further(ring[at], value), value)
    flat(columns.bin)[at] = number


def forget_above(columns: BoundColumns, rows: I64, wanted: I64) -> None:
    """Hold no more than is wanted: what was wanted beyond was for something that is over."""
    columns.wanted[rows] = np.minimum(columns.wanted[rows], wanted[:, None])


def forgotten(columns: BoundColumns, rows: I64, now_s: F64, tick_s: F64 | float = 0.0) -> Bools:
    """Return the rows of which nothing is remembered within `RATE_UP_S`, or since the last tick, shape (B,)."""
    minute_s = np.maximum(RATE_UP_S, tick_s + BIN_S)
    age_s = _lately(columns, rows, now_s, float(np.max(minute_s))).age_s
    return np.asarray(age_s.min(axis=1) >= minute_s)


def note_starts(
    columns: BoundColumns, rows: I64, now_s: F64, *, finished: I64, failed: I64, died: I64, completed: Bools
) -> None:
    """Count failed starts in a row and set the back-off; one success clears it.

    What fails during a pause was ordered before it, most often by the same cause: the pods of a lost node end over
    several looks. The pause begins anew, and is no longer for it.
    Replicas that `died` of their first requests have failed to start as well. From then on it is no success that others
    become ready, as these did, but that somebody `completed` a request: more of what dies of its work cure nothing.
    """
    before = columns.died[rows]
    if not (some(failed > 0) or some(died > 0) or some(columns.failures[rows] > 0)):
        return  # nothing failed, and there is nothing to clear
    dying = np.where(completed, 0, before + died)
    worked = np.where(before + died > 0, dying == 0, finished > 0)
    lost = failed + np.where(completed, 0, died)
    failures = np.where(worked, 0, columns.failures[rows] + lost)
    fresh = (lost > 0) & (failures >= BACK_OFF_AFTER)
    pauses = np.where(worked, 0, _pauses(columns, rows))
    pauses += fresh & ((pauses == 0) | ~_paused(columns, rows, now_s))
    pause_s = np.minimum(BACK_OFF_S * 2.0 ** np.clip(pauses - 1, 0, 10), BACK_OFF_MOST_S)
    until = np.where(fresh, now_s + pause_s, columns.back_off_until_s[rows])
    columns.back_off_until_s[rows] = np.where(worked, np.nan, until)
    columns.failures[rows], columns.died[rows], columns.pauses[rows] = failures, dying, pauses


def _pauses(columns: BoundColumns, rows: I64) -> I64:
    """Return how often growth was paused; a checkpoint that does not say is of a build that counted failures."""
    pauses, failures = columns.pauses[rows], columns.failures[rows]
    return np.where(pauses == 0, np.maximum(failures - BACK_OFF_AFTER + 1, 0), pauses)


def _paused(columns: BoundColumns, rows: I64, now_s: F64) -> Bools:
    """Return where growth is paused: no pause is longer than the longest but by a clock that was ahead, or by the tenth
    of a second that a checkpoint keeps."""
    left_s = columns.back_off_until_s[rows] - now_s
    return np.asarray((left_s > 0) & (left_s <= BACK_OFF_MOST_S + BIN_S))


def least_within(columns: BoundColumns, rows: I64, now_s: F64, desired: I64, seconds: float) -> I64:
    """Return the least count that stood on the target within `seconds` (to a bin), the present one included."""
    return _lately(columns, rows, now_s, seconds).lowest(columns, desired, seconds)


def soft(columns: BoundColumns, rows: I64, wanted: I64, b: BoundInputs) -> list[Change]:
    """Apply the soft bounds to the wanted count in order and return each change."""
    chain = _Chain(wanted)
    # No bound makes one that shrinks of one that does not; where none does, nothing has to be looked up for it.
    shrinks = some(wanted < b.desired)
    if some(wanted > b.desired):
        most, low = _growth(columns, rows, b)
        most = np.maximum(most, b.desired)
        chain.apply(Reason.RATE_UP, np.where(b.desired > 0, np.minimum(chain.n, most), chain.n), stood=low)
    if shrinks:
        _hold(chain, columns, rows, b)
    paused = _paused(columns, rows, b.now_s)
    if some(paused):
        chain.apply(Reason.BACK_OFF, np.where(paused, np.minimum(chain.n, np.maximum(b.desired, 1)), chain.n))
    if shrinks:
        chain.apply(Reason.STALE, np.where(b.shrinkable, chain.n, np.maximum(chain.n, b.desired)))
        kept = (chain.n == 0) & (b.desired > 0)
        chain.apply(Reason.LOADING, np.where(kept & b.loading, 1, chain.n))
        chain.apply(Reason.ZERO_REFUSED, np.where(kept & ~b.zero_allowed & (chain.n == 0), 1, chain.n))
        chain.apply(Reason.STABILISATION, np.where(kept & b.busy & (chain.n == 0), 1, chain.n))
    return chain.changes


def _growth(columns: BoundColumns, rows: I64, b: BoundInputs) -> tuple[I64, I64]:
    """Return the largest count that growth allows, and the least of the last minute, each of shape (B,)."""
    past = _lately(columns, rows, b.now_s, RATE_UP_S)
    low = _of_before(columns, rows, b.now_s, past.lowest(columns, b.desired, RATE_UP_S), RATE_UP_S)
    last = _of_before(columns, rows, b.now_s, past.lowest(columns, b.desired, RATE_UP_ADD_S), RATE_UP_ADD_S)
    added = np.minimum(last + RATE_UP_ADD, low + RATE_UP_ADD * (RATE_UP_S / RATE_UP_ADD_S))
    most: I64 = np.maximum(added, np.ceil(low * RATE_UP_FACTOR)).astype(np.int64)
    return most, low


def _hold(chain: "_Chain", columns: BoundColumns, rows: I64, b: BoundInputs) -> None:
    """Apply what a count may not shrink below, by the past and by how little it is too large."""
    held_s = hold_s(b.lead_s, b.unready, b.young)
    past = _lately(columns, rows, b.now_s, float(np.fmax.reduce(held_s, initial=RATE_DOWN_S)))
    high = past.highest(columns, b.desired, RATE_DOWN_S)
    least = np.minimum(pace_floor(high), b.desired)
    chain.apply(Reason.RATE_DOWN, np.where(chain.n < b.desired, np.maximum(chain.n, least), chain.n), stood=high)
    held = np.minimum(past.most_wanted(columns, held_s), b.desired)
    chain.apply(Reason.STABILISATION, np.where(chain.n < b.desired, np.maximum(chain.n, held), chain.n), held_s)
    small = (chain.n < b.desired) & (b.exact > shrinks_at(b.desired)) & (b.desired > 1)
    chain.apply(Reason.DEADBAND, np.where(small, b.desired, chain.n))


def hard(columns: BoundColumns, rows: I64, n: I64, b: BoundInputs) -> list[Change]:
    """Apply events and the hard limits, last of all. Contradicting limits change nothing and say so."""
    chain = _Chain(n)
    chain.apply(Reason.EVENT_FLOOR, np.maximum(chain.n, b.event_floor))
    limit = np.minimum(b.max_replicas, np.minimum(b.quota, b.budget))
    limited = some(np.maximum(chain.n, b.min_replicas) > np.minimum(limit, b.event_ceiling))
    paced = b.desired
    if limited:
        pace = pace_floor(_lately(columns, rows, b.now_s, RATE_DOWN_S).highest(columns, b.desired, RATE_DOWN_S))
        paced = np.minimum(pace, b.desired)
        chain.apply(Reason.EVENT_CEILING, np.minimum(chain.n, np.maximum(b.event_ceiling, paced)))
    chain.apply(Reason.FLOOR, np.maximum(chain.n, b.min_replicas))
    if limited:
        for reason, most in ((Reason.MAX, b.max_replicas), (Reason.QUOTA, b.quota), (Reason.BUDGET, b.budget)):
            chain.apply(reason, np.minimum(chain.n, np.maximum(most, paced)))
    contradiction = (b.event_floor > b.event_ceiling) | (b.min_replicas > b.max_replicas)
    if some(contradiction):
        chain.apply(Reason.INFEASIBLE, np.where(contradiction, np.minimum(b.desired, limit), chain.n))
    return chain.changes


def pace_floor(high: I64) -> I64:
    """Return the least count allowed a minute after `high` replicas were ordered."""
    return np.asarray(high - np.maximum(1, np.floor(high * RATE_DOWN_RATIO)).astype(np.int64))


def shrinks_at(desired: I64) -> F64:
    """Return the exact need, in replicas, from which on a count gives one away; 0 or less where it is one or none."""
    smaller = np.asarray(desired - 1, dtype=np.float64)
    return np.asarray(smaller - np.minimum(HYSTERESIS, HYSTERESIS_RATIO * smaller))


def hold_s(lead_s: F64, unready: Bools, young: Bools) -> F64:
    """Return how long a replica is held through lower need.

    While most of an order is not ready it is held for a whole lead time: what was ordered for a burst is judged by the
    burst, not by the moment the burst looks smaller (knative/serving#3153).
    """
    least = np.where(young, STABILISE_YOUNG_S, STABILISE_MIN_S)
    return np.minimum(np.maximum(np.where(unready, 1.0, STABILISE_LEADS) * lead_s, least), STABILISE_MAX_S)


class _Chain:
    def __init__(self, n: I64) -> None:
        self.n = n
        self.changes: list[Change] = []

    def apply(self, reason: Reason, after: I64, within_s: F64 | None = None, stood: I64 | None = None) -> None:
        after = np.asarray(after, dtype=np.int64)
        if some(after != self.n):
            self.changes.append(Change(reason, self.n, after, within_s, stood))
            self.n = after


@dataclass(frozen=True, slots=True)
class _Past:
    """Bins of the rings: where they lie (`flat`), and how old each is; arrays of shape (B, bins)."""

    at: I64
    age_s: F64
    """Infinite where nothing is remembered."""

    def lowest(self, columns: BoundColumns, desired: I64, seconds: float) -> I64:
        """The lowest count that stood within `seconds`, the present one included, shape (B,)."""
        stood = np.where(self.age_s < seconds, flat(columns.ordered_low)[self.at], desired[:, None])
        lowest: I64 = np.minimum(stood.min(axis=1), desired)
        return lowest

    def highest(self, columns: BoundColumns, desired: I64, seconds: float) -> I64:
        """The highest count that stood within `seconds`, the present one included, shape (B,)."""
        stood = np.where(self.age_s < seconds, flat(columns.ordered_high)[self.at], desired[:, None])
        highest: I64 = np.maximum(stood.max(axis=1), desired)
        return highest

    def most_wanted(self, columns: BoundColumns, held_s: F64) -> I64:
        """The highest count that was wanted within each row's `held_s`, 0 where nothing is remembered, shape (B,)."""
        held = self.age_s <= held_s[:, None]
        wanted: I64 = np.where(held, flat(columns.wanted)[self.at], 0).max(axis=1)
        return wanted


def _lately(columns: BoundColumns, rows: I64, now_s: F64, seconds: float) -> _Past:
    """Return the bins that are no older than `seconds`, few of those kept; what a clock ahead kept is none of them."""
    bins = np.arange(min(KEEP, int(seconds // BIN_S) + 1))
    number = np.floor(now_s / BIN_S).astype(np.int64)[:, None] - bins
    at = (rows * KEEP)[:, None] + number % KEEP
    held = flat(columns.bin)[at] == number
    return _Past(at, np.where(held, bins * BIN_S, np.inf))


def _of_before(columns: BoundColumns, rows: I64, now_s: F64, least: I64, seconds: float) -> I64:
    """Return the least count that growth starts from, where what stood was met within `seconds`."""
    age_s = now_s - columns.met_at_s[rows]
    lately = (age_s >= 0) & (age_s < seconds)
    return np.where(lately, np.minimum(least, columns.met_with[rows]), least)
