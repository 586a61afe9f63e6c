"""Onset: the load has left the level that the past predicts, and the past no longer speaks for it.

A two-sided Page-Hinkley test on the log of the rate against the five-minute level (Page, "Continuous inspection
schemes", 1954). An onset never orders anything: for five minutes the load "now" is measured from its beginning instead
of over the last minute, which still holds the calm before.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, Columns, clipped, column

DRIFT = 0.25
"""Log-ratio tolerated as noise per bin: ServeGen's pools move by up to 25-30 % within ten minutes."""

THRESHOLD = 0.45
"""Sum over the drift that means an onset: one bin at twice the level, or several at 1.5 times."""

SURE_S = 8.0
"""Two readings at 5 s, or one at 10 s."""

STILL_RATIO = 1.25
"""The mean since the onset counts up to 1.25 times the newest rate: a spike that is over stops counting at once."""

LASTS_S = 300.0
"""After five minutes the ordinary windows hold the new level themselves."""


@dataclass(slots=True)
class OnsetColumns(Columns):
    """Cumulated evidence up and down, when the last onset began (sample time), and what came since."""

    up: F64 = column(fill=0)
    down: F64 = column(fill=0)
    began_s: F64 = column(keep=True)
    count: F64 = column(fill=0)
    seconds: F64 = column(fill=0)
    lasted_s: F64 = column(fill=0)
    intervals: F64 = column(fill=0)
    newest_rps: F64 = column()


def update(
    columns: OnsetColumns, rows: I64, now_s: F64, *, arrivals: F64, span_s: F64, level: F64
) -> tuple[Bools, F64]:
    """Add the newest arrivals over `span_s` seconds; return which rows are in an upward onset, and their mean rate
    since it began, no more than the newest interval bears out (NaN elsewhere and before `SURE_S`).

    The evidence uses the lower end of the count's Poisson error, or a single request after a quiet spell would be one.
    """
    known = np.isfinite(arrivals) & (span_s > 0) & np.isfinite(level)
    sure = np.maximum(arrivals - 2.0 * np.sqrt(np.maximum(arrivals, 0.0)), 0.0) / np.maximum(span_s, 1e-9)
    ratio = np.where(known, np.log(np.maximum(sure, 1e-9) / np.maximum(level, 1e-9)), 0.0)
    ratio = clipped(ratio, -3.0, 3.0)
    part = clipped(span_s / 10.0, 0.0, 3.0)
    up, down = columns.up[rows], columns.down[rows]
    up = np.where(known, np.maximum(up + (ratio - DRIFT) * part, 0.0), up)
    down = np.where(known, np.maximum(down - (ratio + 2 * DRIFT) * part, 0.0), down)
    began = columns.began_s[rows]
    held = now_s - began <= LASTS_S
    fresh = (up > THRESHOLD) & ~held
    began = np.where(fresh, now_s - span_s, np.where(held & (down < THRESHOLD), began, np.nan))
    columns.up[rows] = np.where(fresh, 0.0, np.minimum(up, 3.0))
    columns.down[rows] = np.where(fresh, 0.0, np.minimum(down, 3.0))
    columns.began_s[rows] = began
    active = np.isfinite(began)
    # The interval in which it began holds some of the calm before: it counts only until there is another.
    alone = fresh | known & (columns.intervals[rows] == 1)
    ones = np.ones(len(rows))
    for name, grown, anew in (
        ("count", arrivals, alone),
        ("seconds", span_s, alone),
        ("intervals", ones, fresh),
        ("lasted_s", span_s, fresh),
    ):
        sums = getattr(columns, name)
        old = sums[rows]
        sums[rows] = np.where(known, np.where(anew, 0.0, old) + grown, old)
    rate = np.where(known, arrivals / np.maximum(span_s, 1e-9), columns.newest_rps[rows])
    columns.newest_rps[rows] = rate
    seconds = columns.seconds[rows]
    held = np.minimum(columns.count[rows] / np.maximum(seconds, 1e-9), STILL_RATIO * rate)
    return active, np.where(active & (columns.lasted_s[rows] >= SURE_S) & (seconds > 0), held, np.nan)
