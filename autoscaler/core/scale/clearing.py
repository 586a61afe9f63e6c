"""Clearing a queue: how soon, at what rate, and when the replicas that were bought for it are free again.

Enters: what will be left of a queue when a replica ordered now is ready, the load that goes on, and what became of the
orders for it so far. Leaves: a rate to order for, and the rows that are done with their queue. It refuses to know what
one replica carries, and of replicas that were ordered for anything else.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, Columns, clipped, column, filled, some
from autoscaler.core.params import BIN_S

SHARE = 0.5
NOTICE_S = 10.0
"""A queue of all that arrives in a warm-up is cleared within half a warm-up less the time it takes to notice: recovery
from a step then takes about 1.5 warm-ups. A shorter queue is cleared sooner, by the root of its length: clearing one of
B replica-seconds in t costs B/t starts and leaves whoever arrives within t late, and the sum is least at a t that grows
with the root of B."""

LEAST_S = 20.0
"""Never plan for less, the slack included: it would buy replicas for two ticks."""

CAUGHT_UP_SHARE = 0.25
"""An order that was withheld lands later, and has that much less time, down to three quarters of it: what was lost to a
capacity that nobody knew is not bought back at any price (a guess)."""

SPARED_SHARE = 0.25
"""What is ordered may leave the slack of its own load waiting, but no more than a quarter of a start's load: over
starts of seconds that is most of the queue, and a plan that ends at the objective is late by every second it is wrong
(a guess; at a slack of 10 s it changes nothing from 40 s on)."""

CLEARED_RATIO = 0.25
"""A queue is cleared when it is a quarter of what may wait before the replicas that are to stay (a guess)."""

HOUR_BINS = 360
"""An hour: bursts that come again later find nothing of what the longest hold would have kept for them."""

KNOWN_BINS = 350
"""Bins of it that must have been measured."""

ONSET_BINS = 6
"""A need is that of a minute, and the first order for a burst comes within it."""


@dataclass(slots=True)
class ClearingColumns(Columns):
    """What became of the orders for the queue that stands."""

    withheld_since_s: F64 = column()
    """Since when orders for it are withheld, less what was withheld before; NaN where the last step withheld none."""
    withheld_s: F64 = column(fill=0.0)
    """For how long they were, up to the step that withheld none."""
    bought: Bools = column(fill=False, dtype=np.bool_)
    """Replicas were ordered for it that its end sets free."""
    bought_s: F64 = column()
    """When the first of them were."""


def within_s(left: F64, level_rps: F64, *, lead_s: F64, slack_s: F64, withheld_s: F64 | float = 0.0) -> F64:
    """Return the seconds from landing, slack included, in which `left` requests are cleared; shape (B,).

    `level_rps` more arrive meanwhile, and orders for the queue were withheld for `withheld_s`.
    """
    share = clipped(left / np.maximum(filled(level_rps) * lead_s, 1e-9), 0.0, 1.0)
    lost_s = np.minimum(withheld_s, CAUGHT_UP_SHARE * SHARE * lead_s)
    return np.asarray(np.maximum((SHARE * lead_s - lost_s) * np.sqrt(share) - NOTICE_S + slack_s, LEAST_S))


def spared_s(slack_s: F64 | float, lead_s: F64) -> F64:
    """Return how much of the slack a plan to clear a queue may count on, shape (B,)."""
    return np.minimum(slack_s, SPARED_SHARE * lead_s)


def needed_rps(waiting: F64, level_rps: F64, *, within_s: F64, slack_s: F64) -> F64:
    """Return the rate that clears `waiting` requests `within_s` of landing while `level_rps` more arrive, shape (B,).

    Whoever comes until the slack before the end is served by then: what is ordered for a queue may leave as many
    waiting as anything else that carries the load.
    """
    return level_rps + np.maximum(waiting - slack_s * level_rps, 0.0) / within_s


def withheld_s(columns: ClearingColumns, rows: I64, now_s: F64) -> F64:
    """Return for how long orders for the queue that stands were withheld, shape (B,)."""
    since_s = columns.withheld_since_s[rows]
    return np.where(np.isfinite(since_s), now_s - since_s, columns.withheld_s[rows])


def note_withheld(columns: ClearingColumns, rows: I64, now_s: F64, *, stands: Bools, withheld: Bools) -> None:
    """Remember whether a queue stands, and whether this step withheld an order for it."""
    if not some(stands):
        columns.withheld_s[rows], columns.withheld_since_s[rows] = 0.0, np.nan
        return
    so_far_s = np.where(stands, withheld_s(columns, rows, now_s), 0.0)
    columns.withheld_s[rows] = so_far_s
    columns.withheld_since_s[rows] = np.where(stands & withheld, now_s - so_far_s, np.nan)


def cleared(
    columns: ClearingColumns, rows: I64, now_s: F64, *, buys: Bools, queue: F64, may_wait: F64, starts: F64
) -> Bools:
    """Return the rows whose queue is over with what was bought for it, until `end` is told of them.

    `may_wait` is what may wait before the replicas that would stay. While any of `starts` is under way nothing is over:
    what was ordered for a burst is judged by the burst (knative/serving#3153).
    """
    begins = buys & ~columns.bought[rows]
    columns.bought_s[rows] = np.where(begins, now_s, columns.bought_s[rows])
    columns.bought[rows] |= buys
    return np.asarray(columns.bought[rows] & ~buys & (queue <= CLEARED_RATIO * may_wait) & (starts == 0))


def lone(columns: ClearingColumns, rows: I64, now_s: F64, needs: F64, *, ratio: float) -> Bools:
    """Return whether the hour knew of nothing like the queue: else it may come again, and replicas are held for it.

    `needs` has shape (B, HOUR_BINS), newest first, NaN where not measured, which is no evidence. A need like it is more
    than its highest over `ratio`.
    """
    since = np.ceil((now_s - columns.bought_s[rows]) / BIN_S) + ONSET_BINS
    before = np.arange(needs.shape[1]) >= since[:, None]
    known = np.isfinite(needs)
    highest = [np.where(known & part, needs, 0.0).max(axis=1) for part in (before, ~before)]
    return np.asarray((known.sum(axis=1) >= KNOWN_BINS) & before.any(axis=1) & (highest[1] > ratio * highest[0]))


def end(columns: ClearingColumns, rows: I64) -> None:
    """Nothing more of what was bought for a queue is to be given back."""
    columns.bought[rows] = False
