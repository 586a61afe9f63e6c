"""What was counted over a replay, as a series: arrivals and the replicas of each world, for plots and for the optimum.

Enters: one note per span. Leaves: arrays, and the stretches in which two worlds held different counts.
"""

from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.core.types import ReplicaReading

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Span:
    """What was counted last: how long it was, and what arrived in it."""

    span_s: float
    arrivals: float
    waiting: float
    """What was measured to wait at its end."""
    capacity_rps: float
    """Of one replica, as it was known then."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time [from_s, to_s) in which the worlds differ in one direction; counts are means."""

    from_s: float
    to_s: float
    as_is: float
    other: float
    replica_hours: float
    """What the other settings held more; negative where they held less."""


@dataclass(slots=True)
class Timeline:
    """Parallel lists, one entry per span that was counted."""

    at_s: list[float] = field(default_factory=list)
    span_s: list[float] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    capacity_rps: list[float] = field(default_factory=list)
    observed: list[int] = field(default_factory=list)
    as_is: list[int] = field(default_factory=list)
    other: list[int] = field(default_factory=list)

    def note(
        self, now_s: float, span: Span, observed: ReplicaReading, as_is: ReplicaReading, other: ReplicaReading
    ) -> None:
        """Add the span that ends at `now_s`; counts are those from then on. A span is noted once."""
        if self.at_s and self.at_s[-1] == now_s:
            return
        self.at_s.append(now_s)
        self.span_s.append(span.span_s)
        self.arrivals.append(span.arrivals)
        self.waiting.append(span.waiting)
        self.capacity_rps.append(span.capacity_rps)
        self.observed.append(observed.ready + len(observed.starting))
        self.as_is.append(as_is.ready + len(as_is.starting))
        self.other.append(other.ready + len(other.starting))

    def follow(self, later: "Timeline") -> None:
        """Add the spans right after."""
        for spec in fields(self):
            getattr(self, spec.name).extend(getattr(later, spec.name))

    def per_bin(self, bin_s: float) -> F64:
        """Arrivals per bin from the first span on, shape (bins,); a span's are spread evenly over it."""
        ends = np.asarray(self.at_s)
        begins = ends - np.asarray(self.span_s)
        edges = np.arange(begins[0], ends[-1] + bin_s, bin_s)
        total = np.concatenate([[0.0], np.cumsum(self.arrivals)])
        # Arrivals stand still where spans are missing: one point at the beginning and one at the end of each.
        times = np.stack([begins, ends], axis=1).ravel()
        reached = np.stack([total[:-1], total[1:]], axis=1).ravel()
        return np.diff(np.interp(edges, times, reached))

    def stretches(self) -> list[Stretch]:
        """Where the worlds differ, in order; one ends where the counts are equal or the sign changes."""
        found: list[Stretch] = []
        start: int | None = None
        for index in range(len(self.at_s)):
            sign = np.sign(self.other[index] - self.as_is[index])
            if start is not None and sign != np.sign(self.other[start] - self.as_is[start]):
                found.append(self._stretch(start, index))
                start = None
            if start is None and sign != 0:
                start = index
        if start is not None:
            found.append(self._stretch(start, len(self.at_s) - 1))
        return [stretch for stretch in found if stretch.to_s > stretch.from_s]

    def _stretch(self, first: int, last: int) -> Stretch:
        at_s = np.asarray(self.at_s[first : last + 1])
        length_s = np.diff(at_s)
        as_is = float((np.asarray(self.as_is[first:last]) * length_s).sum())
        other = float((np.asarray(self.other[first:last]) * length_s).sum())
        from_s, to_s = float(at_s[0]), float(at_s[-1])
        whole_s = max(to_s - from_s, 1e-9)
        return Stretch(from_s, to_s, as_is / whole_s, other / whole_s, (other - as_is) / _HOUR_S)
