"""Pods' metrics pages as the live controller has them: each read once a second, at an instant of its own.

Enters: what the simulated plant shows at once of everything. Leaves: what a controller knows of it at that instant: of
each pod its newest page, up to a second old; of one whose page was not read yet that it is there, and nothing more;
no gateway, as none stands before the servers. It knows nothing of decisions.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from autoscaler.core.types import PodReading, Readings
from autoscaler.sim.policy import Policy

INTERVAL_S: Final = 1.0
"""Between two pages of a pod, the scraper's default."""

FIRST_LATE: Final = 0.75
"""Share of new pods that are looked at before their first page has come: 50 of 66 in seventeen recorded runs, told by
a decision right after readiness whose newest page is older than that. A pod that becomes ready wakes the controller and
has its page asked for in the same instant; the page comes first only where the look waits for the gap to one before."""

_CLOCK_TOLERANCE_S = 1e-6


@dataclass(slots=True)
class Pages:
    """The newest page of each pod. Turns, and whether a first page comes late, are drawn from `rng` by pod."""

    rng: np.random.Generator
    _turns: dict[str, float] = field(default_factory=dict)
    """Where in the interval each pod's page is read, in seconds; as the scraper's, by its uid."""
    _read: dict[str, PodReading] = field(default_factory=dict)
    _read_s: float = -math.inf

    def known(self, readings: Readings) -> Readings:
        """`readings` as a controller has them at their instant. Instants never go back."""
        if readings.pods is None:
            return replace(readings, gateway=None)
        pods = tuple(self._page(pod, readings.now_s) for pod in readings.pods)
        self._read = {pod.name: pod for pod in pods}
        self._read_s = readings.now_s
        return replace(readings, pods=pods, gateway=None)

    def _page(self, pod: PodReading, now_s: float) -> PodReading:
        before = self._read.get(pod.name)
        if before is None:
            self._turns[pod.name] = INTERVAL_S * float(self.rng.random())
            late = self._read_s > -math.inf and self.rng.random() < FIRST_LATE
            return PodReading(pod.name, pod.ready_since_s) if late else pod
        due = before.requests_total is None or self._slot(pod.name, now_s) > self._slot(pod.name, self._read_s)
        return pod if due else before

    def _slot(self, name: str, at_s: float) -> int:
        return math.floor((at_s - self._turns[name] + _CLOCK_TOLERANCE_S) / INTERVAL_S)


@dataclass(frozen=True, slots=True)
class ByPages:
    """A policy that is asked at every step of the plant and reads pages, not the plant."""

    policy: Policy
    pages: Pages

    @property
    def name(self) -> str:
        """The policy's."""
        return self.policy.name

    @property
    def tick_s(self) -> float:
        """The policy's."""
        return self.policy.tick_s

    def decide(self, readings: Readings) -> int:
        """What the policy makes of the pages that have come."""
        return self.policy.decide(self.pages.known(readings))
