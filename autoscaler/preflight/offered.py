"""What a workload was asked to do at each moment: requests in flight, and requests arriving.

Enters: a history. Leaves: two `Demand` values or the reason for their absence. Requests in flight are those computed
and those waiting, since the waiting ones want the same capacity. Where no gauge was recorded they follow from arrivals
and durations. A rate is never passed off as requests in flight.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import CannotTell, Why, Window
from autoscaler.preflight.history import Missing, Spread, Track, WorkloadHistory
from autoscaler.preflight.spreads import mean_of, quantile, survival_at

IN_FLIGHT = "requests in flight"
RATE = "requests/s"

LEAST_KNOWN_RATIO = 0.5
"""With more than half of the window unknown, what is known may be the untypical half."""

LEAST_STEPS = 10
"""Of fewer steps it is no hole that keeps them from being known: requests from before the record still ran."""

MOST_UNKNOWN_RATIO = 0.05
"""A step's load is unknown once more than this share of it comes from arrivals that are."""

_FINE = 32
"""Points per step at which a survival curve is read."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand on the history's grid: `values` (steps,), NaN unknown; `per_request` is the value of one request.

    `per_request` turns a value into a count whose chance variation is its own root: 1 for requests in flight, 1 / step
    for a rate.
    """

    values: F64
    unit: str
    per_request: float
    window: Window
    how: str


def in_flight(history: WorkloadHistory) -> Demand | CannotTell:
    """Requests in flight: running and waiting where recorded, else from arrivals and durations."""
    running, waiting = history.running, history.waiting
    if isinstance(running, Track):
        if isinstance(waiting, Track):
            return _checked(history, running.values + waiting.values, IN_FLIGHT, 1.0, "running and waiting requests")
        how = "running requests (those that waited are not known)"
        return _checked(history, running.values, IN_FLIGHT, 1.0, how)
    arrivals, duration = history.arrivals_per_s, history.duration
    if isinstance(arrivals, Track) and isinstance(duration, Spread):
        values = offered_load(arrivals.values, duration, history.step_s)
        how = "arrivals and the time requests take, as if none had to wait"
        return _checked(history, values, IN_FLIGHT, 1.0, how)
    return CannotTell(
        Why.NOT_RECORDED,
        f"requests in flight are not known: {running.text}, and how long requests take is not known either",
        "a gauge of running requests, or how long requests take",
    )


def arriving(history: WorkloadHistory) -> Demand | CannotTell:
    """Requests arriving per second."""
    arrivals = history.arrivals_per_s
    if isinstance(arrivals, Missing):
        return CannotTell(Why.NOT_RECORDED, f"arrivals are not known: {arrivals.text}", "a counter of requests")
    return _checked(history, arrivals.values, RATE, 1.0 / history.step_s, "requests that arrived")


def offered_load(arrivals_per_s: F64, duration: Spread, step_s: float) -> F64:
    """Mean requests in flight per step if none waits, NaN where an arrival that still counts is unknown; (steps,).

    m(t) = integral of lambda(t - u) * P(D > u) du: the offered load of M(t)/G/infinity (Eick, Massey and Whitt, "The
    physics of the Mt/G/infinity queue", Operations Research 41, 1993); Little's law where the rate is constant. The
    first steps, whose requests from before the window are unknown, are NaN as well.
    """
    mean_s = mean_of(duration)
    size = arrivals_per_s.size
    if not np.isfinite(mean_s):
        return np.full(size, np.nan)
    weights = _weights(duration, mean_s, step_s, size)
    known = np.isfinite(arrivals_per_s)
    load = np.convolve(np.where(known, arrivals_per_s, 0.0), weights)[:size]
    unknown_s = np.convolve((~known).astype(np.float64), weights)[:size]
    before_s = np.zeros(size)
    reach = min(size, weights.size)
    before_s[:reach] = (mean_s - np.cumsum(weights))[:reach]
    return np.where(unknown_s + before_s <= MOST_UNKNOWN_RATIO * mean_s, load, np.nan)


def _weights(duration: Spread, mean_s: float, step_s: float, most: int) -> F64:
    """Mean seconds that a request of a step spends in that step and in each later one; they sum to `mean_s`.

    A request that arrives anywhere in its step is, at age a, k steps further with the chance 1 - |a - k step| / step.
    """
    finite = duration.edges_s[np.isfinite(duration.edges_s)]
    last_s = min(float(finite[-1]), quantile(duration, 0.999).high_s)
    steps = int(min(most, np.ceil(last_s / step_s) + 1))
    ages = (np.arange(steps * _FINE) + 0.5) / _FINE  # in steps
    left = survival_at(duration, ages * step_s)
    stays = np.floor(ages).astype(np.int64)
    onward = ages - stays
    weights = np.zeros(steps + 1)
    np.add.at(weights, stays, left * (1.0 - onward))
    np.add.at(weights, stays + 1, left * onward)
    sum_s = float(weights.sum())
    return weights * (mean_s / sum_s) if sum_s > 0 else np.array([mean_s])


def _checked(history: WorkloadHistory, values: F64, unit: str, per_request: float, how: str) -> Demand | CannotTell:
    known = np.isfinite(values)
    end_s = history.start_s + history.steps * history.step_s
    window = Window(history.start_s, end_s, float((~known).sum()) * history.step_s)
    if known.sum() < LEAST_KNOWN_RATIO * max(1, values.size):
        if values.size < LEAST_STEPS:
            text = f"the record covers {end_s - history.start_s:g} s, and what ran before it is not known"
            return CannotTell(Why.TOO_SHORT, text, "a longer window")
        share = 100 * (1 - known.sum() / max(1, values.size))
        return CannotTell(
            Why.TOO_MANY_HOLES, f"{share:.0f} % of the window is unknown", "a record with fewer holes than readings"
        )
    return Demand(values, unit, per_request, window, how)
