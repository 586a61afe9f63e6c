"""Percentiles of latencies over the last minute, or hour, from the growth of the pods' histograms.

Enters: a pod's buckets, each time they are read. Leaves: percentiles over all pods of a workload. Linear inside of a
bucket, as in PromQL's `histogram_quantile`. A percentile in the last, unbounded bucket is given as the last finite
bound: the truth is at least that. A pod's first buckets, and those after a restart, say nothing yet.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from itertools import pairwise

from autoscaler.adapters.engines.facts import Buckets
from autoscaler.adapters.engines.profiles import Span
from autoscaler.core.types import LatencyReading

WINDOW_S = 60.0
SLOT_S = 5.0
FEWEST = 5.0
"""Observations below which a percentile is an anecdote."""

QUANTILE = 0.9

STEERING = frozenset({Span.QUEUE, Span.TTFT, Span.TPOT})
"""What decisions read."""

HOUR_S = 3600.0
LONG = 0.99
LONG_FEWEST = 100.0
"""One in a hundred is not known of fewer."""

MOST_BOUNDS = 4
"""Different lists of bounds in one window, as of versions of an engine in a rollout. A pod that changes its own with
every page would else have each of them kept for the window, and all joined whenever a percentile is asked for."""

_Growth = dict[tuple[float, ...], list[float]]
"""Bounds -> growth of the cumulative counts; engine versions in one workload may have different bounds."""


class LatencyWindow:
    """What the pods of one workload observed lately. Instants are monotonic seconds, never decreasing."""

    def __init__(
        self, *, spans: frozenset[Span] = STEERING, window_s: float = WINDOW_S, slot_s: float = SLOT_S
    ) -> None:
        self._spans = spans
        self._window_s = window_s
        self._slot_s = slot_s
        self._last: dict[str, Mapping[Span, Buckets]] = {}
        self._slots: deque[tuple[float, dict[Span, _Growth]]] = deque()

    def add(self, uid: str, at_s: float, now: Mapping[Span, Buckets]) -> None:
        """Take a pod's buckets."""
        before = self._last.get(uid, {})
        self._last[uid] = now
        grown = {span: _growth(before.get(span), buckets) for span, buckets in now.items() if span in self._spans}
        useful = {span: counts for span, counts in grown.items() if counts is not None}
        if not useful:
            return
        slot = self._slot(at_s)
        for span, counts in useful.items():
            if not self._takes(span, now[span].bounds_s):
                continue
            sums = slot.setdefault(span, {}).setdefault(now[span].bounds_s, [0.0] * len(counts))
            for index, count in enumerate(counts):
                sums[index] += count

    def drop(self, uid: str) -> None:
        """Forget a pod; what it observed stays in the window."""
        self._last.pop(uid, None)

    def reading(self, at_s: float) -> LatencyReading | None:
        """The percentiles of the window that ends now; None when no span has enough observations."""
        found: dict[str, float] = {}
        for span in self._spans:
            found_s = self.percentile(span, at_s)
            if found_s is not None:
                found[span.value] = found_s
        return LatencyReading(**found) if found else None

    def _takes(self, span: Span, bounds_s: tuple[float, ...]) -> bool:
        """Whether these bounds are in the window, or there is room for more."""
        there = {bounds for _, slot in self._slots for bounds in slot.get(span, ())}
        return bounds_s in there or len(there) < MOST_BOUNDS

    def _slot(self, at_s: float) -> dict[Span, _Growth]:
        start_s = math.floor(at_s / self._slot_s) * self._slot_s
        while self._slots and self._slots[0][0] <= start_s - self._window_s:
            self._slots.popleft()
        if not self._slots or self._slots[-1][0] < start_s:
            self._slots.append((start_s, {}))
        return self._slots[-1][1]

    def percentile(self, span: Span, at_s: float, q: float = QUANTILE, fewest: float = FEWEST) -> float | None:
        """The `q` quantile of a span in the window that ends now; None with fewer than `fewest` observations."""
        merged: _Growth = {}
        for start_s, slot in self._slots:
            if start_s <= at_s - self._window_s - self._slot_s:
                continue
            for bounds_s, counts in slot.get(span, {}).items():
                sums = merged.setdefault(bounds_s, [0.0] * len(counts))
                for index, count in enumerate(counts):
                    sums[index] += count
        return quantile(_joined(merged), q, fewest) if merged else None


def whole_requests() -> LatencyWindow:
    """A window of the last hour over the durations of whole requests."""
    return LatencyWindow(spans=frozenset({Span.DURATION}), window_s=HOUR_S, slot_s=HOUR_S / 12)


def quantile(buckets: Buckets, q: float = QUANTILE, fewest: float = FEWEST) -> float | None:
    """The `q` quantile in seconds; None with fewer than `fewest` observations or without a finite bound."""
    total = buckets.counts[-1]
    if total < fewest or len(buckets.bounds_s) < 2:
        return None
    rank, low_s, below = q * total, 0.0, 0.0
    for bound_s, count in zip(buckets.bounds_s, buckets.counts, strict=True):
        if count >= rank:
            if math.isinf(bound_s):
                return low_s
            return low_s + (bound_s - low_s) * (rank - below) / (count - below) if count > below else bound_s
        low_s, below = bound_s, count
    return low_s


def _growth(before: Buckets | None, now: Buckets) -> list[float] | None:
    if before is None or before.bounds_s != now.bounds_s or now.counts == before.counts:
        return None
    grown = [b - a for a, b in zip(before.counts, now.counts, strict=True)]
    return grown if all(0.0 <= a <= b for a, b in pairwise(grown)) else None


def _joined(parts: _Growth) -> Buckets:
    """One histogram over all bounds. What is not known to be below a bound counts as above it."""
    if len(parts) == 1:
        ((bounds_s, counts),) = parts.items()
        return Buckets(bounds_s, tuple(counts))
    joined = tuple(sorted({bound for bounds in parts for bound in bounds}))
    totals = [0.0] * len(joined)
    for bounds_s, counts in parts.items():
        for index, bound_s in enumerate(joined):
            place = bisect_right(bounds_s, bound_s)
            totals[index] += counts[place - 1] if place else 0.0
    return Buckets(joined, tuple(totals))
