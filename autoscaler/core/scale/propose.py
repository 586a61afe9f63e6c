"""Proposals: what every term asks for, at least, and the arbitration that picks one: the largest.

A forecast or a backlog may only raise the number. What lowers it (known ceilings, limits, the noise gate and the burst
ceiling) works on the terms here or on the result in the bounds, never by outvoting another term. All arrays have shape
(B,) unless said otherwise.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, clipped, filled, some
from autoscaler.core.reasons import Reason
from autoscaler.core.scale import clearing

STANDS = 0.5
"""A queue stands, and orders for it, once it is half of what may wait (a guess)."""

ROUND_DOWN = 0.1
"""A tenth of a replica is not worth a whole one: a queue absorbs it."""

MOST_REPLICAS = 1e9
"""No count is larger: a need from a capacity near nought must not wrap."""

KV_FULL = 0.95
"""A KV cache is full at this share: above it engines preempt."""


TERMS = (
    Reason.DEMAND_NOW,
    Reason.CONCURRENCY,
    Reason.MEMORY,
    Reason.FORECAST,
    Reason.BACKLOG,
    Reason.WAKE,
    Reason.QUEUE_UNCALIBRATED,
    Reason.CONCURRENCY_FLOOR,
    Reason.QUEUE_UNSEEN,
)
"""AT_LEAST terms in the order of their columns; on a tie the earlier one is named."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the terms read. Rates in requests/s; NaN where not known."""

    desired: F64
    ready: F64
    serving: F64
    """Ready replicas that are not wedged."""
    starting: F64
    """Starts that deserve credit."""
    landed_replica_s: F64
    """Replica-seconds that credited starts will have served when a replica ordered now is ready."""
    rps: F64
    """Capacity of one replica."""
    slots: F64
    stays_s: F64
    """How long a request is in an engine, NaN where that is not long."""
    slack_s: F64
    queue: F64
    waits: Bools
    """Requests wait, or nobody tells whether any does."""
    running: F64
    kv_used: F64
    now_rps: F64
    median_rps: F64
    upper_rps: F64
    climb_rps: F64
    """How much more load is to come within the lead time if it goes on climbing; 0 where no queue waits."""
    lead_s: F64
    floor_replicas: F64
    noise: Bools
    ceiling_rps: F64
    unmeasured: F64
    """What the queue asks for where `rps` is not known (`uncalibrated.asked`)."""
    withheld_s: F64
    """For how long orders for the queue that stands were withheld."""
    unseen: F64
    """What a line asks for that only full replicas tell of (`unseen.look`)."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """Counts per term, shape (B, len(TERMS)), before and after the noise gate and the burst ceiling."""

    asked: I64
    gated: I64
    capped: I64
    exact: F64
    """The binding need as a fraction of replicas, for hysteresis."""
    backlog: F64
    """Requests that will be left over, beyond the slack, when a replica ordered now is ready."""
    buys: Bools
    """The queue asks for more than stands, and for more than any other term."""
    in_service: Bools
    """What is in service asks for more than any other term: its means still hold the queue that was cleared lately."""


def propose(s: Situation) -> Proposals:
    """Return what each term asks for; a term without its inputs asks for 0."""
    left = backlog_left(s)
    need = np.zeros((len(s.desired), len(TERMS)))
    need[:, 0] = s.now_rps / s.rps
    need[:, 1] = np.where(s.slots > 0, s.running / np.maximum(s.slots, 1e-9), 0.0)
    full = np.where(s.running + s.queue >= 1.0, s.kv_used / KV_FULL, 0.0)
    # Caches that are full while nobody waits hold what stands, and ask for no more: nothing lacks any.
    need[:, 2] = np.where(s.waits, full, np.minimum(full, s.desired))
    need[:, 3] = s.upper_rps / s.rps
    need[:, 7] = s.floor_replicas
    need[:, 8] = s.unseen
    wakes = (s.desired == 0) & ((s.queue > 0) | (s.now_rps > 0))
    # Without a queue, and nobody to wake, the terms in between ask for nothing, and nothing is to be cleared.
    queues = some((s.queue > 0) | wakes)
    if queues:
        clearing_s = _clearing_s(s, left)
        _ask_for_queues(need, s, left, clearing_s, wakes)
    need = np.where(need < np.inf, need, 0.0)
    asked = count(need)
    gated = asked.copy()
    if some(s.noise):
        for column in (0, 4):
            kept = np.minimum(asked[:, column], s.desired.astype(np.int64))
            gated[:, column] = np.where(s.noise, kept, asked[:, column])
    capped = gated.copy()
    limit = s.ceiling_rps / s.rps
    limited = np.isfinite(limit)
    limit = np.where(limited, limit, 0.0)
    top = np.where(limited, np.ceil(np.minimum(limit, MOST_REPLICAS)), MOST_REPLICAS).astype(np.int64)
    capped[:, 3] = np.minimum(gated[:, 3], top)
    if queues:
        roomier = np.where(limited, _roomier(s, limit, clearing_s), MOST_REPLICAS).astype(np.int64)
        capped[:, 4] = np.minimum(gated[:, 4], roomier)
        # A queue of longer than that woke nobody, by an order or a limit: who waited in it is late, if they still wait.
        capped[:, 5] = np.minimum(gated[:, 5], np.maximum(roomier, 1))
    binding = capped.argmax(axis=1)
    exact = np.minimum(need[np.arange(len(need)), binding], capped.max(axis=1))
    buys = left > 0
    if some(buys):
        others = np.maximum(capped[:, :4].max(axis=1), capped[:, 5:].max(axis=1))
        buys &= capped[:, 4] > np.maximum(others, s.desired)
    in_service = (binding == 1) | (binding == 2)
    return Proposals(asked, gated, capped, exact, left, buys, in_service)


def _level_rps(s: Situation, left: F64) -> F64:
    """The load that goes on while a queue is cleared, 0 where none is left."""
    return np.fmax(np.where(left > 0, np.fmax(s.now_rps + s.climb_rps, s.median_rps), np.nan), 0.0)


def _clearing_s(s: Situation, left: F64) -> F64:
    """The seconds from landing in which a queue is cleared.

    A replica takes in all that it holds at once: what is served in less than a stay is what a stay serves.
    """
    spared_s = clearing.spared_s(s.slack_s, s.lead_s)
    plan_s = clearing.within_s(left, _level_rps(s, left), lead_s=s.lead_s, slack_s=spared_s, withheld_s=s.withheld_s)
    return np.fmax(plan_s, s.stays_s)


def _ask_for_queues(need: F64, s: Situation, left: F64, clearing_s: F64, wakes: Bools) -> None:
    """Fill in the needs of the terms that answer a queue: backlog, wake, and the queue of an unknown capacity."""
    spared_s = clearing.spared_s(s.slack_s, s.lead_s)
    waiting = left + spared_s * s.rps * (s.serving + s.starting)
    clear_rps = clearing.needed_rps(waiting, _level_rps(s, left), within_s=clearing_s, slack_s=spared_s)
    backlog = np.where(left > 0, clear_rps / s.rps, 0.0)
    # What was ordered to clear a queue counts as served in `left`, so it would be given back before it lands.
    backlog = np.where(s.queue > s.slack_s * s.rps * s.serving, np.fmax(backlog, s.desired), backlog)
    need[:, 4] = backlog
    need[:, 5] = np.where(wakes, clipped(filled(backlog), 1.0, MOST_REPLICAS), 0.0)
    need[:, 6] = np.where(~np.isfinite(s.rps) & (s.queue > 0), s.unmeasured, 0.0)


def _roomier(s: Situation, limit: F64, clearing_s: F64) -> F64:
    """Whole replicas that a queue may have beyond the ceiling, which is `limit` replicas.

    What the ceiling's own load leaves in a warm-up may be cleared as any queue; over starts that are faster than the
    slack no queue orders that is not longer than it.
    """
    spared_s, most = clearing.spared_s(s.slack_s, s.lead_s), limit * np.maximum(s.lead_s, s.slack_s)
    return np.ceil(np.minimum(clearing.needed_rps(most, limit, within_s=clearing_s, slack_s=spared_s), MOST_REPLICAS))


def backlog_left(s: Situation) -> F64:
    """Return requests that neither ready nor starting capacity will have served within the slack at landing.

    Counting capacity on its way is the dead-time compensation: without it the same capacity is ordered again at every
    tick for a whole lead time (Smith, "Closer control of loops with dead time", 1957). NaN inputs give 0.
    """
    waits = s.queue > STANDS * s.slack_s * s.rps * s.serving
    if not some(waits):
        return np.zeros(len(waits))
    expected = np.fmax(s.now_rps + 0.5 * s.climb_rps, s.median_rps) * s.lead_s
    served = s.rps * (s.serving * s.lead_s + s.landed_replica_s)
    allowed = s.slack_s * s.rps * (s.serving + s.starting)
    left = s.queue + expected - served - allowed
    return np.where(waits & np.isfinite(left), np.maximum(left, 0.0), 0.0)


def count(need: F64) -> I64:
    """Return whole replicas for a fractional need."""
    return np.ceil(clipped(need - ROUND_DOWN, 0.0, MOST_REPLICAS)).astype(np.int64)
