"""What can be seen coming: the best plans that go by what was known a refill before, tuned on the days they serve.

Enters: the demand of a run. Leaves: slots per bin. Bins are parted by what demand did until a refill before: its level,
its growth, swings and largest rises of the last minutes to hours, the time of day and of the hour, and what grew the
day before around that time. Each part keeps one number of slots; the parting is grown step by step, each time by the
cut that costs least afterwards (Breiman et al., Classification and Regression Trees, 1984), at a price of a miss. Tuned
on the very bins it is judged on it tells what such a rule could give at most with so many parts; tuned on the other
days, what of it holds on a day that it did not see. It is a search, not a proof.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from autoscaler.sim.warm.demand import IntArray, ReplicaDemand
from autoscaler.sim.warm.hindsight import PRICES, REFILL_BINS, PlannedPool, Tried, ordered_ahead, shortfall
from autoscaler.sim.warm.run import Outcome

F64 = npt.NDArray[np.float64]
PlanOf = Callable[[float], IntArray]
"""Slots in each bin, by the price of a miss in idle slot-hours."""

LEAST_BINS: Final = 60
"""No part is smaller than an hour."""

DAY_BINS: Final = 1440
GROWTH_BINS: Final = (5, 10, 20, 30, 60, 120)
SWING_BINS: Final = (30, 120)
RISE_BINS: Final = (60, 180, 720, DAY_BINS)
AROUND_BINS: Final = 30


@dataclass(frozen=True, slots=True)
class Cut:
    """One part is cut in two: what lies above goes into a new one."""

    part: int
    feature: int
    above: float
    gained: float


@dataclass(frozen=True, slots=True, eq=False)
class Foresight:
    """What is known of each bin a refill before it, and what slots would cost there."""

    names: tuple[str, ...]
    features: F64
    """Shape (features, bins)."""
    missed: F64
    """New slots that are missed, by how many are kept: shape (bins, kept)."""
    idle: F64
    """Hours that slots are idle, the same."""
    from_bin: int
    refill_bins: int

    def tuned(self, parts: int) -> PlanOf:
        """Plans that were tuned on the bins they are judged on."""
        bins = np.arange(self.features.shape[1])

        def plan(price: float) -> IntArray:
            return planned(self.features, *parted(self.features, self._cost(price), parts, bins[self.from_bin :]))

        return plan

    def untuned(self, parts: int, fold_bins: int) -> PlanOf:
        """Plans of which each fold was tuned on all others."""
        bins = np.arange(self.features.shape[1])

        def plan(price: float) -> IntArray:
            found, cost = np.zeros(bins.size, dtype=np.int64), self._cost(price)
            for here, others in self._folds(bins, fold_bins):
                found[here] = planned(self.features, *parted(self.features, cost, parts, others))[here]
            return found

        return plan

    def cheapest(self, plan_of: PlanOf, hit_ratio: float, step_s: float, tried: Tried) -> Outcome | None:
        """The plan of the lowest price of a miss that hits so often; None if none does."""
        low, high, found = 0, len(PRICES), None
        while low < high:
            middle = (low + high) // 2
            outcome = tried(PlannedPool(ordered_ahead(plan_of(PRICES[middle]), self.refill_bins), step_s))
            if outcome.hit_ratio >= hit_ratio:
                high = middle
                found = outcome if found is None or outcome.idle_warm_h < found.idle_warm_h else found
            else:
                low = middle + 1
        return found

    def _cost(self, price: float) -> F64:
        return np.asarray(self.idle + price * self.missed)

    def _folds(self, bins: IntArray, fold_bins: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Bins of a fold, and those of all others that are a refill away from it."""
        for begin in range(self.from_bin, bins.size, fold_bins):
            away = (bins < begin - self.refill_bins) | (bins >= begin + fold_bins + self.refill_bins)
            yield bins[begin : begin + fold_bins], bins[away & (bins >= self.from_bin)]


def foresight(demand: ReplicaDemand, from_bin: int, refill_bins: int = REFILL_BINS) -> Foresight:
    """What demand tells of itself; bins before `from_bin` cost nothing."""
    total = demand.replicas.sum(axis=0).astype(np.float64)
    short = np.maximum(shortfall(total, refill_bins), 0.0)
    told, clock = _told(total, short, refill_bins), _clock(np.arange(total.size))
    features = np.stack([*(_before(each, refill_bins) for each in told.values()), *clock.values()])
    new = np.maximum(np.diff(demand.replicas, axis=1, prepend=demand.replicas[:, :1]), 0).sum(axis=0)
    kept, counted = np.arange(int(short.max()) + 1), (np.arange(total.size) >= from_bin)[:, None]
    missed = np.minimum(new[:, None], np.maximum(short[:, None] - kept, 0.0)) * counted
    idle = np.maximum(kept - short[:, None], 0.0) * counted * demand.step_s / 3600.0
    return Foresight((*told, *clock), features, missed, idle, from_bin, refill_bins)


def _told(total: F64, rises: F64, refill_bins: int) -> dict[str, F64]:
    """What demand told by each bin."""
    found = {"level": total}
    found |= {f"growth of {bins} min": total - _before(total, bins) for bins in GROWTH_BINS}
    for bins in SWING_BINS:
        found[f"above the lowest of {bins} min"] = total + _highest(-total, bins)
        found[f"below the highest of {bins} min"] = _highest(total, bins) - total
    found |= {f"largest rise of {bins / 60:g} h": _highest(rises, bins) for bins in RISE_BINS}
    around = _highest(rises, 2 * AROUND_BINS + 1)
    found["largest rise around this time yesterday"] = _before(around, DAY_BINS - AROUND_BINS - refill_bins)
    return found


def _clock(bins: IntArray) -> dict[str, F64]:
    """What a clock tells of each bin."""
    found = {
        "hour of the day": bins // 60 % 24, "hour from noon": (bins // 60 + 12) % 24,
        "minute of the hour": bins % 60, "minute of ten": bins % 10,
    }  # fmt: skip
    return {name: each.astype(np.float64) for name, each in found.items()}


def parted(features: F64, cost: F64, parts: int, places: IntArray) -> tuple[tuple[Cut, ...], IntArray]:
    """The cuts, best first, and how many slots each part keeps; `places` are the bins that it is tuned on."""
    members, cuts = [places], list[Cut]()
    best = [_best(features, cost, 0, places)]
    while len(members) < parts:
        cut = max((each for each in best if each is not None), key=lambda each: each.gained, default=None)
        if cut is None:
            break
        here = members[cut.part]
        above = features[cut.feature, here] > cut.above
        members[cut.part], new = here[~above], here[above]
        members.append(new)
        best[cut.part] = _best(features, cost, cut.part, members[cut.part])
        best.append(_best(features, cost, len(members) - 1, new))
        cuts.append(cut)
    return tuple(cuts), np.array([int(np.argmin(cost[each].sum(axis=0))) for each in members])


def planned(features: F64, cuts: Sequence[Cut], kept: IntArray) -> IntArray:
    """Slots that the parts keep in each bin."""
    part = np.zeros(features.shape[1], dtype=np.int64)
    for new, cut in enumerate(cuts, start=1):
        part[(part == cut.part) & (features[cut.feature] > cut.above)] = new
    return kept[part]


def _best(features: F64, cost: F64, part: int, places: IntArray) -> Cut | None:
    """The cut of a part that costs least afterwards; None where none gains anything."""
    found: Cut | None = None
    before = float(cost[places].sum(axis=0).min())
    for feature, values in enumerate(features[:, places]):
        order = np.argsort(values, kind="stable")
        ranked = values[order]
        at = np.flatnonzero(ranked[1:] > ranked[:-1])
        at = at[(at + 1 >= LEAST_BINS) & (ranked.size - at - 1 >= LEAST_BINS)]
        if not at.size:
            continue
        below = np.cumsum(cost[places[order]], axis=0)
        gained = before - below[at].min(axis=1) - (below[-1] - below[at]).min(axis=1)
        most = int(np.argmax(gained))
        if gained[most] > (0.0 if found is None else found.gained):
            above = float((ranked[at[most]] + ranked[at[most] + 1]) / 2.0)
            found = Cut(part, feature, above, float(gained[most]))
    return found


def _before(values: F64, bins: int) -> F64:
    """The values of so many bins ago; before the beginning the first one."""
    return np.concatenate((np.full(min(bins, values.size), values[0]), values[: max(0, values.size - bins)]))


def _highest(values: F64, bins: int) -> F64:
    """The highest of each bin and those before it, `bins` in all."""
    found = values.copy()
    width = 1
    while width < bins:
        step = min(width, bins - width)
        found[step:] = np.maximum(found[step:], found[:-step])
        width += step
    return found
