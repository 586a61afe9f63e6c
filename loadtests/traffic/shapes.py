"""When requests are due: a rate over time, and instants drawn from it.

Enters: a rate as a function of time, a seed. Leaves: ascending instants in seconds. Instants of a Poisson process are
drawn with unit rate and carried through the inverse of the rate's integral, so that any shape is a time-varying Poisson
process; "even" instants take whole numbers through the same inverse. The integral is taken over bins of 10 ms.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from autoscaler.errors import InputError

FloatArray = npt.NDArray[np.float64]
BIN_S = 0.01
MOST_REQUESTS = 20_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """The words of a rate's course. Rates in requests/s, the rest in seconds."""

    kind: str
    rate: float
    to: float
    """The other rate: after the step, at the ramp's end, at the sine's crest, in a burst."""
    duration_s: float
    at_s: float
    """When the step comes."""
    period_s: float
    """Of the sine, and from burst to burst."""
    burst_s: float
    """How long a burst lasts, at the end of each period."""
    ramp_s: float = 0.0
    """How long the step takes, from `rate` to `to` along a line; 0 for at once."""

    def __post_init__(self) -> None:
        if self.kind not in SHAPES:
            raise InputError(f"shape {self.kind!r} is not known; choose from {', '.join(SHAPES)}")
        for name, value in (("rate", self.rate), ("to", self.to), ("at", self.at_s), ("ramp", self.ramp_s)):
            if not 0 <= value < math.inf:
                raise InputError(f"--{name} is {value}; it must be 0 or more, and finite")
        for name, value in (("for", self.duration_s), ("period", self.period_s), ("burst", self.burst_s)):
            if not 0 < value < math.inf:
                raise InputError(f"--{name} is {value}; it must be above 0, and finite")
        if self.burst_s > self.period_s:
            raise InputError(f"--burst is {self.burst_s}; it must not be longer than --period, {self.period_s}")

    def rates(self, at_s: FloatArray) -> FloatArray:
        """Requests/s at each instant."""
        return SHAPES[self.kind](self, at_s)


def _constant(shape: Shape, at_s: FloatArray) -> FloatArray:
    return np.full_like(at_s, shape.rate)


def _step(shape: Shape, at_s: FloatArray) -> FloatArray:
    if shape.ramp_s == 0.0:
        return np.where(at_s < shape.at_s, shape.rate, shape.to)
    return np.interp(at_s, (shape.at_s, shape.at_s + shape.ramp_s), (shape.rate, shape.to))


def _ramp(shape: Shape, at_s: FloatArray) -> FloatArray:
    return shape.rate + (shape.to - shape.rate) * at_s / shape.duration_s


def _sine(shape: Shape, at_s: FloatArray) -> FloatArray:
    """From `rate` up to `to` and back in each period."""
    return shape.rate + (shape.to - shape.rate) * (1.0 - np.cos(2.0 * np.pi * at_s / shape.period_s)) / 2.0


def _bursts(shape: Shape, at_s: FloatArray) -> FloatArray:
    return np.where(at_s % shape.period_s >= shape.period_s - shape.burst_s, shape.to, shape.rate)


SHAPES: MappingProxyType[str, Callable[[Shape, FloatArray], FloatArray]] = MappingProxyType(
    {"constant": _constant, "step": _step, "ramp": _ramp, "sine": _sine, "bursts": _bursts}
)


TAKEN: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {"step": ("to", "at", "ramp"), "ramp": ("to",), "sine": ("to", "period"), "bursts": ("to", "period", "burst")}
)
"""Shape -> the words that say something of it, beside its rate and duration."""


def idle_word(kind: str, given: Collection[str]) -> tuple[str, str] | None:
    """The first of the words given that says nothing of this shape, and what is wrong with it; None where all do.

    A load without what was asked for looks like one that a service rides out.
    """
    word = next((word for word in given if word not in TAKEN.get(kind, ())), None)
    if word is None:
        return None
    takers = [other for other, words in TAKEN.items() if word in words]
    return word, f"says nothing of the shape {kind}; leave it out, or choose {' or '.join(takers)}"


def instants(shape: Shape, rng: np.random.Generator, *, even: bool = False) -> FloatArray:
    """The instants of a course, ascending, within its duration.

    InputError where there would be none, or more than `MOST_REQUESTS`.
    """
    bins = math.ceil(shape.duration_s / BIN_S)
    edges_s = np.minimum(np.arange(bins + 1) * BIN_S, shape.duration_s)
    integral = np.concatenate([[0.0], np.cumsum(shape.rates((edges_s[:-1] + edges_s[1:]) / 2) * np.diff(edges_s))])
    expected = float(integral[-1])
    if expected > MOST_REQUESTS:
        raise InputError(f"{expected:.0f} requests are more than {MOST_REQUESTS}; lower --rate or --for")
    if even:
        units = np.arange(math.floor(expected + 1e-9)) + 0.5
    else:
        gaps = rng.exponential(size=math.ceil(expected + 10.0 * math.sqrt(expected) + 20.0))
        units = np.cumsum(gaps)
        units = units[units < expected]
    if not units.size:
        raise InputError(f"{expected:.3g} requests are expected in {shape.duration_s:g} s; raise --rate or --for")
    due_s: FloatArray = np.interp(units, integral, edges_s)
    return due_s
