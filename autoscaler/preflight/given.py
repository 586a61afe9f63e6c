"""What the person says beside the record, and the facts that answers rest on: cold start, slots, GPUs, price.

Enters: options of the command and a history. Leaves: each fact with its origin, or why it is not known. A measurement
beats an option, since the record knows better than the person who asks; an option beats an engine's usual setting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autoscaler.preflight.answers import Answer, CannotTell, Measured, Stated, Why, Window
from autoscaler.preflight.history import Fact, Spread, Track, WorkloadHistory
from autoscaler.preflight.spreads import quantile, total

LEAST_STARTS = 5
"""Cold starts that must have been seen before their 90th percentile replaces what was given."""

LEAST_SATURATED = 20
"""Steps with requests waiting that must have been seen before they say what a replica carries."""

ANY_SHAPE = ""


@dataclass(frozen=True, slots=True)
class Given:
    """What the command was told; None and empty where it was told nothing."""

    cold_start_s: float | None = None
    slots: float | None = None
    """Requests that one replica computes at once."""
    gpus_per_replica: float | None = None
    price_per_gpu_hour: Mapping[str, float] = field(default_factory=dict)
    """By shape; `ANY_SHAPE` is the price of all others."""


def whole_window(history: WorkloadHistory, known: int | None = None) -> Window:
    """The history's window; `known` steps of it are known, all by default."""
    end_s = history.start_s + history.steps * history.step_s
    unknown = 0 if known is None else history.steps - known
    return Window(history.start_s, end_s, unknown * history.step_s)


def cold_start(history: WorkloadHistory, given: Given) -> Answer:
    """Seconds from ordering a replica to its first served request, the 90th percentile where it was measured."""
    found = history.cold_start
    if isinstance(found, Spread) and total(found) >= LEAST_STARTS:
        at = quantile(found, 0.9)
        if np.isfinite(at.high_s) and at.value_s > 0:
            how = f"p90 of {found.origin}"
            window = whole_window(history)
            return Measured(at.value_s, "s", window, round(total(found)), "cold starts", how, at.low_s, at.high_s)
    if given.cold_start_s is not None:
        return Stated(given.cold_start_s, "s", whole_window(history), 0, "cold starts", "given, not measured")
    text = "no cold start was recorded and none was given"
    return CannotTell(Why.NO_COLD_START, text, "measured cold starts, or --cold-start SECONDS")


def slots(history: WorkloadHistory, given: Given) -> Answer:
    """Requests that one replica computes at once: what it ran while others waited, else what is given or configured."""
    measured = _saturated(history)
    if measured is not None:
        return measured
    named, unit = number_fact(history, Fact.SLOTS), "requests per replica"
    if given.slots is not None:
        return Stated(given.slots, unit, whole_window(history), 0, "steps", "given, not measured")
    if named is not None:
        how = "the engine's setting, as the source names it"
        return Measured(named, unit, whole_window(history), 0, "steps", how)
    return CannotTell(
        Why.NO_CAPACITY,
        "what one replica carries is not known: requests were not seen to wait while all replicas ran",
        "running, waiting and replicas while the workload is saturated, or --slots N",
    )


def number_fact(history: WorkloadHistory, fact: Fact) -> float | None:
    """A fact that is a positive number; None where the source does not name it, or names something else."""
    try:
        value = float(history.facts.get(fact, ""))
    except ValueError:
        return None
    return value if np.isfinite(value) and value > 0 else None


def _saturated(history: WorkloadHistory) -> Measured | None:
    """The median of running requests per replica over the steps in which as many waited as there were replicas."""
    running, waiting, replicas = history.running, history.waiting, history.replicas
    if not (isinstance(running, Track) and isinstance(waiting, Track) and isinstance(replicas, Track)):
        return None
    # Fewer waiting than replicas may be one replica's queue while another idles.
    full = (waiting.values >= np.maximum(replicas.values, 1.0)) & (replicas.values >= 1.0) & (running.values > 0)
    if int(full.sum()) < LEAST_SATURATED:
        return None
    carried = running.values[full] / replicas.values[full]
    low, middle, high = (float(value) for value in np.quantile(carried, [0.05, 0.5, 0.95]))
    how = "running requests per replica while at least one per replica waited"
    return Measured(middle, "requests per replica", whole_window(history), carried.size, "steps", how, low, high)


def gpus_per_replica(history: WorkloadHistory, given: Given) -> float | CannotTell:
    """GPUs that a replica holds, from the source or as given."""
    found = history.gpus_per_replica if history.gpus_per_replica is not None else given.gpus_per_replica
    if found is not None:
        return found
    return CannotTell(Why.NO_GPUS, "how many GPUs a replica holds is not known", "the pods' GPU limits, or --gpus N")


def price(history: WorkloadHistory, given: Given) -> float | CannotTell:
    """What a GPU-hour of the workload's shape costs, in the unit of `--price`."""
    shape = history.facts.get(Fact.SHAPE, ANY_SHAPE)
    found = given.price_per_gpu_hour.get(shape, given.price_per_gpu_hour.get(ANY_SHAPE))
    if found is not None:
        return found
    of_what = f" of shape {shape}" if shape else ""
    return CannotTell(Why.NO_PRICE, f"no price of a GPU-hour{of_what} was given", "--price AMOUNT or SHAPE=AMOUNT")
