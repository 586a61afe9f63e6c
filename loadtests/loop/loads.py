"""What comes: a need of replicas over time, and single requests drawn from it.

Enters: a shape, what a replica holds, a seed. Leaves: `Requests`, the same for whoever serves them. Arrivals are
renewals (Poisson, or Gamma of a given coefficient of variation) in the time in which one request comes per unit, so
that their spread keeps its meaning where the rate changes.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from loadtests.loop.fleet import FloatArray, Requests, lognormal

ARRIVALS, STAYS, STARTS = range(3)
"""Streams of one seed: another spread of one leaves the others as they were."""

POISSON: Final = 1.0


class Shape(Protocol):
    """A need over time."""

    def needs(self, for_s: int) -> FloatArray:
        """Replicas that are busy all the time, in each second; shape (for_s,)."""


@dataclass(frozen=True, slots=True)
class Line:
    """Straight between points of seconds and needs, level after the last; two points at one second are a step."""

    points: tuple[tuple[float, float], ...]

    def needs(self, for_s: int) -> FloatArray:
        """See `Shape`."""
        at_s, need = zip(*self.points, strict=True)
        return np.asarray(np.interp(np.arange(for_s) + 0.5, at_s, need), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Sine:
    """Up and down between two needs; begins in the middle, going up."""

    low: float
    high: float
    period_s: float

    def needs(self, for_s: int) -> FloatArray:
        """See `Shape`."""
        swing = np.sin(2.0 * np.pi * (np.arange(for_s) + 0.5) / self.period_s)
        needs = (self.low + self.high) / 2.0 + (self.high - self.low) / 2.0 * swing
        return np.asarray(needs, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Pulses:
    """A base, and again and again another need for a while: spikes, or on and off."""

    base: float
    pulse: float
    every_s: float
    lasts_s: float
    first_s: float = 0.0

    def needs(self, for_s: int) -> FloatArray:
        """See `Shape`."""
        since_s = np.arange(for_s) - self.first_s
        on = (since_s >= 0.0) & (since_s % self.every_s < self.lasts_s)
        return np.where(on, self.pulse, self.base)


def steady(need: float) -> Line:
    """The same need all the time."""
    return Line(((0.0, need),))


def step(before: float, after: float, at_s: float) -> Line:
    """Another need from then on."""
    return Line(((0.0, before), (at_s, before), (at_s, after)))


def ramp(before: float, after: float, at_s: float, lasts_s: float) -> Line:
    """From one need to another within a time."""
    return Line(((0.0, before), (at_s, before), (at_s + lasts_s, after)))


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one kind that come by a shape."""

    shape: Shape
    stay_s: float
    """Mean time in a slot."""
    stay_cv: float = 0.5
    arrival_cv: float = POISSON

    def requests(self, for_s: int, slots: int, seed: int) -> Requests:
        """Those that come within `for_s`, where a replica has so many slots."""
        rates = self.shape.needs(for_s) * slots / self.stay_s
        at_s = arrivals(np.random.default_rng([seed, ARRIVALS]), rates, 1.0, self.arrival_cv)
        stays = np.random.default_rng([seed, STAYS])
        return Requests(at_s, lognormal(stays, self.stay_s, self.stay_cv, at_s.size))


def arrivals(rng: np.random.Generator, rates: FloatArray, bin_s: float, cv: float) -> FloatArray:
    """Instants of a Gamma renewal process whose rate is `rates` per second in bins of `bin_s`; ascending, shape (N,).

    Gaps of mean 1 and of this coefficient of variation (shape 1/cv², scale cv²) are laid along the expected count, and
    read back as time. The first one is cut at random: a run need not begin with a whole gap.
    """
    expected = np.concatenate(([0.0], np.cumsum(rates) * bin_s))
    total = float(expected[-1])
    count = int(total + 10.0 * max(cv, 1.0) * np.sqrt(total + 1.0) + 100.0)
    gaps = rng.gamma(1.0 / cv**2, cv**2, count)
    gaps[0] *= rng.random()
    at = np.cumsum(gaps)
    return np.asarray(np.interp(at[at < total], expected, np.arange(expected.size) * bin_s), dtype=np.float64)
