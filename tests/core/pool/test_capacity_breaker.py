"""Missing capacity opens a circuit, one probe closes it, and the deficit moves down the tiers meanwhile."""

from dataclasses import replace

import numpy as np
import pytest

from autoscaler.core.params import KnownEvent
from autoscaler.core.pool import breaker
from autoscaler.core.pool.circuits import CAPACITY, Circuit, Position, succeeded, troubled
from autoscaler.core.pool.intents import Aspect, CreateSlot, DeleteSlot
from autoscaler.core.pool.params import CapacityType, PoolTier
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import Circuits, PoolState, pack, unpack
from autoscaler.core.pool.world import Sign, Template, Trouble, World
from autoscaler.sim.warm.demand import together
from autoscaler.sim.warm.headroom import HeadroomPool
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.plant_parts import PlantTier, Stages
from tests.core.pool.builders import (
    FIRST,
    NOW_S,
    SECOND,
    SPOT,
    claim,
    demand,
    domain,
    fleet,
    known,
    node,
    node_pools,
    of,
    pool,
    reasons,
    slot,
    taken,
    told,
    trouble,
    warm,
    with_circuits,
    world,
)

OPEN = Circuit(opened=1, until_s=NOW_S + 60.0, trouble_s=NOW_S - 100.0)
HALF = Circuit(opened=1, until_s=NOW_S - 1.0, trouble_s=NOW_S - 200.0)
ZONED = replace(FIRST, zones=("a", "b"))


def out(circuit: Circuit = OPEN, *where: dict[str, str]) -> PoolState:
    """A state in which these domains have this circuit; the first tier's by default."""
    return with_circuits(known(), capacity={domain(**each): circuit for each in where or ({"zone": ""},)})  # type: ignore[arg-type]


def asked(count: int, *slots: object, **fields: object) -> World:
    return world(slots, demand=(demand(0.0, forecast=float(count)),), **fields)  # type: ignore[arg-type]


def orders(done: object) -> list[str]:
    return [order.tier for order in of(CreateSlot, done)]  # type: ignore[arg-type]


def test_two_signs_open_a_circuit_and_one_does_not() -> None:
    once = troubled(Circuit(), 0.0, CAPACITY, "x")
    assert once.position(1.0) is Position.CLOSED
    twice = troubled(once, 10.0, CAPACITY, "x")
    assert twice.position(11.0) is Position.OPEN
    assert 180.0 <= twice.until_s - 10.0 <= 198.0
    assert twice.position(twice.until_s) is Position.HALF_OPEN


def test_each_failed_probe_doubles_the_wait_up_to_half_an_hour() -> None:
    kept = troubled(troubled(Circuit(), 0.0, CAPACITY, "x"), 0.0, CAPACITY, "x")
    waits = []
    for _ in range(6):
        at_s = kept.until_s
        kept = troubled(kept, at_s, CAPACITY, "x")
        waits.append(round((kept.until_s - at_s) / 180.0))
    assert waits[:2] == [2, 4]
    assert waits[-1] in {10, 11}


def test_a_tier_that_has_had_no_capacity_for_a_month_is_asked_every_half_hour_still() -> None:
    kept = troubled(troubled(Circuit(), 0.0, CAPACITY, "x"), 0.0, CAPACITY, "x")
    at_s = 0.0
    while kept.until_s < 30 * 86_400.0:
        at_s, kept = kept.until_s, troubled(kept, kept.until_s, CAPACITY, "x")
    assert kept.opened > 1024
    assert 1800.0 <= kept.until_s - at_s <= 1980.0


def test_a_launch_closes_a_circuit_and_one_before_the_trouble_does_not() -> None:
    assert succeeded(OPEN, NOW_S - 101.0).position(NOW_S) is Position.OPEN
    assert succeeded(OPEN, NOW_S - 99.0).position(NOW_S) is Position.CLOSED


def test_two_signs_of_one_claim_and_a_repeated_event_count_once() -> None:
    seen = world(troubles=(trouble("c"), trouble("c", sign=Sign.CLAIM_GONE), trouble("c", NOW_S + 1.0)))
    kept = breaker.noted(breaker.noted(Circuits(), seen, NOW_S + 1.0), seen, NOW_S + 2.0)
    assert kept.capacity[domain()].position(NOW_S + 2.0) is Position.CLOSED


def test_one_word_that_a_provider_offers_nothing_of_a_nodepool_moves_the_deficit_on() -> None:
    said = Trouble(Sign.NOT_OFFERED, "np-first at 1", NOW_S, domain(""))
    done = taken(pool(FIRST, SECOND), asked(1, troubles=(said,)), known())
    assert orders(done) == ["second"]
    assert "h100 on-demand (asks again in" in told(done, Aspect.CAPACITY_AVAILABLE).message


def test_claims_that_vanish_before_their_launch_are_signs_without_any_event() -> None:
    params = pool(max_slots=4)
    first = taken(params, asked(2, claims=(claim("c1"), claim("c2"), claim("c3", launched_s=NOW_S))))
    gone = taken(params, asked(2, claims=()), first.state, NOW_S + 5.0)
    assert gone.state.circuits.capacity[domain()].position(NOW_S + 6.0) is Position.OPEN
    unread = taken(params, asked(2, claims=None), first.state, NOW_S + 5.0)
    assert domain() not in unread.state.circuits.capacity or not unread.state.circuits.capacity[domain()].troubles_s


@pytest.mark.parametrize("signs", [(), ("c1", "c2")], ids=["by their absence", "by the watch that comes back"])
def test_claims_that_were_launched_and_went_while_nobody_could_read_are_no_sign_of_missing_capacity(
    signs: tuple[str, ...],
) -> None:
    """Two are asked for when the API server goes for twenty minutes; their nodes joined, served and went."""
    params = pool(max_slots=4)
    state = taken(params, asked(2, claims=(claim("c1"), claim("c2")))).state
    for second in range(5, 1200, 5):
        state = taken(params, asked(2, claims=None), state, NOW_S + second).state
    heard = tuple(trouble(name, NOW_S + 1199.0, sign=Sign.CLAIM_GONE) for name in signs)
    for second in (1200, 1205, 1210):
        state = taken(params, asked(2, claims=(), troubles=heard), unpack(pack(state)), NOW_S + second).state
        assert state.circuits.capacity == {}


def test_slots_that_wait_where_capacity_is_missing_are_moved_down_the_tiers() -> None:
    params = pool(FIRST, SECOND)
    waiting = [slot(f"p-{at}") for at in range(3)]
    moved = taken(params, asked(3, *waiting), out())
    assert [gone.reason for gone in of(DeleteSlot, moved)] == [PoolReason.MOVED] * 3
    assert orders(moved) == ["second"], "the second tier has launched nothing lately: one slot asks first"
    proven = with_circuits(
        out(), capacity={**out().circuits.capacity, domain(zone="", sku="a100"): Circuit(success_s=NOW_S - 60.0)}
    )
    assert orders(taken(params, asked(3, *waiting), proven)) == ["second"] * 3


def test_a_slot_whose_claim_is_under_way_is_not_moved() -> None:
    done = taken(pool(FIRST, SECOND), asked(1, slot(claim="c"), claims=(claim("c"),)), out())
    assert of(DeleteSlot, done) == []


def test_missing_capacity_in_one_zone_leaves_the_other_to_the_scheduler() -> None:
    done = taken(pool(ZONED), asked(2), out(OPEN, {"zone": "a"}))
    assert orders(done) == ["first", "first"]
    both = taken(pool(ZONED), asked(2), out(OPEN, {"zone": "a"}, {"zone": "b"}))
    assert orders(both) == []
    assert PoolReason.NO_CAPACITY in reasons(both)
    assert "h100 on-demand in a" in told(both, Aspect.CAPACITY_AVAILABLE).message
    assert "in every tier" in told(both, Aspect.CAPACITY_AVAILABLE).message


def test_a_zone_without_capacity_says_nothing_of_others_where_nobody_names_the_tiers_zones() -> None:
    """A slot that was pinned to zone a for its minimum found nothing there; no other zone was ever asked."""
    params, lost = pool(zone_minima=(("a", 1),)), out(OPEN, {"zone": "a"})
    done = taken(params, asked(2), lost)
    assert [order.zone for order in of(CreateSlot, done)] == [None]
    assert "in every tier" not in told(done, Aspect.CAPACITY_AVAILABLE).message
    waits = taken(pool(min_slots=1), asked(1, slot("p-0")), lost)
    assert of(DeleteSlot, waits) == [], "it waits wherever there is room"
    only = node_pools(FIRST, template=Template(zones=("a",)))
    done = taken(params, asked(2, node_pools=only), lost)
    assert of(CreateSlot, done) == [], "its NodePool has that zone alone"
    assert "in every tier" in told(done, Aspect.CAPACITY_AVAILABLE).message


def test_a_zones_minimum_is_ordered_in_the_zone_and_told_where_it_cannot_be() -> None:
    params = pool(ZONED, zone_minima=(("a", 1), ("b", 2)))
    done = taken(params, world())
    assert sorted(order.zone or "" for order in of(CreateSlot, done)) == ["a", "b", "b"]
    outage = taken(params, world(), out(OPEN, {"zone": "b"}))
    assert [order.zone for order in of(CreateSlot, outage)] == ["a"]
    assert PoolReason.ZONE_OUT in reasons(outage)


def test_a_zone_below_its_minimum_is_told_though_as_many_slots_are_warm_as_wanted() -> None:
    """Both slots came to stand in zone a while b was out."""
    params = pool(ZONED, min_slots=2, max_slots=2, zone_minima=(("b", 1),))
    ready = told(taken(params, world(fleet(2))), Aspect.READY)
    assert ready.holds is False
    assert ready.message.startswith("0 warm slots are in zone 'b', its minimum is 1; the pool has as many as it may")
    ending = (warm("p-0", deadline_s=NOW_S + 60.0), warm("p-1"))
    done = taken(params, world(ending), known())
    assert [(gone.name, gone.reason) for gone in of(DeleteSlot, done)] == [("p-0", PoolReason.ROTATED)]
    assert [order.zone for order in of(CreateSlot, taken(params, world(ending[1:]), done.state))] == ["b"]
    nodes = (node("n-p-0"), node("n-p-1", zone="b"))
    assert told(taken(params, world(fleet(2), nodes=nodes)), Aspect.READY).holds


def test_a_half_open_circuit_takes_one_probe_at_a_time() -> None:
    params = pool(FIRST)
    probe = taken(params, asked(3), out(HALF))
    assert [order.reason for order in of(CreateSlot, probe)] == [PoolReason.PROBE]
    assert of(CreateSlot, taken(params, asked(3, slot()), out(HALF))) == []


def test_a_probe_that_launches_opens_the_way_for_the_rest() -> None:
    launched = asked(3, slot(claim="c"), claims=(claim("c", launched_s=NOW_S - 1.0),))
    assert orders(taken(pool(FIRST), launched, out(HALF))) == ["first", "first"]


def test_free_nodes_are_used_while_capacity_is_missing() -> None:
    free = (node("n1", free_units=1), node("n2", free_units=1))
    assert orders(taken(pool(FIRST, SECOND), asked(2, nodes=free), out())) == ["first", "first"]


def test_limits_of_nodepool_and_tier_are_kept_and_the_rest_goes_to_the_next_tier() -> None:
    pools = (*node_pools(FIRST, limit_gpus=8, used_gpus=6.0), *node_pools(SECOND))
    done = taken(pool(FIRST, SECOND), asked(5, node_pools=pools))
    assert orders(done) == ["first", "first", "second", "second", "second"]
    nodes = (*node_pools(FIRST, limit_nodes=3, used_nodes=3), *node_pools(SECOND))
    assert orders(taken(pool(FIRST, SECOND), asked(1, node_pools=nodes))) == ["second"]
    full = taken(pool(replace(FIRST, max_gpus=4)), asked(1, node_pools=node_pools(FIRST, used_gpus=4.0)))
    assert (orders(full), PoolReason.NO_ROOM in reasons(full)) == ([], True)


def test_limits_that_were_exceeded_already_order_nothing_and_are_told() -> None:
    done = taken(pool(FIRST), asked(1, node_pools=node_pools(FIRST, limit_gpus=4, used_gpus=9.0)))
    assert orders(done) == []
    assert "holds 9 GPUs, its limit is 4" in told(done, Aspect.WITHIN_LIMITS).message


def test_a_static_nodepool_gives_its_free_nodes_and_is_asked_for_no_other() -> None:
    """Karpenter makes none of its nodes for a pod: a slot that is ordered there without room waits for ever."""
    pools = (*node_pools(FIRST, static_nodes=2), *node_pools(SECOND))
    done = taken(pool(FIRST, SECOND), asked(3, node_pools=pools, nodes=(node("n1", free_units=1),)))
    assert orders(done) == ["first", "second", "second"]
    alone = taken(pool(FIRST), asked(1, node_pools=pools[:1]))
    assert (orders(alone), PoolReason.NO_ROOM in reasons(alone)) == ([], True)
    told_of = told(alone, Aspect.NODE_POOLS_USABLE)
    assert told_of.holds is False
    assert "spec.tiers[0].nodePoolRef: NodePool 'np-first' is static (spec.replicas: 2)" in told_of.message
    content = taken(pool(FIRST), asked(1, warm(), node_pools=pools[:1]))
    assert told(content, Aspect.NODE_POOLS_USABLE).holds is True, "nobody is told of it while its nodes are enough"


def test_a_storm_of_static_replicas_without_capacity_gets_no_slot_and_stops_none_elsewhere() -> None:
    """Karpenter asks for two claims a second and loses them; nothing of ours waits among them."""
    pools = (*node_pools(FIRST, static_nodes=2), *node_pools(SECOND))
    state, given = known(), list[CreateSlot]()
    for turn in range(60):
        now_s = NOW_S + turn
        lost = tuple(trouble(f"storm-{turn}-{at}", at_s=now_s, zone="") for at in range(2))
        made = tuple(slot(order.name, tier=order.tier, created_s=now_s) for order in given)
        launched = tuple(
            claim(f"c-{order.name}", node_pool="np-second", domain=domain(sku="a100"), launched_s=now_s)
            for order in given
        )
        seen = asked(2, *made, node_pools=pools, troubles=lost, claims=launched)
        done = taken(pool(FIRST, SECOND), seen, state, now_s)
        given += of(CreateSlot, done)
        state = done.state
        assert of(DeleteSlot, done) == []
    assert [order.tier for order in given] == ["second", "second"]
    assert "no capacity: h100 on-demand (asks again" in told(done, Aspect.CAPACITY_AVAILABLE).message


def test_spot_holds_no_more_than_its_share() -> None:
    params = pool(SPOT, FIRST, spot_ratio=0.5)
    assert sorted(orders(taken(params, asked(4)))) == ["first", "first", "spot", "spot"]
    some = asked(4, warm("p-0", tier="spot"), nodes=(node("n-p-0", node_pool="np-spot"),))
    assert sorted(orders(taken(params, some))) == ["first", "first", "spot"]
    alone = taken(pool(SPOT, FIRST, spot_ratio=0.25), asked(1, node_pools=node_pools(SPOT)))
    assert (orders(alone), PoolReason.SPOT_SHARE in reasons(alone)) == ([], True)


MISSING = {
    "is not there": ((), "there is no NodePool 'np-first'; create it or leave the tier out"),
    "is being deleted": (node_pools(FIRST, deleting=True), "is being deleted"),
    "is not ready": (node_pools(FIRST, ready=False, problem="NodeClass gpu not found"), "NodeClass gpu not found"),
}


@pytest.mark.parametrize(("pools", "words"), MISSING.values(), ids=MISSING)
def test_a_nodepool_that_cannot_be_used_is_passed_over_and_told(pools: object, words: str) -> None:
    done = taken(pool(FIRST, SECOND), asked(2, node_pools=(*pools, *node_pools(SECOND))))  # type: ignore[misc]
    assert orders(done) == ["second", "second"]
    assert words in told(done, Aspect.NODE_POOLS_USABLE).message
    assert "spec.tiers[0].nodePool" in told(done, Aspect.NODE_POOLS_USABLE).message


BLOCKED = {
    "there is no PriorityClass": ({"slot_priority": None}, PoolReason.PRIORITY),
    "slots would be disposable": ({"slot_priority": -33_554_432}, PoolReason.PRIORITY),
    "Cluster Autoscaler would ignore slots": ({"slot_priority": -11}, PoolReason.PRIORITY),
    "slots would not give way": ({"slot_priority": 0}, PoolReason.PRIORITY),
}


@pytest.mark.parametrize(("fields", "reason"), BLOCKED.values(), ids=BLOCKED)
def test_no_slot_is_ordered_while_it_would_do_harm(fields: dict[str, object], reason: PoolReason) -> None:
    done = taken(pool(), asked(2, **fields))
    assert (orders(done), reason in reasons(done)) == ([], True)
    assert orders(taken(pool(), asked(2))) == ["first", "first"]


def test_slots_under_way_are_limited() -> None:
    done = taken(pool(max_starting=3), asked(8, slot()))
    assert (len(orders(done)), PoolReason.STARTS_LIMITED in reasons(done)) == (2, True)


def test_gpus_that_never_come_quarantine_their_tier_after_the_third_node() -> None:
    old_s = NOW_S - 2000.0
    state, params = known(), pool(FIRST, SECOND)
    for at in range(3):
        seen = claim(f"c{at}", launched_s=old_s, registered_s=old_s, node=f"n{at}")
        late = asked(
            1,
            slot(f"s{at}", claim=f"c{at}", created_s=old_s),
            claims=(seen,),
            nodes=(node(f"n{at}", claim=f"c{at}", units=None),),
        )
        done = taken(params, late, state, NOW_S + at)
        state = replace(done.state, ordered={})
    assert "GPUs of tier 'first'" in told(done, Aspect.GPUS_USABLE).message
    later = taken(params, asked(1), state, NOW_S + 10.0)
    assert orders(later) == ["second"]


def test_images_that_keep_failing_stop_all_orders_until_one_warms() -> None:
    state, params = known(), pool()
    for at in range(3):
        bad = asked(1, slot(f"s{at}", node="n", scheduled_s=NOW_S - 5.0, failed="ErrImagePull: no such tag"))
        done = taken(params, bad, state, NOW_S + at)
        state = replace(done.state, ordered={})
    assert "ErrImagePull: no such tag" in told(done, Aspect.CONTENT_WARMS).message
    assert PoolReason.CONTENT_FAILING in reasons(taken(params, asked(1), state, NOW_S + 10.0))
    fresh = warm("p-9", age_s=-20.0)
    assert orders(taken(params, asked(2, fresh), state, NOW_S + 30.0)) == ["first"]


NONE = together([("m", np.zeros(400, dtype=np.int64))], 60.0)


def outage(tiers: int, until_s: float, back_s: float) -> Plant:
    names = [f"t{at}" for at in range(tiers)]
    plant = Plant(
        tuple(PlantTier(name, name, out_s=((0.0, back_s if name == "t1" else 1e9),)) for name in names),
        Stages(spread=0.0),
        np.random.default_rng(0),
    )
    params = pool(
        *(PoolTier(name, name, name, CapacityType.ON_DEMAND, ("a",)) for name in names),
        min_slots=5,
        events=(KnownEvent(0.0, 1.0, floor=5),),
    )
    ours = HeadroomPool(params)
    while plant.now_s < until_s:
        plant.advance(plant.now_s + 20.0, NONE)
        plant.apply(list(ours.act(plant)))
    return plant


def test_with_every_tier_out_less_than_one_slot_a_minute_is_created() -> None:
    plant = outage(4, 4800.0, 1e9)
    times = np.array(plant.counts.create_times_s)
    settled = times[times > 600.0]
    assert (np.diff(settled) > 60.0).all()
    assert len(settled) < (4800.0 - 600.0) / 60.0
    assert len(times) < 4800.0 / 60.0, "the first minutes included"


def test_when_one_tier_recovers_the_pool_fills_from_it() -> None:
    plant = outage(3, 4200.0, 1200.0)
    assert [each.order.tier for each in plant.slots.values() if each.warm_s is not None] == ["t1"] * 5


def test_signs_from_long_ago_are_forgotten() -> None:
    old = Trouble(Sign.INSUFFICIENT, "c", NOW_S - 4000.0, domain())
    assert breaker.noted(Circuits(), world(troubles=(old,)), NOW_S).capacity == {}


def test_a_fleet_that_is_whole_orders_nothing_in_trouble() -> None:
    done = taken(pool(min_slots=3), world(fleet(3)), out())
    assert done.intents == ()


def test_what_a_tier_had_is_forgotten_with_it() -> None:
    """Nobody would ask there again: it would be told as half-open for ever."""
    out = Circuit(opened=1, until_s=NOW_S - 1.0)
    circuits = {domain(): out, domain(capacity_type=CapacityType.SPOT): out}
    state = with_circuits(known(), capacity=circuits, gpus={"first": out, "spot": out})
    after = taken(pool(FIRST), world(), state).state.circuits
    assert (list(after.capacity), list(after.gpus)) == ([domain()], ["first"])


def test_what_a_zone_had_is_forgotten_with_the_last_tier_that_may_go_there() -> None:
    out = Circuit(opened=1, until_s=NOW_S - 1.0)
    state = with_circuits(known(), capacity={domain(zone): out for zone in ("", "a", "c")})
    assert list(taken(pool(ZONED), world(), state).state.circuits.capacity) == [domain(""), domain("a")]
    anywhere = pool(ZONED, replace(FIRST, name="any", node_pool="np-any"))
    assert len(taken(anywhere, world(), state).state.circuits.capacity) == 3
