"""How much more load there will be a lead time from now if it goes on climbing as it has for one.

Enters: arrivals per bin, newest first. Leaves: requests/s, 0 where nothing climbs. A step is no climb: every third of
the window has to have grown, and the one that grew least is what is believed of all.
"""

import numpy as np

from autoscaler.core.columns import F64, I64
from autoscaler.core.params import BIN_S

PARTS = 3
"""Of two parts a step that falls into the middle mean raises both; of three it raises two."""

LEAST_BINS = 18
"""Three minutes: shorter windows tell a climb from the noise of requests too late to be of use (chosen on `ramp`)."""

MOST_BINS = 120
"""Twenty minutes; a longer lead time is climbed at the slope of these."""

BLOCK_SHARE = 6
BLOCK_BINS = 6
"""A mean is taken over a sixth of the window, at least a minute."""

LOOKBACK_BINS = MOST_BINS + MOST_BINS // BLOCK_SHARE


def expected_rps(count: F64, cover_s: F64, lead_s: F64) -> F64:
    """Return the growth in requests/s over one lead time, shape (B,), 0 where it is not known or nothing climbs.

    `count` and `cover_s` are the arrivals and measured seconds of the last `LOOKBACK_BINS` closed bins, newest first,
    shape (B, LOOKBACK_BINS); `lead_s` (B,) in seconds, NaN where not known.
    """
    bins = np.clip(np.nan_to_num(lead_s, nan=0.0) / BIN_S, LEAST_BINS, MOST_BINS).astype(np.int64) // PARTS * PARTS
    wide = np.maximum(BLOCK_BINS, bins // BLOCK_SHARE)[:, None]
    first = bins[:, None] * np.arange(PARTS + 1) // PARTS
    means = _means(count, cover_s, first, wide)
    grown = (means[:, :-1] - means[:, 1:]).min(axis=1)
    found: F64 = np.nan_to_num(np.maximum(grown, 0.0) * PARTS * lead_s / (bins * BIN_S), nan=0.0)
    return found


def _means(count: F64, cover_s: F64, first: I64, wide: I64) -> F64:
    """Requests/s over bins [first, first + wide) of each row, NaN where less than half of them was measured.

    `first` has shape (B, blocks), and so has what is returned; `wide` (B, 1).
    """
    rows = np.arange(len(count))[:, None]
    counted, seconds = (sums[rows, first + wide] - sums[rows, first] for sums in (_added_up(count), _added_up(cover_s)))
    return np.where(seconds >= 0.5 * wide * BIN_S, counted / np.maximum(seconds, 1e-9), np.nan)


def _added_up(values: F64) -> F64:
    """The sums of the first 0, 1, … values of each row, shape (B, bins + 1)."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums
