"""How long a replica takes from its order to its first served request, and which stage it is in meanwhile.

Constant or lognormal; the stages (node, image, weights, engine) split the drawn total by fixed shares. Knows nothing of
failures: whether a start fails is the plant's draw.
"""

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from autoscaler.errors import InputError

_Z90 = 1.2815515655446004
"""The standard normal's 90th percentile."""


class Stage(Enum):
    """What a starting replica waits for, in order."""

    NODE = "node"
    IMAGE = "image"
    WEIGHTS = "weights"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Warmup:
    """Distribution of the seconds from order to ready. InputError where a figure is negative or does not fit."""

    median_s: float
    p90_s: float | None = None
    """90th percentile of a lognormal, >= the median; None makes the warm-up constant at `median_s`."""
    shares: tuple[float, float, float, float] = (0.4, 0.25, 0.25, 0.1)
    """Shares of the total per stage in the order of `Stage`, summing to 1. The default is a guess for a cold node."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.median_s) and self.median_s >= 0):
            raise InputError(f"warm-up: median_s is {self.median_s}; it must be a number of seconds, 0 or more")
        if self.p90_s is not None and not (math.isfinite(self.p90_s) and self.p90_s >= self.median_s > 0):
            raise InputError(f"warm-up: p90_s is {self.p90_s}; it must be finite and at least median_s > 0")
        if min(self.shares) < 0 or abs(sum(self.shares) - 1.0) > 1e-9:
            raise InputError(f"warm-up: shares are {self.shares}; they must not be negative and must sum to 1")

    @property
    def constant(self) -> bool:
        """Whether every draw is `median_s`."""
        return self.p90_s is None or self.p90_s == self.median_s

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm; 0 when constant."""
        return 0.0 if self.p90_s is None or self.constant else math.log(self.p90_s / self.median_s) / _Z90

    @property
    def mean_s(self) -> float:
        """Mean in seconds: median * exp(sigma^2 / 2) for a lognormal."""
        return self.median_s * math.exp(self.sigma**2 / 2.0)

    def draw(self, rng: np.random.Generator) -> float:
        """One warm-up in seconds."""
        return self.median_s if self.constant else self.median_s * math.exp(self.sigma * float(rng.standard_normal()))

    def stage(self, elapsed_ratio: float) -> Stage:
        """The stage of a start that has spent `elapsed_ratio` (0..1) of its warm-up."""
        passed = 0.0
        for stage, share in zip(Stage, self.shares, strict=True):
            passed += share
            if elapsed_ratio < passed:
                return stage
        return Stage.ENGINE
