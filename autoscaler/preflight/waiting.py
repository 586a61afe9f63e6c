"""What can wait, and for how long: what was made to wait, what may, and what less capacity would make wait.

Enters: a history and its arrivals or requests in flight. Leaves: observed queue waits, the deadline or priority that a
person wrote down, and the wait that each constant capacity would have caused. A wait that was observed is not a wait
that is allowed: the two are never mixed.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why
from autoscaler.preflight.given import number_fact, whole_window
from autoscaler.preflight.history import Fact, Missing, WorkloadHistory
from autoscaler.preflight.offered import Demand
from autoscaler.preflight.spreads import answer

TOLERANCES_S = (0.0, 60.0, 300.0, 1800.0, 7200.0)
"""Waits for which the capacity is told: none, a person who stays, and three grades of batch."""

_BISECTIONS = 10
"""Halvings of the range between mean and peak: a thousandth of it is finer than any capacity is bought."""

BATCH_CLASSES = ("batch", "scavenger", "best-effort", "besteffort", "offline", "low", "preemptible", "opportunistic")
"""Words in the name of a priority class that tell batch work; Kubernetes itself gives these names no meaning."""

BATCH, INFERENCE = "batch", "inference"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What can wait.

    `waits` are the p50, p90 and p99 of the queue waits seen, `queued` the share of time with a request waiting,
    `deepest` the p99 over time of the queue's depth. `allowed` is the deadline named. `work` is "batch", "inference" or
    why that is not known. `capacity_for` has the constant capacity at which no request waits longer, per tolerance.
    """

    waits: tuple[Answer, Answer, Answer]
    queued: Answer
    deepest: Answer
    allowed: Answer
    work: str | CannotTell
    capacity_for: tuple[tuple[float, float], ...]
    capacity_unit: str


def waiting(history: WorkloadHistory, demand: Demand | CannotTell) -> Waiting:
    """The answers of one workload; `demand` is what a constant capacity is tried on."""
    window = whole_window(history)
    levels = (0.5, 0.9, 0.99)
    waits = [
        answer(history.queue_wait, level, window, what="queue waits", needed="the engine's histogram of queue times")
        for level in levels
    ]
    tried = () if isinstance(demand, CannotTell) else capacity_for(demand.values, history.step_s)
    return Waiting(
        waits=(waits[0], waits[1], waits[2]),
        queued=_queued(history),
        deepest=_deepest(history),
        allowed=_allowed(history),
        work=work_of(history),
        capacity_for=tried,
        capacity_unit="" if isinstance(demand, CannotTell) else demand.unit,
    )


def capacity_for(values: F64, step_s: float) -> tuple[tuple[float, float], ...]:
    """(tolerance in s, least constant capacity at which no work waits longer) for those of `TOLERANCES_S` that the
    record can show: a step at least, and at most a quarter of it.

    Work arrives as `values` (steps,) per second and is served first come, first served: a fluid queue. Requests in
    flight stand for the work that arrives where no rate is known. Unknown steps bring no work, so the capacity is that
    of the known part.
    """
    known = np.isfinite(values)
    work = np.where(known, values, 0.0)
    peak, mean = float(work.max()), float(work.mean())
    found = []
    for tolerance_s in TOLERANCES_S:
        if tolerance_s and not step_s <= tolerance_s <= 0.25 * known.sum() * step_s:
            continue
        low, high = mean, peak
        for _ in range(_BISECTIONS if tolerance_s > 0 and peak > mean else 0):
            middle = 0.5 * (low + high)
            if longest_wait_s(work, middle, step_s) > tolerance_s:
                low = middle
            else:
                high = middle
        found.append((tolerance_s, high))
    return tuple(found)


def longest_wait_s(work: F64, capacity: float, step_s: float) -> float:
    """The longest wait in seconds of a fluid queue that starts empty: the largest backlog over the capacity (> 0).

    Backlog by reflection: X - min(0, lowest X so far), with X the summed surplus (Harrison, Brownian Motion and
    Stochastic Flow Systems, 1985, chapter 2).
    """
    surplus = np.cumsum(work - capacity)
    lowest = np.minimum(np.minimum.accumulate(surplus), 0.0)
    return float((surplus - lowest).max()) * step_s / capacity


def work_of(history: WorkloadHistory) -> str | CannotTell:
    """Batch or inference, as the source names it or the priority class implies."""
    named = history.facts.get(Fact.WORK)
    if named in {BATCH, INFERENCE}:
        return named
    priority = history.facts.get(Fact.PRIORITY_CLASS, "")
    if priority:
        return BATCH if any(word in priority.lower() for word in BATCH_CLASSES) else INFERENCE
    text = "nothing says whether it is batch or inference work"
    return CannotTell(Why.NOT_NAMED, text, "a priority class on its pods")


def _allowed(history: WorkloadHistory) -> Answer:
    deadline_s = number_fact(history, Fact.DEADLINE_S)
    if deadline_s is None:
        text = "nobody wrote down how long its requests may wait"
        return CannotTell(Why.NOT_NAMED, text, "the objective, from its owner: slo.waitS")
    how = "the deadline, as the source names it"
    return Measured(deadline_s, "s", whole_window(history), 0, "deadlines", how)


def _queue(history: WorkloadHistory) -> F64 | CannotTell:
    """The queue's depth in the steps in which it is known."""
    queue = history.waiting
    if isinstance(queue, Missing):
        text = f"how many requests waited is not known: {queue.text}"
        return CannotTell(Why.NOT_RECORDED, text, "the number of waiting requests")
    known = queue.values[np.isfinite(queue.values)]
    if not known.size:
        return CannotTell(Why.TOO_MANY_HOLES, "the queue is unknown throughout", "a record with fewer holes")
    return known


def _queued(history: WorkloadHistory) -> Answer:
    known = _queue(history)
    if isinstance(known, CannotTell):
        return known
    how = "steps in which a request waited, over known steps"
    share = float((known > 0).mean())
    return Measured(share, "ratio", whole_window(history, known.size), known.size, "steps", how)


def _deepest(history: WorkloadHistory) -> Answer:
    known = _queue(history)
    if isinstance(known, CannotTell):
        return known
    how = "p99 over time of requests waiting"
    value = float(np.quantile(known, 0.99))
    return Measured(value, "requests waiting", whole_window(history, known.size), known.size, "steps", how)
