"""The highest demand of the last 24 hours, by hour, and how long there has been no work at all."""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Columns, column

HOURS = 25
HOUR_S = 3600.0

CEILING = 1.3
"""Forecast and backlog may ask for 1.3 times the day's highest demand: it cut one long-lead cell from 4.7 to 1.7 times
the optimum at equal attainment (measured for the design on ServeGen rates)."""

HISTORY_MIN_S = 7200.0
"""Without two hours of history there is no ceiling: the first minutes of a service are no measure."""


@dataclass(slots=True)
class PeakColumns(Columns):
    """Highest need per hour of the last day, the hour each belongs to, and since when there has been no work."""

    need_rps: F64 = column(HOURS, fill=0, keep=True)
    hour: F64 = column(HOURS, fill=-1e9, keep=True)
    since_s: F64 = column(keep=True)
    worked_s: F64 = column(keep=True)


def note(columns: PeakColumns, rows: I64, now_s: F64, need_rps: F64) -> None:
    """Remember a need, NaN for none."""
    hour = np.floor(now_s / HOUR_S)
    slot = (hour.astype(np.int64)) % HOURS
    same = columns.hour[rows, slot] == hour
    old = np.where(same, columns.need_rps[rows, slot], 0.0)
    columns.need_rps[rows, slot] = np.fmax(old, need_rps)
    columns.hour[rows, slot] = hour
    columns.since_s[rows] = np.fmin(columns.since_s[rows], now_s)


def ceiling_rps(columns: PeakColumns, rows: I64, now_s: F64, present_rps: F64) -> F64:
    """Return the burst ceiling in requests/s, infinite without enough history."""
    fresh = np.floor(now_s / HOUR_S)[:, None] - columns.hour[rows] < HOURS
    highest = np.where(fresh, columns.need_rps[rows], 0.0).max(axis=1)
    enough = now_s - columns.since_s[rows] >= HISTORY_MIN_S
    return np.where(enough, CEILING * np.fmax(highest, np.nan_to_num(present_rps)), np.inf)


def note_work(columns: PeakColumns, rows: I64, now_s: F64, works: F64) -> F64:
    """Return the seconds since there was work; `works` is above 0 with work, 0 without, NaN when not known.

    Not knowing counts as work: an outage must not look like idleness.
    """
    last = columns.worked_s[rows]
    last = np.where(~(works == 0) | ~np.isfinite(last), now_s, last)
    columns.worked_s[rows] = last
    return now_s - last
