"""Pods' metrics pages as the live controller has them: each read once a second, at an instant of its own.

Enters: what the simulated plant shows at once of everything. Leaves: what a controller knows of it at that instant: of
each pod its newest page, up to a second old; of one whose page was not read yet that it is there, and nothing more;
no gateway, as none stands before the servers. As with the scraper, what is known is of the instant of the newest page,
and a tick ends so many seconds after that: it takes no notice of when the controller looked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from autoscaler.core.types import PodReading, Readings
from autoscaler.sim.recorded import RecordedPolicy

INTERVAL_S: Final = 1.0
"""Between two pages of a pod, the scraper's default."""

FIRST_LATE: Final = 0.75
"""Share of new pods that are looked at before their first page has come: 50 of 66 in seventeen recorded runs, told by
a decision right after readiness whose newest page is older than that. A pod that becomes ready wakes the controller and
has its page asked for in the same instant; the page comes first only where the look waits for the gap to one before."""

RACE_LOST: Final = 0.08
"""Share of ticks at whose end the look comes before the page of the same instant: a tick is a whole number of intervals
after the page that it began with, so the two race. 4 of 50 with one pod in seven recorded runs on a machine without
other work, told by a decision whose newest page is four seconds younger than the last one's, and not five; 6 of 16 at
load averages of four."""

_CLOCK_TOLERANCE_S = 1e-6


@dataclass(slots=True)
class Pages:
    """The newest page of each pod. Turns, and what comes first where a page and a look race, are drawn from `rng`."""

    rng: np.random.Generator
    first: Sequence[float] = ()
    """Where in the interval the pages of the first pods are read, in seconds, in the order in which they are met."""
    _turns: dict[str, float] = field(default_factory=dict)
    """The same of each pod; as the scraper's, by its uid."""
    _next_s: dict[str, float] = field(default_factory=dict)
    """When the next page of each pod comes."""
    _read: dict[str, PodReading] = field(default_factory=dict)
    _asked_s: float = -math.inf
    _newest_s: float = -math.inf

    def known(self, readings: Readings, *, until_s: float = math.inf, missed: bool = False) -> Readings:
        """`readings` as a controller has them at `until_s`, or at their own instant if that is sooner; with `missed`
        just before a page that comes in that very instant. Their `now_s` is that of the newest page. Instants never
        go back."""
        if readings.pods is None:
            self._newest_s = readings.now_s
            return replace(readings, gateway=None)
        ahead_s = -_CLOCK_TOLERANCE_S if missed else _CLOCK_TOLERANCE_S
        at_s = max(min(readings.now_s, until_s) + ahead_s, self._asked_s)
        pods = tuple(self._page(pod, at_s) for pod in readings.pods)
        self._read = {pod.name: pod for pod in pods}
        self._next_s = {name: self._next_s[name] for name in self._read}
        self._asked_s = at_s
        silent = bool(pods) and all(pod.requests_total is None for pod in pods)
        if silent or not pods:  # of the instant of the look, that of the pods' list
            self._newest_s = at_s
        now_s = min(self._newest_s, readings.now_s)
        return replace(readings, now_s=now_s, pods=None if silent else pods, gateway=None)

    def come(self, now_s: float) -> bool:
        """Whether a page has come by `now_s` that is not known yet, or none at all is."""
        return min(self._next_s.values(), default=-math.inf) <= now_s + _CLOCK_TOLERANCE_S

    def missed(self) -> bool:
        """Whether a look comes before the page of its instant, drawn anew each time."""
        return bool(self.rng.random() < RACE_LOST)

    def _page(self, pod: PodReading, at_s: float) -> PodReading:
        name = pod.name
        if name not in self._next_s:
            drawn_s, met = INTERVAL_S * float(self.rng.random()), len(self._turns)
            self._turns[name] = self.first[met] if met < len(self.first) else drawn_s
            if self._asked_s == -math.inf:  # there before the controller: read in its turn
                self._next_s[name] = self._turn_s(name, at_s) + INTERVAL_S
            else:
                late = self.rng.random() < FIRST_LATE
                self._next_s[name] = math.nextafter(at_s, math.inf) if late else at_s
        if at_s < self._next_s[name]:
            return self._read.get(name, PodReading(name, pod.ready_since_s))
        turn_s = self._turn_s(name, at_s)
        self._newest_s = max(self._newest_s, self._next_s[name], turn_s)
        self._next_s[name] = turn_s + INTERVAL_S
        return pod

    def _turn_s(self, name: str, at_s: float) -> float:
        """The pod's last turn up to `at_s`."""
        turn_s = self._turns[name]
        return turn_s + INTERVAL_S * math.floor((at_s - turn_s) / INTERVAL_S)


@dataclass(slots=True)
class ByPages:
    """A policy that reads pages, not the plant. Whoever drives it may pass over the steps of which `wakes` says so."""

    policy: RecordedPolicy
    pages: Pages
    origin_s: float = 0.0
    """What the controller's clock shows when the plant's shows 0."""
    _counts: tuple[int, int, int] | None = None
    """Of the replicas, at the last look."""

    @property
    def name(self) -> str:
        """The policy's."""
        return self.policy.name

    @property
    def tick_s(self) -> float:
        """The policy's."""
        return self.policy.tick_s

    def wakes(self, now_s: float, counts: tuple[int, int, int]) -> bool:
        """Whether there is anything to look at: a page, a tick's end, or replicas that are not what they were. With
        none of them a look finds what the last one found."""
        due = now_s >= self._due_s - _CLOCK_TOLERANCE_S
        changed, self._counts = counts != self._counts, counts
        return due or changed or self.pages.come(now_s)

    def decide(self, readings: Readings) -> int:
        """What the policy makes of the pages that have come; a tick that is over is looked at as it ends."""
        due_s = self._due_s
        due = readings.now_s >= due_s - _CLOCK_TOLERANCE_S
        if due:
            known = self.pages.known(readings, until_s=max(due_s, 0.0), missed=self.pages.missed())
        else:
            known = self.pages.known(readings)
        return self.policy.look(_later(known, self.origin_s), due=due)

    @property
    def _due_s(self) -> float:
        """When the next tick is over, by the plant's clock."""
        return self.policy.due_s - self.origin_s


def _later(readings: Readings, by_s: float) -> Readings:
    """The same readings by a clock that shows so much more."""
    replicas, pods = readings.replicas, readings.pods
    starting = tuple(replace(each, since_s=each.since_s + by_s) for each in replicas.starting)
    if pods is not None:
        ready = ((pod, pod.ready_since_s) for pod in pods)
        pods = tuple(pod if at_s is None else replace(pod, ready_since_s=at_s + by_s) for pod, at_s in ready)
    return replace(readings, now_s=readings.now_s + by_s, replicas=replace(replicas, starting=starting), pods=pods)
