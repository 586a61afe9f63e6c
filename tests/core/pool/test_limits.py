"""Slots and gangs share the limits of a tier: together they are asked for no more than it may hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.pool.intents import CreateHolder, CreateSlot, DeleteSlot
from autoscaler.core.pool.params import GangTerms, PoolParams, SlotForm
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.reconcile import Reconciled, reconcile
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.world import AskedOf, GangAsk, HolderSeen, PodsAsked, SlotSeen, World
from tests.core.pool.builders import FIRST, NOW_S, claim, known, node, node_pools, of, pool, slot, world

LIMITED = replace(FIRST, shape="h100", max_gpus=16)
ASK = GangAsk("job/ns/train", "u1", "h100", (PodsAsked(1, 8),))
BOTH = pool(LIMITED, slot=SlotForm(count=8), gangs=GangTerms(64.0, 900.0), min_slots=2)


def seen(*, used_gpus: float = 0.0, used_nodes: int = 0, slots: Sequence[SlotSeen] = (), **more: object) -> World:
    pools = node_pools(LIMITED, used_gpus=used_gpus, used_nodes=used_nodes)
    return world(slots, **{"node_pools": pools, **more})


def looked(at: World, params: PoolParams = BOTH, state: PoolState | None = None) -> Reconciled:
    return reconcile(params, at, known() if state is None else state, NOW_S)


def held(uid: str = "u1", *, units: int = 8, name: str = "", on: str | None = None) -> HolderSeen:
    made = of(CreateHolder, looked(seen(asks=(ASK,)), replace(BOTH, min_slots=0)))[0].name
    return HolderSeen(name or made, f"u-{name or made}", uid, "first", units, NOW_S - 10.0, node=on)


def test_two_slots_of_eight_and_a_gang_of_eight_in_one_look_do_not_become_24_gpus_where_16_are_allowed() -> None:
    done = looked(seen(asks=(ASK,)))
    assert len(of(CreateSlot, done)) == 2
    assert of(CreateHolder, done) == []
    assert done.gangs.standings[0].refused is PoolReason.NO_ROOM


def test_orders_that_nobody_has_seen_and_slots_without_a_node_leave_a_gang_nothing() -> None:
    ordered = looked(seen()).state
    assert of(CreateHolder, looked(seen(asks=(ASK,)), state=ordered)) == []
    waiting = looked(seen(slots=(slot("p-0"), slot("p-1")), asks=(ASK,)))
    assert of(CreateHolder, waiting) == []
    one = replace(BOTH, min_slots=1)
    assert len(of(CreateHolder, looked(seen(slots=(slot("p-0"),), asks=(ASK,)), one))) == 1


def test_what_holds_places_for_a_gang_and_has_no_node_yet_leaves_slots_the_rest() -> None:
    assert len(of(CreateSlot, looked(seen(asks=(ASK,), holders=(held(),))))) == 1
    stands = seen(used_gpus=8.0, used_nodes=1, asks=(ASK,), holders=(held(on="n0"),))
    full = replace(stands, nodes=(node("n0", units=8, free_units=0),))
    assert len(of(CreateSlot, looked(full))) == 1, "its node is counted by the NodePool, and once"


def test_a_tiers_limit_is_kept_by_the_nodes_that_stand_while_no_nodepool_can_be_read() -> None:
    """Of 16 GPUs a node holds 8: one slot of 8 may come, whether NodePools are denied or there is no Karpenter."""
    four, stands = replace(BOTH, min_slots=4), (node("n0", units=8, free_units=0),)
    unread = replace(seen(nodes=stands), node_pools=None)
    assert len(of(CreateSlot, looked(seen(used_gpus=8.0, nodes=stands), four))) == 1, "as where they are read"
    first = looked(unread, four)
    assert len(of(CreateSlot, first)) == 1
    assert PoolReason.NO_ROOM in {step.reason for step in first.decision.trace}
    assert of(CreateSlot, looked(unread, four, first.state)) == [], "what was ordered is not seen yet"
    launched = slot("p-0", claim="c")
    under_way = replace(unread, slots=(launched,), claims=(claim("c", launched_s=NOW_S - 5.0),))
    assert of(CreateSlot, looked(under_way, four)) == [], "a node that has not joined is in nobody's sum"
    dark = replace(unread, nodes=(node("n0", units=None, expected_units=8), node("n1", units=None)))
    assert of(CreateSlot, looked(dark, four)) == []
    held_for_a_gang = replace(unread, asks=None, holders=(held(),))
    assert of(CreateSlot, looked(held_for_a_gang, four)) == []
    by_nodes = replace(four, tiers=(replace(LIMITED, max_gpus=None, max_nodes=3),))
    assert len(of(CreateSlot, looked(unread, by_nodes))) == 2
    unlimited = replace(four, tiers=(replace(LIMITED, max_gpus=None),))
    assert len(of(CreateSlot, looked(unread, unlimited))) == 4


def test_a_gang_waits_where_a_limit_of_its_tier_cannot_be_reckoned() -> None:
    for limit in ({"max_gpus": 16}, {"max_gpus": None, "max_nodes": 3}):
        tier = replace(LIMITED, **limit)
        params = replace(BOTH, tiers=(tier,), min_slots=0)
        done = looked(replace(seen(asks=(ASK,)), node_pools=None), params)
        assert [each.refused for each in done.gangs.standings] == [PoolReason.NO_ROOM]
        assert len(of(CreateHolder, looked(seen(asks=(ASK,)), params))) == 1


def test_a_limit_in_nodes_that_only_we_keep_counts_a_node_for_each_pod() -> None:
    params = replace(BOTH, tiers=(replace(LIMITED, max_gpus=None, max_nodes=2),), min_slots=0)
    two, three = (replace(ASK, pods=(PodsAsked(pods, 8),)) for pods in (2, 3))
    assert len(of(CreateHolder, looked(seen(asks=(two,)), params))) == 2
    assert of(CreateHolder, looked(seen(asks=(three,)), params)) == []
    kept = node_pools(LIMITED, limit_nodes=2)
    small = replace(ASK, pods=(PodsAsked(4, 1),))
    done = looked(seen(asks=(small,), node_pools=kept), params)
    assert len(of(CreateHolder, done)) == 4, "Karpenter keeps that one, and four pods may share a node"
    waiting = (held(name="a", units=1), held(name="b", units=1))
    slots = looked(seen(asks=None, holders=waiting), replace(params, min_slots=1))
    assert of(CreateSlot, slots) == []


def test_a_place_that_was_lost_is_not_made_again_where_another_has_taken_its_room() -> None:
    pair = replace(ASK, pods=(PodsAsked(2, 8),))
    params = replace(BOTH, min_slots=0)
    first = of(CreateHolder, looked(seen(asks=(pair,)), params))[0].name
    alone = seen(asks=(pair,), holders=(held(name=first),), used_gpus=8.0)
    assert of(CreateHolder, looked(alone, params)) == []
    assert len(of(CreateHolder, looked(replace(alone, node_pools=node_pools(LIMITED)), params))) == 1


def test_what_another_pool_asks_of_the_same_nodepool_leaves_this_one_the_rest() -> None:
    """Of 16 GPUs the other pool has asked for 8, of which no node is known yet."""
    beside = (AskedOf("np-first", 8.0, 1), AskedOf("np-other", 64.0, 8))
    assert len(of(CreateSlot, looked(seen(beside=beside)))) == 1
    assert len(of(CreateSlot, looked(replace(seen(beside=beside), node_pools=None)))) == 1
    pair, params = replace(ASK, pods=(PodsAsked(2, 8),)), replace(BOTH, min_slots=0)
    done = looked(seen(asks=(pair,), beside=beside), params)
    assert [each.refused for each in done.gangs.standings] == [PoolReason.NO_ROOM]
    assert len(of(CreateHolder, looked(seen(asks=(ASK,), beside=beside), params))) == 1


def test_a_free_node_for_which_another_pool_has_a_slot_on_its_way_is_not_counted_on_twice() -> None:
    """Both nodes that may be there stand, one of them free: a second slot for it would have a third one launched."""
    stands = (node("n0", units=8, free_units=0), node("n1", units=8, free_units=8))
    free, one = seen(used_gpus=16.0, used_nodes=2, nodes=stands), replace(BOTH, min_slots=1)
    assert len(of(CreateSlot, looked(free, one))) == 1
    assert of(CreateSlot, looked(replace(free, beside=(AskedOf("np-first", 8.0, 1),)), one)) == []
    assert len(of(CreateSlot, looked(replace(free, beside=(AskedOf("np-other", 8.0, 1),)), one))) == 1


def test_a_pool_tells_what_it_asks_of_a_nodepool_until_a_node_was_launched_for_it() -> None:
    params = replace(BOTH, tiers=(replace(LIMITED, max_gpus=64),))
    first = looked(seen(asks=(ASK,)), params)
    assert first.asked == (AskedOf("np-first", 24.0, 3),), "two slots and a gang's pod that this look makes"
    waiting = seen(slots=(slot("p-0"), slot("p-1", claim="c")), holders=(held(),), asks=None)
    assert looked(waiting, params).asked == (AskedOf("np-first", 24.0, 3),)
    launched = replace(waiting, claims=(claim("c", launched_s=NOW_S - 5.0),))
    assert looked(launched, params).asked == (AskedOf("np-first", 16.0, 2),), "of it the NodePool tells itself"
    done = looked(replace(seen(), nodes=None), params)
    assert done.asked is None


@dataclass
class Cluster:
    """A NodePool without a limit of its own: sooner or later each pod that waits gets a node of its size."""

    params: PoolParams
    state: PoolState = field(default_factory=known)
    now_s: float = NOW_S
    asks: dict[str, GangAsk] = field(default_factory=dict)
    unseen: dict[str, CreateSlot] = field(default_factory=dict)
    """Orders that were carried out and that the followed cluster does not show yet."""
    slots: dict[str, SlotSeen] = field(default_factory=dict)
    holders: dict[str, HolderSeen] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    """Of each node the GPUs."""

    def look(self) -> None:
        self.now_s += 5.0
        nodes = tuple(node(name, units=gpus, claim=None, created_s=self.now_s) for name, gpus in self.nodes.items())
        used = node_pools(*self.params.tiers, used_gpus=float(sum(self.nodes.values())), used_nodes=len(self.nodes))
        view = world(
            tuple(self.slots.values()), nodes=nodes, node_pools=used,
            asks=tuple(self.asks.values()), holders=tuple(self.holders.values()),
        )  # fmt: skip
        done = reconcile(self.params, view, self.state, self.now_s)
        self.state = done.state
        for gone in of(DeleteSlot, done):
            (self.holders if gone.of_gang else self.slots).pop(gone.name)
        self.unseen.update({each.name: each for each in of(CreateSlot, done)})
        for made in of(CreateHolder, done):
            seen = HolderSeen(made.name, made.name, made.gang_uid, made.tier, made.units, self.now_s)
            assert self.holders.setdefault(made.name, seen) is seen

    def show(self) -> None:
        """What was ordered is seen."""
        for name in self.unseen:
            self.slots[name] = slot(name, uid=f"{name}@{self.now_s}", created_s=self.now_s)
        self.unseen.clear()

    def serve(self, *, last: bool) -> None:
        """A pod that waits gets a node; so does one that is not seen yet."""
        waits = [name for name, each in self.slots.items() if each.node is None]
        waits += [name for name, each in self.holders.items() if each.node is None]
        if not waits:
            return self.show()
        name = waits[-1 if last else 0]
        at = f"n-{name}"
        if name in self.slots:
            self.slots[name] = replace(self.slots[name], node=at, scheduled_s=self.now_s)
            self.nodes[at] = self.params.slot.count
        else:
            self.holders[name] = replace(self.holders[name], node=at)
            self.nodes[at] = self.holders[name].units
        return None

    def lose(self) -> None:
        """A node and the pod on it are gone."""
        for name in list(self.nodes)[:1]:
            del self.nodes[name]
            self.slots.pop(name.removeprefix("n-"), None)
            self.holders.pop(name.removeprefix("n-"), None)

    def most_gpus(self) -> int:
        """What there will be once every pod that waits has its node."""
        waiting = sum(each.units for each in self.holders.values() if each.node is None)
        slots = len(self.unseen) + sum(each.node is None for each in self.slots.values())
        return sum(self.nodes.values()) + waiting + slots * self.params.slot.count


DOES = st.sampled_from(["look", "look", "show", "first", "last", "lose", "ask", "ask", "over"])


STORY = st.lists(st.tuples(DOES, st.integers(1, 3), st.sampled_from([2, 4, 8])), max_size=30)


def played(plant: Cluster, does: Sequence[tuple[str, int, int]]) -> Iterator[Cluster]:
    """The cluster after each thing that happens."""
    for at, (what, pods, units) in enumerate(does):
        match what:
            case "ask":
                plant.asks[f"u{at}"] = replace(ASK, uid=f"u{at}", pods=(PodsAsked(pods, units),))
                plant.look()
            case "over":
                for uid in list(plant.asks)[:1]:
                    del plant.asks[uid]
            case "show":
                plant.show()
            case "lose":
                plant.lose()
            case "look":
                plant.look()
            case _:
                plant.serve(last=what == "last")
        yield plant


@settings(max_examples=60, deadline=None)
@given(
    does=STORY,
    limit=st.sampled_from([8, 16, 20]),
    slots=st.integers(0, 3),
    size=st.sampled_from([2, 4, 8]),
)
def test_whatever_is_asked_for_in_whatever_order_there_are_never_more_gpus_than_the_limit(
    does: list[tuple[str, int, int]], limit: int, slots: int, size: int
) -> None:
    tier = replace(LIMITED, max_gpus=limit)
    params = pool(tier, slot=SlotForm(count=size), gangs=GangTerms(64.0, 900.0), min_slots=slots)
    for plant in played(Cluster(params), does):
        assert plant.most_gpus() <= limit


@settings(max_examples=60, deadline=None)
@given(does=STORY, budget=st.sampled_from([8, 16, 20]), slots=st.integers(0, 2), size=st.sampled_from([2, 4]))
def test_whatever_is_asked_for_slots_and_gangs_together_never_hold_more_than_the_pools_gpu_budget(
    does: list[tuple[str, int, int]], budget: int, slots: int, size: int
) -> None:
    """Half of the story long nothing needs a slot, so that gangs come first."""
    tier = replace(LIMITED, max_gpus=None)
    params = pool(tier, slot=SlotForm(count=size), gangs=GangTerms(64.0, 900.0), max_gpus=float(budget))
    for at, plant in enumerate(played(Cluster(params), does)):
        plant.params = replace(params, min_slots=slots if 2 * at >= len(does) else 0)
        held = sum(each.units for each in plant.holders.values())
        assert held + (len(plant.slots) + len(plant.unseen)) * size <= budget


@pytest.mark.parametrize("first", ["slots", "gang"])
def test_whoever_comes_first_has_what_there_is_and_the_other_the_rest(first: str) -> None:
    plant = Cluster(replace(BOTH, min_slots=0 if first == "gang" else 2))
    plant.look()
    plant.asks["u1"] = ASK
    plant.look()
    plant.params = BOTH
    for _ in range(5):
        plant.look()
        plant.show()
        plant.serve(last=False)
    assert (len(plant.slots), len(plant.holders)) == ((2, 0) if first == "slots" else (1, 1))
