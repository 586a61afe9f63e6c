"""The simulated cluster of one workload: orders, cold starts, failures, node losses, drains and the bill.

Enters: a desired count, as written to ``/scale``. Leaves: readings as a metrics scrape and the API server would show
them, and a timeline of what was held. Like a Deployment's controller it replaces what failed or was lost while the
desired count asks for it. It knows nothing of why a count was ordered; requests are the serving model's.
"""

import heapq
import math
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from autoscaler.core.types import Readings, ReplicaReading, StartingReplica
from autoscaler.errors import InputError
from autoscaler.sim.serving import Drainable, FloatArray, ServingModel, ServingPod
from autoscaler.sim.serving.fluid import FluidServing
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Stage, Warmup

IntArray = npt.NDArray[np.int64]
Span = tuple[float, float]
"""A span of time [from_s, to_s) in seconds."""
MAX_STEP_S = 2.0
"""Coarsest step: a queue must not build and drain unseen between two steps."""
_MINUTE_S = 60.0
_CLOCK_TOLERANCE_S = 1e-6


@dataclass(frozen=True, slots=True)
class PlantSpec:
    """One workload's cluster. InputError where a figure cannot be used."""

    capacity_rps: float
    """What one replica serves at most, requests/s."""
    warmup: Warmup
    slo_wait_s: float = 10.0
    service_s: float = 2.0
    """Mean residence of a request in service; slots of a replica = capacity_rps * service_s (Little)."""
    max_replicas: int = 1000
    drain_s: float = 0.0
    """How long a ready replica that is scaled in stays billed without serving; a `Drainable` model knows better."""
    failed_start_ratio: float = 0.0
    """Probability that a start fails; it then disappears after a uniformly drawn share of its warm-up."""
    drains: tuple[tuple[float, int], ...] = ()
    """Node losses (at_s, ready replicas lost at once, the oldest first)."""
    unschedulable: tuple[Span, ...] = ()
    """Spans in which an ordered start finds no node: it is flagged, costs nothing, and warms up once the span ends."""
    outages: tuple[Span, ...] = ()
    """Spans in which the metrics cannot be read: readings carry replicas only."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("capacity_rps", 0.0), ("slo_wait_s", 0.0), ("service_s", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > low):
                raise InputError(f"plant: {name} is {value}; it must be a finite number above {low:g}")
        if self.max_replicas < 1 or self.drain_s < 0 or not 0 <= self.failed_start_ratio < 1:
            raise InputError(
                f"plant: max_replicas {self.max_replicas} must be at least 1, drain_s {self.drain_s} not negative, "
                f"failed_start_ratio {self.failed_start_ratio} in [0, 1)"
            )
        for name in ("unschedulable", "outages"):
            for from_s, to_s in getattr(self, name):
                if not 0 <= from_s < to_s:
                    raise InputError(f"plant: {name} has the span [{from_s}, {to_s}); it must be ordered, from 0 on")
        if any(at_s < 0 or count < 1 for at_s, count in self.drains):
            raise InputError(f"plant: drains are {self.drains}; each needs an instant >= 0 and a count >= 1")

    @property
    def slots(self) -> float:
        """Requests one replica works on at once."""
        return self.capacity_rps * self.service_s


def opening_replicas(traffic: Traffic, spec: PlantSpec) -> int:
    """Replicas ready at second 0, free of a warm-up: what the first minute's mean rate needs, at least 1."""
    bins = min(traffic.arrivals.size, max(1, round(_MINUTE_S / traffic.step_s)))
    rate_rps = float(traffic.arrivals[:bins].sum()) / (bins * traffic.step_s)
    return min(spec.max_replicas, max(1, math.ceil(rate_rps / spec.capacity_rps - 1e-9)))


@dataclass(frozen=True, slots=True)
class Timeline:
    """What was held in every step; all arrays have shape (steps,)."""

    step_s: float
    desired: IntArray
    ready: IntArray
    starting: IntArray
    """Ordered and not ready, those without a node included."""
    warming: IntArray
    """Billed starts: ordered, with a node."""
    draining: IntArray
    """Scaled in and still billed."""
    busy: FloatArray
    """Replica-seconds of work done in the step."""
    waiting: FloatArray
    """Requests waiting at the step's end."""
    starts: int
    """Starts ordered over the whole run, replacements included."""


class _Event(IntEnum):
    READY = 0
    FAILED = 1
    PLACED = 2
    LOST = 3
    DRAINED = 4


@dataclass(slots=True)
class _Start:
    ordinal: int
    view: StartingReplica
    placed_s: float
    warmup_s: float = 0.0


@dataclass(slots=True)
class _Log:
    desired: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    starting: list[int] = field(default_factory=list)
    warming: list[int] = field(default_factory=list)
    draining: list[int] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)


class Plant:
    """The cluster in motion. Read `readings`, write `order`, then `advance` one step of the traffic's bins.

    Raises InputError when the traffic's bins are wider than `MAX_STEP_S`.
    """

    def __init__(self, spec: PlantSpec, traffic: Traffic, serving: ServingModel | None = None) -> None:
        if traffic.step_s > MAX_STEP_S:
            raise InputError(f"{traffic.name}: bins of {traffic.step_s} s; the plant takes {MAX_STEP_S} s at most")
        self.spec = spec
        self.traffic = traffic
        self._serving = serving if serving is not None else FluidServing(spec.capacity_rps, spec.service_s)
        self._drainable = self._serving if isinstance(self._serving, Drainable) else None
        self._arrivals: list[float] = traffic.arrivals.tolist()
        self._step = 0
        self._now_s = 0.0
        self._ordinal = 0
        self._ready: dict[int, ServingPod] = {}
        self._starting: dict[int, _Start] = {}
        self._unplaced = 0
        self._draining = 0
        self._events: list[tuple[float, int, int]] = []  # instant, kind, ordinal of the start or count of the loss
        self._log = _Log()
        self._started = 0
        self._pods_changed = True
        for _ in range(opening_replicas(traffic, spec)):
            self._ready[self._ordinal] = ServingPod(self._pod_name(self._ordinal), 0.0)
            self._ordinal += 1
        self._desired = len(self._ready)
        for at_s, count in spec.drains:
            heapq.heappush(self._events, (at_s, _Event.LOST, count))
        self._settle()

    @property
    def now_s(self) -> float:
        """The plant's clock: the start of the step that `advance` will make next."""
        return self._now_s

    @property
    def done(self) -> bool:
        """Whether the traffic is used up."""
        return self._step >= len(self._arrivals)

    @property
    def desired(self) -> int:
        """The count on ``/scale``."""
        return self._desired

    @property
    def counts(self) -> tuple[int, int, int]:
        """Replicas: desired, ready, starting."""
        return self._desired, len(self._ready), len(self._starting)

    def order(self, replicas: int) -> None:
        """Set the desired count, clipped to [0, max_replicas].

        More: starts are ordered now and billed from now. Fewer: starts are cancelled first, the youngest first, then
        ready replicas go, the youngest first, as a ReplicaSet ranks them.
        """
        self._desired = min(self.spec.max_replicas, max(0, replicas))
        surplus = len(self._ready) + len(self._starting) - self._desired
        while surplus > 0 and self._starting:
            _, start = self._starting.popitem()
            self._unplaced -= start.view.unschedulable
            surplus -= 1
        while surplus > 0:
            self._ready.popitem()
            self._pods_changed = True
            surplus -= 1
            if self.spec.drain_s > 0 and self._drainable is None:
                self._draining += 1
                heapq.heappush(self._events, (self._now_s + self.spec.drain_s, _Event.DRAINED, 0))
        self._settle()

    def advance(self) -> None:
        """Serve one step of arrivals with what is ready, then move the clock and let due events happen."""
        if self._pods_changed:
            self._serving.set_pods(self._now_s, tuple(self._ready.values()))
            self._pods_changed = False
        step_s = self.traffic.step_s
        draining = self._draining if self._drainable is None else self._drainable.draining
        busy = self._serving.offer(self._now_s, step_s, self._arrivals[self._step])
        log, starting = self._log, len(self._starting)
        log.desired.append(self._desired)
        log.ready.append(len(self._ready))
        log.starting.append(starting)
        log.warming.append(starting - self._unplaced)
        log.draining.append(draining)
        log.busy.append(busy)
        log.waiting.append(self._serving.waiting)
        self._step += 1
        self._now_s = self._step * step_s
        if self._events and self._events[0][0] <= self._now_s + _CLOCK_TOLERANCE_S:
            self._settle()

    def readings(self, now_s: float) -> Readings:
        """What the API server and a metrics scrape show at `now_s`, the plant's clock or a little later.

        During an outage pods, gateway and latency are None: unknown, which is not zero.
        """
        starting = tuple(start.view for start in self._starting.values())
        replicas = ReplicaReading(desired=self._desired, ready=len(self._ready), starting=starting)
        if any(from_s <= now_s < to_s for from_s, to_s in self.spec.outages):
            return Readings(now_s=now_s, replicas=replicas)
        if self._pods_changed:
            self._serving.set_pods(self._now_s, tuple(self._ready.values()))
            self._pods_changed = False
        scrape = self._serving.scrape(self._now_s)
        return Readings(
            now_s=now_s, replicas=replicas, pods=scrape.pods, gateway=scrape.gateway, latency=scrape.latency
        )

    def stages(self) -> tuple[tuple[str, Stage, float], ...]:
        """Per start with a node: name, stage, and share of its warm-up that has passed (0..1), oldest first."""
        rows = []
        for start in self._starting.values():
            if not start.view.unschedulable:
                passed = min(1.0, (self._now_s - start.placed_s) / start.warmup_s) if start.warmup_s > 0 else 1.0
                rows.append((start.view.name or "", self.spec.warmup.stage(passed), passed))
        return tuple(rows)

    def timeline(self) -> Timeline:
        """The log of all steps so far."""
        log = self._log
        counts = (log.desired, log.ready, log.starting, log.warming, log.draining)
        desired, ready, starting, warming, draining = (np.array(values, dtype=np.int64) for values in counts)
        busy, waiting = np.array(log.busy, dtype=np.float64), np.array(log.waiting, dtype=np.float64)
        return Timeline(
            self.traffic.step_s, desired, ready, starting, warming, draining, busy, waiting, starts=self._started
        )

    @property
    def serving(self) -> ServingModel:
        """The model behind the replicas, for its waits."""
        return self._serving

    def _pod_name(self, ordinal: int) -> str:
        return f"{self.traffic.name}-{ordinal}"

    def _settle(self) -> None:
        """Let every due event happen, then replace what is missing (again, while a replacement is ready at once)."""
        while True:
            while self._events and self._events[0][0] <= self._now_s + _CLOCK_TOLERANCE_S:
                _, kind, number = heapq.heappop(self._events)
                self._happen(_Event(kind), number)
            missing = self._desired - len(self._ready) - len(self._starting)
            if missing <= 0:
                return
            for _ in range(missing):
                self._start()

    def _happen(self, kind: _Event, number: int) -> None:
        if kind is _Event.DRAINED:
            self._draining -= 1
        elif kind is _Event.LOST:
            lost = [self._ready.pop(ordinal).name for ordinal in list(self._ready)[:number]]
            if self._drainable is not None:
                self._drainable.crash(self._now_s, tuple(lost))
            self._pods_changed = True
        elif number in self._starting:  # a cancelled start leaves its event behind
            if kind is _Event.PLACED:
                self._place(self._starting[number])
            else:
                start = self._starting.pop(number)
                if kind is _Event.READY:
                    self._ready[number] = ServingPod(start.view.name or "", self._now_s)
                    self._pods_changed = True

    def _start(self) -> None:
        ordinal = self._ordinal
        self._ordinal += 1
        self._started += 1
        view = StartingReplica(since_s=self._now_s, name=self._pod_name(ordinal))
        start = _Start(ordinal, view, self._now_s)
        self._starting[ordinal] = start
        self._place(start)

    def _place(self, start: _Start) -> None:
        """Give the start a node, or flag it until the span without nodes is over."""
        view = start.view
        ends = [to_s for from_s, to_s in self.spec.unschedulable if from_s <= self._now_s < to_s]
        self._unplaced += bool(ends) - view.unschedulable
        start.view = StartingReplica(view.since_s, view.name, unschedulable=bool(ends))
        if ends:
            heapq.heappush(self._events, (max(ends), _Event.PLACED, start.ordinal))
            return
        start.placed_s = self._now_s
        spec, kind, share = self.spec, _Event.READY, 1.0
        start.warmup_s = spec.warmup.median_s
        if not spec.warmup.constant or spec.failed_start_ratio > 0:
            rng = np.random.default_rng((spec.seed, start.ordinal))
            start.warmup_s = spec.warmup.draw(rng)
            if rng.random() < spec.failed_start_ratio:
                kind, share = _Event.FAILED, float(rng.random())
        heapq.heappush(self._events, (self._now_s + share * start.warmup_s, kind, start.ordinal))
