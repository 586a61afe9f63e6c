"""How long to wait before asking again: full jitter between a floor and a bound that doubles up to a cap."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class BackoffBounds:
    """Bounds of the waits, all in seconds."""

    floor_s: float = 0.2
    """No wait is shorter, so that a server that fails at once is never asked in a busy loop."""
    cap_s: float = 30.0
    """No drawn wait is longer, so that recovery is noticed within half a minute."""
    most_asked_s: float = 60.0
    """What the server asks for is honoured up to here: a wait of an hour would be an outage of our own making."""


class Backoff:
    """The waits of one caller. `rng` spreads callers that failed together, so they must not share a seed."""

    def __init__(self, rng: np.random.Generator, bounds: BackoffBounds) -> None:
        self._rng = rng
        self._bounds = bounds
        self._upper_s = bounds.floor_s

    def reset(self) -> None:
        """Start over: what was asked last went well."""
        self._upper_s = self._bounds.floor_s

    def next_s(self, retry_after_s: float | None = None) -> float:
        """Seconds to wait now, which grow with each call; drawn on top of what the server asked for, if it did."""
        self._upper_s = min(2.0 * self._upper_s, self._bounds.cap_s)
        drawn_s = float(self._rng.uniform(self._bounds.floor_s, self._upper_s))
        return drawn_s + min(retry_after_s or 0.0, self._bounds.most_asked_s)
