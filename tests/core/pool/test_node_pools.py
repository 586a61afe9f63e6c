"""NodePools that are a pool's own: made where they are missing, mended where they differ, left alone where not ours."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.pool import state as pool_state
from autoscaler.core.pool.intents import Aspect, CreateNodePool, CreateSlot, PatchNodePool
from autoscaler.core.pool.params import CapacityType, PoolParams
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import NodePoolSeen, Template
from tests.core.pool.builders import FIRST, NOW_S, SECOND, known, node, of, pool, taken, told, warm, world

LIMITED = replace(FIRST, max_gpus=16, max_nodes=2)
HELD = NodePoolSeen("np-first", ready=True, limit_gpus=16, limit_nodes=2, drifted_budget=0)


def test_a_missing_node_pool_is_made_with_its_tiers_limits() -> None:
    done = taken(pool(LIMITED, SECOND, managed=True), world(node_pools=(HELD,)))
    kind, why = CapacityType.ON_DEMAND, PoolReason.NODE_POOL_MISSING
    assert of(CreateNodePool, done) == [CreateNodePool("np-second", "second", kind, None, None, why)]


def test_nothing_is_made_where_node_pools_were_not_read_or_are_others() -> None:
    assert of(CreateNodePool, taken(pool(LIMITED, managed=True), world(node_pools=None))) == []
    assert of(CreateNodePool, taken(pool(LIMITED), world(node_pools=()))) == []


def test_of_node_pools_that_were_not_read_nothing_is_said_but_that_it_is_not_known() -> None:
    done = taken(pool(LIMITED, min_slots=1), world(node_pools=None))
    assert len(of(CreateSlot, done)) == 1
    usable, drift = told(done, Aspect.NODE_POOLS_USABLE), told(done, Aspect.DRIFT_HELD)
    assert [(each.holds, each.word) for each in (usable, drift)] == [(None, "NotRead")] * 2
    assert usable.message == (
        "NodePools were not read, or there is no Karpenter; slots are made all the same, within the tiers' own limits"
    )
    read = taken(pool(LIMITED), world(node_pools=(HELD,)))
    assert told(read, Aspect.NODE_POOLS_USABLE).holds is told(read, Aspect.DRIFT_HELD).holds is True


def test_a_node_pool_of_that_name_that_is_not_of_our_making_is_told_of_and_never_edited() -> None:
    theirs = replace(HELD, ours=False, limit_gpus=99)
    done = taken(pool(LIMITED, managed=True), world(node_pools=(theirs,)))
    assert not of(PatchNodePool, done)
    assert not of(CreateNodePool, done)
    words = told(done, Aspect.NODE_POOLS_USABLE).message
    assert words == "spec.tiers[0].name: NodePool 'np-first' is not of this pool's making; rename the tier or delete it"
    assert not of(CreateSlot, taken(pool(LIMITED, managed=True, min_slots=1), world(node_pools=(theirs,))))
    assert of(CreateSlot, taken(pool(LIMITED, min_slots=1), world(node_pools=(theirs,))))


def test_a_limit_that_its_tier_has_not_is_to_be_taken_away() -> None:
    lifted = PatchNodePool("np-first", 16, None, 0, PoolReason.LIMITS, lifts_nodes=True)
    assert of(
        PatchNodePool, taken(pool(replace(LIMITED, max_nodes=None), managed=True), world(node_pools=(HELD,)))
    ) == [lifted]
    (patch,) = of(PatchNodePool, taken(pool(replace(LIMITED, max_gpus=None), managed=True), world(node_pools=(HELD,))))
    assert (patch.lifts_gpus, patch.lifts_nodes) == (True, False)
    lowered = replace(HELD, limit_gpus=8, limit_nodes=None)
    (patch,) = of(PatchNodePool, taken(pool(LIMITED, managed=True), world(node_pools=(lowered,))))
    assert (patch.lifts_gpus, patch.lifts_nodes) == (False, False)


THEIRS = replace(HELD, limit_gpus=99)


def written(
    params: PoolParams, pools: tuple[NodePoolSeen, ...], seconds: int
) -> tuple[list[int], pool_state.PoolState]:
    """When NodePools are written while they stay as they are, looked at every five seconds, with restarts between."""
    state, at = known(), []
    for second in range(0, seconds, 5):
        done = taken(params, world(node_pools=pools), pool_state.unpack(pool_state.pack(state)), NOW_S + second)
        state = done.state
        at += [second] * len([*of(PatchNodePool, done), *of(CreateNodePool, done)])
    return at, state


@pytest.mark.parametrize("pools", [(THEIRS,), ()])
def test_whoever_sets_a_node_pool_back_or_takes_it_away_is_met_ever_more_seldom(
    pools: tuple[NodePoolSeen, ...],
) -> None:
    """It was twelve times a minute, for as long as somebody else did the same."""
    at, _ = written(pool(LIMITED, managed=True), pools, 3600)
    assert at == [0, 5, 15, 35, 75, 155, 315, 635, 1275, 2555]


def test_another_limit_of_the_tier_is_written_at_once_and_a_fight_is_told() -> None:
    _, state = written(pool(LIMITED, managed=True), (THEIRS,), 600)
    done = taken(pool(LIMITED, managed=True), world(node_pools=(THEIRS,)), state, NOW_S + 600.0)
    words = told(done, Aspect.NODE_POOLS_USABLE).message
    assert words == (
        "spec.tiers[0].name: limits or budget of NodePool 'np-first' were written 7 times and differ still: somebody "
        "sets them back, or refuses them; written again in 35 s"
    )
    raised = pool(replace(LIMITED, max_gpus=32), managed=True)
    (patch,) = of(PatchNodePool, taken(raised, world(node_pools=(THEIRS,)), done.state, NOW_S + 605.0))
    assert patch.limit_gpus == 32
    settled = taken(pool(LIMITED, managed=True), world(node_pools=(HELD,)), done.state, NOW_S + 610.0)
    assert told(settled, Aspect.NODE_POOLS_USABLE).holds


def test_an_end_of_a_capacity_block_that_nobody_can_read_is_told() -> None:
    seen = world((warm("p-0"),), nodes=(node("n-p-0", ends_unread="tomorrow"),))
    usable = told(taken(pool(min_slots=1), seen), Aspect.NODE_POOLS_USABLE)
    assert usable.holds is False
    assert "headroom.dev/capacity-ends of n-p-0 is 'tomorrow', no date and time with offset" in usable.message


MADE = Template(("a", "b"), ("on-demand",), ("h100-8x",), "g/Kind/gpu")
TYPED = replace(LIMITED, zones=("a", "b"), instance_types=("h100-8x",), node_class="g/Kind/gpu")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"instance_types": ("h100-8x", "h200-8x")}, "spec.tiers[0].instanceTypes: h100-8x, h200-8x, and NodePool"),
        ({"zones": ()}, "spec.tiers[0].zones: nothing, and NodePool 'np-first' was made with a, b"),
        ({"node_class": "g/Kind/other"}, "was made with g/Kind/gpu"),
        ({"capacity_type": CapacityType.SPOT}, "spec.tiers[0].shape: spot, and NodePool"),
    ],
)
def test_an_edit_of_a_tier_that_its_nodepool_never_follows_is_told(edit: dict[str, Any], words: str) -> None:
    """Another template would drift every node that stands."""
    seen = world(node_pools=(replace(HELD, template=MADE),))
    assert told(taken(pool(TYPED, managed=True), seen), Aspect.NODE_POOLS_USABLE).holds
    done = taken(pool(replace(TYPED, **edit), managed=True, spot_ratio=1.0), seen)
    usable = told(done, Aspect.NODE_POOLS_USABLE)
    assert usable.holds is False
    assert words in usable.message
    assert "give the tier another name" in usable.message
    assert not of(PatchNodePool, done)


def test_a_tier_that_contradicts_the_nodepool_it_refers_to_is_told() -> None:
    seen = world(node_pools=(replace(HELD, template=replace(MADE, capacity_types=("spot",), zones=("a",))),))
    words = told(taken(pool(replace(TYPED, zones=("a", "c"))), seen), Aspect.NODE_POOLS_USABLE).message
    assert words == (
        "spec.tiers[0].zones: a, c, and NodePool 'np-first' has a; change one of the two; "
        "spec.tiers[0].shape: on-demand, and NodePool 'np-first' has spot; change one of the two"
    )
    silent = world(node_pools=(replace(HELD, template=Template()),))
    assert told(taken(pool(TYPED), silent), Aspect.NODE_POOLS_USABLE).holds


def test_a_nodepool_by_which_warm_nodes_are_taken_away_is_told() -> None:
    """Karpenter's own defaults: nodes that are not full are consolidated, and all end after a month."""
    usual = replace(HELD, consolidates="WhenEmptyOrUnderutilized", expires="720h")
    usable = told(taken(pool(LIMITED), world(node_pools=(usual,))), Aspect.NODE_POOLS_USABLE)
    assert (usable.holds, usable.word) == (True, "WarmNodesTaken")
    assert "consolidationPolicy: WhenEmptyOrUnderutilized): set WhenEmpty" in usable.message
    assert "end after 720h whatever is on them (expireAfter)" in usable.message
