"""How long prompts and answers are, in tokens: a distribution written in a word.

Enters: `200`, `uniform:LOW:HIGH`, `exponential:MEAN` or `lognormal:MEAN:CV` (CV: standard deviation over mean). Leaves:
whole numbers of at least 1.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoscaler.errors import InputError

IntArray = npt.NDArray[np.int64]
FORM = "N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEAN:CV"
LONGEST_TOKENS = 1_000_000
_PARAMETERS = {"constant": 1, "uniform": 2, "exponential": 1, "lognormal": 2}


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of token counts."""

    kind: str
    first: float
    """The count, the lowest, or the mean."""
    second: float = 0.0
    """The highest, or the CV."""

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """So many lengths, 1 to `LONGEST_TOKENS`."""
        return whole(self._values(count, rng))

    def _values(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        if self.kind == "uniform":
            return rng.integers(int(self.first), int(self.second), size=count, endpoint=True).astype(np.float64)
        if self.kind == "exponential":
            return rng.exponential(self.first, size=count)
        if self.kind == "lognormal":
            variance = math.log1p(self.second**2)
            return rng.lognormal(math.log(self.first) - variance / 2.0, math.sqrt(variance), size=count)
        return np.full(count, self.first)


def whole(values: npt.NDArray[np.float64]) -> IntArray:
    """Rounded to token counts a request may have."""
    return np.clip(np.rint(values), 1, LONGEST_TOKENS).astype(np.int64)


def parse(option: str, text: str) -> Lengths:
    """The distribution that `text` names; InputError names the option."""
    kind, *numbers = text.split(":") if ":" in text else ("constant", text)
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        values = []
    sound = len(values) == _PARAMETERS.get(kind) and 1 <= values[0] <= LONGEST_TOKENS
    if sound and kind == "uniform":
        sound = values[0] <= values[1] <= LONGEST_TOKENS
    if sound and kind == "lognormal":
        sound = 0 <= values[1] < math.inf
    if not sound:
        raise InputError(f"{option} {text!r}: write {FORM}, with counts from 1 to {LONGEST_TOKENS}")
    return Lengths(kind, *values)
