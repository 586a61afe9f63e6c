"""Laws that hold for every story: drawn demand, outages, silences and restarts, in closed loop with a plant."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autoscaler.core.params import KnownEvent
from autoscaler.core.pool.intents import CreateSlot, DeleteClaim, DeleteSlot, MarkSlot
from autoscaler.core.pool.params import CapacityType, PoolParams, PoolTier
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.reconcile import Reconciled, reconcile
from autoscaler.core.pool.sizing import SLOT_ROUNDING
from autoscaler.core.pool.state import PoolState, pack, unpack
from autoscaler.core.pool.world import ModelDemand, World
from autoscaler.sim.warm.demand import ReplicaDemand
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.plant_parts import PlantTier, Stages
from tests.core.pool.builders import NOW_S, demand, fleet, known, of, pool, slot, taken, trouble, warm, world

QUICK = Stages(launch_s=60.0, register_s=10.0, gpu_s=30.0, image_s=20.0, weights_s=10.0)
LOOK_S = 60.0
UNSOUGHT = {PoolReason.SURPLUS, PoolReason.RETIRED}
"""Reasons that stand for fewer slots being wanted."""


@dataclass(frozen=True)
class Story:
    """What happens over some dozens of looks."""

    levels: tuple[int, ...]
    silent: frozenset[int]
    lost: frozenset[int]
    """Looks at which a running node is taken by the provider."""
    out: tuple[float, float]
    min_slots: int
    max_slots: int
    max_gpus: float
    forecast: float
    floor: int
    seed: int

    @property
    def params(self) -> PoolParams:
        tiers = (
            PoolTier("first", "first", "h100", CapacityType.ON_DEMAND, ("a",)),
            PoolTier("second", "second", "a100", CapacityType.SPOT, ("a",)),
        )
        return PoolParams(
            "p", tiers, ("m",), "c", min_slots=min(self.min_slots, self.max_slots, int(self.max_gpus)),
            max_slots=self.max_slots, max_gpus=self.max_gpus, spot_ratio=0.5, idle_hot_s=120.0, slot_life_s=1800.0,
            events=(KnownEvent(600.0, 900.0, floor=self.floor),), lead_prior_s=130.0,
        )  # fmt: skip


STORIES = st.builds(
    Story,
    levels=st.lists(st.integers(0, 6), min_size=3, max_size=6).map(tuple),
    silent=st.frozensets(st.integers(0, 28), max_size=6),
    lost=st.frozensets(st.integers(5, 28), max_size=3),
    out=st.tuples(st.floats(0.0, 1200.0), st.floats(0.0, 2400.0)),
    min_slots=st.integers(0, 4),
    max_slots=st.integers(1, 9),
    max_gpus=st.floats(1.0, 9.0),
    forecast=st.floats(0.0, 8.0),
    floor=st.integers(0, 12),
    seed=st.integers(0, 99),
)
law = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Look:
    """One look of a story."""

    number: int
    world: World
    before: PoolState
    done: Reconciled
    now_s: float


def played(story: Story, *, restarting: bool = False) -> Iterator[Look]:
    """The looks of a story; a process that restarts lives on its checkpoint alone."""
    out = ((story.out[0], story.out[0] + story.out[1]),)
    tiers = (
        PlantTier("first", "h100", out_s=out),
        PlantTier("second", "a100", CapacityType.SPOT),
    )
    plant = Plant(tiers, QUICK, np.random.default_rng(story.seed))
    wanted = ReplicaDemand(("m",), 300.0, np.array([story.levels]))
    plant.start_with(wanted)
    state = replace(known(0.0, hours=2.0, now_s=0.0), history=known(0.0, 0.0, 2.0, 0.0, now_s=0.0).history)
    for number in range(1, 29):
        now_s = number * LOOK_S
        plant.advance(now_s, wanted)
        if number in story.lost:
            plant.interrupt(0.5)
        replicas = None if number in story.silent else float(plant.wanted["m"])
        told = (ModelDemand("ns/m", "m", replicas, forecast=story.forecast),)
        seen = replace(plant.world(), demand=told)
        before = unpack(json.loads(json.dumps(pack(state)))) if restarting else state
        done = reconcile(story.params, seen, before, now_s)
        yield Look(number, seen, before, done, now_s)
        plant.apply(done.intents)
        state = done.state


@law
@given(STORIES)
@example(Story((0, 0, 0), frozenset(), frozenset(), (0.0, 0.0), 0, 2, math.nextafter(2.0, 0.0), 0.0, 0, 0))
def test_maximum_and_budget_are_never_exceeded(story: Story) -> None:
    for look in played(story):
        standing = sum(each.failed is None for each in look.world.slots or ())
        ordered = len(of(CreateSlot, look.done))
        if ordered:
            assert standing + ordered <= story.params.max_slots
            assert standing + ordered <= story.max_gpus / story.params.slot.gpus + SLOT_ROUNDING


@law
@given(STORIES)
def test_only_slots_of_the_pool_are_touched_and_each_once(story: Story) -> None:
    for look in played(story):
        known_uids = {each.uid for each in look.world.slots or ()}
        deleted = [each.uid for each in of(DeleteSlot, look.done)]
        assert len(deleted) == len(set(deleted))
        assert {*deleted, *(each.uid for each in of(MarkSlot, look.done))} <= known_uids
        for gone in of(DeleteClaim, look.done):
            (node,) = (each for each in look.world.nodes or () if each.claim == gone.name)
            assert node.foreign_pods == 0


@law
@given(STORIES)
def test_what_is_not_known_never_shrinks_a_pool_within_its_limits(story: Story) -> None:
    for look in played(story):
        if look.number in story.silent:
            assert not {each.reason for each in of(DeleteSlot, look.done)} & UNSOUGHT


@law
@given(STORIES)
def test_a_process_that_restarts_at_every_look_gives_the_same_orders(story: Story) -> None:
    steady = [(look.done.decision, look.done.intents) for look in played(story)]
    restarted = [(look.done.decision, look.done.intents) for look in played(story, restarting=True)]
    assert restarted == steady


@law
@given(STORIES)
def test_a_second_look_at_an_unchanged_world_orders_nothing(story: Story) -> None:
    for look in played(story):
        again = reconcile(story.params, look.world, look.done.state, look.now_s)
        assert of(CreateSlot, again) == []
        assert of(DeleteSlot, again) == []
        assert again.decision.target == look.done.decision.target


@law
@given(STORIES, st.randoms(use_true_random=False))
def test_the_order_in_which_objects_are_listed_changes_nothing(story: Story, dice: object) -> None:
    for look in played(story):
        slots, nodes, claims = list(look.world.slots or ()), list(look.world.nodes or ()), list(look.world.claims or ())
        listings: tuple[list[Any], ...] = (slots, nodes, claims)
        for listed in listings:
            dice.shuffle(listed)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
        other = replace(look.world, slots=tuple(slots), nodes=tuple(nodes), claims=tuple(claims))
        done = reconcile(story.params, other, look.before, look.now_s)
        assert set(done.intents) == set(look.done.intents)
        assert done.decision.target == look.done.decision.target


@law
@given(STORIES)
def test_no_slot_is_made_and_deleted_for_want_of_need_in_one_look(story: Story) -> None:
    for look in played(story):
        if of(CreateSlot, look.done):
            assert PoolReason.SURPLUS not in {each.reason for each in of(DeleteSlot, look.done)}


@law
@given(st.integers(0, 5), st.integers(0, 3))
def test_steady_demand_comes_to_rest(level: int, least: int) -> None:
    story = Story((level,) * 5, frozenset(), frozenset(), (0.0, 0.0), least, 9, 9.0, float(level), 0, 1)
    late = [look for look in played(story) if look.number > 12]
    made = [each for look in late for each in of(CreateSlot, look.done)]
    gone = [each for look in late for each in of(DeleteSlot, look.done)]
    assert {each.reason for each in gone} <= {PoolReason.ROTATED, PoolReason.EXPIRED}
    assert len(made) <= len(gone)


def test_more_growth_never_keeps_fewer_slots() -> None:
    targets = []
    for size in range(1, 6):
        levels = (2.0 + size,) * 10 + (2.0,) * 20
        targets.append(taken(pool(), world(demand=(demand(2.0),)), known(*levels, hours=24.0)).decision.target)
    assert targets == sorted(targets)
    assert targets[0] < targets[-1]


def test_a_cold_start_without_checkpoint_deletes_no_warm_slot() -> None:
    done = taken(pool(), world(fleet(5), demand=(demand(0.0),)), PoolState())
    assert of(DeleteSlot, done) == []


def test_a_checkpoint_comes_back_whole() -> None:
    story = Story((1, 5, 0, 3, 2), frozenset({3}), frozenset(), (0.0, 900.0), 1, 9, 9.0, 2.0, 3, 0)
    *_, last = played(story)
    text = json.dumps(pack(last.done.state))
    assert json.dumps(pack(unpack(json.loads(text)))) == text


SPOILT = {
    "another version": lambda saved: {**saved, "version": 9},
    "no history": lambda saved: {key: value for key, value in saved.items() if key != "history"},
    "an amount that no float holds": lambda saved: {**saved, "hits": 10**400},
    "a level of demand that no float holds": lambda saved: {
        **saved,
        "history": {**saved["history"], "levels": [10**400], "peaks": [1.0]},
    },
    "a start of a time that no float holds": lambda saved: {**saved, "clock": {**saved["clock"], "newest_s": 10**400}},
    "a level of 2": lambda saved: {**saved, "level": 2.0},
    "a capacity type of yesterday": lambda saved: {**saved, "capacity": [["h100", "a", "barter", [[], 0, 0, 0, 0]]]},
    "a start of two stages": lambda saved: {
        **saved,
        "clock": {"walks": [["h", "a", "spot", "c", True, [[1, 2]]]], "newest_s": 0, "dropped": 0, "outcomes": []},
    },
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_checkpoint_is_refused(spoil: object) -> None:
    with pytest.raises(ValueError, match="pool: "):
        unpack(spoil(pack(PoolState())))  # type: ignore[operator]


def test_an_order_that_is_not_seen_for_a_minute_is_given_again_under_the_same_name() -> None:
    params, seen = pool(min_slots=1), world()
    first = taken(params, seen)
    assert of(CreateSlot, taken(params, seen, first.state, NOW_S + 30.0)) == []
    (again,) = of(CreateSlot, taken(params, seen, first.state, NOW_S + 61.0))
    assert again.name == of(CreateSlot, first)[0].name == "p-0"


def test_two_controllers_give_the_same_names() -> None:
    seen = world([warm("p-1"), slot("p-3")])
    names = [order.name for order in of(CreateSlot, taken(pool(min_slots=5), seen))]
    assert names == ["p-0", "p-2", "p-4"]


def test_signs_told_again_change_nothing() -> None:
    seen = world(troubles=(trouble("c1"), trouble("c2")))
    first = taken(pool(min_slots=1), seen)
    again = taken(pool(min_slots=1), seen, first.state, NOW_S + 1.0)
    assert again.state.circuits == first.state.circuits
