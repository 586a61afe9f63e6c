"""Durations counted in buckets whose width is a share of the value, as HDR histograms have them.

Enters: durations in seconds, from 0 to days, stored in microseconds. Leaves: percentiles, each the upper end of its
bucket: never below the truth, and above it by at most `RELATIVE_ERROR` (and a microsecond). Two histograms merge
without loss. Its own, as the package `hdrhistogram` has no wheel for Linux on ARM, where it would ask for a C
compiler.
"""

import math

import msgspec

_BITS = 8
RELATIVE_ERROR = 2.0**-_BITS
"""0.4 %."""

_EXACT = 2 ** (_BITS + 1)
"""Below so many microseconds a bucket is one microsecond wide."""


class Histogram(msgspec.Struct):
    """Counts by bucket, only those that are not zero."""

    counts: dict[int, int] = {}
    count: int = 0
    total_s: float = 0.0
    most_s: float = 0.0

    def record(self, seconds: float) -> None:
        """Count one duration; a negative one is a fault of the caller and raises ValueError."""
        if seconds < 0.0:
            raise ValueError(f"a duration of {seconds} s")
        value = int(seconds * 1e6)
        if value >= _EXACT:
            shift = value.bit_length() - _BITS - 1
            value = (shift << _BITS) + (value >> shift)
        self.counts[value] = self.counts.get(value, 0) + 1
        self.count += 1
        self.total_s += seconds
        self.most_s = max(self.most_s, seconds)

    def merge(self, other: "Histogram") -> None:
        """Add all of another one's."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.count += other.count
        self.total_s += other.total_s
        self.most_s = max(self.most_s, other.most_s)

    def quantile(self, q: float) -> float | None:
        """Seconds that at least a share `q` (0..1) of the durations did not exceed; None where there are none."""
        rank, passed = max(1, math.ceil(q * self.count)), 0
        for bucket in sorted(self.counts):
            passed += self.counts[bucket]
            if passed >= rank:
                return min(_upper_s(bucket), self.most_s)
        return None

    def told(self) -> dict[str, float | int | None]:
        """The figures of a report, in seconds."""
        shares = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
        told: dict[str, float | int | None] = {name: _short(self.quantile(q)) for name, q in shares.items()}
        mean_s = self.total_s / self.count if self.count else None
        return {"count": self.count, "mean": _short(mean_s), **told, "max": _short(self.most_s if self.count else None)}


def _upper_s(bucket: int) -> float:
    if bucket < _EXACT:
        return (bucket + 1) / 1e6
    shift = (bucket >> _BITS) - 1
    return ((bucket - (shift << _BITS) + 1) << shift) / 1e6


def _short(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds:.4g}")
