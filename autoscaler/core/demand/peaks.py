"""The highest demand of the last 24 hours, by hour, and how long there has been no work at all."""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Columns, column, filled, flat

HOURS = 25
HOUR_S = 3600.0

CEILING = 1.3
"""Forecast and backlog may ask for 1.3 times the day's highest demand: it cut one long-lead cell from 4.7 to 1.7 times
the optimum at equal attainment (measured for the design on ServeGen rates)."""


@dataclass(slots=True)
class PeakColumns(Columns):
    """Highest need per hour of the last day, the hour each belongs to, and when there last was work."""

    need_rps: F64 = column(HOURS, fill=0, keep=True)
    hour: F64 = column(HOURS, fill=-1e9, keep=True)
    worked_s: F64 = column(keep=True)
    met: F64 = column(keep=True)
    """Requests that waited when the workload was met, those of them that may still wait."""


def note(columns: PeakColumns, rows: I64, now_s: F64, need_rps: F64) -> None:
    """Remember a need, NaN for none."""
    hour = np.floor(now_s / HOUR_S)
    slot = (hour.astype(np.int64)) % HOURS
    at = rows * HOURS + slot
    hours, needs = flat(columns.hour), flat(columns.need_rps)
    needs[at] = np.fmax(np.where(hours[at] == hour, needs[at], 0.0), need_rps)
    hours[at] = hour


def unseen_rps(columns: PeakColumns, rows: I64, queue: F64, lead_s: F64) -> F64:
    """Return what a queue that stood when the workload was met tells of demand that nobody saw, in requests/s.

    Its requests are taken to have come within one lead time. `queue` is NaN where not known; what came on top of the
    queue that was met is counted as it arrives, and not here.
    """
    met = columns.met[rows]
    met = np.where(np.isnan(met), queue, np.fmin(met, queue))
    columns.met[rows] = met
    return np.asarray(filled(met) / np.maximum(lead_s, 1.0))


def ceiling_rps(columns: PeakColumns, rows: I64, now_s: F64, *, present_rps: F64, least_ratio: F64) -> F64:
    """Return the burst ceiling in requests/s, infinite before any need was seen.

    `least_ratio` is the growth a young workload must allow for: the ceiling never cuts into it. There is a ceiling from
    the first reading on, since it includes the present: a step after ten quiet minutes otherwise looks like unrest
    without end and orders ten times its need.
    """
    fresh = np.floor(now_s / HOUR_S)[:, None] - columns.hour.take(rows, axis=0) < HOURS
    highest = np.where(fresh, columns.need_rps.take(rows, axis=0), 0.0).max(axis=1)
    highest = np.fmax(highest, filled(present_rps))
    return np.where(highest > 0, np.maximum(CEILING, least_ratio) * highest, np.inf)


def note_work(columns: PeakColumns, rows: I64, now_s: F64, works: F64) -> F64:
    """Return the seconds since there was work; `works` is above 0 with work, 0 without, NaN when not known.

    Not knowing counts as work: an outage must not look like idleness.
    """
    last = columns.worked_s[rows]
    last = np.where(~(works == 0) | ~np.isfinite(last), now_s, last)
    columns.worked_s[rows] = last
    return now_s - last
