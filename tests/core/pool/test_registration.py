"""Nodes that are launched and never join: what a pool loses, asks for and tells while Karpenter gives each up."""

from dataclasses import dataclass, field

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

    def look(self) -> Reconciled:
        done = reconcile(pool(FIRST, SECOND, min_slots=2), self.world(), self.state, self.now_s)
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
            turn, tried_s = divmod(age_s, LAUNCH_S + GIVEN_UP_S)
            made_s = self.now_s - tried_s
            launched_s = made_s + LAUNCH_S if tried_s >= LAUNCH_S else None
            slots.append(slot(name, created_s=since_s, claim=f"{name}-{turn:g}"))
            claims.append(claim(f"{name}-{turn:g}", created_s=made_s, launched_s=launched_s, domain=domain("")))
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


def test_a_node_that_does_not_join_counts_once_also_over_a_restart_and_one_that_joins_not_at_all() -> None:
    launched = claim("c", launched_s=NOW_S - 60.0)
    first = taken(pool(), world(claims=(launched,)))
    kept = unpack(pack(first.state))
    gone = taken(pool(), world(claims=()), kept, NOW_S + 20.0)
    again = taken(pool(), world(claims=()), gone.state, NOW_S + 40.0)
    assert again.state.circuits.gpus["first"].troubles_s == (NOW_S + 20.0,)
    unread = taken(pool(), world(claims=None), kept, NOW_S + 20.0)
    assert unread.state.circuits.gpus == {}, "who could not read the claims has missed none"
    joined = taken(pool(), world(claims=(claim("c", launched_s=NOW_S - 60.0, registered_s=NOW_S),)), kept, NOW_S + 20.0)
    assert taken(pool(), world(claims=()), joined.state, NOW_S + 40.0).state.circuits.gpus == {}


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


def test_a_nodepool_whose_nodes_do_not_join_is_told_in_karpenters_own_words() -> None:
    pools = node_pools(FIRST, unregistered="Failed to register node")
    said = told(taken(pool(), world(node_pools=pools)), Aspect.NODE_POOLS_USABLE)
    assert said.holds is False
    assert said.message == (
        "spec.tiers[0].nodePoolRef: nodes of NodePool 'np-first' are launched and do not join the cluster (Failed to "
        "register node); look at its NodeClass: image, user data, network, rights"
    )
