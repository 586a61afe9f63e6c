"""What recorded virtual clusters would have gained by sharing: their minutes, split by water-filling.

Enters: minutes of capacity, use and demand. Leaves: GPU-hours that waited while GPUs elsewhere were idle, and how many
of them a split by weight would have run. Demand is taken as it was recorded: work that had run sooner would have ended
sooner, so this is a picture of each minute, not a replay.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.sim.batch.bounds import water_filling
from autoscaler.sim.batch.files import Minutes


@dataclass(frozen=True, slots=True)
class Gain:
    """GPU-hours over all minutes."""

    held_gpu_h: float
    """By the static partition that was recorded."""
    waiting_gpu_h: float
    shared_gpu_h: float
    """What the split would have held."""
    worst_tenant_ratio: float
    """The least that any tenant would hold of what it held; 1 where nobody loses."""


def gain(minutes: Minutes) -> Gain:
    """Compare the record with a weighted max-min split of the same minutes."""
    weights = np.maximum(minutes.capacity.mean(axis=0), 1e-9)
    total = minutes.capacity.sum(axis=1)
    wanted = minutes.running + minutes.pending
    split = np.zeros_like(wanted)
    for capacity in np.unique(total):
        rows = total == capacity
        split[rows] = water_filling(wanted[rows], weights, float(capacity))
    held, would = minutes.running.sum(axis=0), split.sum(axis=0)
    kept = would[held > 0] / held[held > 0]
    return Gain(
        float(held.sum()) / 60.0,
        float(minutes.pending.sum()) / 60.0,
        float(split.sum()) / 60.0,
        float(min(1.0, kept.min(initial=1.0))),
    )
