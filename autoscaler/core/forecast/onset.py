"""Onset: the load has left the level that the past predicts, and the past no longer speaks for it.

A two-sided Page-Hinkley test on the log of the rate against the five-minute level (Page, "Continuous inspection
schemes", 1954), with a vote of a short window. An onset never orders anything: it shortens the window that counts as
"now" until the level has been stable for as long as the old window.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, Columns, column

DRIFT = 0.25
"""Log-ratio tolerated as noise per bin: ServeGen's pools move by up to 25-30 % within ten minutes."""

THRESHOLD = 0.45
"""Sum over the drift that means an onset: one bin at twice the level, or several at 1.5 times."""

LASTS_S = 300.0
"""After five minutes the ordinary windows hold the new level themselves."""


@dataclass(slots=True)
class OnsetColumns(Columns):
    """Cumulated evidence up and down, and when the last onset began (sample time, NaN without one)."""

    up: F64 = column(fill=0)
    down: F64 = column(fill=0)
    began_s: F64 = column(keep=True)


def update(columns: OnsetColumns, rows: I64, now_s: F64, rate: F64, level: F64, span_s: F64) -> Bools:
    """Add the newest rate over `span_s` seconds and return which rows are in an upward onset."""
    known = np.isfinite(rate) & np.isfinite(level) & (level > 0)
    ratio = np.where(known, np.log(np.maximum(rate, 1e-9) / np.maximum(level, 1e-9)), 0.0)
    part = np.clip(span_s / 10.0, 0.0, 3.0)
    up = np.where(known, np.maximum(0.0, columns.up[rows] + (np.clip(ratio, -3, 3) - DRIFT) * part), columns.up[rows])
    down = np.where(known, np.maximum(0.0, columns.down[rows] - (np.clip(ratio, -3, 3) + DRIFT) * part), 0.0)
    began = columns.began_s[rows]
    fresh = (up > THRESHOLD) & ~(now_s - began <= LASTS_S)
    began = np.where(fresh, now_s - np.minimum(span_s, 10.0), began)
    over = (down > THRESHOLD) | (up <= 0)
    began = np.where(over, np.nan, began)
    columns.up[rows], columns.down[rows] = np.minimum(up, 3.0), np.minimum(down, 3.0)
    columns.began_s[rows] = began
    return np.asarray(np.isfinite(began) & (now_s - began <= LASTS_S))
