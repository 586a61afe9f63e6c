"""llm-d's law on latency objectives with its published HPA behaviour.

s is the 45-s mean of min(P90 latency / objective, 2). Above 0.55: n + ceil(n (s c / 0.55 - 1)), c = ready / n crediting
what is starting; below 0.40: n - floor(n (1 - s / 0.40)); else n. The HPA behind it adds at most max(100 %, 4) per 60 s
with 30 s of stabilisation and removes 1 per 120 s with 180 s. See llm-d/llm-d guides/workload-autoscaling/slo-aware.

A fluid plant has no latency below saturation, while the guide's signal "sits around 0.2-0.45 of the SLO" under healthy
load: the queue wait is therefore added to a base that rises evenly from 0.20 (idle) to 0.45 (all slots busy).
"""

import math
from typing import ClassVar

from autoscaler.core.types import Readings
from autoscaler.sim.rivals.hpa import Behavior, Rule
from autoscaler.sim.rivals.kpa import Window
from autoscaler.sim.rivals.view import Knob, RivalView

UP, DOWN, CLAMP, SMOOTHING_S = 0.55, 0.40, 2.0, 45.0
IDLE_SIGNAL, BUSY_SIGNAL = 0.20, 0.45
_ROUNDING = 1e-9


class LlmD:
    """`knob[0]` scales the latency objective: below 1 it is held tighter than the user's own."""

    KNOB_NAMES: ClassVar[tuple[str, ...]] = ("slo_scale",)
    KNOBS: ClassVar[tuple[Knob, ...]] = tuple(
        (step / 100,) for step in (50, 60, 70, *range(80, 125, 5), *range(130, 210, 10))
    )
    DEFAULT: ClassVar[Knob] = (1.0,)
    name = "llm-d"
    tick_s = 15.0

    def __init__(self, view: RivalView, knob: Knob = DEFAULT) -> None:
        self._scale, self._slots, self._slo_s = knob[0], view.slots, view.slo_wait_s
        self._signal = Window(SMOOTHING_S)
        up = Rule(pods=4, ratio=1.0, period_s=60.0, window_s=30.0)
        down = Rule(pods=1, ratio=0.0, period_s=120.0, window_s=180.0)
        self._behavior = Behavior(up, down)

    def decide(self, readings: Readings) -> int:
        """The law's count within the behaviour; an unreadable metric changes nothing."""
        replicas = readings.replicas
        if readings.pods is None or readings.latency is None:
            return replicas.desired
        held, ready = replicas.ready + len(replicas.starting), replicas.ready
        signal = self._signal.add(readings.now_s, min(CLAMP, self._latency_ratio(readings)))
        wanted = held
        if signal > UP:
            credit = ready / held if 0 < ready < held else 1.0
            # A signal above the threshold never sheds, however large the credit.
            wanted = max(held, held + math.ceil(held * (signal * credit / UP - 1.0) - _ROUNDING))
        elif signal < DOWN:
            wanted = held - math.floor(held * (1.0 - signal / DOWN) + _ROUNDING)
        return self._behavior.limit(readings.now_s, replicas.desired, max(1, wanted))

    def _latency_ratio(self, readings: Readings) -> float:
        """P90 latency over the scaled objective; 0 without traffic, as the recording rule maps it."""
        pods, latency = readings.pods or (), readings.latency
        queued_s = latency.queue_s_p90 if latency is not None else None
        if not pods:
            return CLAMP if readings.gateway is not None and (readings.gateway.queued or 0.0) > 0 else 0.0
        if queued_s is None:
            return 0.0
        busy = min(1.0, sum(pod.running or 0.0 for pod in pods) / (len(pods) * self._slots))
        base = IDLE_SIGNAL + (BUSY_SIGNAL - IDLE_SIGNAL) * busy
        return (base + queued_s / self._slo_s) / self._scale
