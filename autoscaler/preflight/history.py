"""One workload's recorded past on a regular grid: what every source of history delivers and every answer reads.

A signal that was not recorded is `Missing` with its reason, never a row of zeros; a step for which nothing is known is
NaN within a signal that is otherwise there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from autoscaler.core.columns import F64


class Gap(StrEnum):
    """Why a signal, or a part of one, is not there."""

    NOT_RECORDED = "NOT_RECORDED"  # the source has no such series at all
    NOT_IN_TRACE = "NOT_IN_TRACE"  # a trace of requests cannot tell it
    RENAMED = "RENAMED"  # the series ends and another name of the same signal begins
    DENIED = "DENIED"  # the source does not answer whoever asks
    REFUSED = "REFUSED"  # the source answered with an error that further attempts do not cure
    UNREACHABLE = "UNREACHABLE"  # the source did not answer in time, after all attempts
    PARTIAL = "PARTIAL"  # the source itself said that its answer is a part
    TOO_MANY = "TOO_MANY"  # more series than may be read
    AMBIGUOUS = "AMBIGUOUS"  # several series answer where one was expected


@dataclass(frozen=True, slots=True)
class Missing:
    """A signal that is not there at all; `text` says in words what was looked for."""

    gap: Gap
    text: str


@dataclass(frozen=True, slots=True)
class Hole:
    """A part [from_s, until_s) of an otherwise recorded signal that is missing, and why."""

    from_s: float
    until_s: float
    gap: Gap
    text: str


@dataclass(frozen=True, slots=True)
class Track:
    """A recorded signal: `values` of shape (steps,), NaN where nothing is known; `origin` is the query or the file."""

    values: F64
    origin: str
    holes: tuple[Hole, ...] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution over the window: `counts[i]` (k,) fell above `edges_s[i-1]` and at or below `edges_s[i]` (k,).

    Edges ascend, in seconds; the last may be infinite. `exact` is true where edges are the observed values themselves.
    """

    edges_s: F64
    counts: F64
    origin: str
    exact: bool = False
    holes: tuple[Hole, ...] = ()


class Fact(StrEnum):
    """Keys of `WorkloadHistory.facts` that answers rest on."""

    SHAPE = "shape"  # the GPU shape, which a price is given for
    MODEL = "model"
    KIND = "kind"  # of the object that is scaled: Deployment, StatefulSet, …
    PRIORITY_CLASS = "priority_class"
    DEADLINE_S = "deadline_s"  # how long a request may wait, in seconds, as its owner wrote it
    WORK = "work"  # `inference` or `batch`
    SLOTS = "slots"  # requests that one replica computes at once, as its engine is configured


Signal = Track | Missing
Distribution = Spread | Missing

UNASKED: Final = Missing(Gap.NOT_RECORDED, "the source was not asked for it")


@dataclass(frozen=True, slots=True)
class WorkloadHistory:
    """All that is known of one workload's past.

    Step i covers [start_s + i * step_s, start_s + (i + 1) * step_s), in seconds since 1970 (or as the trace counts).
    Gauges are means over the step, rates are per second over it.
    """

    workload: str
    start_s: float
    step_s: float
    steps: int
    arrivals_per_s: Signal = UNASKED  # requests
    running: Signal = UNASKED  # requests being computed, over all replicas
    waiting: Signal = UNASKED  # requests in queues, over all replicas and gateways
    tokens_per_s: Signal = UNASKED  # generated tokens
    replicas: Signal = UNASKED  # replicas that answered
    busy_replicas: Signal = UNASKED  # of these, replicas with at least one running request
    kv_usage_ratio: Signal = UNASKED  # 0-1, of the fullest replica
    queue_wait: Distribution = UNASKED
    duration: Distribution = UNASKED  # seconds from arrival to the last token
    cold_start: Distribution = UNASKED  # seconds from ordering a replica to its first served request
    gpus_per_replica: float | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the source names beside the series, under the keys of `Fact`; others are shown as they are."""
