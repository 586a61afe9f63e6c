"""How many replicas each model wants over time, from its traffic: the load that warm pools are measured on.

Enters: traffics of models that share a pool. Leaves: whole replicas per model and bin. The rule is a plain one, so that
nothing of the controller's own arithmetic is in its load: what the busiest of the last minutes needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autoscaler.errors import InputError
from autoscaler.sim.traffic import Traffic

IntArray = npt.NDArray[np.int64]


class Wanted(Protocol):
    """What a plant asks of a demand."""

    @property
    def models(self) -> tuple[str, ...]:
        """Models that share the plant."""
        ...

    def at(self, now_s: float) -> IntArray:
        """Replicas of each model at a time."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaDemand:
    """Replicas wanted, shape (models, T), each bin `step_s` wide. InputError on a shape or count that is none."""

    models: tuple[str, ...]
    step_s: float
    replicas: IntArray

    def __post_init__(self) -> None:
        if self.replicas.ndim != 2 or self.replicas.shape[0] != len(self.models) or not self.replicas.shape[1]:
            raise InputError(f"replicas: shape {self.replicas.shape}; it must be one row per model and a bin at least")
        if bool((self.replicas < 0).any()):
            raise InputError("replicas: a count is negative; counts must be 0 or more")

    def at(self, now_s: float) -> IntArray:
        """Replicas of each model at a time; beyond the end the last ones."""
        return self.replicas[:, min(int(now_s / self.step_s), self.replicas.shape[1] - 1)]

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return float(self.replicas.shape[1] * self.step_s)


def replicas_of(traffic: Traffic, *, replica_rps: float, hold_s: float, least: int = 0) -> IntArray:
    """Replicas that the traffic needs per bin: the busiest bin of the last `hold_s` over what one replica carries."""
    need = np.ceil(traffic.arrivals / traffic.step_s / replica_rps - 1e-9).astype(np.int64)
    kept = need.copy()
    for back in range(1, max(1, round(hold_s / traffic.step_s))):
        kept[back:] = np.maximum(kept[back:], need[:-back])
    return np.maximum(kept, least)


def together(demands: Sequence[tuple[str, IntArray]], step_s: float) -> ReplicaDemand:
    """Models that share a pool, over the time that all of them cover."""
    bins = min(counts.size for _, counts in demands)
    return ReplicaDemand(tuple(name for name, _ in demands), step_s, np.stack([counts[:bins] for _, counts in demands]))
