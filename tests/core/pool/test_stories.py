"""Whole stories in a plant: a burst lands on warm slots, a refill keeps the time that the stage clock predicts."""

from dataclasses import replace

import numpy as np
import pytest

from autoscaler.core.pool import clock
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.params import CapacityType, PoolParams, PoolTier
from autoscaler.core.pool.view import look
from autoscaler.sim.warm.demand import ReplicaDemand
from autoscaler.sim.warm.headroom import HeadroomPool
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.plant_parts import PlantTier, Stages
from tests.core.pool.builders import known

TIER = PoolTier("first", "first", "h100", CapacityType.ON_DEMAND)
LOOK_S = 30.0


def played(levels: list[int], *, minutes: float, seed: int, **fields: object) -> tuple[Plant, HeadroomPool, list[int]]:
    """A plant with a pool of ours, each level of demand lasting ten minutes; and the warm slots at each look."""
    plant = Plant((PlantTier("first", "h100"),), Stages(), np.random.default_rng(seed), empty_s=60.0)
    wanted = ReplicaDemand(("m",), 600.0, np.array([levels]))
    plant.start_with(wanted)
    params = PoolParams("p", (TIER,), ("m",), "c", **{"max_slots": 20, **fields})  # type: ignore[arg-type]
    ours = HeadroomPool(params)
    ours.state = replace(known(*[2.0] * 50, now_s=0.0))
    warm: list[int] = []
    while plant.now_s < minutes * 60.0:
        plant.advance(plant.now_s + LOOK_S, wanted)
        plant.apply(list(ours.act(plant)))
        assert ours.decision is not None
        warm.append(ours.decision.warm)
    return plant, ours, warm


@pytest.mark.parametrize("seed", [0, 1])
def test_a_threefold_step_lands_on_warm_slots_and_they_are_refilled_in_time(seed: int) -> None:
    plant, ours, warm = played([2, 2, 2, 6, 6, 6, 6], minutes=65.0, seed=seed, min_slots=4)
    assert (plant.counts.hits, plant.counts.misses) == (4, 0)
    step = round(1800.0 / LOOK_S)
    assert warm[step - 2] == 4
    assert warm[step] == 0
    lead = clock.remaining(ours.state.clock, next(iter(ours.state.clock.walks)), Stage.REQUESTED, 600.0)
    refilled_s = next(at for at, count in enumerate(warm[step:]) if count >= 4) * LOOK_S
    assert lead.samples >= 8
    assert refilled_s <= 1.6 * lead.p90_s


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_is_under_way_is_warm_within_the_time_that_is_predicted(seed: int) -> None:
    plant, ours, _ = played([0], minutes=30.0, seed=seed, min_slots=10)
    for slot in list(plant.slots):
        plant.slots.pop(slot)
    plant.nodes.clear()
    none = ReplicaDemand(("m",), 600.0, np.array([[0]]))
    for _ in range(round(360.0 / LOOK_S)):
        plant.advance(plant.now_s + LOOK_S, none)
        plant.apply(list(ours.act(plant)))
    params = PoolParams("p", (TIER,), ("m",), "c", min_slots=10, max_slots=20)
    view = look(params, plant.world(), plant.now_s)
    predicted = {
        seen.name: plant.now_s
        + 1.6 * clock.remaining(ours.state.clock, view.kind_of(at), Stage(int(view.slots.stage[at])), 600.0).p90_s
        for at, seen in enumerate(view.slots.seen)
    }
    assert len(predicted) == 10
    while plant.now_s < max(predicted.values()):
        plant.advance(plant.now_s + LOOK_S, none)
    assert [name for name, by_s in predicted.items() if (plant.slots[name].warm_s or by_s) > by_s] == []


def test_half_of_the_warm_set_on_spot_is_lost_and_comes_back() -> None:
    spot = PoolTier("first", "first", "h100", CapacityType.SPOT)
    plant = Plant((PlantTier("first", "h100", CapacityType.SPOT),), Stages(), np.random.default_rng(3))
    none = ReplicaDemand(("m",), 600.0, np.array([[0]]))
    ours = HeadroomPool(PoolParams("p", (spot,), ("m",), "c", min_slots=6, spot_ratio=1.0))
    warm = []
    for turn in range(80):
        plant.advance(plant.now_s + LOOK_S, none)
        if turn == 39:
            plant.interrupt(0.5)
        plant.apply(list(ours.act(plant)))
        warm.append(ours.decision.warm if ours.decision is not None else 0)
    assert (warm[38], warm[39], warm[-1]) == (6, 3, 6)
