"""How a policy did: completion, the worst wait of large gangs, makespan, use, waste, and what tenants got.

Enters: a finished run and its bounds. Leaves: figures; seconds, and ratios without unit. None where a figure is not
defined, as for a policy that left jobs undone. It judges no goal.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.sim.batch.bounds import Bounds, water_filling
from autoscaler.sim.batch.plant import Past
from autoscaler.sim.traffic import FloatArray

LARGE_GPUS = 8
"""A gang above this is large: it needs more than one node."""


@dataclass(frozen=True, slots=True)
class Fairness:
    """Of what each tenant was entitled to from sample to sample, how much it held."""

    worst_ratio: float
    """Of the tenant that did worst, 0..1."""
    jain: float
    """Jain's index over tenants, 1/n..1."""


@dataclass(frozen=True, slots=True)
class Score:
    """One policy on one case."""

    policy: str
    unfinished: int
    mean_completion_s: float | None
    completion_ratio: float | None
    """Mean completion over its bound."""
    wait_p99_s: float | None
    worst_large_wait_s: float | None
    """The longest wait of a gang above 8 GPUs; None where there is none."""
    makespan_s: float | None
    makespan_ratio: float | None
    utilisation: float
    """Work that lasted over GPU-seconds from the first submission to the last end."""
    idle_while_queued: float
    """Free GPU-seconds that waiting gangs could have filled were they sand, over all GPU-seconds."""
    evictions: int
    lost_ratio: float
    """GPU-seconds held in vain over those held."""
    fairness: Fairness


def score(past: Past, bounds: Bounds) -> Score:
    """Judge a run."""
    case, fates = past.case, past.fates
    ended = [fate for fate in fates if fate.ended]
    whole = len(ended) == len(fates)
    first_s = case.jobs[0].submit_s
    last_s = max((fate.end_s for fate in ended), default=first_s)
    mean_s = float(np.mean([fate.completion_s for fate in fates])) if whole else None
    large = [fate.wait_s for fate in fates if fate.job.total_gpus > LARGE_GPUS]
    useful = sum(fate.job.total_gpus * fate.job.duration_s for fate in ended)
    lost = sum(fate.lost_gpu_s for fate in fates)
    there = case.total_gpus * max(last_s - first_s, 1e-9)
    free = np.maximum(0.0, case.total_gpus - past.held.sum(axis=1))
    idle = float(np.minimum(free, past.wanted.sum(axis=1)).sum()) * past.sample_s
    return Score(
        past.policy,
        len(fates) - len(ended),
        mean_s,
        None if mean_s is None else mean_s / bounds.mean_completion_s,
        float(np.quantile([fate.wait_s for fate in fates], 0.99)) if whole else None,
        max(large) if large and whole else None,
        last_s - first_s if whole else None,
        (last_s - first_s) / bounds.makespan_s if whole else None,
        useful / there,
        idle / there,
        sum(fate.evictions for fate in fates),
        lost / max(useful + lost, 1e-9),
        fairness(past),
    )


def fairness(past: Past) -> Fairness:
    """What tenants held beside the max-min share of what they held and wanted; weights are guarantees, or equal."""
    tenants = past.case.tenants
    weights = np.array([float(tenant.guaranteed) for tenant in tenants])
    if weights.sum() == 0:
        weights = np.ones(len(tenants))
    weights = np.maximum(weights, 1e-3 * weights.max())
    entitled = water_filling(past.held + past.wanted, weights, float(past.case.total_gpus))
    got = np.minimum(past.held, entitled).sum(axis=0)
    due = entitled.sum(axis=0)
    ratios: FloatArray = got[due > 0] / due[due > 0]
    if not ratios.size:
        return Fairness(1.0, 1.0)
    squares = float((ratios**2).sum())
    return Fairness(float(ratios.min()), float(ratios.sum()) ** 2 / (ratios.size * squares) if squares else 0.0)
