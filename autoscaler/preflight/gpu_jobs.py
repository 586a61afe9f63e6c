"""What Prometheus answered about the Jobs of a cluster, as one record per namespace.

Enters: the answers to `job_questions`. Leaves: a `JobHistory` per namespace in which a Job asked for GPUs. An instant
at which kube-state-metrics was not read, or lacked one of the metrics, is NaN; one at which it was read and told of
none is zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from autoscaler.adapters.prometheus.archive import Past
from autoscaler.adapters.prometheus.jobs import (
    COMPLETED,
    HELD,
    OF_JOBS,
    OF_PODS,
    PENDING,
    RUNG,
    RUNGS,
    SEEN,
    STARTED,
)
from autoscaler.adapters.prometheus.questions import SIGNAL, Question
from autoscaler.core.columns import F64, Bools
from autoscaler.preflight.history import Distribution, Gap, Missing, Spread
from autoscaler.record.explain import clock

Answers = Mapping[str, tuple[Question, Past]]
"""By the question's name."""

_ENDED_ORIGIN: Final = f"{COMPLETED} - {STARTED} of Jobs that completed"


@dataclass(frozen=True, slots=True)
class JobHistory:
    """The Jobs of one namespace that asked for GPUs, looked at every `step_s` seconds from `start_s` on.

    `held` and `waiting` are GPUs of running and of pending pods at each look, (looks,), NaN where that is not known.
    """

    namespace: str
    start_s: float
    step_s: float
    held: F64
    waiting: F64
    lasted: Distribution
    """Seconds from start to completion."""


GpuJobs = tuple[JobHistory, ...] | Missing
"""Empty: it was looked, and no Job asked for a GPU."""


def recorded_jobs(answers: Answers) -> GpuJobs:
    """The Jobs of every namespace, or why nothing is known of any."""
    asked, told = answers["held"]
    names, named = answers["names"]
    there = _there(names, named)
    absent = [name for name in OF_PODS if not there[name].any()]
    if absent:
        return _lost(named) or Missing(Gap.NOT_RECORDED, f"no series of {', '.join(absent)} in the window")
    rows = {(one.get(SIGNAL), one.get("namespace", "")): row for one, row in zip(told.labels, told.values, strict=True)}
    looks = asked.start_s + asked.step_s * np.arange(asked.points)
    at = np.minimum((looks - names.start_s) // names.step_s, names.points - 1)
    read = np.isfinite(rows.get((SEEN, ""), np.full(asked.points, np.nan)))
    known = read & np.logical_and.reduce([there[name][at] for name in OF_PODS])
    if not known.any():
        nowhere = Missing(Gap.NOT_RECORDED, "kube-state-metrics was at no instant read as a whole")
        return _lost(told) or _lost(named) or nowhere
    ended = {space: _lasted(answers, there, space) for space in _spaces(answers)}
    return tuple(
        JobHistory(
            space, float(asked.start_s), float(asked.step_s),
            _values(rows.get((HELD, space)), known), _values(rows.get((PENDING, space)), known), lasted,
        )
        for space, lasted in ended.items()
    )  # fmt: skip


def lost_parts(answers: Answers) -> tuple[str, ...]:
    """What was not answered of GPUs held and waited for, with its times: there they are not known."""
    return tuple(
        f"GPU Jobs: not known from {clock(loss.from_s)} to {clock(loss.until_s)}: {loss.text}"
        for name in ("held", "names")
        for loss in answers[name][1].losses
    )


def _lost(past: Past) -> Missing | None:
    """Why there is nothing, where a part was not answered: what it would have told is not known to be absent."""
    return Missing(Gap(past.losses[0].trouble.value), past.losses[0].text) if past.losses else None


def _there(names: Question, named: Past) -> dict[str, Bools]:
    """Metric -> at which looks there were series of it."""
    rows = {one.get("__name__"): np.isfinite(row) for one, row in zip(named.labels, named.values, strict=True)}
    return {name: rows.get(name, np.zeros(names.points, dtype=bool)) for name in (*OF_PODS, *OF_JOBS)}


def _spaces(answers: Answers) -> list[str]:
    spoken = [*answers["held"][1].labels, *answers["ended"][1].labels]
    return sorted({one["namespace"] for one in spoken if one.get("namespace")})


def _values(row: F64 | None, known: Bools) -> F64:
    told = np.zeros(known.size) if row is None else np.where(np.isfinite(row), row, 0.0)
    return np.where(known, told, np.nan)


def _lasted(answers: Answers, there: Mapping[str, Bools], space: str) -> Distribution:
    (_, past), (_, named) = answers["ended"], answers["names"]
    if not there[STARTED].any():
        return _lost(named) or Missing(Gap.NOT_RECORDED, f"no series of {STARTED} in the window")
    if not there[COMPLETED].any():
        text = f"no series of {COMPLETED} in the window: no Job completed, or the metric is not kept"
        return _lost(named) or Missing(Gap.NOT_RECORDED, text)
    if (lost := _lost(past)) is not None:
        return Missing(lost.gap, f"a part was not answered: {lost.text}")
    counts: dict[int, float] = {}
    for one, row in zip(past.labels, past.values, strict=True):
        rung = _rung(one.get(RUNG, ""))
        if one.get("namespace") == space and rung is not None:
            counts[rung] = counts.get(rung, 0.0) + float(np.nansum(row))
    if not counts:
        return Spread(np.array([1.0]), np.array([0.0]), _ENDED_ORIGIN)
    rungs = np.arange(min(counts) - 1, max(counts) + 1)
    return Spread(2.0 ** (rungs / RUNGS), np.array([counts.get(int(rung), 0.0) for rung in rungs]), _ENDED_ORIGIN)


def _rung(text: str) -> int | None:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None
