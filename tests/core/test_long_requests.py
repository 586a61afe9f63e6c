"""Stories of requests that take longer than it is from look to look: few are done, and a line of one is soon gone.

Requests are single ones here: a pod holds so many at once, each for its own time, and a line stands at the gateway or
in the pod that was shortest when they came.
"""

import random
from collections import deque
from dataclasses import dataclass, field

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.state import Table
from autoscaler.core.types import GatewayReading, PodReading, Readings, ReplicaReading, StartingReplica
from tests.core.toy import HOUR_S, NAME

TICK_S = 10.0


@dataclass(slots=True)
class Engine:
    name: str
    ready_s: float
    ends_s: list[float] = field(default_factory=list)
    line: deque[float] = field(default_factory=deque)
    done: int = 0


@dataclass(slots=True)
class Renders:
    """Such a service; `need` replicas carry its mean load."""

    service_s: float
    slots: int
    at_gateway: bool
    need: float = 4.0
    warmup_s: float = 120.0
    pods: list[Engine] = field(default_factory=list)
    starting: list[StartingReplica] = field(default_factory=list)
    line: deque[float] = field(default_factory=deque)
    waits_s: list[float] = field(default_factory=list)
    arrived: int = 0
    made: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(1))

    def second(self, now_s: float) -> None:
        for pod in self.pods:
            left = [end_s for end_s in pod.ends_s if end_s > now_s]
            pod.done += len(pod.ends_s) - len(left)
            pod.ends_s = left
        landed = [start for start in self.starting if now_s - start.since_s >= self.warmup_s]
        self.pods += [Engine(start.name or "", now_s) for start in landed]
        self.starting = [start for start in self.starting if start not in landed]
        rate = self.need * self.slots / self.service_s
        for _ in range(sum(self.dice.random() < rate / 20 for _ in range(20))):
            self.arrived += 1
            (self.line if self.at_gateway else self._shortest().line).append(now_s)
        for pod in self.pods:
            while len(pod.ends_s) < self.slots and (pod.line or self.line):
                self.waits_s.append(now_s - (pod.line or self.line).popleft())
                pod.ends_s.append(now_s + self.service_s * self.dice.uniform(0.5, 1.5))

    def _shortest(self) -> Engine:
        return min(self.pods, key=lambda pod: len(pod.ends_s) + len(pod.line))

    def order(self, replicas: int, now_s: float) -> None:
        while len(self.pods) + len(self.starting) > replicas:
            if self.starting:
                self.starting.pop()
            else:
                gone = self._shortest()  # what it holds it ends
                self.pods.remove(gone)
                self.line.extendleft(reversed(gone.line))
        for _ in range(replicas - len(self.pods) - len(self.starting)):
            self.made += 1
            self.starting.append(StartingReplica(now_s, f"pod-{self.made}"))

    def readings(self, now_s: float) -> Readings:
        pods = tuple(
            PodReading(p.name, p.ready_s, float(len(p.line)), None, float(len(p.ends_s)), float(p.done))
            for p in self.pods
        )
        stands = len(self.pods) + len(self.starting)
        replicas = ReplicaReading(stands, len(self.pods), tuple(self.starting))
        return Readings(now_s, replicas, pods, GatewayReading(float(len(self.line)), float(self.arrived)))


def rendered(service: Renders, hours: float) -> tuple[list[int], float]:
    """The counts decided, and what a replica is said to carry in the end, over what it carries."""
    service.pods = [Engine(f"old-{i}", -HOUR_S) for i in range(5)]
    table, told = Table.empty(1), []
    table.put(NAME, Params(tick_s=TICK_S, max_replicas=200))
    for now in range(int(hours * HOUR_S)):
        service.second(float(now))
        if now % TICK_S == 0:
            decision = engine.step(table, [(NAME, service.readings(float(now)))]).decisions[0]
            service.order(decision.replicas, float(now))
            told.append(decision.replicas)
    seen = table.track(table.rows[NAME]).seen
    assert seen is not None
    return told, seen.rps * service.service_s / service.slots


def test_a_pod_of_one_request_of_a_minute_at_a_time_is_taken_for_what_it_does() -> None:
    """The one completion that ends a line of one was not counted as done under it: a pod was worth 0.65 of itself here
    (0.18 in a plant of lognormal requests, where 68 stood for four), and nothing corrected it for hours."""
    service = Renders(60.0, 1, at_gateway=False, dice=random.Random(3))
    told, worth = rendered(service, 3.0)
    assert 0.85 <= worth <= 1.15
    settled = told[360:]
    assert sum(settled) / len(settled) <= 16.0, "18 were"


def test_few_requests_of_a_minute_are_counted_over_the_time_that_they_stay() -> None:
    """Four are in service on average. Nine replicas of one slot have 99 % wait for 10 s at most (Erlang's C). The
    count of ten seconds passed for a rate, and the gaps that chance leaves between them for those between bursts."""
    service = Renders(60.0, 1, at_gateway=True, dice=random.Random(4))
    settled = rendered(service, 2.0)[0][270:]
    assert sum(settled) / len(settled) <= 12.5, "14.1 were"
    assert sum(wait > 10.0 for wait in service.waits_s) <= 0.01 * len(service.waits_s)


def test_few_requests_of_five_minutes_are_counted_over_the_time_that_they_stay() -> None:
    """Ten replicas carry four in service; 22 stood, and what one can do was told anew by every few that were done."""
    told, worth = rendered(Renders(300.0, 1, at_gateway=True, dice=random.Random(1)), 3.0)
    assert sum(told[270:]) / len(told[270:]) <= 15.0
    assert 0.8 <= worth <= 1.25, "7.3 was"
