"""What sizing could reach at most: pools that know the demand to come, in the same plant.

Enters: the demand of a run. Leaves: slots per bin. One pool knows every rise a refill ahead; what it keeps idle is what
the refill's own spread costs. Others know, of the days they are judged on, how much to keep at each hour of the day or
each minute of the hour, and no more: what a rule that learns such a pattern could give were days alike. That plan is
the best that a search found, not a bound that was proven.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from autoscaler.core.pool.intents import CreateSlot, DeleteSlot, Intent
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.sim.warm.demand import IntArray, ReplicaDemand
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.run import TIER, Outcome

Counts = npt.NDArray[Any]

REACHES: Final = range(8, 25)
"""Bins that are looked ahead, shortest first."""

REFILL_BINS: Final = 13
"""Bins of a minute within which a refill of the plant is there, but for one in a hundred."""

STAY_BINS: Final = 15
"""Bins for which a node that became free stays in the plant."""

PRICES: Final = tuple(np.geomspace(0.1, 1000.0, 16).tolist())
"""Idle slot-hours that one miss is worth; each makes a plan."""

Tried = Callable[["PlannedPool"], Outcome]
"""Runs a pool over the demand."""


class PlannedPool:
    """Keeps so many slots in each bin; those beyond go at once, the least far first."""

    def __init__(self, slots: IntArray, step_s: float, *, life_s: float = 4 * 3600.0) -> None:
        self._slots, self._step_s, self._life_s, self._serial = slots, step_s, life_s, 0

    def act(self, plant: Plant) -> Iterable[Intent]:
        """Order and delete up to the plan; remove what failed."""
        for slot in [slot for slot in plant.slots.values() if slot.failed is not None]:
            yield DeleteSlot(slot.name, slot.uid, PoolReason.FAILED)
        standing = [slot for slot in plant.slots.values() if slot.failed is None]
        planned = int(self._slots[min(int(plant.now_s / self._step_s), self._slots.size - 1)])
        standing.sort(key=lambda slot: (slot.warm_s is not None, slot.bound_s is not None, -slot.created_s))
        for slot in standing[: max(0, len(standing) - planned)]:
            yield DeleteSlot(slot.name, slot.uid, PoolReason.SURPLUS)
        for _ in range(planned - len(standing)):
            self._serial += 1
            name = f"planned-{self._serial}"
            yield CreateSlot(name, TIER.name, TIER.name, None, "", self._life_s, PoolReason.REFILL)


def every_rise(demand: ReplicaDemand, hit_ratio: float, tried: Tried) -> Outcome | None:
    """What knowing each rise gave, looked ahead for just far enough to hit so often; None where that is nowhere."""
    total = demand.replicas.sum(axis=0)
    for reach in REACHES:
        highest = total.copy()
        for ahead in range(1, reach + 1):
            highest[:-ahead] = np.maximum(highest[:-ahead], total[ahead:])
        found = tried(PlannedPool(highest - total, demand.step_s))
        if found.hit_ratio >= hit_ratio:
            return found
    return None


def pattern(
    demand: ReplicaDemand, groups: IntArray, hit_ratio: float, tried: Tried, *, from_bin: int
) -> Outcome | None:
    """The fewest idle hours of plans that keep the same number in all bins of a group; None if none hits so often."""
    found: Outcome | None = None
    seen = set[bytes]()
    for plan in _plans(demand, groups, from_bin):
        if plan.tobytes() in seen:
            continue
        seen.add(plan.tobytes())
        outcome = tried(PlannedPool(plan, demand.step_s))
        if outcome.hit_ratio >= hit_ratio:
            if found is not None and outcome.idle_warm_h >= found.idle_warm_h:
                return found
            found = outcome
    return found


def _plans(demand: ReplicaDemand, groups: IntArray, from_bin: int) -> Iterator[IntArray]:
    """For each price of a miss, rising, the slots of each group that cost least, ordered a refill ahead."""
    size = demand.replicas.shape[1]
    new = np.maximum(np.diff(demand.replicas, axis=1, prepend=demand.replicas[:, :1]), 0).sum(axis=0)
    short = shortfall(demand.replicas.sum(axis=0))
    counted = np.arange(size) >= from_bin
    kinds = int(groups.max()) + 1
    kept = np.arange(max(0, int(short.max())) + 1)
    missed, idle = np.zeros((kinds, kept.size)), np.zeros((kinds, kept.size))
    for slots in kept.tolist():
        misses = np.minimum(new, np.maximum(short - slots, 0)) * counted
        unused = np.maximum(slots - np.maximum(short, 0), 0) * counted * demand.step_s / 3600.0
        missed[:, slots] = np.bincount(groups, misses, kinds)
        idle[:, slots] = np.bincount(groups, unused, kinds)
    for price in PRICES:
        plan = np.argmin(idle + price * missed, axis=1).astype(np.int64)[groups]
        yield ordered_ahead(plan)


def shortfall(total: Counts, refill_bins: int = REFILL_BINS) -> Counts:
    """Demand over what is there of itself: nodes that were needed a refill ago, or a while before that."""
    there = np.where(np.arange(total.size) < refill_bins, total[0], 0)
    for back in range(refill_bins, STAY_BINS + 1):
        there[back:] = np.maximum(there[back:], total[: total.size - back])
    return np.asarray(total - there)


def ordered_ahead(plan: IntArray, refill_bins: int = REFILL_BINS) -> IntArray:
    """What has to stand or be on its way in each bin for the plan to be met: the highest of the refill to come."""
    ahead = plan.copy()
    for early in range(1, refill_bins + 1):
        ahead[:-early] = np.maximum(ahead[:-early], plan[early:])
    return ahead
