"""What shadow mode says it would have saved, and how far that can be believed: frozen values that write themselves.

Enters: three accounts of the same arrivals: as they were served, as a model says the same replicas would have served
them, and as it says ours would have. Leaves: an estimate with its error on what really happened, or the reason why none
can be given. Replica-hours become GPU-hours where it is known how many GPUs a replica holds.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from autoscaler.record.explain import duration, number

LEAST_SCORED_S: Final = 3600.0
"""An hour that really happened must have been modelled before anything is concluded from the model (a choice)."""

MOST_LATE_ERROR_RATIO: Final = 0.02
"""Requests that the model may misplace, of all: twice what an objective of 99 % allows to be late (a choice)."""

MOST_WAIT_ERROR_RATIO: Final = 0.25
"""By how much of the objective the model may miss the mean wait (a choice)."""


class Doubt(Enum):
    """Why an estimate cannot be given; the value is a sentence for the person who reads it."""

    NOTHING_COUNTED = "no request was counted yet"
    UNCALIBRATED = "what one replica carries was not measured yet"
    NO_WAIT = "the objective is a time per token, which a queue does not tell"
    TOO_SHORT = "too little of what happened was modelled yet"
    MODEL_OFF = "the model does not reproduce what really happened"
    NEVER_FULL = "no replica was ever seen full, so what one carries is known from below only"


@dataclass(frozen=True, slots=True)
class Account:
    """How the arrivals were served."""

    held_hours: float
    """Replica-hours held, starts under way included."""
    late: float
    """Requests that waited longer than the objective."""
    wait_s: float
    """The mean wait of a request."""


@dataclass(frozen=True, slots=True)
class HourRow:
    """One hour of the accounts: its end, and per account what was held (replica-hours) and late (requests)."""

    to_s: float
    counted_s: float
    requests: float
    held_observed: float
    held_ours: float
    late_observed: float
    late_modelled: float
    late_ours: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The running estimate of one workload. None means that it cannot be told."""

    workload: str
    from_s: float | None
    to_s: float | None
    """The ends of what was looked at; None before the first account began."""
    counted_s: float
    """Time in which all three accounts ran."""
    missing_s: float
    """Time in which arrivals, queue or capacity were not known."""
    requests: float
    slack_s: float
    """How long a request may wait."""
    observed: Account
    modelled: Account
    """The same replicas through the model: beside `observed` it is the model's error."""
    ours: Account
    scored_s: float
    """Time over which the model was compared with what happened, in whole spans of five minutes."""
    late_error_ratio: float | None
    """Requests that the model misplaced (late or not) over all, per span of five minutes; None before the first."""
    wait_error_s: float | None
    """By how much the model missed a request's wait, the mean of the spans."""
    starts: int
    """Starts that ours would have ordered."""
    least: bool
    """The capacity of a replica is a lower bound, so what is saved is at least this."""
    warmup_assumed: bool
    """No start was measured: ours took the warm-up that is assumed."""
    gpus_per_replica: int | None
    doubt: str | None
    """A code of `Doubt`, None where the estimate stands."""
    text: str
    saved_hours: float | None
    """Replica-hours saved; negative where ours would have held more."""
    avoided: float | None
    """Late requests avoided; negative where ours would have made more late."""
    hours: tuple[HourRow, ...] = ()

    @property
    def saved_gpu_hours(self) -> float | None:
        """GPU-hours saved; None where it cannot be told, or the GPUs of a replica are not known."""
        if self.saved_hours is None or self.gpus_per_replica is None:
            return None
        return self.saved_hours * self.gpus_per_replica

    @property
    def avoided_error(self) -> float | None:
        """By how many requests `avoided` may be off, from the model's error on what happened."""
        return None if self.late_error_ratio is None else self.late_error_ratio * self.requests


def doubt_of(
    *, requests: float, calibrated: bool, token_time: bool, scored_s: float, late_error_ratio: float | None,
    wait_error_s: float | None, slack_s: float, floor_only: bool,
) -> Doubt | None:  # fmt: skip
    """The first reason why nothing can be concluded, None where something can.

    `floor_only`: capacity is known from below only, and at that capacity nothing would have been saved.
    """
    if token_time:
        return Doubt.NO_WAIT
    if not calibrated:
        return Doubt.UNCALIBRATED
    if requests <= 0:
        return Doubt.NOTHING_COUNTED
    if scored_s < LEAST_SCORED_S or late_error_ratio is None or wait_error_s is None:
        return Doubt.TOO_SHORT
    if late_error_ratio > MOST_LATE_ERROR_RATIO or wait_error_s > MOST_WAIT_ERROR_RATIO * slack_s:
        return Doubt.MODEL_OFF
    return Doubt.NEVER_FULL if floor_only else None


def sentence(estimate: Estimate) -> str:
    """The estimate in words, its error on what happened first."""
    e = estimate
    said = _error_words(e)
    if e.doubt is not None:
        return f"{said}Cannot tell what would have been saved: {Doubt[e.doubt].value}{_what_is_missing(e)}."
    assert e.saved_hours is not None
    assert e.avoided is not None
    gpu_hours = e.saved_gpu_hours
    hours, unit = (e.saved_hours, "replica-hours") if gpu_hours is None else (gpu_hours, "GPU-hours")
    held = e.observed.held_hours * (1 if gpu_hours is None else e.gpus_per_replica or 1)
    share = f" of {number(held)}" if held > 0 else ""
    bound = "at least " if e.least and hours > 0 else ""
    words = f"{bound}{number(abs(hours))} {unit}{share} {'saved' if hours >= 0 else 'more'}"
    most = "at most " if e.least and e.avoided < 0 else ""
    misses = f"{most}{number(abs(round(e.avoided)))} late requests {'avoided' if e.avoided >= 0 else 'more'}"
    margin = f", give or take {number(round(e.avoided_error or 0))}"
    assumed = "; the warm-up is assumed, none was measured" if e.warmup_assumed and e.starts else ""
    return f"{said}Headroom in {duration(e.counted_s)}: {words}; {misses}{margin}{assumed}."


def _error_words(e: Estimate) -> str:
    if e.late_error_ratio is None or e.wait_error_s is None:
        return ""
    return (
        f"On {duration(e.scored_s)} that really happened the model misplaced {number(100 * e.late_error_ratio)} % of "
        f"the requests and missed the wait by {duration(e.wait_error_s)} (at most "
        f"{number(100 * MOST_LATE_ERROR_RATIO)} % and {duration(MOST_WAIT_ERROR_RATIO * e.slack_s)} are believed). "
    )


def _what_is_missing(e: Estimate) -> str:
    if e.doubt == Doubt.TOO_SHORT.name:
        return f" ({duration(e.scored_s)} of {duration(LEAST_SCORED_S)})"
    return ""
