"""A constant count, sized in hindsight: what one buys without an autoscaler."""

import math
from typing import ClassVar

from autoscaler.core.types import Readings
from autoscaler.sim.rivals.view import Knob, RivalView


class Static:
    """`knob[0]` times what the busiest minute needs, rounded up: 1 is the count sized for the peak."""

    KNOB_NAMES: ClassVar[tuple[str, ...]] = ("peak_minute_ratio",)
    KNOBS: ClassVar[tuple[Knob, ...]] = tuple((step / 40,) for step in range(18, 53))
    DEFAULT: ClassVar[Knob] = (1.0,)
    name = "static"
    tick_s = 3600.0

    def __init__(self, view: RivalView, knob: Knob = DEFAULT) -> None:
        needed = knob[0] * view.traffic.peak_minute_rps / view.capacity_rps
        self._replicas = max(1, math.ceil(needed - 1e-9))

    def decide(self, readings: Readings) -> int:
        """The constant."""
        return self._replicas
