"""The SLO budget: lateness spent against lateness allowed decides how cautious the forecast's quantile must be.

The tail probability asked of the forecast is proportional to the share of the budget that is left, so that spending
slows down by itself and a bad hour is followed by a careful one (budget feedback in the sense of BACC, arXiv
2606.20575, with the remaining budget in place of a PI loop: it cannot wind up).
"""

import math
from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Columns, clipped, column, filled, places, some, unknown

WINDOW_S = 24 * 3600.0
"""The budget is that of one day."""

ADVANCE_S = 3600.0
"""An hour of traffic not yet seen counts towards the budget, so that a young workload is neither timid nor reckless."""

TAIL_LEAD_S = 15.0
TAIL_RANGE = (0.035, 0.25)
"""Tail probability at the start: 15 s over the lead time, within the range. A shortage lasts until the next order
lands: at a lead of a minute the queue's slack swallows most of them (a bound that fails 25 % of the time made 0-1 % of
the requests late on four ServeGen days), at ten minutes nearly all of a shortage is lateness."""

TAIL_SPENT_RATIO = 0.32
"""Share of the starting tail probability that is left when the budget is spent."""

TAIL_GROWTH = 1.2
TAIL_GROWTH_S = 12 * 3600.0
"""An unspent budget lets the tail probability grow to 2.2 times over half a day."""

TAIL_FIXED = 0.02
"""Tail probability without budget feedback (an ablation)."""

MOST_DONE = 40
"""Of so many done within the slack chance is a sixth (the root of a Poisson count), and the mean wait says enough."""

LOG_FACTORIALS = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, MOST_DONE)))])

SPEND_RATIO = 0.92
"""Share of the allowed lateness the controller plans to spend; the rest is for what no forecast sees."""


@dataclass(slots=True)
class BudgetColumns(Columns):
    """Requests and late requests, decayed over a day, and when counting began."""

    total: F64 = column(fill=0, keep=True)
    late: F64 = column(fill=0, keep=True)
    since_s: F64 = column(keep=True)


def late_share(wait_s: F64, slack_s: F64, latency_ratio: F64, in_line: F64 | float = math.nan) -> F64:
    """Return the share (0..1) of the requests arriving now that will be late; shape (B,).

    `wait_s` is the queue over the capacity that serves it, `latency_ratio` a measured p90 over its objective. Both are
    ramps around the objective instead of steps, so that a wait that hovers there counts in part. Where the chance that
    whoever is last in line is late (`in_line`) is known it stands for the former.
    """
    queued = clipped((filled(wait_s) / np.maximum(slack_s, 1e-9) - 0.9) / 0.2, 0.0, 1.0)
    queued = np.where(np.isfinite(in_line), in_line, queued)
    measured = clipped((filled(latency_ratio) - 0.9) / 0.4, 0.0, 1.0)
    return np.maximum(queued, measured)


def spend(columns: BudgetColumns, rows: I64, dt_s: F64, arrivals: F64, share: F64) -> None:
    """Add an interval's requests and its late ones; NaN arrivals add nothing."""
    known = np.isfinite(arrivals) & (dt_s > 0)
    forget = np.exp(-np.where(known, dt_s, 0.0) / WINDOW_S)
    came = np.where(known, arrivals, 0.0)
    columns.total[rows] = columns.total[rows] * forget + came
    columns.late[rows] = columns.late[rows] * forget + came * share


def in_line(queue: F64, done_in_slack: F64, stays_s: F64) -> F64:
    """Return the chance that the last in line finds no room within the slack, shape (B,).

    Room comes with each request that is done, and `done_in_slack` are on average (Poisson): of few it is chance, and a
    mean wait says little. NaN where many are (`MOST_DONE`), where nobody waits, or `stays_s` is not long (NaN).
    """
    found = unknown(len(queue))
    at = places(np.isfinite(stays_s) & (queue > 0) & (done_in_slack < MOST_DONE))
    if len(at):
        mean, ended = np.maximum(done_in_slack[at], 1e-9)[:, None], np.arange(MOST_DONE)
        chance = np.exp(ended * np.log(mean) - mean - LOG_FACTORIALS)
        found[at] = np.where(ended < queue[at, None], chance, 0.0).sum(axis=1)
    return found


def swallowed(slack_s: F64, stays_s: F64) -> F64:
    """Return the share (0..1) of a shortage that the slack swallows, shape (B,); 1 where `stays_s` is NaN.

    Where requests stay for longer than the slack, whoever finds no room waits for one to end, and few do in time.
    """
    return np.where(stays_s > slack_s, slack_s / np.maximum(stays_s, 1e-9), 1.0)


def tail(
    columns: BudgetColumns,
    rows: I64,
    now_s: F64,
    *,
    rate_rps: F64,
    target_ratio: F64,
    lead_s: F64,
    swallows: F64 | float = 1.0,
) -> F64:
    """Return the tail probability to ask of the forecast, shape (B,); `swallows` is what `swallowed` returns."""
    columns.since_s[rows] = np.fmin(columns.since_s[rows], now_s)
    expected = columns.total[rows] + filled(rate_rps) * ADVANCE_S
    allowed = (1.0 - target_ratio) * SPEND_RATIO * expected
    left = np.where(allowed > 0, 1.0 - columns.late[rows] / np.maximum(allowed, 1e-9), 1.0)
    left = clipped(left, 0.0, 1.0)
    start = clipped(TAIL_LEAD_S / np.maximum(lead_s, 1e-9), *TAIL_RANGE)
    grown = 1.0 + TAIL_GROWTH * left * clipped((now_s - columns.since_s[rows]) / TAIL_GROWTH_S, 0.0, 1.0)
    # What may be late at all may lack room: while the budget lasts no slack has to swallow that.
    swallowed_in_part = np.asarray(swallows < 1.0)
    if some(swallowed_in_part):
        start = np.where(swallowed_in_part, np.maximum(swallows * start, 1.0 - target_ratio), start)
    return np.asarray(start * (TAIL_SPENT_RATIO + (1.0 - TAIL_SPENT_RATIO) * left) * grown)


def burn(columns: BudgetColumns, rows: I64, target_ratio: F64) -> F64:
    """Return lateness over what the target allows, so far: 1 means the budget is spent; shape (B,)."""
    allowed = (1.0 - target_ratio) * columns.total[rows]
    return np.where(allowed > 0, columns.late[rows] / np.maximum(allowed, 1e-9), 0.0)
