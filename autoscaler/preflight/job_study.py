"""What the Jobs of each namespace used of GPUs: how many at once, how many more they waited for, and for how long.

Enters: a record per namespace, or why there is none. Leaves: a `QueueStudy` for each. What is told is what was asked
for by pods: a Job that is suspended has none, and waits unseen.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why, Window
from autoscaler.preflight.gpu_jobs import GpuJobs, JobHistory
from autoscaler.preflight.history import Gap, Missing
from autoscaler.preflight.spreads import answer
from autoscaler.preflight.study import SEED
from autoscaler.preflight.sustained import HIGH_SHARE, USUAL_SHARE, Sustained, held, held_interval

GPUS: Final = "GPUs"
LEAST_LOOKS: Final = 10
"""Fewer instants say nothing about a twentieth of the time."""
PODS_NEEDED: Final = "kube-state-metrics in this Prometheus, with its collector of pods"
JOBS_NEEDED: Final = "kube-state-metrics in this Prometheus, with its collector of jobs"
_CURES: Final = {
    Gap.DENIED: "a token that may ask this Prometheus for kube-state-metrics' series of {where}",
    Gap.REFUSED: "a Prometheus that takes this query: what it says of it stands before",
    Gap.UNREACHABLE: "an answer: the same command again, with a longer --query-timeout where it was slow",
    Gap.PARTIAL: "a whole answer: the same command again, once the stores that it lacks are back",
    Gap.TOO_MANY: "fewer series: --namespace, or fewer --days",
}
"""What helps where it was asked and not answered; a collector that is there already does not."""


@dataclass(frozen=True, slots=True)
class QueueStudy:
    """The answers about the GPU Jobs of one namespace, in GPUs."""

    namespace: str
    usual: Answer
    """Held by running pods at half of the instants, or more."""
    high: Answer
    """Held at a twentieth of the instants, or more."""
    most: Answer
    waiting: Answer
    """Asked for by pending pods at a twentieth of the instants, or more."""
    wanted: Answer
    """The most that was held and waited for together."""
    lasted: tuple[Answer, Answer, Answer]
    """p50, p90 and p99 of seconds from start to completion."""


@dataclass(frozen=True, slots=True)
class Queues:
    """The namespaces in which a Job asked for GPUs; `untold` is why nothing is known of any."""

    queues: tuple[QueueStudy, ...] = ()
    untold: CannotTell | None = None
    namespaces: tuple[str, ...] = ()
    """Those that were looked at; empty: all."""


def queues_of(jobs: GpuJobs, namespaces: tuple[str, ...] = ()) -> Queues:
    """The answers about every namespace, those that held the most GPUs first; `namespaces` alone were looked at."""
    if isinstance(jobs, Missing):
        needed = _needed(jobs, PODS_NEEDED).format(where="these namespaces" if namespaces else "all namespaces")
        return Queues(untold=CannotTell(Why.NOT_RECORDED, jobs.text, needed), namespaces=namespaces)
    return Queues(tuple(sorted((queue_study(one) for one in jobs), key=_largest_first)), namespaces=namespaces)


def _needed(found: object, otherwise: str) -> str:
    """What would be needed for what is missing; `otherwise` where there is nothing in Prometheus to ask for."""
    return _CURES.get(found.gap, otherwise) if isinstance(found, Missing) else otherwise


def _largest_first(study: QueueStudy) -> tuple[float, str]:
    return (-study.most.value if isinstance(study.most, Measured) else 1.0), study.namespace


def queue_study(jobs: JobHistory) -> QueueStudy:
    """The answers about one namespace."""
    wanted = jobs.held + jobs.waiting
    usual, high = _shares(jobs, jobs.held, (USUAL_SHARE, HIGH_SHARE), "held by running pods of Jobs")
    (waiting,) = _shares(jobs, jobs.waiting, (HIGH_SHARE,), "asked for by pending pods of Jobs")
    whole = Window(jobs.start_s, jobs.start_s + jobs.held.size * jobs.step_s)
    p50, p90, p99 = (
        answer(jobs.lasted, level, whole, what="Jobs that completed", needed=_needed(jobs.lasted, JOBS_NEEDED))
        for level in (0.5, 0.9, 0.99)
    )
    return QueueStudy(
        jobs.namespace, usual, high,
        _largest(jobs, jobs.held, "the most held by running pods of Jobs at an instant"),
        waiting,
        _largest(jobs, wanted, "the most held and waited for by pods of Jobs at an instant"),
        (p50, p90, p99),
    )  # fmt: skip


def _shares(jobs: JobHistory, gpus: F64, shares: tuple[float, ...], what: str) -> list[Answer]:
    """The level that is reached for each share of the instants, with its interval from whole days."""
    looks = Sustained(gpus, jobs.start_s, jobs.step_s, jobs.step_s)
    known, window = looks.known, _window(jobs, gpus)
    if known.size < LEAST_LOOKS:
        return [_too_few(known.size)] * len(shares)
    ends = held_interval(looks, shares, np.random.default_rng(SEED))
    found: list[Answer] = []
    for at, share in enumerate(shares):
        low, high = (None, None) if ends is None else (float(end) for end in ends[at])
        how = f"{what} at {100 * share:.0f} % of the instants or more"
        found.append(Measured(held(known, share), GPUS, window, known.size, "instants", how, low, high))
    return found


def _largest(jobs: JobHistory, gpus: F64, how: str) -> Answer:
    known = gpus[np.isfinite(gpus)]
    if known.size < LEAST_LOOKS:
        return _too_few(known.size)
    return Measured(float(known.max()), GPUS, _window(jobs, gpus), known.size, "instants", how)


def _too_few(looks: int) -> CannotTell:
    text = f"pods of Jobs were looked at {looks} times; {LEAST_LOOKS} are the least that say something"
    return CannotTell(Why.TOO_FEW, text, "a longer window")


def _window(jobs: JobHistory, gpus: F64) -> Window:
    unknown_s = float(np.isnan(gpus).sum()) * jobs.step_s
    return Window(jobs.start_s, jobs.start_s + gpus.size * jobs.step_s, unknown_s)
