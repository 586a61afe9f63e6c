"""When a node that is on its way can be used, by what nodes of its shape took before it.

Enters: how long nodes took from when they were made until something could start on them; instants. Leaves: when one is
expected, as often as not and in nine of ten cases, and until when that holds; None for one that takes so long that
nobody can say any more.
"""

import math
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

PRIOR_S: Final = (150.0, 300.0)
"""Half of the nodes, and nine of ten, took no longer, where none was seen (a guess around the 126 s from a node to its
GPUs that KAITO measured)."""

KEPT: Final = 32
"""So many of the last nodes of a shape are remembered."""

MOST_S: Final = 3600.0
"""What took longer was not made but mended, and says nothing of others."""

STUCK: Final = 2.0
"""A node that takes longer than so many times what nine of ten took is not counted on (a guess)."""

LEAST_STUCK_S: Final = 120.0
"""Nor is one given up any sooner, however quick the others were."""

OLDEST_S: Final = STUCK * MOST_S
"""A node that was made before this is not on its way, whatever others took."""


@dataclass(frozen=True, slots=True)
class Due:
    """When a node can be used."""

    at_s: float
    """As often as not."""
    late_s: float
    """In nine of ten cases."""
    until_s: float
    """From then on it is another."""


class Boots:
    """What nodes of each shape took."""

    def __init__(self) -> None:
        self._took: dict[str, deque[float]] = defaultdict(partial(deque, maxlen=KEPT))
        self._ready: dict[str, deque[float]] = defaultdict(partial(deque, maxlen=KEPT))
        self._takes_s: dict[str, tuple[float, float]] = {}
        """By shape, as far as it was asked for since more was learnt."""

    def took(self, shape: str, took_s: float) -> None:
        """A node could be used so long after it was made. What cannot be meant is not learnt."""
        if 0.0 <= took_s <= MOST_S:
            self._took[shape].append(took_s)
            self._takes_s.pop(shape, None)

    def was_ready(self, shape: str, took_s: float) -> None:
        """A node that nobody saw come says that it was ready so long after it was made: it could be used no sooner."""
        if 0.0 <= took_s <= MOST_S:
            self._ready[shape].append(took_s)
            self._takes_s.pop(shape, None)

    def takes_s(self, shape: str) -> tuple[float, float]:
        """What half of a shape's nodes took at most, and nine of ten; while none was seen to come no less than what
        those that are there say, nor than the prior."""
        if shape not in self._takes_s:
            self._takes_s[shape] = self._found_s(shape)
        return self._takes_s[shape]

    def _found_s(self, shape: str) -> tuple[float, float]:
        if took := self._took.get(shape):
            half, most = np.quantile(took, (0.5, 0.9)).tolist()
            return half, most
        half, most = np.quantile(self._ready.get(shape) or (0.0,), (0.5, 0.9)).tolist()
        return max(PRIOR_S[0], half), max(PRIOR_S[1], most)

    def due(self, shape: str, made_s: float, now_s: float) -> Due | None:
        """When a node that was made then can be used; None where it is stuck. One that is over its time is taken to
        need another tenth of what it has taken, as is a gang that runs."""
        half_s, most_s = self.takes_s(shape)
        stuck_s = made_s + max(LEAST_STUCK_S, STUCK * most_s)
        if not math.isfinite(made_s) or now_s >= stuck_s:
            return None
        at_s = made_s + half_s
        if at_s <= now_s:
            at_s = now_s + 0.1 * (now_s - made_s) + 1.0
        return Due(at_s, max(at_s, made_s + most_s), min(at_s, stuck_s))
