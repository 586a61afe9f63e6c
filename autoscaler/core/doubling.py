"""Pauses that double with each failure, up to the longest.

Enters: how many doublings. Leaves: a pause. Failures are counted for months, and a power of two ends as a float at
1,024.
"""

from typing import Final

MANY: Final = 64
"""Doublings after which any pause is the longest."""


def doubled(first: float, times: int, most: float) -> float:
    """Return `first` doubled so many times, `most` at most."""
    return min(most, first * 2.0 ** min(times, MANY))
