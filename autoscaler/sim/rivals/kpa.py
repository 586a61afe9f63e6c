"""Knative's pod autoscaler on concurrency, and the same with credit for what is starting.

As in knative/serving pkg/autoscaler/scaling/autoscaler.go: every 2 s the mean concurrency of 60 s (stable) and of 6 s
(panic) over target gives two counts; panic begins when the short one is twice the ready pods, lasts a stable window
past the last such tick, and never scales down. Steps are limited to 1000 times and half of the ready pods. A restarted
autoscaler with more than one pod begins in panic. To zero: after a stable window without requests and 30 s of grace.
"""

import math
from collections import deque
from typing import ClassVar

from autoscaler.core.types import Readings
from autoscaler.sim.rivals.view import Knob, RivalView, in_flight, queued

STABLE_S = 60.0
PANIC_S = 6.0
PANIC_THRESHOLD = 2.0
MAX_UP_RATE = 1000.0
MAX_DOWN_RATE = 2.0
ZERO_GRACE_S = 30.0
_ROUNDING = 1e-9


class Window:
    """Mean of the samples of the last `span_s` seconds, kept as a running sum."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._samples: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def add(self, now_s: float, value: float) -> float:
        """Add the newest sample and return the mean."""
        self._samples.append((now_s, value))
        self._sum += value
        while self._samples[0][0] <= now_s - self._span_s:
            self._sum -= self._samples.popleft()[1]
        return max(0.0, self._sum / len(self._samples))


class Kpa:
    """Target per replica: `knob[0]` (target utilisation) times its slots; ready pods are the base of every limit."""

    KNOB_NAMES: ClassVar[tuple[str, ...]] = ("target_utilisation",)
    KNOBS: ClassVar[tuple[Knob, ...]] = tuple((step / 100,) for step in range(30, 110, 5))
    DEFAULT: ClassVar[Knob] = (0.7,)
    name = "kpa"
    tick_s = 2.0

    def __init__(self, view: RivalView, knob: Knob = DEFAULT) -> None:
        self._target = knob[0] * view.slots
        self._stable, self._panic = Window(STABLE_S), Window(PANIC_S)
        self._panic_since_s: float | None = 0.0 if view.opening_replicas > 1 else None
        self._panic_floor = view.opening_replicas if view.opening_replicas > 1 else 0
        self._zero_since_s: float | None = None

    def decide(self, readings: Readings) -> int:
        """The larger of both counts while in panic, else the stable one; an unreadable metric changes nothing."""
        load = self._load(readings)
        if load is None:
            return readings.replicas.desired
        now_s, base = readings.now_s, max(1, self._base(readings))
        stable = self._stable.add(now_s, load) / self._target
        panic = self._panic.add(now_s, load) / self._target
        most, least = math.ceil(MAX_UP_RATE * base), math.floor(base / MAX_DOWN_RATE)
        wanted = min(max(math.ceil(stable - _ROUNDING), least), most)
        urgent = math.ceil(panic - _ROUNDING)
        if urgent / base >= PANIC_THRESHOLD:
            self._panic_since_s = now_s
        elif self._panic_since_s is not None and now_s > self._panic_since_s + STABLE_S:
            self._panic_since_s, self._panic_floor = None, 0
        if self._panic_since_s is not None:
            self._panic_floor = max(self._panic_floor, wanted, min(max(urgent, least), most))
            wanted = self._panic_floor
        return self._zero_late(now_s, wanted, load)

    def _load(self, readings: Readings) -> float | None:
        """Concurrency: everything in flight, at the activator or in a pod."""
        return in_flight(readings)

    def _base(self, readings: Readings) -> int:
        """Pods that limits and the panic threshold are measured against."""
        return readings.replicas.ready

    def _zero_late(self, now_s: float, wanted: int, load: float) -> int:
        """`wanted`, but zero only after a stable window without requests and the grace period."""
        if load > 0:
            self._zero_since_s = None
        elif self._zero_since_s is None:
            self._zero_since_s = now_s
        if self._zero_since_s is None or now_s < self._zero_since_s + STABLE_S + ZERO_GRACE_S:
            return max(1, wanted)
        return 0


class KpaCredit(Kpa):
    """The same algorithm with warming replicas credited: fast, and without ordering the same capacity twice.

    What is ready and what is starting share the queue: it counts by the share of ready replicas among both, as llm-d's
    law credits (c = ready / n). Limits and the panic threshold are measured against both, so a start that was ordered
    is neither a reason to panic again nor lost when panic ends.
    """

    name = "kpa-credit"

    def _load(self, readings: Readings) -> float | None:
        waiting = queued(readings)
        if waiting is None:
            return None
        ready, starting = readings.replicas.ready, len(readings.replicas.starting)
        credit = ready / (ready + starting) if ready > 0 else 1.0
        return waiting * credit + sum(pod.running or 0.0 for pod in readings.pods or ())

    def _base(self, readings: Readings) -> int:
        return readings.replicas.ready + len(readings.replicas.starting)
