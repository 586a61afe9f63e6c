"""Requests with instants and durations as gauges on a grid: arrivals, requests in flight, a distribution of durations.

Enters: arrays of a request trace and, where an engine's profile is given, how long each request takes on it. Leaves:
values of shape (steps,). Requests in flight are exact integrals of overlaps, not samples at the steps' edges.
"""

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.history import Spread
from autoscaler.preflight.offered import MOST_UNKNOWN_RATIO
from autoscaler.sim.serving.profile import Profile

EDGES = 400
"""Edges of a distribution of durations, a quarter of a percent of requests apart."""


def durations_s(prompt_tokens: F64, output_tokens: F64, profile: Profile) -> F64:
    """Seconds from start to last token of each request on a full replica of `profile`, without waiting; (N,).

    Prefill of the prompt, then one decode step of a full batch per further token: the pace at which a replica carries
    all of its slots, so an upper estimate for one that is not full.
    """
    prompts, place = np.unique(np.maximum(prompt_tokens, 1.0), return_inverse=True)
    prefill = np.array([profile.prefill_s(int(tokens)) for tokens in prompts.tolist()])
    return prefill[place] + np.maximum(output_tokens - 1.0, 0.0) * profile.tpot_s(profile.max_num_seqs)


def running(arrival_s: F64, duration_s: F64, *, steps: int, step_s: float) -> F64:
    """Mean requests in flight over each step, (steps,), where each runs from its arrival for its duration.

    The integral of requests in flight up to t is the summed age of those begun minus that of those ended.
    """
    edges: F64 = np.arange(steps + 1, dtype=np.float64) * step_s
    integral = _summed_ages(np.sort(arrival_s), edges) - _summed_ages(np.sort(arrival_s + duration_s), edges)
    return np.maximum(np.diff(integral) / step_s, 0.0)


def ramp_s(duration_s: F64) -> float:
    """Seconds at a record's beginning in which more than `MOST_UNKNOWN_RATIO` of the load came before it.

    At age t a share E[(D - t)+] / E[D] of a steady load is of requests older than t.
    """
    ranked = np.sort(duration_s)[::-1]
    total = float(ranked.sum())
    # Above the k longest: their sum less k times the next one is what is older than that one.
    older = np.cumsum(ranked) - np.arange(1, ranked.size + 1) * ranked
    at = int(np.searchsorted(older, MOST_UNKNOWN_RATIO * total, side="right"))
    return float(ranked[at - 1]) if total > 0 else 0.0


def _summed_ages(instants: F64, edges: F64) -> F64:
    """Sum of (edge - instant) over the ascending `instants` at or before each edge."""
    count = np.searchsorted(instants, edges, side="right")
    total = np.concatenate(([0.0], np.cumsum(instants)))
    return np.asarray(count * edges - total[count], dtype=np.float64)


def spread(duration_s: F64, origin: str) -> Spread:
    """The distribution of durations, (N,) with N > 0, by edges of equal counts."""
    edges = np.unique(np.quantile(duration_s, np.linspace(0.0, 1.0, EDGES + 1)[1:], method="inverted_cdf"))
    reached = np.searchsorted(np.sort(duration_s), edges, side="right")
    counts = np.diff(np.concatenate(([0], reached))).astype(np.float64)
    return Spread(edges, counts, origin, exact=True)
