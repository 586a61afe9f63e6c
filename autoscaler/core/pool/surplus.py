"""Which slots go first when there are more than needed.

Enters: the view and how many shall go. Leaves: their places. Those that cost least to lose go first: not launched
before launched, launched before warm; of the warm ones drifted before current nodes, later tiers before earlier ones,
nodes that would become empty before full ones, crowded zones before others, old before young. Spot slots beyond their
share of those that stay go before all others. Zone minima are kept, unless a hard limit asks for it.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from autoscaler.core.columns import Bools
from autoscaler.core.pool.params import CapacityType
from autoscaler.core.pool.view import NOWHERE, View


@dataclass(frozen=True, slots=True)
class Excess:
    """Slots beyond what is kept, and beyond what limits allow."""

    soft: int
    hard: int


def chosen(view: View, good: Bools, excess: Excess) -> list[int]:
    """The slots that go, by place."""
    number = max(excess.soft, excess.hard)
    if number <= 0:
        return []
    slots, nodes = view.slots, view.nodes
    places = np.flatnonzero(good)
    node = slots.node[places]
    on_node = node != NOWHERE
    drifted = np.zeros(places.size, dtype=np.bool_)
    drifted[on_node] = np.array([each.drifted for each in nodes.seen], dtype=np.bool_)[node[on_node]]
    load = np.zeros(places.size)
    held = np.bincount(node[on_node], minlength=len(nodes.seen)) if on_node.any() else np.zeros(0)
    foreign = np.array([each.foreign_pods for each in nodes.seen], dtype=np.float64)
    load[on_node] = held[node[on_node]] + foreign[node[on_node]]
    zones = [view.zone_of(at) for at in places.tolist()]
    population = Counter(zones)
    keys = (
        np.array([slots.seen[at].name for at in places.tolist()], dtype=np.str_),
        slots.instants_s[places, 0],
        np.array([-population[zone] for zone in zones]),
        load,
        -slots.tier[places],
        ~drifted,
        slots.stage[places],
    )
    minima = dict(view.params.zone_minima)
    out: list[int] = []
    ranks = np.lexsort(keys).tolist()
    on_spot = _on_spot(view)[slots.tier[places]]
    beyond = int(on_spot.sum()) - int(view.params.spot_ratio * max(0, places.size - number) + 1e-9)
    first = set([rank for rank in ranks if on_spot[rank]][: max(0, beyond)])
    for rank in sorted(ranks, key=lambda rank: rank not in first):
        if len(out) >= number:
            break
        zone = zones[rank]
        if population[zone] > minima.get(zone, 0) or len(out) < excess.hard:
            population[zone] -= 1
            out.append(int(places[rank]))
    return out


def _on_spot(view: View) -> Bools:
    """Which tiers are of spot capacity, shape (tiers + 1,); the last is of a slot whose tier is no more."""
    kinds = [tier.capacity_type is CapacityType.SPOT for tier in view.params.tiers]
    return np.array([*kinds, False], dtype=np.bool_)
