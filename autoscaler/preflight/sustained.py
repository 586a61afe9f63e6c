"""Sustained levels of a demand, and the share of time for which each is held: the floor and the bands above it.

A level shorter than a cold start can be neither bought for nor given back in, so demand is first averaged over windows
of one cold start. The floor is the level that these windows reach or exceed 95 % of the time: the base load of a
load-duration curve, as power systems are planned by. A window with an unknown step is unknown: it is no empty one.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64, I64, Bools
from autoscaler.preflight.answers import COVERAGE

FLOOR_SHARE = 0.95
"""The floor is held for this share of the time."""
USUAL_SHARE = 0.5
HIGH_SHARE = 0.05
"""The upper band: exceeded one hour in twenty."""

_SHARES = (FLOOR_SHARE, USUAL_SHARE, HIGH_SHARE)

REPLICATES = 200
"""Draws behind an interval; hours of the day have half of them."""
LEAST_BLOCKS = 5
"""Fewer blocks say nothing about how blocks differ."""

DAY_S = 86_400.0
HOUR_S = 3_600.0
LEAST_DAYS = 2.0


@dataclass(frozen=True, slots=True)
class Sustained:
    """Windows of one cold start: `levels` (windows,) is the mean over the one that begins at step i, NaN if unknown."""

    levels: F64
    start_s: float
    step_s: float
    width_s: float

    @property
    def known(self) -> F64:
        """The levels of the windows that are known throughout, in time order."""
        return self.levels[np.isfinite(self.levels)]


def sustain(values: F64, *, start_s: float, step_s: float, cold_start_s: float) -> Sustained:
    """Every window of one cold start (rounded up to whole steps, one at least) over `values` (steps,), NaN unknown."""
    width = max(1, int(np.ceil(cold_start_s / step_s - 1e-9)))
    if values.size < width:
        return Sustained(np.empty(0), start_s, step_s, width * step_s)
    if width == 1:
        return Sustained(values, start_s, step_s, step_s)
    known = np.isfinite(values)
    total = np.concatenate(([0.0], np.cumsum(np.where(known, values, 0.0))))
    count = np.concatenate(([0], np.cumsum(known)))
    whole = count[width:] - count[:-width] == width
    # Differences of a running sum leave -1e-12 where the demand is zero.
    means = np.maximum((total[width:] - total[:-width]) / width, 0.0)
    return Sustained(np.where(whole, means, np.nan), start_s, step_s, width * step_s)


def held(levels: F64, share: float) -> float:
    """The highest of the `levels` (n > 0, all known) that at least `share` of them reach or exceed."""
    ranked = np.sort(levels)
    return float(ranked[ranked.size - _needed(share, ranked.size)])


def held_interval(sustained: Sustained, shares: tuple[float, ...], stream: np.random.Generator) -> list[F64] | None:
    """The interval (low, high) of `held` for each share; None where there are fewer than `LEAST_BLOCKS` blocks.

    Block bootstrap (Künsch, Annals of Statistics 17, 1989): whole days are drawn with replacement, whole hours where
    there are not enough days, so that what belongs together within a day stays together.
    """
    known = np.isfinite(sustained.levels)
    block = _blocks(sustained, known)
    if block is None:
        return None
    levels = sustained.levels[known]
    return _drawn(levels, np.sort(levels), block, shares, _draws(int(block[-1]) + 1, REPLICATES, stream))


def _draws(blocks: int, replicates: int, stream: np.random.Generator) -> F64:
    """How often each of the blocks is drawn in each replicate; (replicates, blocks)."""
    return stream.multinomial(blocks, np.full(blocks, 1.0 / blocks), replicates).astype(np.float64)


def _drawn(levels: F64, ranked: F64, block: I64, shares: tuple[float, ...], draws: F64) -> list[F64]:
    """The intervals of `held` over `levels` (n,), `ranked` being the same in order and `block` (n,) each one's block.

    Candidates are as many levels as twice the replicates: finer ends than the draws resolve would be feigned.
    """
    places = np.linspace(0, ranked.size - 1, min(2 * len(draws), ranked.size)).astype(np.int64)
    candidates = ranked[places]
    blocks, size = draws.shape[1], candidates.size
    rank = np.searchsorted(candidates, levels, side="right") - 1
    counts = np.bincount(block * size + rank, minlength=blocks * size).reshape(blocks, size)
    # (blocks, candidates): windows of the block that reach or exceed the candidate.
    reach = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1].astype(np.float64)
    reached = draws @ reach
    edges = (0.5 * (1.0 - COVERAGE), 0.5 * (1.0 + COVERAGE))
    ends = []
    for share in shares:
        at = (reached >= (share - 1e-12) * reached[:, :1]).sum(axis=1) - 1
        ends.append(np.quantile(candidates[at], edges, method="inverted_cdf"))
    return ends


def _blocks(sustained: Sustained, known: Bools) -> I64 | None:
    """The number of each known window's block, from 0: its day, else its hour; None where neither has enough."""
    begins = (sustained.start_s + sustained.step_s * np.arange(sustained.levels.size))[known]
    for length_s in (DAY_S, HOUR_S):
        if length_s < 2 * sustained.width_s or not begins.size:
            continue
        number = np.concatenate(([0], np.cumsum(np.diff(np.floor(begins / length_s)) > 0)))
        if number[-1] + 1 >= LEAST_BLOCKS:
            return np.asarray(number, dtype=np.int64)
    return None


def _needed(share: float, size: int) -> int:
    """How many of `size` make up `share`, one at least."""
    return max(1, int(np.ceil(share * size)))


@dataclass(frozen=True, slots=True)
class ByHour:
    """Levels per hour of the day, each (24,), NaN for an hour never seen.

    `floor_low` and `floor_high` are the floor's interval from whole days, NaN where an hour was seen on too few.
    """

    floor: F64
    usual: F64
    high: F64
    floor_low: F64
    floor_high: F64


def by_hour(sustained: Sustained, stream: np.random.Generator) -> ByHour:
    """Floor with its interval, usual level and upper band of each hour of the day.

    A window counts to the hour it begins in; hours are those of the record's own time (UTC where it counts from 1970).
    """
    known = np.isfinite(sustained.levels)
    begins = (sustained.start_s + sustained.step_s * np.arange(sustained.levels.size))[known]
    hour = np.floor(begins / HOUR_S).astype(np.int64)
    order = np.argsort(hour % 24, kind="stable")
    levels, day = sustained.levels[known][order], hour[order] // 24
    ends = np.searchsorted((hour % 24)[order], np.arange(25))
    bands = np.full((5, 24), np.nan)
    draws = np.empty((0, 0))
    for at in range(24):
        mine = slice(int(ends[at]), int(ends[at + 1]))
        ranked = np.sort(levels[mine])
        if not ranked.size:
            continue
        bands[:3, at] = [ranked[ranked.size - _needed(share, ranked.size)] for share in _SHARES]
        block = np.concatenate(([0], np.cumsum(np.diff(day[mine]) > 0))).astype(np.int64)
        blocks = int(block[-1]) + 1
        if blocks >= LEAST_BLOCKS:
            draws = draws if draws.shape[1] == blocks else _draws(blocks, REPLICATES // 2, stream)
            bands[3:, at] = _drawn(levels[mine], ranked, block, (FLOOR_SHARE,), draws)[0]
    return ByHour(*bands)
