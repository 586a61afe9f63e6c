"""The plant of warm slots: stages take their time, replicas take what is warmest, faults show as in a cluster."""

import numpy as np

from autoscaler.core.pool.intents import CreateSlot, DeleteClaim, DeleteSlot
from autoscaler.core.pool.params import CapacityType
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import Sign, SlotSeen
from autoscaler.sim.warm.demand import ReplicaDemand, replicas_of, together
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.plant_parts import PlantTier, Stages
from autoscaler.sim.warm.run import StaticPool, Statics, run
from tests.sim.scenes import make_traffic

EXACT = Stages(100.0, 10.0, 50.0, 30.0, 20.0, spread=0.0, again_s=5.0)
NONE = together([("m", np.zeros(1000, dtype=np.int64))], 60.0)


def plant(*tiers: PlantTier) -> Plant:
    return Plant(tiers or (PlantTier("first", "h100"),), EXACT, np.random.default_rng(0))


def order(name: str, tier: str = "first", life_s: float = 3600.0) -> CreateSlot:
    return CreateSlot(name, tier, tier, None, "c", life_s, PoolReason.REFILL)


def steps(*counts: int) -> ReplicaDemand:
    return together([("m", np.repeat(np.array(counts, dtype=np.int64), 10))], 60.0)


def slots(plant: Plant) -> tuple[SlotSeen, ...]:
    return plant.world().slots or ()


def told(plant: Plant, until_s: float, demand: ReplicaDemand = NONE) -> None:
    while plant.now_s < until_s:
        plant.advance(plant.now_s + 10.0, demand)


def test_a_slot_passes_its_stages_in_their_time():
    one = plant()
    one.apply([order("a")])
    seen = {}
    for until_s in (90.0, 110.0, 120.0, 170.0, 200.0, 220.0):
        told(one, until_s)
        (slot,), (claim,) = slots(one), one.world().claims or ()
        seen[until_s] = (claim.launched_s, claim.registered_s, slot.scheduled_s, slot.images_s, slot.ready_s)
    assert seen[90.0] == (None,) * 5
    assert seen[110.0] == (110.0, None, None, None, None)
    assert seen[120.0] == (110.0, 120.0, None, None, None)
    assert seen[170.0] == (110.0, 120.0, 170.0, None, None)
    assert seen[200.0] == (110.0, 120.0, 170.0, 200.0, None)
    assert seen[220.0] == (110.0, 120.0, 170.0, 200.0, 220.0)


def test_a_replica_takes_a_warm_slot_and_its_node_stays_warm_when_it_ends():
    one = plant()
    one.apply([order("a")])
    told(one, 580.0, steps(0, 1, 0, 1))
    assert len(slots(one)) == 1
    told(one, 620.0, steps(0, 1, 0, 1))
    assert (one.counts.hits, one.counts.misses, slots(one)) == (1, 0, ())
    told(one, 1810.0, steps(0, 1, 0, 1))
    assert (one.counts.hits, one.counts.misses) == (2, 0), "the node was free for ten minutes, and had all it needs"


def test_without_a_slot_a_replica_misses_and_an_empty_node_goes_after_a_while():
    one = plant()
    told(one, 620.0, steps(0, 1, 0, 0, 0))
    assert (one.counts.hits, one.counts.misses, len(one.nodes)) == (0, 1, 1)
    told(one, 2000.0, steps(0, 1, 0, 0, 0))
    assert len(one.nodes) == 1
    told(one, 2110.0, steps(0, 1, 0, 0, 0))
    assert one.nodes == {}


def test_missing_capacity_shows_as_a_sign_a_minute_and_no_node():
    out = plant(PlantTier("first", "h100", out_s=((0.0, 300.0),)))
    out.apply([order("a")])
    told(out, 250.0)
    assert {trouble.sign for trouble in out.world().troubles} == {Sign.INSUFFICIENT}
    assert len(out.world().troubles) == 5
    assert out.nodes == {}
    told(out, 600.0)
    assert slots(out)[0].ready_s is not None


def test_gpus_that_never_come_leave_the_slot_on_its_claim():
    broken = plant(PlantTier("first", "h100", gpu_comes=False))
    broken.apply([order("a")])
    told(broken, 1000.0)
    (slot,), (node,) = slots(broken), broken.world().nodes or ()
    assert (slot.node, slot.claim, node.units) == (None, node.name, None)
    broken.apply([DeleteClaim(node.name, node.name, "first", PoolReason.LATE_GPU)])
    assert (broken.nodes, broken.slots) == ({}, {})


def test_a_slot_ends_at_its_deadline_and_leaves_its_node():
    one = plant()
    one.apply([order("a", life_s=400.0)])
    told(one, 410.0)
    assert slots(one)[0].failed == "DeadlineExceeded"
    one.apply([DeleteSlot("a", "u1", PoolReason.EXPIRED), order("b")])
    told(one, 440.0)
    assert slots(one)[0].ready_s == 415.0, "the node has image and weights"


def test_an_interruption_takes_spot_slots_only():
    both = plant(PlantTier("first", "h100"), PlantTier("spot", "h100", CapacityType.SPOT))
    both.apply([order("a"), order("b", "spot"), order("c", "spot")])
    told(both, 300.0)
    both.interrupt(0.5)
    assert sorted(both.slots) == ["a", "c"]


def test_replicas_hold_the_busiest_bin_of_the_last_minutes():
    traffic = make_traffic([0.0, 95.0, 10.0, 10.0, 0.0, 0.0, 0.0])
    step_s = traffic.step_s
    counts = replicas_of(traffic, replica_rps=10.0 / step_s, hold_s=3 * step_s)
    assert counts.tolist() == [0, 10, 10, 10, 1, 1, 0]


def test_the_smallest_static_pool_is_found_in_hindsight():
    demand = steps(1, 1, 4, 1, 1, 1, 1, 3, 1, 1)
    size, outcome = Statics(demand, stages=EXACT, seed=0).smallest(1.0, most=8)
    assert size == 3
    assert (outcome.demanded, outcome.hits) == (5, 5)
    assert run(demand, StaticPool(2), stages=EXACT, seed=0).hits < 5
