"""A plain controller with a perfect forecast one warm-up ahead: what is left to gain by forecasting.

It knows the arrivals and nothing else that others do not. At each tick it wants the highest need of the lead window
[now, now + warm-up + tick]: capacity is ordered one warm-up ahead and kept through gaps shorter than a billed warm-up.
The need is the arrival rate, averaged over a window and divided by the capacity at a target utilisation. Whole replicas
and the plain rule are what separates it from the bound.
"""

import math
from itertools import product
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from autoscaler.core.types import Readings
from autoscaler.sim.rivals.view import Knob, RivalView


class Perfect:
    """`knob` is the target utilisation and the averaging window in seconds."""

    KNOB_NAMES: ClassVar[tuple[str, ...]] = ("utilisation", "smoothing_s")
    KNOBS: ClassVar[tuple[Knob, ...]] = tuple(
        product((0.8, 0.95, 1.0, 1.02, 1.04, 1.06, 1.08), (10.0, 30.0, 60.0, 120.0))
    )
    DEFAULT: ClassVar[Knob] = (1.0, 30.0)
    name = "perfect"
    tick_s = 10.0

    def __init__(self, view: RivalView, knob: Knob = DEFAULT) -> None:
        utilisation, smoothing_s = knob
        step_s = view.traffic.step_s
        width = max(1, round(smoothing_s / step_s))
        need = _smoothed(view.traffic.arrivals, width) / (step_s * utilisation * view.capacity_rps)
        count = np.maximum(1, np.ceil(need - 1e-9).astype(np.int64))
        lead = math.ceil((view.warmup_s + self.tick_s) / step_s - 1e-9)
        padded = np.append(count, np.full(lead, count[-1]))
        self._step_s = step_s
        self._wanted: list[int] = sliding_window_view(padded, lead + 1).max(axis=1).tolist()

    def decide(self, readings: Readings) -> int:
        """The highest need of the lead window."""
        return self._wanted[min(len(self._wanted) - 1, round(readings.now_s / self._step_s))]


def _smoothed(arrivals: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    """Mean of `width` bins ending with each bin, fewer at the beginning."""
    total = np.concatenate((np.zeros(1), np.cumsum(arrivals)))
    stop = np.arange(1, arrivals.size + 1)
    start = np.maximum(0, stop - width)
    return (total[stop] - total[start]) / (stop - start)
