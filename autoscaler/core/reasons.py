"""The closed set of reasons a decision can carry, each with the sentence an on-call person reads.

A reason is a code that dashboards may count and a template that `record` fills from the step's evidence. Nothing else
in Headroom may invent a reason.
"""

from enum import Enum


class Reason(Enum):
    """Why a number is what it is. The value is the sentence; its fields come from the step's evidence."""

    # what asked for the number (proposals)
    DEMAND_NOW = "the present load needs it"
    CONCURRENCY = "requests in flight fill the slots of that many replicas"
    MEMORY = "the KV cache in use fills that many replicas"
    FORECAST = "the forecast for when a new replica could serve needs it"
    BACKLOG = "the queue left when new replicas can serve needs it"
    QUEUE_UNCALIBRATED = "requests wait and the capacity of one replica is not known yet"
    QUEUE_UNSEEN = "every replica stays full and the gateway does not tell what waits: twice as many are asked for"
    CONCURRENCY_FLOOR = "the measured concurrency floor keeps it"
    WAKE = "work waits and nothing serves it: wake to what the queue needs"
    LATE_START = "starts are late beyond their measured warm-up: what is counted on of them no more is ordered again"
    EVENT_FLOOR = "a known event asks for at least this"
    EVENT_CEILING = "a known event allows at most this"
    IDLE = "no work for longer than the residency limit: the GPUs are released"
    # why an excess was not bought
    NOISE = "the excess is expected to end before a new replica could serve"
    # soft bounds, in the order they are applied
    BURST_CEILING = "capped near the highest demand of the last 24 h"
    RATE_UP = "growth is limited per time"
    RATE_DOWN = "shrinking is limited per time"
    STABILISATION = "held: the need was higher a moment ago"
    DEADBAND = "the change is too small to act on"
    BACK_OFF = "starts keep failing: no new orders until the back-off ends"
    STALE = "readings are missing or too old: nothing shrinks"
    LOADING = "a replica is still loading its model: not scaled to zero"
    ZERO_REFUSED = "scaling to zero needs a signal that lives at zero (a gateway's queue)"
    # hard bounds, last
    FLOOR = "the policy's minimum"
    MAX = "the policy's maximum"
    QUOTA = "the namespace's quota"
    BUDGET = "the GPU budget"
    INFEASIBLE = "the limits contradict each other: nothing is changed"
    # what more replicas cannot cure
    WEDGED = "pods hold requests and make no progress: broken, not demand; restart them"
    # states
    STEADY = "capacity and need agree"
    NO_SIGNAL = "the load, or what one replica carries, is not known: nothing is changed"
    QUEUE_WATCHED = "requests wait, what one replica carries is not known, and the queue asks for no more than stand"
    OUTDATED = "this reading is older than the last one: ignored"


NEED_UNKNOWN = frozenset({Reason.NO_SIGNAL, Reason.QUEUE_WATCHED})
"""Steps that hold what stands because nobody knows what the load needs."""
