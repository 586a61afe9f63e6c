"""One run of a pool policy over a demand, and the smallest static pool that does as well in hindsight.

Enters: a demand, a plant, a policy. Leaves: hits, misses, idle-warm hours. Only what happens from `score_from_s` on is
counted: before, a controller that learns has nothing to know yet, and every policy is given the same time.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np

from autoscaler.core.pool.intents import CreateSlot, DeleteSlot, Intent
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.sim.warm.demand import ReplicaDemand
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.plant_parts import Counts, PlantTier, Stages

TIER = PlantTier("first", "h100")


class PoolPolicy(Protocol):
    """Decides what to make and delete."""

    def act(self, plant: Plant) -> Iterable[Intent]:
        """The intents for what is there now."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: slots demanded, found warm, and hours."""

    demanded: int
    hits: int
    idle_warm_h: float
    starting_h: float
    free_node_h: float
    creates: int
    deletes: int

    @property
    def hit_ratio(self) -> float:
        """The share of new replicas that started warm; 1 where none was demanded."""
        return self.hits / self.demanded if self.demanded else 1.0


class StaticPool:
    """Keeps the same number of slots at all times: what is taken is refilled, what is given back beyond is let go."""

    def __init__(self, size: int, *, life_s: float = 4 * 3600.0) -> None:
        self._size, self._life_s, self._serial = size, life_s, 0

    def act(self, plant: Plant) -> Iterable[Intent]:
        """Refill to the size; remove what failed."""
        failed = [slot for slot in plant.slots.values() if slot.failed is not None]
        for slot in failed:
            yield DeleteSlot(slot.name, slot.uid, PoolReason.FAILED)
        for _ in range(self._size - len(plant.slots) + len(failed)):
            self._serial += 1
            name = f"static-{self._serial}"
            yield CreateSlot(name, TIER.name, TIER.name, None, "", self._life_s, PoolReason.REFILL)


def run(
    demand: ReplicaDemand,
    policy: PoolPolicy,
    *,
    stages: Stages,
    seed: int,
    step_s: float = 30.0,
    score_from_s: float = 0.0,
) -> Outcome:
    """Run the policy over the whole demand, one look every `step_s`."""
    plant = Plant((TIER,), stages, np.random.default_rng(seed))
    plant.start_with(demand)
    before = Counts()
    for turn in range(1, round(demand.duration_s / step_s)):
        now_s = turn * step_s
        if now_s - step_s < score_from_s <= now_s:
            before = Counts(**asdict(plant.counts))
        plant.advance(now_s, demand)
        plant.apply(list(policy.act(plant)))
    done = plant.counts
    return Outcome(
        demanded=done.hits + done.misses - before.hits - before.misses,
        hits=done.hits - before.hits,
        idle_warm_h=(done.idle_warm_s - before.idle_warm_s) / 3600.0,
        starting_h=(done.starting_s - before.starting_s) / 3600.0,
        free_node_h=(done.free_node_s - before.free_node_s) / 3600.0,
        creates=done.creates - before.creates,
        deletes=done.deletes - before.deletes,
    )


class Statics:
    """Static pools over one demand, each run once."""

    def __init__(
        self, demand: ReplicaDemand, *, stages: Stages, seed: int, step_s: float = 30.0, score_from_s: float = 0.0
    ) -> None:
        self._demand, self._found = demand, dict[int, Outcome]()
        self._stages, self._seed, self._step_s, self._score_from_s = stages, seed, step_s, score_from_s

    def outcome(self, size: int) -> Outcome:
        """What a pool of this size gave."""
        if size not in self._found:
            self._found[size] = run(
                self._demand,
                StaticPool(size),
                stages=self._stages,
                seed=self._seed,
                step_s=self._step_s,
                score_from_s=self._score_from_s,
            )
        return self._found[size]

    def smallest(self, hit_ratio: float, most: int) -> tuple[int, Outcome]:
        """The smallest pool that hits at least as often, in hindsight; the largest allowed where none does."""
        low, high = 0, most
        while low < high:
            middle = (low + high) // 2
            if self.outcome(middle).hit_ratio >= hit_ratio:
                high = middle
            else:
                low = middle + 1
        return low, self.outcome(low)
