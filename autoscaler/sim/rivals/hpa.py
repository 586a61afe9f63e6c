"""Kubernetes HPA v2 on queue plus running requests, as its documentation and replica calculator describe it.

External metric with an AverageValue target, tolerance 0.1, sync 15 s, and the default behaviour: up by at most
max(100 %, 4 pods) per 15 s without stabilisation, down to the highest recommendation of 300 s. Source:
kubernetes/kubernetes pkg/controller/podautoscaler (horizontal.go, replica_calculator.go) and the autoscaling/v2 API.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import ClassVar

from autoscaler.core.types import Readings
from autoscaler.sim.rivals.view import Knob, RivalView, in_flight

TOLERANCE = 0.1
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Rule:
    """One direction of an HPA `behavior`: the larger of both steps per period, and a stabilisation window."""

    pods: int
    ratio: float
    period_s: float
    window_s: float


DEFAULT_UP = Rule(pods=4, ratio=1.0, period_s=15.0, window_s=0.0)
DEFAULT_DOWN = Rule(pods=0, ratio=1.0, period_s=15.0, window_s=300.0)


class Behavior:
    """The rate and stabilisation limits an HPA puts on recommendations; history lives in memory."""

    def __init__(self, up: Rule = DEFAULT_UP, down: Rule = DEFAULT_DOWN) -> None:
        self._up, self._down = up, down
        self._advice: deque[tuple[float, int]] = deque()
        self._moves: deque[tuple[float, int]] = deque()  # instant, replicas added (negative: removed)

    def limit(self, now_s: float, current: int, wanted: int) -> int:
        """The count an HPA that wants `wanted` writes at `now_s`, `current` being on ``/scale``."""
        if not self._advice:  # an HPA that starts takes the count it finds as its first recommendation
            self._advice.append((now_s, current))
        self._advice.append((now_s, wanted))
        longest_s = max(self._up.window_s, self._down.window_s)
        while self._advice[0][0] < now_s - longest_s:
            self._advice.popleft()
        low = min([wanted, *(count for at_s, count in self._advice if at_s > now_s - self._up.window_s)])
        high = max([wanted, *(count for at_s, count in self._advice if at_s > now_s - self._down.window_s)])
        target = min(max(current, low), high)
        if target > current:
            start = current - self._moved(now_s, self._up.period_s)
            most = max(start + self._up.pods, math.ceil(start * (1.0 + self._up.ratio) - _ROUNDING))
            target = min(target, max(current, most))
        elif target < current:
            start = current - self._moved(now_s, self._down.period_s)
            least = min(start - self._down.pods, math.floor(start * (1.0 - self._down.ratio) + _ROUNDING))
            target = max(target, min(current, least))
        if target != current:
            self._moves.append((now_s, target - current))
        return target

    def _moved(self, now_s: float, period_s: float) -> int:
        longest_s = max(self._up.period_s, self._down.period_s)
        while self._moves and self._moves[0][0] <= now_s - longest_s:
            self._moves.popleft()
        return sum(count for at_s, count in self._moves if at_s > now_s - period_s)


class Hpa:
    """Target per replica: `knob[0]` times its slots, of requests running and waiting."""

    KNOB_NAMES: ClassVar[tuple[str, ...]] = ("target_slots_ratio",)
    KNOBS: ClassVar[tuple[Knob, ...]] = tuple((step / 100,) for step in range(30, 135, 5))
    DEFAULT: ClassVar[Knob] = (0.7,)
    name = "hpa"
    tick_s = 15.0

    def __init__(self, view: RivalView, knob: Knob = DEFAULT) -> None:
        self._target = knob[0] * view.slots
        self._behavior = Behavior()

    def decide(self, readings: Readings) -> int:
        """ceil(sum / target) unless within tolerance of what runs; an unreadable metric changes nothing."""
        load, replicas = in_flight(readings), readings.replicas
        if load is None:
            return replicas.desired
        held = replicas.ready + len(replicas.starting)
        wanted = math.ceil(load / self._target - _ROUNDING)
        if held > 0 and abs(load / (self._target * held) - 1.0) <= TOLERANCE:
            wanted = held
        return self._behavior.limit(readings.now_s, replicas.desired, max(1, wanted))
