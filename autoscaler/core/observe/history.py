"""History bins: arrivals keyed by sample time, in a ring of `BIN_S` wide bins per workload.

Each bin holds a count and how many of its seconds were measured, so that a gap is a gap and never zero traffic. A bin
also keeps its *need*: the constant service rate that would have kept the wait within the SLO's slack, taken over the
last minute (a network-calculus envelope: Le Boudec and Thiran, "Network Calculus", 2001, section 1.3).
"""

import math
from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F32, F64, I64, Bools, Columns, column, flat, places, some, unknown
from autoscaler.core.params import BIN_S, HISTORY_BINS, NO_BIN

MAX_SPREAD_S = 120.0
"""A counter read again after a longer silence tells the mean, not when: its bins stay unmeasured."""

ENVELOPE_BINS = 6
"""The envelope looks at windows inside one minute."""

MOST_STAY_BINS = 60
"""A need is averaged over ten minutes at most, however long requests stay: for so long their time is smoothed, too."""


@dataclass(slots=True)
class HistoryColumns(Columns):
    """Ring of bins per row; `head` is the number of the open bin (floor(time / BIN_S)), `NO_BIN` before the first."""

    head: I64 = column(fill=NO_BIN, dtype=np.int64)
    count: F32 = column(HISTORY_BINS, fill=0, dtype=np.float32)
    cover_s: F32 = column(HISTORY_BINS, fill=0, dtype=np.float32)
    need_rps: F32 = column(HISTORY_BINS, dtype=np.float32)


def absorb(
    history: HistoryColumns, rows: I64, now_s: F64, *, arrivals: F64, span_s: F64, slack_s: F64, stays_s: F64
) -> Bools:
    """Spread `arrivals` over the bins of the last `span_s` seconds; return which rows closed at least one bin.

    Rows with NaN arrivals only move their head. `stays_s` is how long a request is in an engine, NaN where that is not
    long. All arrays have shape (B,).
    """
    head = np.floor(now_s / BIN_S).astype(np.int64)
    old = history.head[rows]
    begun = old != NO_BIN
    closed: Bools = begun & (head > old)
    _open(history, rows, np.where(begun, old, head), head)
    history.head[rows] = head
    known = np.isfinite(arrivals) & (span_s > 0) & (span_s <= MAX_SPREAD_S)
    if some(known):
        _spread(history, rows[known], now_s[known], arrivals[known], span_s[known])
    if some(closed):
        _needs(history, rows[closed], old[closed], head[closed], slack_s=slack_s[closed], stays_s=stays_s[closed])
    return closed


def recent(history: HistoryColumns, rows: I64, bins: int, back: int = 0) -> tuple[F64, F64]:
    """Return counts and measured seconds of the last `bins` closed bins, newest first, each of shape (B, bins)."""
    at = _newest(history, rows, bins, back)
    return history.count.take(at).astype(np.float64), history.cover_s.take(at).astype(np.float64)


def recent_needs(history: HistoryColumns, rows: I64, bins: int) -> F64:
    """Return the needs of the last `bins` closed bins, newest first, NaN where not measured; shape (B, bins)."""
    needs: F64 = history.need_rps.take(_newest(history, rows, bins)).astype(np.float64)
    return needs


def _newest(history: HistoryColumns, rows: I64, bins: int, back: int = 0) -> I64:
    """Where the last closed bins lie in a column, newest first, as `take` counts: over all rows of it."""
    newest = (history.head[rows] - 1 - back) % HISTORY_BINS
    at: I64 = (rows * HISTORY_BINS + newest)[:, None] - np.arange(bins)
    over = places(newest < bins - 1)
    if len(over):  # the ring goes on at the row's end
        at[over] += HISTORY_BINS * (np.arange(bins) > newest[over, None])
    return at


def needed(history: HistoryColumns, rows: I64, slack_s: F64, stays_s: F64, back: int = 0) -> F64:
    """Return what the newest closed minute needs in requests/s, NaN where less than half of it was measured."""
    count, cover_s = recent(history, rows, ENVELOPE_BINS, back)
    need, staying = envelope(count, cover_s, slack_s, stays_s), staying_rps(history, rows, stays_s, back)
    return np.where(np.isfinite(need) & np.isfinite(staying), staying, need)


def staying_rps(history: HistoryColumns, rows: I64, stays_s: F64, back: int = 0) -> F64:
    """Return the mean rate over one stay in an engine where that is longer than a minute, NaN elsewhere, shape (B,).

    Times the stay it is how many requests are in service, or would be with room for all (Little's law). A shorter
    window would count the chance in the arrivals of a minute for a rate that lasts.
    """
    found = unknown(len(rows))
    at = places(stays_s > ENVELOPE_BINS * BIN_S)
    if len(at):
        bins = np.minimum(np.ceil(stays_s[at] / BIN_S), MOST_STAY_BINS)
        count, cover_s = recent(history, rows[at], MOST_STAY_BINS, back)
        inside = np.arange(MOST_STAY_BINS) < bins[:, None]
        seconds = np.where(inside, cover_s, 0.0).sum(axis=1)
        known = seconds > 0
        found[at] = np.where(known, np.where(inside, count, 0.0).sum(axis=1) / np.where(known, seconds, 1.0), np.nan)
    return found


def envelope(count: F64, cover_s: F64, slack_s: F64, stays_s: F64 | float = math.nan) -> F64:
    """Return the least constant service rate that keeps waits within `slack_s` over `ENVELOPE_BINS` bins.

    `count` and `cover_s` are (N, ENVELOPE_BINS) in time order or reversed (the result is the same), `slack_s` (N,).
    A window of w seconds may queue for ``slack * (1 - w / minute)``: over the whole minute the queue may not grow at
    all, since the next minute brings as much again. NaN where less than half of the minute was measured.

    A window shorter than `stays_s` (N,), how long a request is in an engine, is none to serve anything in: all of its
    requests are still there at its end, and take no more room than the last stay's.
    """
    minute_s = ENVELOPE_BINS * BIN_S
    measured = cover_s.sum(axis=1)
    known = measured >= 0.5 * minute_s
    scaled = np.where(cover_s > 0, count / np.maximum(cover_s, 1e-9) * BIN_S, 0.0)
    total = np.zeros((len(scaled), scaled.shape[1] + 1))
    np.cumsum(scaled, axis=1, out=total[:, 1:])
    best = count.sum(axis=1) / np.maximum(measured, 1e-9)
    long = some(np.asarray(stays_s > BIN_S))
    for width in (1, 2, 3):
        window_s = width * BIN_S
        most = (total[:, width:] - total[:, :-width]).max(axis=1)
        rate = most / (window_s + slack_s * (1.0 - window_s / minute_s))
        best = np.maximum(best, np.where(window_s < stays_s, 0.0, rate) if long else rate)
    return np.where(known, best, np.nan)


def _open(history: HistoryColumns, rows: I64, old: I64, head: I64) -> None:
    """Empty the bins that the head moves over."""
    moved = np.minimum(head - old, HISTORY_BINS)
    for step in range(int(moved.max(initial=0))):
        late = moved > step
        at = rows[late] * HISTORY_BINS + (head[late] - step) % HISTORY_BINS
        flat(history.count)[at] = 0
        flat(history.cover_s)[at] = 0
        flat(history.need_rps)[at] = np.nan


def _spread(history: HistoryColumns, rows: I64, now_s: F64, arrivals: F64, span_s: F64) -> None:
    most = int(np.ceil(span_s.max() / BIN_S)) + 1
    number = np.floor(now_s / BIN_S)[:, None] - np.arange(most)
    low = np.maximum(number * BIN_S, (now_s - span_s)[:, None])
    high = np.minimum((number + 1.0) * BIN_S, now_s[:, None])
    inside = np.maximum(high - low, 0.0)
    at = (rows * HISTORY_BINS)[:, None] + number.astype(np.int64) % HISTORY_BINS
    flat(history.count)[at] += ((arrivals / span_s)[:, None] * inside).astype(np.float32)
    flat(history.cover_s)[at] += inside.astype(np.float32)


def _needs(history: HistoryColumns, rows: I64, old: I64, head: I64, *, slack_s: F64, stays_s: F64) -> None:
    """Fill the need of the newest closed bin, and of bins that a late reading filled since (at most a minute)."""
    for step in range(min(int((head - old).max()), ENVELOPE_BINS)):
        late = head - old > step
        slot = (head[late] - 1 - step) % HISTORY_BINS
        need = needed(history, rows[late], slack_s[late], stays_s[late], back=step)
        history.need_rps[rows[late], slot] = need.astype(np.float32)
