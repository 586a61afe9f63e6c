"""Where it is not known whether capacity is back one pod asks for a gang, and for everybody; then all of the gang's."""

from dataclasses import replace

import pytest

from autoscaler.core.pool.circuits import Circuit, Position
from autoscaler.core.pool.intents import CreateHolder, CreateSlot, DeleteSlot
from autoscaler.core.pool.params import Domain, GangTerms
from autoscaler.core.pool.placing import PROBE_EVERY_S
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.world import PodsAsked
from autoscaler.record.pools import step_sentence
from tests.core.pool.builders import (
    NOW_S,
    claim,
    domain,
    known,
    node,
    node_pools,
    of,
    slot,
    trouble,
    warm,
    with_circuits,
)
from tests.core.pool.gangs import ASK, MAKES, OTHER, SHAPED, empty, holder, looked, refusals

HALF = Circuit(opened=1, until_s=NOW_S - 1.0, trouble_s=NOW_S - 200.0)
OPEN = Circuit(opened=1, until_s=NOW_S + 60.0, trouble_s=NOW_S - 100.0)
WIDE = replace(ASK, pods=(PodsAsked(4, 8),))
ANYWHERE = domain("")
ALONE = replace(MAKES, tiers=(SHAPED,))
ROOMY = replace(MAKES, gangs=GangTerms(64.0))


def doubtful(where: Domain = ANYWHERE, **more: Circuit) -> PoolState:
    """Capacity of the gang's tier was missing, and it is time to ask again."""
    return with_circuits(known(), capacity={where: HALF}, **more)


def test_one_pod_of_a_gang_of_four_asks_whether_capacity_is_back_and_the_others_come_once_it_was_launched() -> None:
    first = looked(empty(asks=(WIDE,)), doubtful())
    assert [each.reason for each in of(CreateHolder, first)] == [PoolReason.PROBE]
    assert [(each.pods, each.refused) for each in first.gangs.standings] == [(4, None)]
    told = [step_sentence(step) for step in first.gangs.steps]
    assert told[-1] == "one ordered to ask whether capacity is back, then comes the rest of job/ns/train"
    waits = looked(empty(asks=(WIDE,), holders=(holder(0, WIDE),)), first.state, now_s=NOW_S + 5.0)
    assert of(CreateHolder, waits) == []
    launched = claim("c", node_pool="np-first", launched_s=NOW_S + 8.0)
    seen = empty(asks=(WIDE,), holders=(holder(0, WIDE),), claims=(launched,))
    rest = looked(seen, waits.state, now_s=NOW_S + 10.0)
    assert [each.name for each in of(CreateHolder, rest)] == [holder(at, WIDE).name for at in (1, 2, 3)]
    assert {each.reason for each in of(CreateHolder, rest)} == {PoolReason.GANG}


def test_a_probe_that_finds_nothing_is_given_back_and_its_gang_has_cost_one_pod() -> None:
    first = looked(empty(asks=(WIDE,)), doubtful())
    lost = empty(asks=(WIDE,), holders=(holder(0, WIDE),), troubles=(trouble("c", NOW_S + 9.0, zone=""),))
    done = looked(lost, first.state, now_s=NOW_S + 10.0)
    assert done.state.circuits.capacity[ANYWHERE].position(NOW_S + 10.0) is Position.OPEN
    assert [each.reason for each in of(DeleteSlot, done)] == [PoolReason.NO_CAPACITY]
    assert (of(CreateHolder, done), refusals(done)) == ([], [PoolReason.NO_CAPACITY])


def test_a_probe_that_takes_a_node_that_was_there_has_shown_nothing_and_the_next_one_asks() -> None:
    seen = empty(asks=(WIDE,), holders=(holder(0, WIDE, node="n0"),), nodes=(node("n0", units=8),))
    done = looked(seen, doubtful())
    assert [each.name for each in of(CreateHolder, done)] == [holder(1, WIDE).name]


def test_two_gangs_and_a_slot_are_one_probe_and_the_slot_goes_first() -> None:
    other = replace(WIDE, gang="job/ns/other", uid="u2")
    done = looked(empty(asks=(WIDE, other)), doubtful(), ROOMY)
    assert len(of(CreateHolder, done)) == 1
    assert refusals(done) == [None, PoolReason.NO_CAPACITY]
    keeps = replace(ROOMY, min_slots=2)
    with_slot = looked(empty(asks=(WIDE,)), doubtful(), keeps)
    assert [each.reason for each in of(CreateSlot, with_slot)] == [PoolReason.PROBE, PoolReason.REFILL]
    assert [each.tier for each in of(CreateSlot, with_slot)] == ["first", "second"]
    assert (of(CreateHolder, with_slot), refusals(with_slot)) == ([], [PoolReason.NO_CAPACITY])
    waiting = replace(empty(asks=(WIDE,)), slots=(slot("p-0"),))
    assert of(CreateHolder, looked(waiting, doubtful(), replace(keeps, min_slots=1))) == []


def test_no_slot_asks_beside_a_gangs_probe_and_none_waits_for_it_for_long() -> None:
    keeps = replace(ALONE, min_slots=1)
    young = empty(asks=(WIDE,), holders=(holder(0, WIDE, age_s=PROBE_EVERY_S - 1.0),))
    assert of(CreateSlot, looked(young, doubtful(), keeps)) == []
    old = empty(asks=(WIDE,), holders=(holder(0, WIDE, age_s=PROBE_EVERY_S),))
    assert len(of(CreateSlot, looked(old, doubtful(), keeps))) == 1


def test_while_every_tier_is_out_gangs_and_slots_together_ask_once_in_a_minute_and_a_half() -> None:
    first = looked(empty(asks=(WIDE,)), doubtful(), ALONE)
    assert len(of(CreateHolder, first)) == 1
    keeps = replace(ALONE, min_slots=1)
    soon = looked(empty(), first.state, keeps, NOW_S + PROBE_EVERY_S - 1.0)
    assert of(CreateSlot, soon) == [], "the pod that asked may not be seen yet"
    again = looked(empty(asks=(WIDE,)), first.state, ALONE, NOW_S + PROBE_EVERY_S - 1.0)
    assert (of(CreateHolder, again), refusals(again)) == ([], [PoolReason.NO_CAPACITY])
    assert len(of(CreateHolder, looked(empty(asks=(WIDE,)), first.state, ALONE, NOW_S + PROBE_EVERY_S))) == 1


def test_what_a_gang_will_hold_once_its_probe_has_succeeded_is_not_promised_to_another_one() -> None:
    """Of 32 GPUs for gangs the first one wants 32 and holds 8 so far."""
    params = replace(MAKES, tiers=(SHAPED, replace(OTHER, shape="h100")))
    small = replace(ASK, gang="job/ns/small", uid="u2", pods=(PodsAsked(1, 8),))
    done = looked(empty(asks=(WIDE, small), holders=(holder(0, WIDE),)), doubtful(), params)
    assert (of(CreateHolder, done), refusals(done)) == ([], [None, PoolReason.GANG_LIMIT])
    more = replace(params, gangs=GangTerms(40.0))
    beside = looked(empty(asks=(WIDE, small), holders=(holder(0, WIDE),)), doubtful(), more)
    assert [each.tier for each in of(CreateHolder, beside)] == ["second"]


def test_what_a_probing_gang_will_hold_is_not_given_to_an_older_one_whose_pause_is_over() -> None:
    """Of 40 GPUs for gangs one asks with 8 for the 32 that it wants; one that has waited longer wants 16 again."""
    older = replace(ASK, gang="job/ns/older", uid="u0")
    params = replace(MAKES, tiers=(SHAPED, replace(OTHER, shape="h100")), gangs=GangTerms(40.0))
    asking = empty(asks=(older, WIDE), holders=(holder(0, WIDE),))
    done = looked(asking, doubtful(), params)
    assert (of(CreateHolder, done), of(DeleteSlot, done)) == ([], [])
    assert refusals(done) == [PoolReason.GANG_LIMIT, None]
    launched = claim("c", node_pool="np-first", launched_s=NOW_S - 2.0)
    back = looked(replace(asking, claims=(launched,)), doubtful(), params)
    assert {each.gang_uid for each in of(CreateHolder, back)} == {WIDE.uid}
    assert len(of(CreateHolder, back)) == 3, "capacity is back: it has the rest of what it asked for"


def test_of_a_tiers_limit_a_probing_gangs_part_is_kept_from_an_older_one_as_well() -> None:
    older = replace(ASK, gang="job/ns/older", uid="u0")
    tier = replace(SHAPED, max_gpus=40)
    launched = claim("c", node_pool="np-first", launched_s=NOW_S - 2.0)
    seen = empty(asks=(older, WIDE), holders=(holder(0, WIDE),), claims=(launched,))
    done = looked(seen, doubtful(), replace(ROOMY, tiers=(tier,)))
    assert {each.gang_uid for each in of(CreateHolder, done)} == {WIDE.uid}
    assert refusals(done) == [PoolReason.NO_ROOM, None]


def test_of_two_gangs_that_lost_a_place_each_and_have_room_for_one_the_older_one_gets_it() -> None:
    """Two pods of 8 GPUs each: 32 at most in the tier, of which a slot took 8 while both had lost one."""
    younger = replace(ASK, gang="job/ns/younger", uid="u2")
    tier = replace(SHAPED, max_gpus=32)
    held = tuple(holder(0, ask, node=name) for ask, name in ((ASK, "n0"), (younger, "n1")))
    nodes = (*(node(name, units=8, free_units=0) for name in ("n0", "n1")), node("n-p-0", units=8))
    stands = tuple(replace(each, used_gpus=24.0, used_nodes=3) for each in node_pools(tier))
    seen = replace(empty(asks=(ASK, younger), holders=held, nodes=nodes), slots=(warm("p-0"),), node_pools=stands)
    done = looked(seen, known(), replace(ROOMY, tiers=(tier,), min_slots=1))
    assert [each.gang_uid for each in of(CreateHolder, done)] == [ASK.uid]


def test_a_probing_gang_that_a_lowered_limit_leaves_no_room_for_gives_its_one_place_back() -> None:
    done = looked(empty(asks=(WIDE,), holders=(holder(0, WIDE),)), doubtful(), replace(MAKES, gangs=GangTerms(24.0)))
    assert [each.reason for each in of(DeleteSlot, done)] == [PoolReason.GANG_LIMIT]


def test_a_place_that_was_lost_while_there_is_no_capacity_waits_and_the_others_stay() -> None:
    out = with_circuits(known(), capacity={ANYWHERE: OPEN})
    done = looked(empty(asks=(ASK,), holders=(holder(1, node="n1"),)), out)
    assert (of(CreateHolder, done), of(DeleteSlot, done)) == ([], [])
    assert PoolReason.PROBE not in {step.reason for step in done.gangs.steps}, "nobody asks while it is known"


@pytest.mark.parametrize(("usable_s", "pods"), [(NOW_S - 20.0, 3), (NOW_S - 4000.0, 1)], ids=["came", "were there"])
def test_gpus_that_never_came_are_asked_for_by_one_pod_and_its_node_shows_whether_they_come(
    usable_s: float, pods: int
) -> None:
    bad = Circuit(opened=1, until_s=NOW_S - 1.0, trouble_s=NOW_S - 3000.0)
    state = with_circuits(known(), gpus={"first": bad})
    assert len(of(CreateHolder, looked(empty(asks=(WIDE,)), state))) == 1
    there = node("n0", units=8, gpu_ready_s=usable_s)
    done = looked(empty(asks=(WIDE,), holders=(holder(0, WIDE, node="n0"),), nodes=(there,)), state)
    assert len(of(CreateHolder, done)) == pods
