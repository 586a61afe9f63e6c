"""A WarmPool is edited while its slots are there: those that are not what it asks for any more give way."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.pool.intents import CreateSlot, DeleteSlot
from autoscaler.core.pool.params import SlotForm
from autoscaler.core.pool.reasons import PoolReason
from tests.core.pool.builders import NOW_S, node, of, pool, slot, taken, warm, world


def gone(done: Any) -> list[tuple[str, PoolReason]]:
    return [(each.name, each.reason) for each in of(DeleteSlot, done)]


@pytest.mark.parametrize("edit", [{"units": 1}, {"units": 0}, {"content": "c1.0ther"}, {"content": "c2"}])
def test_slots_that_an_edit_left_behind_are_made_anew_one_at_a_time(edit: dict[str, Any]) -> None:
    """Their count, their shape or their cache was edited: what holds one GPU is no place for a replica of four."""
    params = replace(pool(min_slots=3, max_slots=3, slot=SlotForm(count=4)), content="c1.cache")
    slots = tuple(warm(f"p-{at}", **{"units": 4, "content": "c1.cache", **edit}) for at in range(3))
    nodes = tuple(node(f"n-p-{at}", units=4) for at in range(3))
    assert gone(taken(params, world(slots, nodes=nodes))) == [("p-0", PoolReason.OUTDATED)]
    same = tuple(replace(each, units=4, content="c1") for each in slots)
    assert gone(taken(params, world(same, nodes=nodes))) == [], "an earlier version said nothing of the cache"


def test_slots_that_are_pinned_to_the_nodepool_that_their_tier_had_before_go_and_are_ordered_in_the_new_one() -> None:
    """They are on nodes that are none of the pool's any more, or wait for such: no capacity is missing there."""
    old = (warm("p-0", node_pool="np-old"), slot("p-1", node_pool="np-old", created_s=NOW_S - 900.0))
    done = taken(pool(min_slots=2), world(old, nodes=()))
    assert gone(done) == [("p-0", PoolReason.UNKNOWN_TIER), ("p-1", PoolReason.UNKNOWN_TIER)]
    assert [order.node_pool for order in of(CreateSlot, done)] == ["np-first", "np-first"]
    assert not done.state.circuits.capacity
    assert gone(taken(pool(min_slots=1), world((warm("p-0", node_pool="np-first"),)))) == []
