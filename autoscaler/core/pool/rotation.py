"""Which healthy slots and nodes give way to new ones: near their end, out of date, or too old.

Enters: the view and the stage clock. Leaves: slots to make anew on their own node, a few at a time, and nodes that
retire: their slots count no more, so that a successor is warm before they go. A node that somebody else's pods are on,
slots of another pool among them, does not retire for its age: its room would be filled again by whoever is next, and
taking it away would take theirs. Where it ends anyhow and is full, its slots stay up to then and count no more. Drift
is never acted upon here.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from autoscaler.core.columns import Bools
from autoscaler.core.pool import clock
from autoscaler.core.pool.circuits import fraction
from autoscaler.core.pool.clock import Stage, StartKind
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import NOWHERE, View

AT_ONCE: Final = 0.1
"""The share of a pool's slots that may be under way for the sake of rotation; at least one."""

AGAIN_PRIOR_S: Final = 60.0
"""A slot made anew on a node that has image and weights, before that was measured (a guess)."""

BEFORE_S: Final = 300.0
"""A slot is made anew this long, and one such start, before its own end."""

NODE_JITTER: Final = 0.2
"""Nodes of one age retire spread over this share of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """Slots to make anew, by place, with their reason; masks have the shape (slots,)."""

    anew: tuple[tuple[int, PoolReason], ...]
    retiring: Bools
    """On nodes that retire: they go once others are warm."""
    ending: Bools
    """Those, and slots on nodes of others' that end soon: they count no more."""


def rotated(view: View, state: PoolState, good: Bools, going: Bools) -> Rotation:
    """What rotates now; `good` are the slots that count and are not going, `going` those deleted, shape (slots,)."""
    slots = view.slots
    at_once = max(1, ceil(AT_ONCE * int(good.sum())))
    under_way = int((good & (slots.stage < Stage.WEIGHTS_WARM)).sum()) + int(going.sum()) + len(state.ordered)
    retiring, ending = _retiring(view, good, at_once)
    warm = good & (slots.stage == Stage.WEIGHTS_WARM) & ~ending
    deadlines_s = np.array([slot.deadline_s for slot in slots.seen], dtype=np.float64)
    soon = deadlines_s - view.now_s < _before_s(view, state)
    due = [(at, PoolReason.OUTDATED) for at in slots.where(warm & ~slots.current)]
    due += sorted(
        ((at, PoolReason.ROTATED) for at in slots.where(warm & slots.current & soon)),
        key=lambda each: (float(deadlines_s[each[0]]), slots.seen[each[0]].name),
    )
    early = [
        (at, PoolReason.OUTDATED) for at in slots.where(good & ~slots.current & (slots.stage < Stage.WEIGHTS_WARM))
    ]
    return Rotation((*early, *due[: max(0, at_once - under_way + len(early))]), retiring, ending)


def _before_s(view: View, state: PoolState) -> float:
    """How long before its end a slot is made anew."""
    tier = view.params.tiers[0]
    again = StartKind(tier.sku, "", tier.capacity_type.value, view.content, new_node=False)
    lead_s = clock.remaining(state.clock, again, Stage.REQUESTED, AGAIN_PRIOR_S).p90_s
    return min(BEFORE_S + lead_s, 0.25 * view.params.slot_life_s)


def _retiring(view: View, good: Bools, at_once: int) -> tuple[Bools, Bools]:
    """The slots on nodes that end soon, and on the few oldest of those beyond their age, where nobody else is; and the
    same with those on nodes that end soon and others are on, where no room is left that their successors would take."""
    nodes, slots, params = view.nodes, view.slots, view.params
    holding = sorted({int(slots.node[at]) for at in slots.where(good & (slots.node != NOWHERE))})
    alone = [at for at in holding if not nodes.seen[at].foreign_pods]
    ending = {
        at
        for at in holding
        if (at in alone or not nodes.room[at])
        and (ends_s := nodes.seen[at].ends_s) is not None
        and ends_s - view.now_s < params.lead_prior_s
    }
    retiring = ending.intersection(alone)
    if params.node_life_s is not None:
        ages = sorted((nodes.seen[at].created_s + _life_s(params.node_life_s, nodes.seen[at].name), at) for at in alone)
        retiring |= {at for due_s, at in ages[:at_once] if due_s <= view.now_s}
    on = slots.node
    return np.isin(on, sorted(retiring)) & good, np.isin(on, sorted(retiring | ending)) & good


def _life_s(life_s: float, name: str) -> float:
    return life_s * (1.0 + NODE_JITTER * fraction(name))
