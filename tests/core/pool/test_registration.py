"""Nodes that are launched and never join: what a pool loses, asks for and tells while Karpenter gives each up."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from autoscaler.core.pool.intents import Aspect, CreateSlot, DeleteClaim, DeleteSlot
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.reconcile import Reconciled, reconcile
from autoscaler.core.pool.state import PoolState, pack, unpack
from autoscaler.core.pool.world import ClaimSeen, NodeSeen, SlotSeen, World
from tests.core.pool.builders import (
    FIRST,
    NOW_S,
    SECOND,
    claim,
    domain,
    known,
    node,
    node_pools,
    of,
    pool,
    slot,
    taken,
    told,
    world,
)

LOOK_S, LAUNCH_S, WARM_S = 60.0, 60.0, 300.0
GIVEN_UP_S = 900.0
"""Karpenter deletes a claim that did not register in so long, and makes another one for the pod that waits."""


@dataclass
class Plant:
    """Two NodePools: nodes of the first one never join, slots of the second one are warm after five minutes."""

    now_s: float = NOW_S
    state: PoolState = field(default_factory=known)
    orders: dict[str, tuple[CreateSlot, float]] = field(default_factory=dict)
    asked: list[tuple[str, float]] = field(default_factory=list)
    """The tier and the time (s) of each order."""
    gone: list[PoolReason] = field(default_factory=list)
    min_slots: int = 2
    given_up_s: float = GIVEN_UP_S

    def look(self) -> Reconciled:
        done = reconcile(pool(FIRST, SECOND, min_slots=self.min_slots), self.world(), self.state, self.now_s)
        self.state = done.state
        assert of(DeleteClaim, done) == [], "Karpenter gives them up itself"
        for lost in of(DeleteSlot, done):
            self.gone.append(lost.reason)
            del self.orders[lost.name]
        for order in of(CreateSlot, done):
            self.asked.append((order.tier, self.now_s - NOW_S))
            self.orders[order.name] = order, self.now_s
        self.now_s += LOOK_S
        return done

    def world(self) -> World:
        slots, nodes, claims = list[SlotSeen](), list[NodeSeen](), list[ClaimSeen]()
        for name, (order, since_s) in self.orders.items():
            age_s = self.now_s - since_s
            if order.tier == "second":
                if age_s < WARM_S:
                    joins = {"launched_s": since_s + LAUNCH_S if age_s >= LAUNCH_S else None, "node_pool": "np-second"}
                    claims.append(claim(f"c-{name}", created_s=since_s, domain=domain("", "a100"), **joins))
                    slots.append(slot(name, tier="second", created_s=since_s, claim=f"c-{name}"))
                    continue
                at_s = since_s + WARM_S
                ends = {
                    "scheduled_s": at_s,
                    "images_s": at_s,
                    "weights_s": at_s,
                    "ready_s": at_s,
                    "deadline_s": at_s + 9e4,
                }
                slots.append(slot(name, tier="second", created_s=since_s, node=f"n-{name}", **ends))
                nodes.append(node(f"n-{name}", node_pool="np-second", sku="a100", claim=f"c-{name}"))
                claims.append(claim(f"c-{name}", node_pool="np-second", launched_s=at_s, registered_s=at_s))
                continue
            turn, tried_s = divmod(age_s, LAUNCH_S + self.given_up_s)
            made_s = self.now_s - tried_s
            launched_s = made_s + LAUNCH_S if tried_s >= LAUNCH_S else None
            one = f"{name}-{since_s:.0f}"
            slots.append(slot(name, uid=one, created_s=since_s, claim=f"{one}-{turn:g}"))
            claims.append(claim(f"{one}-{turn:g}", created_s=made_s, launched_s=launched_s, domain=domain("")))
        return world(slots, nodes=tuple(nodes), claims=tuple(claims), node_pools=node_pools(FIRST, SECOND))


def test_slots_of_nodes_that_never_join_move_to_the_next_tier_and_few_nodes_are_asked_for_in_vain() -> None:
    """Two slots, two rounds of a quarter of an hour: after the third node the tier is left alone."""
    plant = Plant()
    looks = [plant.look() for _ in range(round(5400 / LOOK_S))]
    assert [tier for tier, _ in plant.asked] == ["first"] * 4 + ["second"] * 2
    warm_at_s = [at * LOOK_S for at, done in enumerate(looks) if done.decision.warm == 2]
    assert warm_at_s[0] <= 2 * (LAUNCH_S + GIVEN_UP_S) + LAUNCH_S + WARM_S + 2 * LOOK_S
    assert warm_at_s[-1] == (len(looks) - 1) * LOOK_S, "what stands elsewhere is asked for no more"
    assert set(plant.gone) == {PoolReason.LATE_REGISTRATION}, "nobody says that capacity is missing"
    moved = looks[round(2 * (LAUNCH_S + GIVEN_UP_S) / LOOK_S)]
    assert told(moved, Aspect.CAPACITY_AVAILABLE).holds
    assert "GPUs of tier 'first' (spec.tiers[0]) never became usable on several nodes, or these never joined" in (
        told(moved, Aspect.GPUS_USABLE).message
    )


@pytest.mark.parametrize("ends_s", [60.0, 120.0, 300.0])
def test_a_slot_whose_instances_end_by_themselves_moves_to_the_next_tier(ends_s: float) -> None:
    """As where the key of their disks may not be used: the claim of each is deleted, and the next launch works."""
    plant = Plant(min_slots=1, given_up_s=ends_s)
    looks = [plant.look() for _ in range(round(5400 / LOOK_S))]
    assert [tier for tier, _ in plant.asked] == ["first"] * 3 + ["second"]
    assert set(plant.gone) == {PoolReason.LATE_REGISTRATION}
    assert looks[-1].decision.warm == 1
    assert told(looks[-1], Aspect.CAPACITY_AVAILABLE).holds


def test_a_node_that_does_not_join_counts_once_also_over_a_restart_and_one_that_joins_not_at_all() -> None:
    launched = claim("c", created_s=NOW_S - 900.0, launched_s=NOW_S - 860.0)
    first = taken(pool(), world(claims=(launched,)))
    kept = unpack(pack(first.state))
    gone = taken(pool(), world(claims=()), kept, NOW_S + 20.0)
    again = taken(pool(), world(claims=()), gone.state, NOW_S + 40.0)
    assert again.state.circuits.gpus["first"].troubles_s == (NOW_S + 20.0,)
    unread = taken(pool(), world(claims=None), kept, NOW_S + 20.0)
    assert unread.state.circuits.gpus == {}, "who could not read the claims has missed none"
    joined = taken(pool(), world(claims=(claim("c", launched_s=NOW_S - 60.0, registered_s=NOW_S),)), kept, NOW_S + 20.0)
    assert taken(pool(), world(claims=()), joined.state, NOW_S + 40.0).state.circuits.gpus == {}


GOES_EARLY = {
    "by hand, between two looks": ((), 20.0),
    "by hand, while its instance takes a while to end": (
        (claim("c", launched_s=NOW_S, deleting_s=NOW_S + 10.0),),
        900.0,
    ),
    "by a spot market after nine minutes": ((), 500.0),
}


@pytest.mark.parametrize(("seen", "gone_s"), GOES_EARLY.values(), ids=GOES_EARLY)
def test_a_claim_that_goes_before_karpenter_gives_any_up_is_held_against_no_tier(
    seen: tuple[ClaimSeen, ...], gone_s: float
) -> None:
    """Three that a person deletes closed a tier whose nodes join for half an hour."""
    state = taken(pool(), world(claims=(claim("c", launched_s=NOW_S),))).state
    for turn in range(1, 1 + int(gone_s // 20.0)):
        state = taken(pool(), world(claims=seen or (claim("c", launched_s=NOW_S),)), state, NOW_S + 20.0 * turn).state
    gone = taken(pool(), world(claims=()), unpack(pack(state)), NOW_S + gone_s + 20.0)
    assert gone.state.circuits.gpus == {}
    assert gone.state.circuits.unjoined == {}


def test_three_claims_that_a_person_deletes_close_no_tier_and_three_that_karpenter_gives_up_do() -> None:
    for lived_s, tier in ((120.0, "first"), (900.0, "second")):
        state = known()
        for at in range(3):
            now_s = NOW_S + 1000.0 * at
            there = claim(f"c-{at}", created_s=now_s - lived_s, launched_s=now_s - lived_s + 40.0)
            state = taken(pool(FIRST, SECOND), world(claims=(there,)), state, now_s).state
            state = taken(pool(FIRST, SECOND), world(claims=()), state, now_s + 20.0).state
        after = taken(pool(FIRST, SECOND, min_slots=1), world(claims=()), state, NOW_S + 2100.0)
        assert [order.tier for order in of(CreateSlot, after)] == [tier], f"claims that lived {lived_s:g} s"


def test_a_checkpoint_that_tells_no_age_of_claims_is_read_without_them() -> None:
    """As written before their age counted; a claim that is there still is seen anew."""
    saved = pack(taken(pool(), world(claims=(claim("c", launched_s=NOW_S),))).state)
    older = {**saved, "unjoined": {"c": "np-first"}}
    assert unpack(older).circuits.unjoined == {}


def test_nodes_of_which_nobody_saw_whether_they_joined_are_held_against_no_tier() -> None:
    """Three are coming when the controller goes; when it is back after six hours they have joined, served and gone."""
    coming = tuple(claim(f"c-{at}", launched_s=NOW_S - 60.0) for at in range(3))
    kept = unpack(pack(taken(pool(), world(claims=coming)).state))
    back = taken(pool(min_slots=2), world(claims=()), kept, NOW_S + 6 * 3600.0)
    assert (back.state.circuits.gpus, len(of(CreateSlot, back))) == ({}, 2)
    unread = taken(pool(), world(claims=None), kept, NOW_S + 20.0)
    for minute in range(1, 60):
        unread = taken(pool(), world(claims=None), unread.state, NOW_S + 60.0 * minute)
    assert taken(pool(), world(claims=()), unread.state, NOW_S + 3600.0).state.circuits.gpus == {}


@pytest.mark.parametrize("unread_s", [550.0, 1200.0])
@pytest.mark.parametrize("blind", [{"claims": None}, {"slots": None, "claims": None}], ids=["claims", "everything"])
def test_claims_that_a_person_deletes_while_nobody_can_read_are_held_against_no_tier(
    blind: dict[str, Any], unread_s: float
) -> None:
    """They are five and a half minutes old when the API server goes; Karpenter would have given them up at fifteen."""
    coming = tuple(claim(f"c-{at}", created_s=NOW_S - 330.0, launched_s=NOW_S - 300.0) for at in range(3))
    state = taken(pool(min_slots=1), world(claims=coming)).state
    for second in range(5, int(unread_s), 5):
        state = taken(pool(min_slots=1), replace(world(), **blind), state, NOW_S + second).state
    back = taken(pool(min_slots=1), world(claims=()), unpack(pack(state)), NOW_S + unread_s)
    assert back.state.circuits.gpus == {}


def test_a_claim_that_karpenter_gives_up_while_nobody_can_read_for_a_minute_counts_all_the_same() -> None:
    there = claim("c", created_s=NOW_S - 870.0, launched_s=NOW_S - 840.0)
    state = taken(pool(), world(claims=(there,))).state
    unread = taken(pool(), world(claims=None), state, NOW_S + 30.0)
    back = taken(pool(), world(claims=()), unpack(pack(unread.state)), NOW_S + 60.0)
    assert back.state.circuits.gpus["first"].troubles_s == (NOW_S + 60.0,)


def test_a_nodepool_whose_nodes_do_not_join_is_told_in_karpenters_own_words() -> None:
    pools = node_pools(FIRST, unregistered="Failed to register node")
    said = told(taken(pool(), world(node_pools=pools)), Aspect.NODE_POOLS_USABLE)
    assert said.holds is False
    assert said.message == (
        "spec.tiers[0].nodePoolRef: nodes of NodePool 'np-first' are launched and do not join the cluster (Failed to "
        "register node); look at its NodeClass: image, user data, network, rights"
    )
