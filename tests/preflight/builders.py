"""Histories made by hand: everything known and steady unless a test says otherwise."""

from typing import Any

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import Answer, CannotTell, Measured
from autoscaler.preflight.history import Gap, Missing, Spread, Track, WorkloadHistory

STEP_S = 30.0
HOUR = 120
"""Steps of an hour."""
DAY = 24 * HOUR

GONE = Missing(Gap.NOT_RECORDED, "no such series")


def track(values: Any, origin: str = "made by hand") -> Track:
    return Track(np.asarray(values, dtype=np.float64), origin)


def spread(edges_s: list[float], counts: list[float], *, exact: bool = False) -> Spread:
    return Spread(np.array(edges_s), np.array(counts, dtype=np.float64), "made by hand", exact)


def history(
    steps: int = 3 * DAY, *, workload: str = "prod/chat", step_s: float = STEP_S, **given: Any
) -> WorkloadHistory:
    """A workload with every signal: 16 requests run on 4 replicas of 2 GPUs, none waits, four arrive per second."""
    signals: dict[str, Any] = {
        "arrivals_per_s": track(np.full(steps, 4.0)),
        "running": track(np.full(steps, 16.0)),
        "waiting": track(np.zeros(steps)),
        "tokens_per_s": track(np.full(steps, 800.0)),
        "replicas": track(np.full(steps, 4.0)),
        "busy_replicas": track(np.full(steps, 3.0)),
        "kv_usage_ratio": track(np.full(steps, 0.4)),
        "queue_wait": spread([0.1, 1.0, 10.0, np.inf], [900, 90, 10, 0]),
        "duration": spread([2.0, 4.0, 8.0, np.inf], [500, 400, 100, 0]),
        "cold_start": spread([180.0], [20], exact=True),
        "gpus_per_replica": 2.0,
        "facts": {},
    }
    return WorkloadHistory(workload=workload, start_s=0.0, step_s=step_s, steps=steps, **(signals | given))


def wave(days: int, *, low: float, high: float, step_s: float = STEP_S) -> F64:
    """A day's rise and fall between two levels, lowest at midnight."""
    at_s: F64 = np.arange(round(days * 86_400 / step_s), dtype=np.float64) * step_s
    return np.asarray(low + (high - low) * 0.5 * (1.0 - np.cos(2.0 * np.pi * at_s / 86_400.0)))


def value(found: Answer) -> float:
    """The number of an answer that must be one."""
    assert isinstance(found, Measured), found
    return found.value


def why(found: object) -> str:
    """The reason of an answer that must be a refusal."""
    assert isinstance(found, CannotTell), found
    return found.why.value
