"""What the plant is made of: a fleet's description, requests, one replica, and how times are spread."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
NEVER: Final = math.inf


@dataclass(frozen=True, slots=True)
class Fleet:
    """What replicas are and how they start; the starts of one seed are the same for whoever orders them."""

    slots: int
    line: Literal["gateway", "pods"]
    opens_with: int
    """Ready at the first second, and billed from it."""
    start_s: float = 120.0
    start_cv: float = 0.0
    """0 is a constant, else lognormal."""
    fails_ratio: float = 0.0
    """Share of the starts that end in nothing, when they should have landed; another is ordered in their place."""
    slow_from_s: float = NEVER
    """Starts ordered from then on take `slow_factor` times as long."""
    slow_factor: float = 10.0
    patience_s: float = NEVER
    """Who waited so long without a slot leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Arrays of shape (N,): when each comes, ascending, and how long it stays in a slot, both in seconds."""

    at_s: FloatArray
    stay_s: FloatArray


@dataclass(slots=True, eq=False)
class Replica:
    """One replica, from its order to its end."""

    name: str
    number: int
    ordered_s: float
    ready_s: float | None = None
    ended_s: float | None = None
    draining: bool = False
    running: int = 0
    line: deque[int] = field(default_factory=deque)
    waiting: int = 0
    """Who stands in `line` and has not given up."""
    begun: int = 0
    done: int = 0
    slot_s: float = 0.0
    """Time in service, summed over the slots, until `seen_s`."""
    seen_s: float = 0.0

    def served_s(self, now_s: float) -> float:
        """Time in service until now, summed over the slots."""
        return self.slot_s + self.running * (now_s - self.seen_s)


def lognormal(rng: np.random.Generator, mean: float, cv: float, count: int) -> FloatArray:
    """Draws with this mean and coefficient of variation; all the mean where that is 0."""
    if cv == 0.0:
        return np.full(count, mean)
    variance = math.log1p(cv * cv)
    return rng.lognormal(math.log(mean) - variance / 2.0, math.sqrt(variance), count)
