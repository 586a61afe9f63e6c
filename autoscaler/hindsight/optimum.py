"""What a clairvoyant would have held on the arrivals that were observed: the lower bound that bills are compared with.

Enters: arrivals, what one replica carries and how long it takes to start. Leaves: replica-hours. It rests on the same
capacity and warm-up as the worlds it is compared with, and knows nothing of what was decided.
"""

import math
from dataclasses import dataclass
from typing import Final

from autoscaler.hindsight.timeline import Timeline
from autoscaler.sim.bounds import d2
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup

BIN_S: Final = 10.0
MOST_BINS: Final = 4320
"""Half a day of bins of 10 s; of a longer time they are wider, which only lowers the bound."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The bound: replica-hours, and the figures it rests on."""

    held_hours: float
    capacity_rps: float
    warmup_s: float
    bin_s: float


def optimum(timeline: Timeline, *, warmup_s: float, slack_s: float, max_replicas: int) -> Optimum | None:
    """The least that serves 99 % within `slack_s`; None where nothing was counted. Raises HeadroomError."""
    if not timeline.at_s or sum(timeline.arrivals) <= 0:
        return None
    length_s = timeline.at_s[-1] - timeline.at_s[0] + timeline.span_s[0]
    bin_s = BIN_S * max(1, math.ceil(length_s / BIN_S / MOST_BINS))
    capacity_rps = timeline.capacity_rps[-1]
    traffic = Traffic("observed", bin_s, timeline.per_bin(bin_s), "observed arrivals")
    spec = PlantSpec(capacity_rps, Warmup(warmup_s), slo_wait_s=slack_s, max_replicas=max_replicas)
    return Optimum(d2(traffic, spec).cost_s / 3600.0, capacity_rps, warmup_s, bin_s)
