"""Healthy slots and nodes give way to new ones a few at a time; more than needed go in the order of least loss."""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from autoscaler.core.pool.intents import Aspect, CreateSlot, DeleteClaim, DeleteSlot, MarkNodeEnds, PatchNodePool
from autoscaler.core.pool.params import PoolParams, PoolTier, SlotForm
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.reconcile import reconcile
from autoscaler.core.pool.state import Marked, PoolState, pack, unpack
from autoscaler.core.pool.world import NodePoolSeen, SlotSeen
from tests.core.pool.builders import (
    FIRST,
    NOW_S,
    SECOND,
    SPOT,
    claim,
    demand,
    fleet,
    known,
    node,
    node_pools,
    of,
    pool,
    slot,
    taken,
    told,
    warm,
    world,
)


def gone(done: Any) -> list[tuple[str, PoolReason]]:
    return [(each.name, each.reason) for each in of(DeleteSlot, done)]


def test_slots_whose_end_is_near_are_made_anew_one_in_ten_at_a_time_the_nearest_first() -> None:
    slots = tuple(warm(f"p-{at:02}", deadline_s=NOW_S + 300.0 - at) for at in range(20))
    done = taken(pool(min_slots=20, max_slots=40), world(slots))
    assert gone(done) == [("p-19", PoolReason.ROTATED), ("p-18", PoolReason.ROTATED)]


def test_no_further_slot_rotates_while_one_is_under_way() -> None:
    slots = (*fleet(5, deadline_s=NOW_S + 100.0), slot("p-5"))
    assert gone(taken(pool(min_slots=6), world(slots))) == []


def test_no_further_slot_rotates_before_the_last_one_is_gone_and_followed() -> None:
    seen, params = world(fleet(5, deadline_s=NOW_S + 100.0)), pool(min_slots=5, max_slots=5)
    first = taken(params, seen)
    assert gone(first) == [("p-0", PoolReason.ROTATED)]
    assert of(CreateSlot, first) == [], "the pool is full until it is gone"
    assert gone(taken(params, seen, first.state, NOW_S + 5.0)) == []


def test_a_slot_that_rotates_while_demand_is_not_known_is_followed_by_another() -> None:
    state = replace(known(0.0), targets=((NOW_S - 60.0, 5),))
    there = world(fleet(4), demand=None)
    done = taken(pool(max_slots=5), there, state)
    assert (done.decision.target, len(of(CreateSlot, done))) == (5, 1)


def test_a_full_pool_swaps_no_second_aged_slot_meanwhile() -> None:
    params = pool(min_slots=3, max_slots=3, node_life_s=86_400.0)
    first = taken(params, aged(3))
    assert gone(taken(params, aged(3), first.state, NOW_S + 5.0)) == []


def test_slots_with_other_content_are_made_anew_gradually_and_at_once_while_cold() -> None:
    slots = (*fleet(4, content="old"), slot("p-4", content="old"))
    done = taken(pool(min_slots=5), world(slots))
    assert gone(done) == [("p-4", PoolReason.OUTDATED), ("p-0", PoolReason.OUTDATED)]


def test_nothing_rotates_while_nothing_can_be_ordered() -> None:
    slots = fleet(4, deadline_s=NOW_S + 100.0)
    assert gone(taken(pool(min_slots=4), world(slots, slot_priority=None))) == []
    assert len(gone(taken(pool(min_slots=4), world(slots)))) == 1


def test_lives_differ_so_that_slots_made_together_do_not_end_together() -> None:
    orders = of(CreateSlot, taken(pool(min_slots=10, slot_life_s=10_000.0), world()))
    lives = [order.life_s for order in orders]
    assert len(set(lives)) == 10
    assert 8000.0 <= min(lives) < max(lives) <= 10_000.0


AGED = {"created_s": NOW_S - 200_000.0}


def aged(count: int, **fields: Any) -> Any:
    slots = fleet(count)
    nodes = tuple(node(f"n-p-{at}", **AGED) for at in range(count))
    claims = tuple(claim(f"claim-n-p-{at}", launched_s=NOW_S - 9e4, initialized_s=NOW_S - 9e4) for at in range(count))
    return world(slots, nodes=nodes, claims=claims, **fields)


def test_nodes_of_one_age_retire_one_after_another_once_a_successor_is_warm() -> None:
    params = pool(min_slots=3, node_life_s=86_400.0)
    first = taken(params, aged(3))
    assert (gone(first), len(of(CreateSlot, first))) == ([], 1), "the successor is ordered first"
    more = aged(3)
    slots = (*(more.slots or ()), warm("p-9"))
    nodes = (*(more.nodes or ()), node("n-p-9"))
    done = taken(params, replace(more, slots=slots, nodes=nodes))
    ((_, reason),) = gone(done)
    assert reason is PoolReason.RETIRED
    assert [each.reason for each in of(DeleteClaim, done)] == [PoolReason.RETIRED]


def test_a_node_with_a_pod_of_somebody_else_does_not_retire() -> None:
    seen = aged(3)
    foreign = tuple(replace(each, foreign_pods=1) for each in seen.nodes or ())
    done = taken(pool(min_slots=3, node_life_s=86_400.0), replace(seen, nodes=foreign))
    assert done.intents == ()


def test_a_full_pool_swaps_one_aged_slot_at_a_time() -> None:
    done = taken(pool(min_slots=3, max_slots=3, node_life_s=86_400.0), aged(3))
    assert [reason for _, reason in gone(done)] == [PoolReason.RETIRED]


def test_a_capacity_block_that_ends_is_replaced_ahead_of_its_end() -> None:
    nodes = (node("n-p-0", ends_s=NOW_S + 500.0), node("n-p-1", ends_s=NOW_S + 5000.0))
    done = taken(pool(min_slots=2), world(fleet(2), nodes=nodes))
    assert (done.decision.supply, len(of(CreateSlot, done))) == (1, 1)


def test_a_node_that_slots_of_another_pool_are_on_stays_whatever_its_age_and_its_own_slots_with_it() -> None:
    """Its room would be filled again by whoever is next: the slot on it would be made anew for ever."""
    seen = aged(3)
    shared = tuple(replace(each, foreign_pods=int(each.name == "n-p-0")) for each in seen.nodes or ())
    first = taken(pool(min_slots=3, max_slots=3, node_life_s=86_400.0), replace(seen, nodes=shared))
    assert "p-0" not in {name for name, _ in gone(first)}
    assert len(gone(first)) == 1, "the others retire"


def test_a_capacity_block_that_ends_under_somebody_else_is_replaced_ahead_of_its_end_and_left_alone() -> None:
    nodes = (node("n-p-0", ends_s=NOW_S + 500.0, foreign_pods=1), node("n-p-1", ends_s=NOW_S + 5000.0))
    claims = tuple(claim(f"claim-n-p-{at}", launched_s=NOW_S - 9e4, initialized_s=NOW_S - 9e4) for at in range(2))
    seen = world(fleet(2), nodes=nodes, claims=claims)
    done = taken(pool(min_slots=2), seen)
    assert (done.decision.supply, len(of(CreateSlot, done))) == (1, 1)
    told_of = (warm("p-0", node_ends=True), warm("p-1"), warm("p-9"))
    more = world(told_of, nodes=(*nodes, node("n-p-9")), claims=claims)
    after = taken(pool(min_slots=2), more)
    assert after.intents == (), "it stays up to the end: no slot would find another place there for as long"


def test_nobody_is_replaced_ahead_onto_the_same_node_that_ends_under_somebody_else() -> None:
    """The scheduler puts each successor where there is room: of 4 slots none would count, and no more be asked for."""
    ends = node("n-p-0", units=8, free_units=6, ends_s=NOW_S + 500.0, foreign_pods=1)
    claims = (claim("claim-n-p-0", launched_s=NOW_S - 9e4, initialized_s=NOW_S - 9e4),)
    seen = world((warm("p-0", "n-p-0"),), nodes=(ends,), claims=claims)
    first = taken(pool(min_slots=1, max_slots=4), seen)
    assert (first.decision.supply, of(CreateSlot, first)) == (1, []), "nothing keeps a successor off the node yet"
    assert [mark.uid for mark in of(MarkNodeEnds, first)] == ["u-p-0"]
    marked = replace(seen, slots=(warm("p-0", "n-p-0", node_ends=True),))
    (order,) = of(CreateSlot, taken(pool(min_slots=1, max_slots=4), marked, first.state, NOW_S + 5.0))
    assert order.apart
    full = replace(seen, nodes=(replace(ends, free_units=0),))
    assert len(of(CreateSlot, taken(pool(min_slots=1, max_slots=4), full))) == 1, "a successor has to go elsewhere"


@dataclass
class Machines:
    """Nodes of eight GPUs and a scheduler that puts slots of one GPU where the most are, as long as there is room and
    they are not to be apart; a slot is warm at the next look. What a claim is deleted for goes with its node."""

    params: PoolParams
    old: int
    """Nodes that have been there for two days; a new one comes where nothing else has room."""
    state: PoolState = field(default_factory=known)
    slots: dict[str, SlotSeen] = field(default_factory=dict)
    claimed: bool = True
    """Karpenter made them, and takes them away; else they are fixed."""
    refused: frozenset[str] = frozenset()
    """Nodes whose slots a webhook lets nobody label."""
    made: int = 0
    deleted: int = 0
    asked: list[tuple[str, float]] = field(default_factory=list)
    """Slots that were asked to say that their node ends, and when."""

    def __post_init__(self) -> None:
        self.births = {f"n{at}": NOW_S - 200_000.0 for at in range(self.old)}

    def look(self, now_s: float) -> None:
        count = Counter(slot.node for slot in self.slots.values())
        nodes = tuple(
            node(name, units=8, free_units=8 - count[name], created_s=born_s, claim=f"c-{name}" * self.claimed or None)
            for name, born_s in self.births.items()
        )
        claims = tuple(
            claim(f"c-{name}", node=name, launched_s=born_s, registered_s=born_s, initialized_s=born_s)
            for name, born_s in self.births.items()
            if self.claimed
        )
        seen = world(tuple(self.slots.values()), nodes=nodes, claims=claims)
        done = reconcile(self.params, seen, self.state, now_s)
        self.state = done.state
        for mark in of(MarkNodeEnds, done):
            self.asked.append((mark.name, now_s - NOW_S))
            slot = self.slots[mark.name]
            self.slots[mark.name] = replace(slot, node_ends=slot.node not in self.refused)
        for gone in of(DeleteSlot, done):
            del self.slots[gone.name]
            self.deleted += 1
        for order in of(CreateSlot, done):
            self.slots[order.name] = warm(order.name, self._placed(order, now_s), age_s=NOW_S - now_s)
            self.made += 1
        for each in of(DeleteClaim, done):
            del self.births[each.name.removeprefix("c-")]

    def _placed(self, order: CreateSlot, now_s: float) -> str:
        there = {name: [s for s in self.slots.values() if s.node == name] for name in self.births}
        free = [
            name for name, slots in there.items()
            if len(slots) < 8 and not (order.apart and any(slot.node_ends for slot in slots))
        ]  # fmt: skip
        if not free:
            name = f"n{len(self.births) + self.made + 100}"
            self.births[name] = now_s
            return name
        return max(free, key=lambda name: len(there[name]))


def test_slots_on_an_old_node_with_room_for_more_are_replaced_elsewhere_and_once() -> None:
    """Two slots on a node of eight GPUs that retires: their successors would be put beside them, for ever."""
    params = pool(min_slots=2, max_slots=8, node_life_s=86_400.0)
    machines = Machines(params, old=1, slots={name: warm(name, "n0") for name in ("p-0", "p-1")})
    for turn in range(60):
        machines.look(NOW_S + 10.0 * turn)
    assert (machines.made, machines.deleted) == (2, 2)
    assert "n0" not in machines.births, "the old node is gone"
    assert len(machines.slots) == 2


def test_a_full_pool_on_an_old_node_with_room_swaps_each_slot_once() -> None:
    params = pool(min_slots=3, max_slots=3, node_life_s=86_400.0)
    machines = Machines(params, old=1, slots={name: warm(name, "n0") for name in ("p-0", "p-1", "p-2")})
    for turn in range(60):
        machines.look(NOW_S + 10.0 * turn)
    assert (machines.made, machines.deleted) == (3, 3)
    assert "n0" not in machines.births


def test_old_nodes_that_nobody_takes_away_keep_their_slots() -> None:
    """Fixed nodes: a slot that leaves one leaves it there, empty and old, for the next one that is made."""
    params = pool(min_slots=2, max_slots=8, node_life_s=86_400.0)
    machines = Machines(params, old=2, slots={"p-0": warm("p-0", "n0"), "p-1": warm("p-1", "n1")}, claimed=False)
    for turn in range(60):
        machines.look(NOW_S + 10.0 * turn)
    assert (machines.made, machines.deleted) == (0, 0)


def test_a_slot_whose_label_a_webhook_refuses_is_asked_ever_more_rarely_and_holds_up_no_other_node() -> None:
    """One of three old nodes retires at a time; the oldest one's slot cannot be labelled, and the others went never."""
    params = pool(min_slots=3, max_slots=8, node_life_s=86_400.0)
    there = {f"p-{at}": warm(f"p-{at}", f"n{at}") for at in range(3)}
    for stuck in ("n0", "n1", "n2"):
        machines = Machines(params, old=3, slots=dict(there), refused=frozenset({stuck}))
        for turn in range(120):
            machines.look(NOW_S + 10.0 * turn)
        assert [name for name in machines.births if name in {"n0", "n1", "n2"}] == [stuck]
        asked_s = [at_s for name, at_s in machines.asked if name == f"p-{stuck[1:]}"]
        assert [after - before for before, after in pairwise(asked_s)] == [60.0, 120.0, 240.0, 480.0]
        assert machines.made == machines.deleted <= 3


def test_an_older_node_whose_slot_was_not_asked_yet_takes_no_turn_from_one_that_says_that_it_ends() -> None:
    """Of three old nodes one retires at a time; the youngest of them says so already, and its successor is warm."""
    ages_s = {"n-p-0": 300_000.0, "n-p-1": 250_000.0, "n-p-2": 200_000.0}
    old = tuple(node(name, units=8, free_units=7, created_s=NOW_S - age_s) for name, age_s in ages_s.items())
    slots = (warm("p-0"), warm("p-1"), warm("p-2", node_ends=True), warm("p-9"))
    claims = tuple(claim(f"claim-{name}", launched_s=NOW_S - 9e4, initialized_s=NOW_S - 9e4) for name in ages_s)
    seen = world(slots, nodes=(*old, node("n-p-9")), claims=claims)
    done = taken(pool(min_slots=3, max_slots=8, node_life_s=86_400.0), seen)
    assert (gone(done), of(MarkNodeEnds, done)) == ([("p-2", PoolReason.RETIRED)], [])


def test_a_node_without_room_retires_though_its_slot_never_says_that_it_ends() -> None:
    """No successor finds a place there, whatever a webhook refuses."""
    seen = aged(3)
    slots = (*(seen.slots or ()), warm("p-9"))
    more = replace(seen, slots=slots, nodes=(*(seen.nodes or ()), node("n-p-9")))
    asked = {f"u-p-{at}": Marked(NOW_S - 600.0, 3) for at in range(3)}
    done = taken(pool(min_slots=3, node_life_s=86_400.0), more, replace(known(), marked=asked))
    assert [reason for _, reason in gone(done)] == [PoolReason.RETIRED]


def test_of_slots_that_say_so_or_are_gone_it_is_not_remembered_when_they_were_asked() -> None:
    asked = {name: Marked(NOW_S - 600.0, 3) for name in ("u-p-0", "u-p-1", "u-gone")}
    seen = world((warm("p-0", node_ends=True), warm("p-1")))
    assert set(taken(pool(min_slots=2), seen, replace(known(), marked=asked)).state.marked) == {"u-p-1"}


def test_what_webhooks_refuse_is_asked_once_an_hour_in_the_end_also_over_restarts() -> None:
    machines = Machines(
        pool(min_slots=1, node_life_s=86_400.0), old=1, slots={"p-0": warm("p-0", "n0", deadline_s=NOW_S + 9e5)},
        refused=frozenset({"n0"}),
    )  # fmt: skip
    for turn in range(10 * 60):
        machines.state = unpack(pack(machines.state))
        machines.look(NOW_S + 60.0 * turn)
    last_s = [at_s for _, at_s in machines.asked][-4:]
    assert [after - before for before, after in pairwise(last_s)] == [3600.0] * 3


def test_what_webhooks_refuse_for_two_months_is_asked_once_an_hour_still() -> None:
    params = pool(min_slots=1, node_life_s=86_400.0)
    there = {"p-0": warm("p-0", "n0", deadline_s=NOW_S + 9e5)}
    machines = Machines(params, old=1, slots=there, refused=frozenset({"n0"}))
    machines.state = replace(machines.state, marked={"u-p-0": Marked(NOW_S - 3000.0, 1500)})
    for turn in range(130):
        machines.look(NOW_S + 60.0 * turn)
    assert [at_s for _, at_s in machines.asked] == [600.0, 4200.0]


def test_nodes_whose_slots_are_labelled_after_all_retire_one_at_a_time_as_any() -> None:
    """A webhook is mended: four old nodes that waited for it may not go together."""
    there = {f"p-{at}": warm(f"p-{at}", f"n{at}") for at in range(4)}
    params = pool(min_slots=4, max_slots=8, node_life_s=86_400.0)
    machines = Machines(params, old=4, slots=there, refused=frozenset(f"n{at}" for at in range(4)))
    for turn in range(120):
        machines.look(NOW_S + 10.0 * turn)
    assert (machines.made, len(machines.births)) == (0, 4)
    machines.slots = {name: replace(each, node_ends=True) for name, each in machines.slots.items()}
    machines.look(NOW_S + 1200.0)
    assert (machines.made, machines.deleted) == (1, 0), "one successor for one node"
    for turn in range(121, 180):
        machines.look(NOW_S + 10.0 * turn)
    assert (machines.made, machines.deleted, len(machines.slots)) == (4, 4, 4)


def test_growth_that_is_ordered_while_a_node_comes_to_its_end_is_kept_off_it_at_once() -> None:
    """Its slot does not say so yet: what was ordered then went onto the node that ends, beside it."""
    ends = node("n-p-0", units=8, free_units=7, ends_s=NOW_S + 500.0)
    claims = (claim("claim-n-p-0", launched_s=NOW_S - 9e4, initialized_s=NOW_S - 9e4),)
    seen = world((warm("p-0", "n-p-0"),), nodes=(ends,), claims=claims)
    first = taken(pool(min_slots=3, max_slots=4), seen)
    assert [mark.uid for mark in of(MarkNodeEnds, first)] == ["u-p-0"]
    assert [order.apart for order in of(CreateSlot, first)] == [True, True]
    later = taken(pool(min_slots=4, max_slots=5), seen, first.state, NOW_S + 5.0)
    assert of(MarkNodeEnds, later) == [], "it was asked a moment ago"
    assert [order.apart for order in of(CreateSlot, later)] == [True], "the label was not seen yet"


def test_interrupted_slots_are_replaced_at_once() -> None:
    nodes = tuple(node(f"n-p-{at}", interrupted=at < 2) for at in range(4))
    done = taken(pool(min_slots=4), world(fleet(4), nodes=nodes))
    assert gone(done) == [("p-0", PoolReason.INTERRUPTED), ("p-1", PoolReason.INTERRUPTED)]
    assert len(of(CreateSlot, done)) == 2


def test_of_too_many_those_go_first_that_cost_least() -> None:
    tiers = (FIRST, SECOND)
    slots = (
        warm("old", age_s=9000.0),
        warm("young", age_s=100.0),
        warm("drifted", age_s=50.0),
        warm("second", tier="second", age_s=50.0),
        slot("bound", node="n-bound", scheduled_s=NOW_S - 5.0),
        slot("ordered"),
    )
    nodes = (
        *(node(f"n-{name}") for name in ("old", "young", "bound")),
        node("n-drifted", drifted=True),
        node("n-second", node_pool="np-second"),
    )
    order = []
    for _ in range(6):
        there = tuple(each for each in slots if each.name not in order)
        done = taken(pool(*tiers, max_slots=len(there) - 1 or 1), world(there, nodes=nodes, demand=None))
        order += [name for name, _ in gone(done)]
    assert order == ["ordered", "bound", "drifted", "second", "old"]


def test_surplus_leaves_the_minimum_of_a_zone_though_its_slot_would_be_first() -> None:
    nodes = (node("n-p-0", zone="b", drifted=True), node("n-p-1"), node("n-p-2"))
    done = taken(pool(zone_minima=(("b", 1),)), world(fleet(3), nodes=nodes))
    assert sorted(name for name, _ in gone(done)) == ["p-1", "p-2"]


def test_what_stays_when_a_pool_shrinks_is_on_spot_for_no_more_than_its_share() -> None:
    """Spot is the preferred tier, so that slots of the other one would go first: all four that stay were on spot."""
    slots = tuple(warm(f"p-{at}", tier="spot" if at < 5 else "first") for at in range(10))
    nodes = tuple(node(f"n-p-{at}", node_pool="np-spot" if at < 5 else "np-first") for at in range(10))
    for ratio, stay in ((0.5, 2), (0.3, 1), (0.0, 0), (1.0, 4)):
        done = taken(pool(SPOT, FIRST, min_slots=4, spot_ratio=ratio), world(slots, nodes=nodes))
        left = {each.name for each in slots} - {name for name, _ in gone(done)}
        assert (len(left), len(left & {f"p-{at}" for at in range(5)})) == (4, stay), ratio


def test_nodes_that_become_empty_are_emptied_first() -> None:
    slots = (warm("p-0", "shared"), warm("p-1", "shared"), warm("p-2", "alone"))
    nodes = (node("shared", units=2), node("alone"))
    done = taken(pool(max_slots=2), world(slots, nodes=nodes, demand=None))
    assert [name for name, _ in gone(done)] == ["p-2"]


def test_drift_is_held_and_told_and_our_own_nodepools_are_mended() -> None:
    drifting = node("n-p-0", drifted=True)
    done = taken(pool(min_slots=1), world(fleet(1), nodes=(drifting,)))
    assert done.intents == ()
    held = told(done, Aspect.DRIFT_HELD)
    assert (held.holds, "1 nodes have drifted" in held.message) == (True, True)
    loose = world(fleet(1), nodes=(drifting,), node_pools=node_pools(FIRST, drifted_budget=None))
    assert told(taken(pool(min_slots=1), loose), Aspect.DRIFT_HELD).holds is False
    (patch,) = of(PatchNodePool, taken(pool(min_slots=1, managed=True), loose))
    assert (patch.name, patch.drifted_budget, patch.reason) == ("np-first", 0, PoolReason.DRIFT)


def test_only_nodepools_of_ours_are_edited_and_only_when_they_differ() -> None:
    tier = PoolTier("first", "np-first", "h100", FIRST.capacity_type, max_gpus=16, max_nodes=2)
    edited = world(node_pools=(NodePoolSeen("np-first", True, limit_gpus=99, limit_nodes=2, drifted_budget=0),))
    (patch,) = of(PatchNodePool, taken(pool(tier, managed=True), edited))
    assert (patch.limit_gpus, patch.limit_nodes, patch.reason) == (16, 2, PoolReason.LIMITS)
    assert of(PatchNodePool, taken(pool(tier), edited)) == []
    right = world(node_pools=(NodePoolSeen("np-first", True, limit_gpus=16, limit_nodes=2, drifted_budget=0),))
    assert of(PatchNodePool, taken(pool(tier, managed=True), right)) == []


def test_a_deletion_that_does_not_end_is_told_and_keeps_its_room() -> None:
    stuck = warm("p-0", deleting_s=NOW_S - 400.0)
    done = taken(pool(min_slots=1, max_slots=1), world([stuck]))
    assert of(CreateSlot, done) == []
    assert "p-0 cannot be deleted" in told(done, Aspect.SLOTS_DELETABLE).message


def test_nodes_short_of_gpus_and_claims_without_any_are_told() -> None:
    nodes = (node("n1", units=7, expected_units=8), node("n2", driver=(570,)))
    blind = claim("c9", launched_s=NOW_S, units=0)
    done = taken(pool(slot=SlotForm(min_driver=(580,))), world(nodes=nodes, claims=(blind,)))
    words = told(done, Aspect.GPUS_USABLE).message
    assert "no GPU for c9" in words
    assert "fewer GPUs than promised on n1" in words
    assert "n2 (driver 570 is older than 580)" in words


def test_workloads_by_resource_claim_are_refused_with_a_remedy() -> None:
    done = taken(pool(), world(demand=(demand(3.0, uses_claims=True),)))
    assert "ns/chat: GPUs by ResourceClaim (DRA) cannot be kept warm" in told(done, Aspect.MODELS_SUPPORTED).message
    assert done.state.history.level == 0.0, "their demand is none of the pool's"
