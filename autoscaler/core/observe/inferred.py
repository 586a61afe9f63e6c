"""What the pods completed where none of them counts it: what arrived and is not in the system any more.

Enters: pods that tell what waits and runs, and a gateway that counts arrivals. Leaves: the same pods with a count each.
It refuses to guess where anything of that is missing: who arrives uncounted would pass for nobody.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from autoscaler.core.observe.sums import PodTrack
from autoscaler.core.types import PodReading, Readings

FIRST = 1.0
"""A pod's count when it is met: that it has completed none nobody can tell."""


class Flow(NamedTuple):
    """One sample of what came and of what is in the system."""

    at_s: float
    arrived: float
    in_system: float


def flow(readings: Readings, pods: tuple[PodReading, ...]) -> Flow | None:
    """Return this sample; None where a pod counts its completions, or something is not told."""
    gateway = readings.gateway
    if gateway is None or gateway.requests_total is None:
        return None
    inside = gateway.queued or 0.0
    for pod in pods:
        if pod.requests_total is not None or pod.running is None or (pod.waiting is None and gateway.queued is None):
            return None
        inside += pod.running + (pod.waiting or 0.0)
    return Flow(readings.now_s, gateway.requests_total, inside)


def counted(
    pods: tuple[PodReading, ...], had: Mapping[str, PodTrack], before: Flow | None, now: Flow
) -> tuple[PodReading, ...]:
    """Return the pods with a count of each: what left the system since the sample `before`, by what runs in them.

    Where requests stay as long in one pod as in another completions come from pods in proportion to what they hold
    (Little's law). A request that gave up counts as completed. Without a sample before, or after the gateway's counter
    began anew, no pod has a count.
    """
    if before is None or now.arrived < before.arrived:
        return pods
    done = max(0.0, now.arrived - before.arrived - (now.in_system - before.in_system))
    held = [(had[pod.name].reading.running or 0.0) + (pod.running or 0.0) if pod.name in had else 0.0 for pod in pods]
    runs, known, made = sum(held), sum([pod.name in had for pod in pods]), []
    for pod, holds in zip(pods, held, strict=True):
        old = had[pod.name].reading.requests_total if pod.name in had else None
        share = holds / runs if runs > 0 else 1.0 / max(known, 1)
        made.append(replace(pod, requests_total=FIRST if old is None else old + done * share))
    return tuple(made)
