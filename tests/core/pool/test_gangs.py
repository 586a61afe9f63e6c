"""Nodes for whole gangs: asked for whole, within every limit, given back whole and in time, for nobody else."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.pool import state as pool_state
from autoscaler.core.pool.circuits import Circuit
from autoscaler.core.pool.gang_pods import OUTLIVES_S
from autoscaler.core.pool.gangs import AGAIN_S, FRESH_S
from autoscaler.core.pool.intents import CreateHolder, CreateSlot, DeleteSlot
from autoscaler.core.pool.params import GangTerms, PoolTier, SlotForm
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import Circuits, GaveBack
from autoscaler.core.pool.world import HolderSeen, PodsAsked
from autoscaler.record.pools import step_sentence
from tests.core.pool.builders import NOW_S, domain, known, node, node_pools, of, pool, warm
from tests.core.pool.gangs import ASK, MAKES, OTHER, SHAPED, empty, holder, looked, made_for, refusals


def test_a_place_is_made_for_every_pod_of_a_gang_at_once_as_large_as_the_pod_and_where_its_nodes_are() -> None:
    made = made_for(ASK)
    assert [(each.tier, each.node_pool, each.units, each.cpu, each.memory_gib) for each in made] == [
        ("first", "np-first", 8, 4.0, 32.0)
    ] * 2
    assert {each.gang_uid for each in made} == {"u1"}
    assert made[0].life_s == 900.0 + OUTLIVES_S, "nobody else need live for it to end"
    again = looked(empty(asks=(ASK,), holders=(holder(0), holder(1))))
    assert (of(CreateHolder, again), of(DeleteSlot, again)) == ([], [])
    assert [(each.placed, each.pods) for each in again.gangs.standings] == [(0, 2)]


def test_a_place_is_held_where_the_gangs_pods_may_go() -> None:
    zoned = replace(ASK, pods=(PodsAsked(1, 8, selector=(("zone", "a"),)),))
    assert [each.selector for each in made_for(zoned)] == [(("zone", "a"),)]


def test_a_place_that_was_lost_is_made_again_under_its_name_and_one_that_ended_goes_first() -> None:
    lacks = looked(empty(asks=(ASK,), holders=(holder(1),)))
    assert [each.name for each in of(CreateHolder, lacks)] == [holder(0).name]
    over = looked(empty(asks=(ASK,), holders=(holder(0, over=True), holder(1))))
    assert [each.name for each in of(DeleteSlot, over)] == [holder(0).name]


def test_places_that_were_made_for_another_form_of_the_gang_go_and_those_of_its_form_are_made() -> None:
    wider = replace(ASK, pods=(PodsAsked(3, 4, 4.0, 32.0),))
    done = looked(empty(asks=(wider,), holders=(holder(0, node="n0"), holder(1))))
    assert [each.reason for each in of(DeleteSlot, done)] == [PoolReason.GANG_OVER] * 2
    assert [each.units for each in of(CreateHolder, done)] == [4] * 3


def test_what_holds_places_for_a_gang_that_wants_none_goes_and_nothing_goes_while_that_is_not_known() -> None:
    held = (holder(0, node="n0"), holder(1))
    done = looked(empty(asks=(), holders=held))
    assert [(each.uid, each.reason) for each in of(DeleteSlot, done)] == [
        (each.uid, PoolReason.GANG_OVER) for each in held
    ]
    blind = looked(empty(asks=None, holders=held))
    assert of(DeleteSlot, blind) == []
    going = looked(empty(asks=(), holders=(replace(held[0], deleting=True),)))
    assert of(DeleteSlot, going) == []


def test_gpus_that_are_held_are_told_with_or_without_a_node_and_not_where_nobody_could_look() -> None:
    held = (holder(0, node="n0"), holder(1), replace(holder(1), name="gone", over=True))
    assert looked(empty(asks=(ASK,), holders=held)).gangs.held_gpus == 16.0
    assert looked(empty(asks=None, holders=held)).gangs.held_gpus == 16.0
    parts = pool(SHAPED, OTHER, slot=SlotForm(count=2, parts=4), gangs=GangTerms(32.0, 900.0))
    assert looked(empty(asks=None, holders=held), params=parts).gangs.held_gpus == 4.0
    assert looked(empty()).gangs.held_gpus == 0.0
    for asks in (None, (), (ASK,)):
        assert looked(empty(asks=asks, holders=held)).gangs.holds == {"u1"}, "whoever asks after a restart asks here"
    assert looked(empty(asks=None, holders=(replace(held[0], deleting=True),))).gangs.holds == frozenset()
    assert looked(replace(empty(asks=(ASK,), holders=held), nodes=None)).gangs.held_gpus is None


def test_nothing_is_begun_for_gangs_of_which_nobody_has_heard_for_a_minute_and_what_was_begun_stays_its_time() -> None:
    """The list of Jobs is denied for five hours: whose gang was deleted meanwhile nobody knows."""
    other = replace(ASK, gang="job/ns/other", uid="u2")
    held = (holder(0, node="n0"), holder(1), replace(holder(0, other), gang_uid="u3"))
    fresh = looked(empty(asks=(ASK, other), asks_age_s=FRESH_S, holders=held[:2]))
    assert len(of(CreateHolder, fresh)) == 2
    stale = empty(asks=(ASK, other), asks_age_s=FRESH_S + 1.0)
    done = looked(replace(stale, holders=held))
    assert (of(CreateHolder, done), of(DeleteSlot, done)) == ([], [])
    assert refusals(done) == [None, PoolReason.GANG_UNSURE]
    assert of(CreateHolder, looked(replace(stale, holders=held[:1]))) == [], "nor is a place made again"
    late = looked(replace(stale, holders=held[:2]), now_s=NOW_S + 900.0)
    assert [each.reason for each in of(DeleteSlot, late)] == [PoolReason.GANG_LATE] * 2
    for hours in range(1, 6):
        later = looked(stale, late.state, now_s=NOW_S + 3600.0 * hours)
        assert of(CreateHolder, later) == [], "after its pause it is not asked for again either"


def test_while_a_gang_takes_its_places_none_is_made_and_none_given_back_however_late() -> None:
    starts = replace(ASK, starts=True)
    done = looked(empty(asks=(starts,), holders=(holder(1, node="n0", age_s=5000.0),)))
    assert (of(CreateHolder, done), of(DeleteSlot, done)) == ([], [])


def test_a_gang_made_anew_under_the_name_of_another_gets_none_of_what_was_held_for_that() -> None:
    anew = replace(ASK, uid="u2")
    done = looked(empty(asks=(anew,), holders=(holder(0, node="n0"), holder(1, node="n1"))))
    assert len(of(DeleteSlot, done)) == len(of(CreateHolder, done)) == 2


@pytest.mark.parametrize(
    ("params", "seen", "why"),
    [
        pytest.param(pool(SHAPED, slot=SlotForm(count=8)), {}, PoolReason.GANG_LIMIT, id="the pool makes none"),
        pytest.param(replace(MAKES, gangs=GangTerms(15.0)), {}, PoolReason.GANG_LIMIT, id="too large for its terms"),
        pytest.param(replace(MAKES, max_gpus=15.0), {}, PoolReason.GANG_LIMIT, id="beyond the pool's GPU budget"),
        pytest.param(
            MAKES, {"node_pools": node_pools(SHAPED, limit_gpus=24, used_gpus=16.0)}, PoolReason.NO_ROOM,
            id="beyond the NodePool's limit",
        ),
        pytest.param(
            MAKES, {"node_pools": node_pools(SHAPED, limit_nodes=2, used_nodes=2)}, PoolReason.NO_ROOM,
            id="no more nodes",
        ),
        pytest.param(
            replace(MAKES, tiers=(replace(SHAPED, max_gpus=8),)), {}, PoolReason.NO_ROOM, id="beyond the tier's limit"
        ),
        pytest.param(MAKES, {"node_pools": ()}, PoolReason.NO_ROOM, id="the NodePool is missing"),
        pytest.param(
            MAKES, {"node_pools": node_pools(SHAPED, ready=False)}, PoolReason.NO_ROOM, id="the NodePool is not ready"
        ),
        pytest.param(
            MAKES, {"node_pools": node_pools(SHAPED, static_nodes=3)}, PoolReason.NO_ROOM, id="the NodePool is static"
        ),
        pytest.param(MAKES, {"slot_priority": None}, PoolReason.PRIORITY, id="no PriorityClass"),
    ],
)  # fmt: skip
def test_nothing_is_asked_for_that_cannot_be_had_whole(params: Any, seen: dict[str, Any], why: PoolReason) -> None:
    done = looked(replace(empty(asks=(ASK,)), **seen), params=params)
    assert of(CreateHolder, done) == []
    assert refusals(done) == [why]
    assert done.gangs.standings[0].until_s == NOW_S + AGAIN_S
    assert done.decision.trace[-1].reason is why


def test_gangs_share_what_the_pool_allows_whoever_waits_longest_first() -> None:
    second = replace(ASK, gang="job/ns/next", uid="u2")
    small = replace(ASK, gang="job/ns/small", uid="u3", pods=(PodsAsked(1, 8),))
    params = replace(MAKES, gangs=GangTerms(24.0))
    done = looked(empty(asks=(ASK, second, small)), params=params)
    assert refusals(done) == [None, PoolReason.GANG_LIMIT, None]
    later = looked(empty(asks=(second,), holders=(holder(0, node="n0"), holder(1, node="n1"))), params=params)
    assert refusals(later) == [PoolReason.GANG_LIMIT], "what goes holds its GPUs still"


def test_missing_capacity_has_the_next_tier_of_the_shape_asked_and_is_told_where_there_is_none() -> None:
    out = replace(known(), circuits=Circuits({domain(""): Circuit(opened=3, until_s=NOW_S + 400.0)}))
    done = looked(empty(asks=(ASK,)), out)
    assert (of(CreateHolder, done), refusals(done)) == ([], [PoolReason.NO_CAPACITY])
    tier = PoolTier("more", "np-more", "h200", SHAPED.capacity_type, shape="h100")
    params = replace(MAKES, tiers=(SHAPED, tier))
    seen = replace(empty(asks=(ASK,)), node_pools=node_pools(SHAPED, tier))
    assert {each.tier for each in of(CreateHolder, looked(seen, out, params))} == {"more"}


def test_where_capacity_turns_out_to_be_missing_all_is_given_back_and_not_asked_for_again_for_ever_longer() -> None:
    out = replace(known(), circuits=Circuits({domain(""): Circuit(opened=3, until_s=NOW_S + 40.0)}))
    held = (holder(0, node="n0"), holder(1))
    done = looked(empty(asks=(ASK,), holders=held), out)
    assert [each.reason for each in of(DeleteSlot, done)] == [PoolReason.NO_CAPACITY] * 2
    assert refusals(done) == [PoolReason.NO_CAPACITY]
    waits = done.gangs.gave_back["u1"]
    assert (waits.until_s, waits.times) == (NOW_S + 60.0, 1)
    soon = looked(empty(asks=(ASK,)), done.state, now_s=NOW_S + 59.0)
    assert of(CreateHolder, soon) == []
    assert refusals(soon) == [PoolReason.NO_CAPACITY]
    again = looked(empty(asks=(ASK,)), pool_state.unpack(pool_state.pack(done.state)), now_s=NOW_S + 61.0)
    assert len(of(CreateHolder, again)) == 1, "a restart in between does not forget it; one pod asks first"
    late = looked(empty(asks=(ASK,), holders=held), again.state, now_s=NOW_S + 900.0)
    assert late.gangs.gave_back["u1"].times == 2
    assert late.gangs.gave_back["u1"].until_s == NOW_S + 900.0 + 120.0


def test_a_gang_that_gets_no_nodes_for_two_months_is_asked_for_every_hour_still() -> None:
    before = replace(known(), gave_back={"u1": GaveBack(PoolReason.GANG_LATE, NOW_S - 1.0, 1500)})
    late = looked(empty(asks=(ASK,), holders=(holder(0, age_s=900.0),)), before)
    assert late.gangs.gave_back["u1"] == GaveBack(PoolReason.GANG_LATE, NOW_S + 3600.0, 1501)


def test_one_that_holds_all_of_its_nodes_keeps_them_though_there_are_no_more_to_be_had() -> None:
    out = replace(known(), circuits=Circuits({domain(""): Circuit(opened=3, until_s=NOW_S + 40.0)}))
    done = looked(empty(asks=(ASK,), holders=(holder(0, node="n0"), holder(1, node="n1"))), out)
    assert (of(DeleteSlot, done), refusals(done)) == ([], [None])


def test_after_its_time_a_request_is_given_back_whole_and_told() -> None:
    held = (holder(0, node="n0", age_s=899.0), holder(1, age_s=899.0))
    seen = empty(asks=(ASK,), holders=held)
    assert of(DeleteSlot, looked(seen)) == []
    done = looked(seen, now_s=NOW_S + 1.0)
    assert [each.reason for each in of(DeleteSlot, done)] == [PoolReason.GANG_LATE] * 2
    twice = looked(seen, done.state, now_s=NOW_S + 2.0)
    assert twice.gangs.gave_back == done.gangs.gave_back, "however long the pods take to go"


def test_a_pool_that_is_told_to_make_none_any_more_gives_back_what_it_holds() -> None:
    done = looked(
        empty(asks=(ASK,), holders=(holder(0), holder(1))), params=pool(SHAPED, OTHER, slot=SlotForm(count=8))
    )
    assert len(of(DeleteSlot, done)) == 2


def test_a_lowered_limit_gives_back_whole_requests_at_once_and_who_waits_longest_keeps_its_own() -> None:
    """Two gangs of 16 GPUs and one of 8 hold 40; the limit is set to 24, then to 8."""
    second = replace(ASK, gang="job/ns/next", uid="u2")
    small = replace(ASK, gang="job/ns/small", uid="u3", pods=(PodsAsked(1, 8),))
    held = (holder(0, node="n0"), holder(1, node="n1"), holder(0, second), holder(1, second), holder(0, small))
    seen = empty(asks=(ASK, second, small), holders=held)
    assert of(DeleteSlot, looked(seen, params=replace(MAKES, gangs=GangTerms(40.0)))) == []
    done = looked(seen, params=replace(MAKES, gangs=GangTerms(24.0)))
    assert [(each.uid, each.reason) for each in of(DeleteSlot, done)] == [
        (each.uid, PoolReason.GANG_LIMIT) for each in held[2:4]
    ]
    assert refusals(done) == [None, PoolReason.GANG_LIMIT, None]
    going = tuple(replace(each, deleting=each.gang_uid == "u2") for each in held)
    calm = looked(replace(seen, holders=going), done.state, replace(MAKES, gangs=GangTerms(24.0)))
    assert of(DeleteSlot, calm) == [], "what goes drives nobody else out"
    least = looked(seen, params=replace(MAKES, gangs=GangTerms(8.0)))
    assert {each.uid for each in of(DeleteSlot, least)} == {each.uid for each in held[:4]}
    starts = replace(seen, asks=(replace(ASK, starts=True), second, small))
    beside = looked(starts, params=replace(MAKES, gangs=GangTerms(16.0)))
    assert {each.uid for each in of(DeleteSlot, beside)} == {each.uid for each in held[2:]}, (
        "who starts keeps its places"
    )


def test_slots_and_gangs_together_hold_no_more_than_the_pools_gpu_budget_whoever_comes_first() -> None:
    """16 GPUs in all: a gang holds 16 of them, or 8 and a slot of 8."""
    keeps = replace(MAKES, max_gpus=16.0, min_slots=2)
    held = (holder(0, node="n0"), holder(1, node="n1"))
    full = tuple(node(name, units=8, free_units=0) for name in ("n0", "n1"))
    done = looked(empty(asks=(ASK,), holders=held, nodes=full), params=keeps)
    assert of(CreateSlot, done) == []
    steps = [step_sentence(step) for step in done.decision.trace if step.reason is PoolReason.GANGS_HOLD]
    assert steps == ["0 of 2 ordered: 16 GPUs of the pool's 16 are for gangs until they start"]
    one = replace(ASK, pods=(PodsAsked(1, 8),))
    half = looked(empty(asks=(one,), holders=(holder(0, one, node="n0"),), nodes=full[:1]), params=keeps)
    assert (len(of(CreateSlot, half)), of(DeleteSlot, half)) == (1, [])
    gone = looked(empty(asks=(), holders=(), nodes=full), params=keeps)
    assert len(of(CreateSlot, gone)) == 2, "they have started, and are the pool's no more"


def test_places_that_were_made_and_nobody_has_seen_yet_are_in_the_pools_gpu_budget_for_a_minute() -> None:
    """The next look comes before the watch has shown them: with two slots besides it would be 32 GPUs of 16."""
    budget, nothing = replace(MAKES, max_gpus=16.0, min_slots=0), empty(asks=(ASK,))
    first = looked(nothing, params=budget)
    assert len(of(CreateHolder, first)) == 2
    keeps = replace(budget, min_slots=2)
    second = looked(nothing, pool_state.unpack(pool_state.pack(first.state)), keeps, NOW_S + 5.0)
    assert (of(CreateSlot, second), of(CreateHolder, second), of(DeleteSlot, second)) == ([], [], [])
    gone = looked(empty(asks=()), second.state, keeps, NOW_S + 10.0)
    assert of(DeleteSlot, gone) == [], "nothing is deleted whose uid nobody knows"
    seen = looked(empty(asks=(), holders=(holder(0),)), gone.state, keeps, NOW_S + 15.0)
    assert [each.uid for each in of(DeleteSlot, seen)] == [holder(0).uid]
    lost = looked(nothing, first.state, budget, NOW_S + 60.0)
    assert len(of(CreateHolder, lost)) == 2, "they never came"


def test_no_slot_takes_what_a_gang_that_holds_a_part_lacks_still_of_the_pools_gpu_budget() -> None:
    """Of 16 GPUs it holds 8, on a node that came for it: with a slot in its other place these would be given back."""
    keeps = replace(MAKES, max_gpus=16.0, min_slots=1)
    seen = empty(asks=(ASK,), holders=(holder(0, node="n0"),), nodes=(node("n0", units=8, free_units=0),))
    done = looked(seen, params=keeps)
    assert (of(CreateSlot, done), of(DeleteSlot, done)) == ([], [])
    assert [each.name for each in of(CreateHolder, done)] == [holder(1).name]
    late = looked(replace(seen, holders=(holder(0, node="n0", age_s=900.0),)), params=keeps)
    assert [each.reason for each in of(DeleteSlot, late)] == [PoolReason.GANG_LATE]
    after = looked(seen, late.state, keeps, NOW_S + 5.0)
    assert len(of(CreateSlot, after)) == 1, "it is given back, and what it lacks is nobody's"


def test_a_lowered_gpu_budget_gives_the_gangs_places_back_before_slots_and_gang_hold_more_than_it() -> None:
    """A slot of 8 and a gang of 16 hold 24 GPUs; the budget of the whole pool is set to 16."""
    seen = replace(empty(asks=(ASK,), holders=(holder(0, node="n0"), holder(1))), slots=(warm("p-0"),))
    seen = replace(seen, nodes=(node("n-p-0", units=8), node("n0", units=8)))
    keeps = replace(MAKES, max_gpus=24.0, min_slots=1)
    assert of(DeleteSlot, looked(seen, params=keeps)) == []
    done = looked(seen, params=replace(keeps, max_gpus=16.0))
    assert [(each.of_gang, each.reason) for each in of(DeleteSlot, done)] == [(True, PoolReason.GANG_LIMIT)] * 2
    assert refusals(done) == [PoolReason.GANG_LIMIT]


def test_what_holds_places_is_no_slot_and_nodes_full_of_it_take_none() -> None:
    keeps = replace(MAKES, min_slots=1)
    full = (node("n0", units=8, free_units=0), node("n1", units=8, free_units=0))
    done = looked(empty(asks=(ASK,), holders=(holder(0, node="n0"), holder(1, node="n1")), nodes=full), params=keeps)
    assert (done.decision.supply, done.decision.warm) == (0, 0)
    assert len(of(CreateSlot, done)) == 1


def test_a_node_of_which_a_gang_holds_half_has_no_free_half_for_a_slot() -> None:
    params = pool(SHAPED, slot=SlotForm(count=4), gangs=GangTerms(32.0, 900.0), min_slots=1)
    half = replace(ASK, pods=(PodsAsked(1, 4),))
    first = looked(replace(empty(asks=(half,)), node_pools=node_pools(SHAPED)), params=params)
    made = of(CreateHolder, first)[0]
    held = HolderSeen(made.name, "u-0", "u1", "first", 4, NOW_S - 60.0, node="n0")
    there = node("n0", units=8, free_units=4)
    full = node_pools(SHAPED, limit_nodes=1, used_nodes=1)
    seen = replace(empty(asks=(half,), nodes=(there,), holders=(held,)), node_pools=full)
    done = looked(seen, params=params)
    assert of(CreateSlot, done) == [], "Karpenter would make a node for it, beyond the limit"
    assert PoolReason.NO_ROOM in {step.reason for step in done.decision.trace}
    assert len(of(CreateSlot, looked(replace(seen, holders=()), params=params))) == 1
