"""What no policy can beat: mean completion, makespan, and the fair split of what tenants hold and want.

Enters: a case. Leaves: bounds in seconds from the first submission, valid for every policy that evicts or not, since
lost work only adds. Gangs are taken as sand on the GPUs of their shape, so distances of half and more are normal.

Mean completion: let M be the mean instant at which a job's work is done. However it runs, it ends at M + p/2 or later,
p its run time, as nobody works faster than all its GPUs at once. The sum of all M is least where one machine with the
speed of all GPUs always works on the job with the least GPU-seconds, interrupting others (the mean-busy-time relaxation
of Goemans and Schulz, solved greedily). Nor does a job end before p has passed. The larger of both sums is the bound.

Makespan: all work over all GPUs; the longest job from its submission; what is submitted from an instant on; and jobs of
which no more than q run side by side, one after the other in q rows.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.sim.batch.work import Case, Job
from autoscaler.sim.traffic import FloatArray


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one case."""

    mean_completion_s: float
    makespan_s: float
    """From the first submission to the last end."""


def bounds_of(case: Case) -> Bounds:
    """Both bounds; shapes do not help each other."""
    total_s = sum(least_completion_s(case.of_shape(shape), gpus) for shape, gpus in case.gpus.items())
    end_s = max(least_end_s(case.of_shape(shape), gpus) for shape, gpus in case.gpus.items())
    return Bounds(total_s / len(case.jobs), end_s - case.jobs[0].submit_s)


def least_completion_s(jobs: Sequence[Job], gpus: int) -> float:
    """The least sum of times from submission to end, for jobs by their submission on so many GPUs."""
    alone = sum(job.duration_s for job in jobs)
    halves = sum(job.duration_s / 2 - job.submit_s for job in jobs)
    return max(alone, sum(_mean_busy_s(jobs, gpus)) + halves)


def _mean_busy_s(jobs: Sequence[Job], gpus: int) -> list[float]:
    """The mean instant of each job's work on one machine of all GPUs' speed, the least GPU-seconds first."""
    work_s = [job.total_gpus * job.duration_s / gpus for job in jobs]
    left_s = list(work_s)
    busy = [0.0] * len(jobs)
    ready: list[tuple[float, int]] = []
    now_s, at = 0.0, 0
    while at < len(jobs) or ready:
        if not ready:
            now_s = max(now_s, jobs[at].submit_s)
        while at < len(jobs) and jobs[at].submit_s <= now_s:
            heapq.heappush(ready, (work_s[at], at))
            at += 1
        mine = ready[0][1]
        until_s = now_s + left_s[mine]
        if at < len(jobs) and jobs[at].submit_s < until_s:
            until_s = jobs[at].submit_s
            left_s[mine] -= until_s - now_s
        else:
            left_s[mine] = 0.0
            heapq.heappop(ready)
        busy[mine] += (until_s - now_s) * (until_s + now_s) / 2
        now_s = until_s
    return [total / work for total, work in zip(busy, work_s, strict=True)]


def least_end_s(jobs: Sequence[Job], gpus: int) -> float:
    """The earliest instant at which all jobs can have ended; 0 without jobs."""
    if not jobs:
        return 0.0
    best_s = max(job.submit_s + job.duration_s for job in jobs)
    later_s = 0.0
    for job in reversed(jobs):
        later_s += job.total_gpus * job.duration_s / gpus
        best_s = max(best_s, job.submit_s + later_s)
    for rows in sorted({gpus // job.total_gpus for job in jobs}):
        wide = [job for job in jobs if job.total_gpus * (rows + 1) > gpus]
        best_s = max(best_s, wide[0].submit_s + sum(job.duration_s for job in wide) / rows)
    return best_s


def water_filling(wanted: FloatArray, weights: FloatArray, capacity: float) -> FloatArray:
    """The weighted max-min split for each row: nobody gets more than wanted, and nothing is left while somebody wants.

    `wanted` has shape (rows, tenants), `weights` (tenants,), all positive. Raises ValueError otherwise.
    """
    if bool((weights <= 0).any()) or bool((wanted < 0).any()):
        raise ValueError("water_filling: weights must be above 0 and what is wanted 0 or more")
    level = wanted / weights
    order = np.argsort(level, axis=1, kind="stable")
    sorted_wanted = np.take_along_axis(wanted, order, axis=1)
    sorted_level = np.take_along_axis(level, order, axis=1)
    sorted_weight = weights[order]
    below = np.cumsum(sorted_wanted, axis=1) - sorted_wanted
    above = np.cumsum(sorted_weight[:, ::-1], axis=1)[:, ::-1]
    # If the first k tenants are full, the others stand at this level; it is right where it is at most the k-th's own.
    reached = (capacity - below) / above
    short = reached < sorted_level
    first = np.where(short.any(axis=1), short.argmax(axis=1), -1)
    rows = np.arange(len(wanted))
    water = np.where(first >= 0, reached[rows, first], np.inf)
    return np.asarray(np.minimum(wanted, np.maximum(0.0, water)[:, None] * weights), dtype=np.float64)
