"""Who told something: which pods answered, whether they speak for all, and what holds while some did not.

Silent and unread are two things. A pod that was read before, or was ready for long, and tells nothing may be in trouble
with all that it holds. One that became ready a moment ago has not been asked yet, and holds next to nothing.
"""

import math
from collections.abc import Iterable, Sequence

from autoscaler.core.observe.freshness import nobody_serves
from autoscaler.core.types import Alike, PodReading, Pods, Readings

TOLD_RATIO = 0.8
"""Share of the ready pods that must answer; freshness asks for the same share of each signal."""

UNREAD_S = 11.0
"""A pod that became ready within this time and told nothing is unread: pages are read every 5 s at the slowest that
settings allow, an answer may take as long, and Kubernetes tells instants to the second."""


def told(readings: Readings, mute: Sequence[PodReading]) -> Pods | None:
    """Return the pods, if enough of the ready ones answered to speak for all; else None. `mute` are the `silent`."""
    pods = readings.pods
    if pods is None or (not pods and not nobody_serves(readings)):
        return None
    return pods if len(pods) - len(mute) >= TOLD_RATIO * max(len(pods), readings.replicas.ready) else None


def silent(pods: Iterable[PodReading]) -> list[PodReading]:
    """Return the pods of which nothing was read."""
    if isinstance(pods, Alike):
        return []
    return [
        pod
        for pod in pods
        if pod.waiting is None and pod.running is None and pod.requests_total is None and pod.kv_cache_usage is None
    ]


def least_waiting(readings: Readings) -> float:
    """Return what waits in the pods that answered; NaN if nothing does, since that tells nothing of the others."""
    return sum(pod.waiting or 0.0 for pod in readings.pods or ()) or math.nan


def unread(mute: Sequence[PodReading], now_s: float) -> int:
    """Return how many of the `silent` became ready within `UNREAD_S`; a node's clock may be as far ahead."""
    return sum([pod.ready_since_s is not None and abs(now_s - pod.ready_since_s) < UNREAD_S for pod in mute])


def at_work(pods: Iterable[PodReading], since_s: float) -> tuple[float, float]:
    """Return as how many pods, each as full as the fullest, those that answered are at work, and of those the part
    that served since `since_s` and completed a request; NaN where what runs is not known of any, or nothing does.

    Where requests stay as long in one pod as in another completions come from pods in proportion to what they hold
    (Little's law), but from none whose first requests are still in service.
    """
    running = [(pod.running, pod) for pod in pods if pod.running]
    if not running:
        return math.nan, math.nan
    fullest = max([held for held, _ in running])
    done = [
        h for h, pod in running if pod.requests_total and (pod.ready_since_s is None or not pod.ready_since_s > since_s)
    ]
    return sum([held for held, _ in running]) / fullest, sum(done) / fullest


def running_but_for(readings: Readings, without: int) -> float:
    """Return what runs in the pods that answered; NaN unless they speak for all but `without` unread ones."""
    pods = readings.pods or ()
    running = [pod.running for pod in pods if pod.running is not None]
    enough = len(running) >= TOLD_RATIO * (max(len(pods), readings.replicas.ready) - without)
    return sum(running) if running and enough else math.nan
