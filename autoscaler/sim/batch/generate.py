"""Drawn batch work: a mix of gangs at a stated load, and Kueue's published generator. One seed, one list of jobs.

Enters: sizes, load, seed. Leaves: a case. The mix: most jobs are small and short, few are large and long, as in
recorded clusters; run times are lognormal, arrivals Poisson.
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from autoscaler.errors import InputError
from autoscaler.sim.batch.work import Case, Job, Recovery, Tenant, racks

SIZES: Final = (
    (1, 1, 0.50), (1, 2, 0.15), (1, 4, 0.12), (1, 8, 0.15), (2, 8, 0.04), (4, 8, 0.04),
)  # fmt: skip
"""(pods, GPUs of each, share of the jobs): four in five fit on a part of a node, one in twelve takes several."""

MEDIAN_S: Final = 1200.0
SIGMA: Final = 1.5
"""Of the logarithm of run times: the mean is three times the median."""

LONGEST_S: Final = 48 * 3600.0

KUEUE: Final = (("small", 350, 1, 0.2, 0.1, -30), ("medium", 100, 5, 0.5, 0.5, -20), ("large", 50, 20, 1.0, 1.2, -10))
"""(class, jobs, units, run time s, interval s, priority) of each queue: Kueue, test/performance/scheduler, baseline."""

KUEUE_FLOOR_S: Final = 66.0
"""1,320 unit-seconds of each of the 6 queues, over the cohort's 120 units."""


def mixed(*, load: float, seed: int, jobs: int = 1500, nodes: int = 8, tenants: int = 4) -> Case:
    """A cluster of nodes with 8 GPUs at a stated load: GPU-seconds asked for over GPU-seconds while jobs arrive."""
    if not (math.isfinite(load) and 0 < load <= 10) or jobs < 2 or nodes < 4 or tenants < 1:
        raise InputError(
            f"generator: load {load}, {jobs} jobs, {nodes} nodes, {tenants} tenants; give a load above 0 and up to 10, "
            "2 jobs, 4 nodes (the largest gang) and 1 tenant or more"
        )
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(SIZES), size=jobs, p=[share for *_, share in SIZES])
    duration_s = np.clip(np.exp(rng.normal(math.log(MEDIAN_S), SIGMA, jobs)), 30.0, LONGEST_S)
    gpus = np.array([pods * each for pods, each, _ in SIZES])[kind]
    span_s = float((gpus * duration_s).sum()) / (load * nodes * 8)
    submit_s = np.sort(rng.uniform(0.0, span_s, jobs))
    submit_s[0], submit_s[-1] = 0.0, span_s
    owner = rng.integers(0, tenants, jobs)
    return Case(
        f"generator at load {load:g}",
        racks(nodes),
        tuple(Tenant(f"t{at}", nodes * 8 // tenants) for at in range(tenants)),
        tuple(
            Job(
                f"j{at}", f"t{owner[at]}", float(submit_s[at]), SIZES[kind[at]][0], SIZES[kind[at]][1],
                float(duration_s[at]), float(duration_s[at]),
            )
            for at in range(jobs)
        ),
    )  # fmt: skip


def kueue_baseline(*, cohorts: int = 5, queues: int = 6, share: float = 1.0) -> Case:
    """Kueue's baseline: each queue's classes at their intervals, nominal 20, borrowing up to 100 within the cohort.

    `share` takes that part of each class's jobs. Nothing is drawn. Its units are those of a quota, so pods of one unit
    on nodes stand for them; who is evicted leaves at once and begins anew.
    """
    jobs = [
        Job(f"c{cohort}-q{queue}-{name}-{at}", f"c{cohort}-q{queue}", at * every_s, units, 1, run_s, run_s, "gpu", rank)
        for cohort in range(cohorts)
        for queue in range(queues)
        for name, count, units, run_s, every_s, rank in KUEUE
        for at in range(round(count * share))
    ]
    tenants = [
        Tenant(f"c{cohort}-q{queue}", 20, 100, f"c{cohort}") for cohort in range(cohorts) for queue in range(queues)
    ]  # fmt: skip
    ordered = sorted(jobs, key=lambda job: (job.submit_s, job.name))
    nodes = racks(math.ceil(cohorts * queues * 20 / 8))
    return Case("Kueue's baseline", nodes, tuple(tenants), tuple(ordered), Recovery(0.0, 0.0), 0.0)


def overstated(case: Case, most: float, seed: int) -> Case:
    """The case with jobs that say they run 1 to `most` times as long as they do."""
    factors = np.random.default_rng(seed).uniform(1.0, most, len(case.jobs)).tolist()
    jobs = tuple(
        replace(job, expected_s=job.duration_s * factor) for job, factor in zip(case.jobs, factors, strict=True)
    )
    return replace(case, jobs=jobs, label=f"{case.label}, estimates up to {most:g} times too long")
