"""Quantiles and means of recorded distributions, with what their buckets leave open.

Enters: a `Spread`. Leaves: numbers between the edges of a bucket, and the bucket itself as the interval; a quantile
beyond the last finite edge has no number. Within a bucket values are taken as evenly spread, as Prometheus does.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why, Window
from autoscaler.preflight.history import Distribution, Missing, Spread

LEAST_COUNT = 20
"""A 90th percentile of fewer values is decided by one of them."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile in seconds with the bucket it lies in; `high_s` may be infinite, `value_s` then is the lower edge."""

    value_s: float
    low_s: float
    high_s: float


def total(spread: Spread) -> float:
    """How many values there are."""
    return float(spread.counts.sum())


def quantile(spread: Spread, level: float) -> Quantile:
    """The quantile at `level` (0..1) of a spread with at least one value."""
    reached = np.cumsum(spread.counts)
    wanted = level * reached[-1]
    at = int(min(np.searchsorted(reached, wanted - 1e-9 * reached[-1]), reached.size - 1))
    high = float(spread.edges_s[at])
    if spread.exact:
        return Quantile(high, high, high)
    low = float(spread.edges_s[at - 1]) if at else 0.0
    if not np.isfinite(high):
        return Quantile(low, low, high)
    before = float(reached[at - 1]) if at else 0.0
    inside = float(spread.counts[at])
    share = (wanted - before) / inside if inside else 1.0
    return Quantile(low + (high - low) * float(np.clip(share, 0.0, 1.0)), low, high)


def mean_of(spread: Spread) -> float:
    """The mean in seconds, from the middles of the buckets; NaN without a value. What lies beyond the last finite edge
    counts with that edge, so that the mean is then a lower bound."""
    if total(spread) <= 0:
        return float("nan")
    high = np.where(np.isfinite(spread.edges_s), spread.edges_s, np.nan)
    low = np.concatenate(([0.0], high[:-1]))
    middle = high if spread.exact else 0.5 * (low + high)
    return float((np.where(np.isfinite(middle), middle, low) * spread.counts).sum() / total(spread))


def survival_at(spread: Spread, ages_s: F64) -> F64:
    """The share of values above each age; linear within a bucket, so 0 from the last finite edge on."""
    finite = np.isfinite(spread.edges_s)
    edges, reached = spread.edges_s[finite], np.cumsum(spread.counts)[finite] / total(spread)
    if spread.exact:
        at = np.searchsorted(edges, ages_s, side="right")
        return 1.0 - np.concatenate(([0.0], reached))[at]
    return 1.0 - np.interp(ages_s, np.concatenate(([0.0], edges)), np.concatenate(([0.0], reached)), right=1.0)


def answer(found: Distribution, level: float, window: Window, *, what: str, needed: str) -> Answer:
    """The quantile at `level` of `what`, or why there is none; the interval is the bucket it lies in."""
    if isinstance(found, Missing):
        return CannotTell(Why.NOT_RECORDED, f"{what} are not known: {found.text}", needed)
    count = total(found)
    if count < LEAST_COUNT:
        text = f"{what} were seen {count:.0f} times; {LEAST_COUNT} are the least that say something"
        return CannotTell(Why.TOO_FEW, text, "a longer window")
    at = quantile(found, level)
    if not np.isfinite(at.high_s):
        return CannotTell(
            Why.NOT_RECORDED,
            f"p{100 * level:g} of {what} lies above {at.low_s:g} s, the last bucket's edge; how far is open",
            "a histogram with higher buckets",
        )
    how = f"p{100 * level:g} of {found.origin}"
    if not found.exact:
        return Measured(at.value_s, "s", window, round(count), what, how, at.low_s, at.high_s, sure=1.0)
    low, high = _rank_interval(found, level)
    return Measured(at.value_s, "s", window, round(count), what, how, low, high)


def _rank_interval(spread: Spread, level: float) -> tuple[float, float]:
    """The distribution-free interval of a quantile: ranks 1.645 standard deviations of a binomial to both sides."""
    reach = 1.645 * float(np.sqrt(level * (1.0 - level) / total(spread)))
    low, high = max(0.0, level - reach), min(1.0, level + reach)
    return quantile(spread, low).value_s, quantile(spread, high).value_s
