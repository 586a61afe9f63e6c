"""A page read through a profile: the facts that are on it, and those that are there and cannot be true.

A value that is not finite, negative, or a share above one makes its fact missing. It is counted and never bent into
range: an engine that says 1.7 of the cache is used is broken or speaks of percent, and neither is 1.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from types import MappingProxyType

from autoscaler.adapters.engines.lines import LineFilter
from autoscaler.adapters.engines.profiles import Fact, Profile, Series, Span

Rows = list[tuple[Mapping[str, str], float]]
NOTHING: Mapping[Fact, float] = MappingProxyType({})

MAX_SAMPLES = 5_000
"""A page with more lines of the wanted names is not believed: a part of them would be too small a sum, and reading a
megabyte of them would keep all other targets waiting (60 ms for these). A gateway with a thousand tenants writes a few
thousand, an engine a few hundred."""


MAX_BOUNDS = 200
"""A histogram of more buckets is not used: engines have some 40, and what is kept of one is kept for an hour."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one page said."""

    values: Mapping[Fact, float]
    names: Mapping[Fact, str]
    """The name under which each fact was found, usable or not."""
    impossible: frozenset[Fact] = frozenset()
    """Facts whose values cannot be true; they are not among the values."""

    def get(self, fact: Fact) -> float | None:
        """The value, or None when it is missing."""
        return self.values.get(fact)


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram summed over the series of a page: upper bounds in seconds, ascending, the last one infinite."""

    bounds_s: tuple[float, ...]
    counts: tuple[float, ...]
    """Cumulative, as many as bounds."""


class PageReader:
    """Reads pages of one profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._facts = LineFilter(series.name for tried in profile.facts.values() for series in tried)
        self._buckets = LineFilter(f"{series.name}_bucket" for tried in profile.histograms.values() for series in tried)

    def facts(self, page: bytes, only: tuple[tuple[str, str], ...] = ()) -> Facts:
        """The facts of a page; of samples that have the labels of `only`, just those with these values count."""
        return self.combined(self.rows(page), only)

    def rows(self, page: bytes) -> dict[str, Rows] | None:
        """The samples of a page under the names of its facts; None where they are too many."""
        return _by_name(self._facts, page)

    def combined(self, rows: Mapping[str, Rows] | None, only: tuple[tuple[str, str], ...] = ()) -> Facts:
        """The facts in samples listed under their names, wherever they are from; None: too many to be believed."""
        if rows is None:
            return Facts(NOTHING, MappingProxyType({}), frozenset(self.profile.facts))
        values: dict[Fact, float] = {}
        names: dict[Fact, str] = {}
        impossible = set()
        for fact, tried in self.profile.facts.items():
            for series in tried:
                chosen = _chosen(series, rows.get(series.name), only)
                if not chosen:
                    continue
                names[fact] = series.name
                value = _combined(fact, series, chosen)
                if value is None:
                    impossible.add(fact)
                else:
                    values[fact] = value
                break
        return Facts(MappingProxyType(values), MappingProxyType(names), frozenset(impossible))

    def histograms(self, page: bytes) -> Mapping[Span, Buckets]:
        """The histograms of a page; one that is not usable is missing."""
        rows = _by_name(self._buckets, page) or {}
        read: dict[Span, Buckets] = {}
        for span, tried in self.profile.histograms.items():
            for series in tried:
                found = rows.get(f"{series.name}_bucket")
                buckets = _buckets(series, found) if found else None
                if buckets is not None:
                    read[span] = buckets
                    break
        return read


def _by_name(lines: LineFilter, page: bytes) -> dict[str, Rows] | None:
    """The samples under their names; None when they are too many."""
    rows: defaultdict[str, Rows] = defaultdict(list)
    samples = lines.samples(page)
    for name, labels, value in islice(samples, MAX_SAMPLES):
        rows[name].append((labels, value))
    return rows if next(samples, None) is None else None


def _chosen(series: Series, rows: Rows | None, only: tuple[tuple[str, str], ...]) -> Rows:
    if rows is None:
        return []
    if not (series.where or series.unless or only):
        return rows
    return [row for row in rows if series.admits(row[0]) and all(row[0].get(k, v) == v for k, v in only)]


def _combined(fact: Fact, series: Series, rows: Rows) -> float | None:
    """The one number that the rows are; None when any of them cannot be true."""
    numbers = [value for _, value in rows] if not series.copies else _without_copies(series, rows)
    if not all(0.0 <= number < math.inf for number in numbers):
        return None
    if not fact.ratio:
        return sum(numbers) * series.scale
    if any(number * series.scale > 1.0 for number in numbers):
        return None
    return sum(numbers) / len(numbers) * series.scale


def _without_copies(series: Series, rows: Rows) -> list[float]:
    apart: dict[frozenset[tuple[str, str]], float] = {}
    for labels, value in rows:
        if math.isnan(value):
            return [value]
        key = frozenset(item for item in labels.items() if item[0] not in series.copies)
        apart[key] = max(value, apart.get(key, value))
    return list(apart.values())


def _buckets(series: Series, rows: Rows) -> Buckets | None:
    totals: dict[float, float] = {}
    for labels, value in rows:
        try:
            bound_s = float(labels.get("le", "")) * series.scale
        except ValueError:
            return None
        if not 0.0 <= value < math.inf or math.isnan(bound_s):
            return None
        totals[bound_s] = totals.get(bound_s, 0.0) + value
        if len(totals) > MAX_BOUNDS:
            return None
    bounds = tuple(sorted(totals))
    counts = tuple(totals[bound] for bound in bounds)
    rising = all(a <= b for a, b in pairwise(counts))
    return Buckets(bounds, counts) if bounds and bounds[-1] == math.inf and rising else None
