"""What was provisioned against what the demand needed, in GPU-hours and money.

Needed is what a controller without any forecast must hold that gives a replica back only after one cold start without
use: the break-even where a start is billed like serving (Gandhi et al., AutoScale, ACM TOCS 30, 2012). So waste is what
remains after a sound reactive controller, and not after an oracle.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why
from autoscaler.preflight.given import whole_window
from autoscaler.preflight.history import Missing, WorkloadHistory
from autoscaler.preflight.offered import Demand

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Provision:
    """GPU-hours over the known part of the window: held, needed, held beyond need, and missing beneath it."""

    held: Answer
    needed: Answer
    wasted: Answer
    short: Answer
    compared: Answer
    """What was held where need is known too: what `wasted` is a part of."""
    cost: Answer
    """What was held beyond need, in the unit that the price was given in."""


def needed_replicas(demand: F64, slots: float, *, step_s: float, cold_start_s: float) -> F64:
    """Replicas needed per step, NaN unknown: each is kept for one cold start after its last use; (steps,)."""
    whole = np.ceil(demand / slots - 1e-9)
    return highest_before(whole, int(np.ceil(cold_start_s / step_s - 1e-9)))


def highest_before(values: F64, steps: int) -> F64:
    """The highest of each step and the `steps` before it, unknown ones passed over; NaN where the step is unknown."""
    known = np.isfinite(values)
    best = np.where(known, values, -np.inf)
    reach, width = 1, steps + 1
    while reach < width:  # doubling: after each pass `best` covers `reach` steps
        shift = min(reach, width - reach)
        best[shift:] = np.maximum(best[shift:], best[:-shift].copy())
        reach += shift
    return np.where(known, best, np.nan)


def provision(
    history: WorkloadHistory,
    demand: Demand | CannotTell,
    *,
    slots: Answer,
    cold_start: Answer,
    gpus: float | CannotTell,
    price: float | CannotTell,
) -> Provision:
    """Held, needed and wasted GPU-hours of one workload; each says why where it cannot be told."""
    held, need = _held(history), _need(history, demand, slots, cold_start)
    if isinstance(gpus, CannotTell):
        return Provision(gpus, gpus, gpus, gpus, gpus, gpus)
    hours = gpus * history.step_s / _HOUR_S

    def told(steps: F64 | CannotTell, how: str, unit: str = "GPU-hours", factor: float = hours) -> Answer:
        if isinstance(steps, CannotTell):
            return steps
        known = steps[np.isfinite(steps)]
        if not known.size:
            text = "replicas and demand are never known together"
            return CannotTell(Why.TOO_MANY_HOLES, text, "a record with fewer holes")
        return Measured(float(known.sum()) * factor, unit, whole_window(history, known.size), known.size, "steps", how)

    beyond: F64 | CannotTell
    beneath: F64 | CannotTell
    beside: F64 | CannotTell
    if isinstance(held, CannotTell):
        beyond = beneath = beside = held
    elif isinstance(need, CannotTell):
        beyond = beneath = beside = need
    else:
        beside = np.where(np.isfinite(need), held, np.nan)
        beyond, beneath = np.maximum(held - need, 0.0), np.maximum(need - held, 0.0)
    return Provision(
        held=told(held, "replicas that answered, times their GPUs"),
        needed=told(need, "replicas that the demand fills, each kept one cold start longer, times their GPUs"),
        wasted=told(beyond, "held beyond need, step by step"),
        short=told(beneath, "needed beyond what was held, step by step"),
        compared=told(beside, "replicas that answered while need is known, times their GPUs"),
        cost=price if isinstance(price, CannotTell)
        else told(beyond, "what was held beyond need, times the price", "at the given price", hours * price),
    )  # fmt: skip


def _held(history: WorkloadHistory) -> F64 | CannotTell:
    replicas = history.replicas
    if isinstance(replicas, Missing):
        text = f"what was provisioned is not known: {replicas.text}"
        return CannotTell(Why.NOT_RECORDED, text, "the number of replicas over time")
    return replicas.values


def _need(history: WorkloadHistory, demand: Demand | CannotTell, slots: Answer, cold_start: Answer) -> F64 | CannotTell:
    if isinstance(demand, CannotTell):
        return demand
    if isinstance(slots, CannotTell):
        return slots
    if isinstance(cold_start, CannotTell):
        return cold_start
    return needed_replicas(demand.values, slots.value, step_s=history.step_s, cold_start_s=cold_start.value)
