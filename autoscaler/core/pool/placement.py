"""Where new slots go: onto free nodes first, then down the tiers, past what is missing, full or used up.

Enters: the view, circuits, how many slots are wanted in all and per zone. Leaves: orders, and why others are not given.
A slot without a zone is left to the scheduler's spread.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autoscaler.core.pool import breaker
from autoscaler.core.pool.circuits import Position, fraction
from autoscaler.core.pool.intents import CreateSlot
from autoscaler.core.pool.placing import Need, placing_of
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import NOWHERE, View


@dataclass(frozen=True, slots=True)
class Placed:
    """The orders of one look, whether any of them needs a launch, and how often each refusal stood in the way."""

    orders: tuple[CreateSlot, ...]
    launches: bool
    refused: tuple[tuple[PoolReason, int], ...]


def place(view: View, state: PoolState, need: Need, going: list[int]) -> Placed:
    """Give out what is needed, the zones' minima first. `going` are the places of slots that will not stay."""
    params, placing = view.params, placing_of(view, state, need, going)
    names = _names(view, state)
    orders: list[CreateSlot] = []
    launches = False
    wanted: list[str | None] = [zone for zone, count in need.zones for _ in range(count)]
    wanted += [None] * max(0, need.slots - len(wanted))
    for zone in wanted[: max(0, need.most)]:
        found = placing.order(zone)
        if found is None:
            if zone is None:
                break
            placing.refused[PoolReason.ZONE_OUT] += 1
            continue
        at, by_launch = found
        launches |= by_launch
        tier = params.tiers[at]
        probe = by_launch and breaker.position(state.circuits, tier, zone, view.now_s) is Position.HALF_OPEN
        reason = PoolReason.PROBE if probe else PoolReason.REFILL
        name = next(names)
        life_s, apart = _life_s(view, name), bool(need.shut)
        orders.append(CreateSlot(name, tier.name, tier.node_pool, zone, params.content, life_s, reason, apart))
    return Placed(tuple(orders), launches, tuple(placing.refused.items()))


def by_zone(view: View, counted: np.ndarray, state: PoolState) -> Counter[str]:
    """Slots that count, by the zone they are in or pinned to."""
    node = view.slots.node
    on_node = counted & (node != NOWHERE)
    standing = np.bincount(node[on_node], minlength=len(view.nodes.seen)).tolist()
    zones = Counter[str]()
    for each, count in zip(view.nodes.seen, standing, strict=True):
        zones[each.zone] += count
    zones.update(view.zone_of(at) for at in view.slots.where(counted & ~on_node))
    zones.update(order.zone for order in state.ordered.values() if order.zone is not None)
    return zones


def _names(view: View, state: PoolState) -> Iterator[str]:
    """Free names, the lowest numbers first: an order that is given twice has the same name both times."""
    taken = {slot.name for slot in view.slots.seen} | state.ordered.keys() | view.world.taken
    number = 0
    while True:
        name = f"{view.params.name}-{number}"
        if name not in taken:
            yield name
        number += 1


def _life_s(view: View, name: str) -> float:
    """The slot's life, up to a fifth shorter by its name, so that slots made together do not end together."""
    return round(view.params.slot_life_s * (1.0 - 0.2 * fraction(f"{name}/{int(view.now_s)}")), 1)
