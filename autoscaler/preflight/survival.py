"""How long episodes last when some of them were cut short by the end of the record: the Kaplan-Meier estimate.

Enters: durations, and which of them were cut (censored): the episode went on for at least that long. Leaves: the
survival curve with its pointwise interval. Leaving cut episodes out, or taking them as ended, would both shorten them.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, Bools

_Z = 1.6449
"""Two-sided 90 %."""


@dataclass(frozen=True, slots=True)
class Survival:
    """`share[i]` of episodes outlast `after_s[i]` and up to `after_s[i + 1]`; before `after_s[0]` all of them do."""

    after_s: F64
    share: F64
    low: F64
    high: F64
    episodes: int
    ended: int
    """Of these, episodes whose end was seen."""
    longest_s: float
    """The longest duration seen, cut or not; the curve says nothing beyond it."""

    def at(self, age_s: float) -> tuple[float, float, float] | None:
        """(share, low, high) of episodes that outlast `age_s`; None beyond the longest seen while some were left."""
        index = int(np.searchsorted(self.after_s, age_s, side="right")) - 1
        if age_s > self.longest_s and (index < 0 or self.share[index] > 0):
            return None
        if index < 0:
            return 1.0, 1.0, 1.0
        return float(self.share[index]), float(self.low[index]), float(self.high[index])


def kaplan_meier(durations_s: F64, cut: Bools) -> Survival:
    """The product-limit estimate (Kaplan and Meier, JASA 53, 1958) of at least one duration.

    S(t) = product over end times t_i <= t of (1 - d_i / n_i). Interval: Greenwood's variance on the log-log scale,
    which stays within 0..1 (Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data, 2nd ed. 2002).
    """
    ends = np.unique(durations_s[~cut])
    ranked = np.sort(durations_s)
    at_risk = (ranked.size - np.searchsorted(ranked, ends, side="left")).astype(np.float64)
    ended_sorted = np.sort(durations_s[~cut])
    below, upto = (np.searchsorted(ended_sorted, ends, side=side) for side in ("left", "right"))
    died = (upto - below).astype(np.float64)
    share = np.asarray(np.cumprod(1.0 - died / at_risk), dtype=np.float64)
    left = at_risk - died
    variance = np.cumsum(np.where(left > 0, died / (at_risk * np.maximum(left, 1.0)), 0.0))
    low, high = _log_log(share, variance)
    return Survival(ends, share, low, high, int(durations_s.size), int((~cut).sum()), float(durations_s.max()))


def _log_log(share: F64, variance: F64) -> tuple[F64, F64]:
    inside = (share > 0) & (share < 1)
    log = np.log(np.where(inside, share, 0.5))
    reach = _Z * np.sqrt(variance) / np.abs(log)
    base = np.where(inside, share, 0.5)
    low = np.where(inside, base ** np.exp(reach), share)
    high = np.where(inside, base ** np.exp(-reach), share)
    return low, high
