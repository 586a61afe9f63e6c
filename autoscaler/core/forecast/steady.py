"""The bound without its jitter: what wavers around a level is held at its mean, and what leaves it is followed at once.

A replica is held for as long as a gap in the load may last, so that of a bound that wavers by a replica the highest of
minutes would stand. Enters: the bound that a round made, and the steady one of the round before. Leaves: the steady
one. It refuses to know of loads and of levels: the feedback on coverage scores what stands here.
"""

import numpy as np

from autoscaler.core.columns import F64, I64

SPAN_LEADS = 0.2
"""The mean is one over a fifth of the lead time: two minutes of ten, and hardly any of one."""

JITTER_RATIO = 1.05
"""What is within 5 % of the mean is jitter: a bound further above takes the mean along."""


def follow(steady_rps: F64, bound_rps: F64, horizon_bins: I64) -> F64:
    """Return the steady bound in requests/s, shape (B,), the bound itself where there is no steady one yet (NaN).

    It is never less than the bound over `JITTER_RATIO`, and falls to a lower bound by e for each `SPAN_LEADS` of the
    horizon.
    """
    weight = 1.0 / np.maximum(SPAN_LEADS * horizon_bins, 1.0)
    mean = np.where(np.isfinite(steady_rps), steady_rps + weight * (bound_rps - steady_rps), bound_rps)
    return np.fmax(mean, bound_rps / JITTER_RATIO)
