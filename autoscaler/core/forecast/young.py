"""Caution before there is a history: how far a load can grow within a lead time, until the load itself tells.

ServeGen's pools grow by up to 1.4-1.74 times in ten minutes (99th percentile over 14 days of three pools); growth
scales with the root of time. The allowance fades as the workload's own errors take its place.
"""

import numpy as np

from autoscaler.core.columns import F64, filled

GROWTH_RATIO = 0.7
"""Growth in ten minutes to allow for."""

GROWTH_S = 600.0

FADES_S = 5400.0
"""After an hour and a half a workload has shown most of its own unrest."""


def floor_ratio(since_s: F64, now_s: F64, lead_s: F64) -> F64:
    """Return the least ratio of bound to median for workloads known since `since_s`, arrays of shape (B,)."""
    age_s = np.maximum(filled(now_s - since_s), 0.0)
    return np.asarray(1.0 + GROWTH_RATIO * np.sqrt(lead_s / GROWTH_S) * np.exp(-age_s / FADES_S))
