"""A toy service for the core's stories: requests as a fluid, pods with counters, starts that take a fixed time.

It shares no formula with the core or the simulator: every second arrivals join one line, each ready pod takes up to its
rate from it, and what is left waits in the pods in equal parts (at the gateway while there is no pod).
"""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.state import Table
from autoscaler.core.types import (
    Decision,
    GatewayReading,
    Limits,
    PodReading,
    Readings,
    ReplicaReading,
    StartingReplica,
    Step,
)

NAME = "team/chat"
HOUR_S = 3600.0
TOKENS = 100.0
"""Tokens per request, in and out."""

Tamper = Callable[[Readings], Readings]


@dataclass(slots=True)
class ToyPod:
    name: str
    ready_since_s: float
    done: float = 0.0
    serving: bool = True
    """A pod that does not serve keeps its share of the line: an engine that hangs."""
    running: float = 0.0


@dataclass(slots=True)
class Toy:
    """One service and what it was ordered to be. `load` maps a second to requests/s."""

    load: Callable[[float], float]
    replica_rps: float = 2.0
    warmup_s: float = 120.0
    service_s: float = 4.0
    now_s: float = 0.0
    queue: float = 0.0
    arrived: float = 0.0
    desired: int = 0
    pods: list[ToyPod] = field(default_factory=list)
    starting: list[StartingReplica] = field(default_factory=list)
    made: int = 0
    limits: Limits = field(default_factory=Limits)
    unschedulable: bool = False
    """New and present starts find no node."""
    fail_after_s: float | None = None
    """Starts disappear at this age and the owner orders another in their place."""
    crash_after_s: float | None = None
    """Pods disappear when they have been ready for this long, and the owner orders another in their place. Where a
    request takes longer they are full and complete none, and the line keeps all that they held."""
    slow_s: float = 0.0
    """Added to the time a start takes."""

    @classmethod
    def of(cls, replicas: int, load: Callable[[float], float] | float, **fields: object) -> "Toy":
        """Return a service with `replicas` ready for a long time."""
        flow = load if callable(load) else (lambda _s, level=float(load): level)
        toy = cls(flow, **fields)  # type: ignore[arg-type]  # the fields are the class's own
        for _ in range(replicas):
            toy.pods.append(ToyPod(toy._name(), toy.now_s - 3600.0))
        toy.desired = replicas
        return toy

    def _name(self) -> str:
        self.made += 1
        return f"pod-{self.made}"

    def order(self, replicas: int) -> None:
        """Write a new count: more are started at once; fewer cancel the newest start first, then the newest pod."""
        self.desired = replicas
        while len(self.pods) + len(self.starting) > replicas:
            if self.starting:
                self.starting.pop()
            else:
                self.pods.pop()
        while len(self.pods) + len(self.starting) < replicas:
            self.starting.append(StartingReplica(self.now_s, self._name()))

    def advance(self, span_s: float) -> None:
        """Let time pass, a second or less at a time."""
        end_s = self.now_s + span_s
        while self.now_s < end_s - 1e-9:
            part_s = min(1.0, end_s - self.now_s)
            self._second(part_s)
            self.now_s += part_s
            self._starts()

    def _second(self, part_s: float) -> None:
        came = self.load(self.now_s) * part_s
        self.arrived += came
        self.queue += came
        able = [p for p in self.pods if p.serving]
        if self.crash_after_s is not None and self.crash_after_s < self.service_s:
            for pod in able:
                pod.running = min(self.replica_rps * self.service_s, self.queue / len(able))
            return
        taken = min(self.queue, len(able) * self.replica_rps * part_s)
        self.queue -= taken
        for pod in able:
            pod.done += taken / len(able)
            pod.running = taken / len(able) / part_s * self.service_s

    def _starts(self) -> None:
        takes_s = self.warmup_s + self.slow_s
        for start in tuple(self.starting):
            age_s = self.now_s - start.since_s
            if self.fail_after_s is not None and age_s >= self.fail_after_s:
                self.starting.remove(start)
            elif age_s >= takes_s and not self.unschedulable:
                self.starting.remove(start)
                self.pods.append(ToyPod(start.name or "", self.now_s))
        if self.crash_after_s is not None:
            self.pods = [p for p in self.pods if self.now_s - p.ready_since_s < self.crash_after_s]
        self.order(self.desired)

    def readings(self) -> Readings:
        """What a scrape would show now."""
        share = self.queue / len(self.pods) if self.pods else 0.0
        full = self.replica_rps * self.service_s
        pods = tuple(
            PodReading(
                name=p.name,
                ready_since_s=p.ready_since_s,
                waiting=share,
                running=p.running,
                requests_total=p.done,
                prompt_tokens_total=p.done * TOKENS,
                generation_tokens_total=p.done * TOKENS,
                kv_cache_usage=min(1.0, 0.9 * p.running / full),
            )
            for p in self.pods
        )
        starting = tuple(replace(s, unschedulable=self.unschedulable) for s in self.starting)
        return Readings(
            now_s=self.now_s,
            replicas=ReplicaReading(self.desired, len(self.pods), starting),
            pods=pods,
            gateway=GatewayReading(0.0 if self.pods else self.queue, self.arrived),
            limits=self.limits,
        )


@dataclass(slots=True)
class Story:
    """The core in closed loop with a toy service. `seen` and `told` hold every reading and decision."""

    toy: Toy
    params: Params = field(default_factory=Params)
    tamper: Tamper | None = None
    table: Table = field(default_factory=lambda: Table.empty(1))
    acts: bool = True
    """Whether decisions are carried out."""
    seen: list[Readings] = field(default_factory=list)
    told: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table.put(NAME, self.params)

    def tick(self) -> Decision:
        """Read, decide, act, then let one tick pass."""
        readings = self.toy.readings()
        if self.tamper is not None:
            readings = self.tamper(readings)
        decision = engine.step(self.table, [(NAME, readings)]).decisions[0]
        self.seen.append(readings)
        self.told.append(decision)
        if self.acts:
            self.toy.order(decision.replicas)
        self.toy.advance(self.params.tick_s)
        return decision

    def run(self, span_s: float, tamper: Tamper | None = None) -> list[Decision]:
        """Tick for `span_s` seconds and return the decisions of that time."""
        self.tamper = tamper
        first, end_s = len(self.told), self.toy.now_s + span_s
        while self.toy.now_s < end_s - 1e-6:
            self.tick()
        self.tamper = None
        return self.told[first:]

    @property
    def replicas(self) -> int:
        """The count last decided."""
        return self.told[-1].replicas


def steps_of(decisions: list[Decision]) -> list[Step]:
    """Every step of every trace, in order."""
    return [step for decision in decisions for step in decision.trace]


def counts(decisions: list[Decision]) -> list[int]:
    """The counts decided."""
    return [decision.replicas for decision in decisions]


def cut(readings: Readings) -> Readings:
    """The same moment with no metrics at all: only the API server answers."""
    return replace(readings, pods=None, gateway=None, latency=None)


def stepped(low: float, high: float, at_s: float) -> Callable[[float], float]:
    """A load that jumps once."""
    return lambda now_s: low if now_s < at_s else high


def copied(story: Story) -> Story:
    """The story so far, to be gone on with apart. What was read and decided is frozen, and shared."""
    return copy.deepcopy(story, {id(one): one for one in (*story.seen, *story.told)})


@functools.cache
def _opening(level: float, replicas: int, warmup_s: float, params: tuple[tuple[str, object], ...]) -> Story:
    toy = Toy.of(replicas, level, queue=15.0 * replicas, warmup_s=warmup_s)
    story = Story(toy, Params(warmup_prior_s=warmup_s, **dict(params)))  # type: ignore[arg-type]  # Params' own fields
    story.run(900.0)
    return story


def calibrated(
    load: Callable[[float], float] | float = 6.0, *, replicas: int = 4, warmup_s: float = 120.0, **params: object
) -> Story:
    """A service at 900 s whose capacity is known, since a short queue stood when it opened; `load` goes on."""
    level = load(0.0) if callable(load) else load
    story = copied(_opening(level, replicas, warmup_s, tuple({"tick_s": 10.0, **params}.items())))
    if callable(load):
        story.toy.load = load
    return story
