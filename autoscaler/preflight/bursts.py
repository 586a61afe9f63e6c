"""Burst or noise: whether excesses over capacity outlast the cold start that capacity against them would take.

Enters: a demand, the capacity beside it, the cold start. Leaves: how many episodes there were, the survival curve of
their lengths, the share that is over before capacity would land, and the same share of the excess itself.
"""

from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why, Window
from autoscaler.preflight.episodes import Episodes, find
from autoscaler.preflight.offered import Demand
from autoscaler.preflight.survival import Survival, kaplan_meier

STANDING = "what the replicas of that moment carry"
REACTIVE = "what a reactive scaler would hold"
"""What surges are measured above, as `Bursts.level` says it."""

LEAST_ENDED = 8
"""Episodes whose end must have been seen before anything is said about how long the next one lasts."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """What was seen above capacity.

    `level` says what was taken for capacity. `over_before` is the share of episodes that end within the cold start
    (noise: nothing ordered would have come in time), `excess_before` the share of all excess that fell into the first
    cold start of its episode; `survival` is None where there are too few episodes. `above_stood` counts the surges
    above what stood at the time, None where that was not recorded.
    """

    level: str
    cold_start_s: float
    episodes: Episodes
    per_day: Answer
    over_before: Answer
    excess_before: Answer
    survival: Survival | None
    above_stood: int | None = None


def bursts(
    demand: Demand,
    capacity: F64,
    *,
    level: str,
    step_s: float,
    cold_start_s: float,
) -> Bursts:
    """The episodes of `demand` above `capacity` (steps,), measured against the cold start."""
    found = find(demand.values, capacity, start_s=demand.window.from_s, step_s=step_s, cold_start_s=cold_start_s)
    known = np.isfinite(demand.values) & np.isfinite(capacity)
    window = Window(demand.window.from_s, demand.window.until_s, float((~known).sum()) * step_s)
    count, ended = found.began_s.size, int((~found.cut).sum())
    days = max(window.known_s, step_s) / 86_400.0
    reach = 1.645 * np.sqrt(max(count, 1))
    per_day = Measured(
        count / days, "surges/day", window, count, "surges", f"surges above {level}",
        max(0.0, count - reach) / days, (count + reach) / days,
    )  # fmt: skip
    few = _too_few(count, ended, window)
    if few is not None:
        return Bursts(level, cold_start_s, found, per_day, few, few, None)
    curve = kaplan_meier(found.duration_s, found.cut)
    return Bursts(
        level, cold_start_s, found, per_day, _over_before(curve, cold_start_s, window),
        _excess_before(found, window), curve,
    )  # fmt: skip


def _too_few(count: int, ended: int, window: Window) -> CannotTell | None:
    if ended >= LEAST_ENDED:
        return None
    seen = {0: "no surge above capacity was seen", 1: "only one surge was seen to end"}
    found = seen[0] if count == 0 else seen.get(ended, f"only {ended} surges were seen to end")
    text = (
        f"{found} in {window.known_s / 3600.0:.3g} h; {LEAST_ENDED} are the least that say how long the next one lasts"
    )
    return CannotTell(Why.TOO_FEW, text, "a longer window")


def _over_before(curve: Survival, cold_start_s: float, window: Window) -> Answer:
    # An episode of exactly one cold start is over when capacity lands.
    at = curve.at(cold_start_s)
    if at is None:
        text = f"no surge was followed for a whole cold start; the longest for {curve.longest_s:g} s"
        return CannotTell(Why.TOO_FEW, text, "a window with fewer holes")
    share, low, high = at
    # Where all or none outlast it Greenwood's variance is 0: the exact binomial bound for n of n takes its place.
    bound = 0.05 ** (1.0 / curve.episodes)
    low, high = (bound if share >= 1.0 else low), (1.0 - bound if share <= 0.0 else high)
    how = "Kaplan-Meier over the lengths of surges, cut by holes and the window's end where they were"
    return Measured(1 - share, "ratio", window, curve.episodes, "surges", how, 1 - high, 1 - low)


def _excess_before(found: Episodes, window: Window) -> Answer:
    total = float(found.excess.sum())
    if total <= 0:
        return CannotTell(Why.TOO_FEW, "the surges hold no work", "a longer window")
    share = float(found.early.sum()) / total
    # Linearised variance of a ratio of sums (Cochran, Sampling Techniques, 3rd ed. 1977, section 2.11).
    reach = 1.645 * float(np.sqrt(np.sum((found.early - share * found.excess) ** 2))) / total
    how = "excess within one cold start of its surge's beginning, over all excess"
    low, high = max(0.0, share - reach), min(1.0, share + reach)
    return Measured(share, "ratio", window, int(found.excess.size), "surges", how, low, high)
