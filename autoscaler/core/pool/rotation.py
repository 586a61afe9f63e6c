"""Which healthy slots and nodes give way to new ones: near their end, out of date, or too old.

Enters: the view and the stage clock. Leaves: slots to make anew on their own node, a few at a time, and nodes that
retire: their slots count no more, so that a successor is warm before they go. Where such a node has room, a slot on it
says first that it ends, for the scheduler to put the successor elsewhere; until that is seen its slots count. A node
does not retire for its age where nobody would take it away, or somebody else's pods are on it, slots of another pool
among them: its room would be filled again by whoever is next. Where it ends anyhow, its slots stay up to then and count
no more. A slot that does not come to say so, as where a webhook refuses its label, is asked ever more rarely, and its
node takes no other's turn to retire. Drift is never acted upon here.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from autoscaler.core.columns import Bools
from autoscaler.core.doubling import doubled
from autoscaler.core.pool import clock
from autoscaler.core.pool.circuits import fraction
from autoscaler.core.pool.clock import Stage, StartKind
from autoscaler.core.pool.learning import UNSEEN_S
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

MARK_MOST_S: Final = 3600.0
"""A slot that does not say that its node ends is asked again at least this often; each time after twice as long."""


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """Slots to make anew, by place, with their reason; masks have the shape (slots,)."""

    anew: tuple[tuple[int, PoolReason], ...]
    retiring: Bools
    """On nodes that retire: they go once others are warm."""
    ending: Bools
    """Those, and slots on nodes of others' that end soon: they count no more."""
    marks: tuple[int, ...]
    """Slots on nodes that end, or are to retire, which do not say so and are asked to."""
    shut: frozenset[int]
    """Nodes of which a slot says so, or is about to: none that is made now goes there. Empty while none ends."""


def rotated(view: View, state: PoolState, good: Bools, going: Bools) -> Rotation:
    """What rotates now; `good` are the slots that count and are not going, `going` those deleted, shape (slots,)."""
    slots = view.slots
    at_once = max(1, ceil(AT_ONCE * int(good.sum())))
    under_way = int((good & (slots.stage < Stage.WEIGHTS_WARM)).sum()) + int(going.sum()) + len(state.ordered)
    leaving = _leaving(view, state, good, at_once)
    on = slots.node
    ending = good & np.isin(on, sorted(leaving.retire | leaving.end))
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
    anew = (*early, *due[: max(0, at_once - under_way + len(early))])
    retiring = good & np.isin(on, sorted(leaving.retire))
    return Rotation(anew, retiring, ending, leaving.marks, leaving.shut)


def _before_s(view: View, state: PoolState) -> float:
    """How long before its end a slot is made anew."""
    tier = view.params.tiers[0]
    again = StartKind(tier.sku, "", tier.capacity_type.value, view.content, new_node=False)
    lead_s = clock.remaining(state.clock, again, Stage.REQUESTED, AGAIN_PRIOR_S).p90_s
    return min(BEFORE_S + lead_s, 0.25 * view.params.slot_life_s)


@dataclass(frozen=True, slots=True)
class _Leaving:
    """Nodes by their place that retire now, and that end soon; slots that are to say so, nodes that are shut."""

    retire: frozenset[int]
    end: frozenset[int]
    marks: tuple[int, ...]
    shut: frozenset[int]


def _leaving(view: View, state: PoolState, good: Bools, at_once: int) -> _Leaving:
    """The nodes that end soon, and the few oldest of those beyond their age, where no successor would be put."""
    nodes, slots, params = view.nodes, view.slots, view.params
    placed = slots.where(good & (slots.node != NOWHERE))
    holding = sorted({int(slots.node[at]) for at in placed})
    alone = [at for at in holding if not nodes.seen[at].foreign_pods]
    ending = {
        at
        for at in holding
        if (ends_s := nodes.seen[at].ends_s) is not None and ends_s - view.now_s < params.lead_prior_s
    }
    aged = _aged(view, alone)
    told = {int(slots.node[at]) for at in placed if slots.seen[at].node_ends} if ending or aged else set[int]()
    mute = {int(slots.node[at]) for at in placed if _in_vain(view, state, at)} - told if state.marked else set[int]()
    vain = {at for at in mute if nodes.room[at]}
    # Who says so already keeps its turn though an older one comes to say so later.
    turns = sorted((at for at in aged if at not in vain), key=lambda at: at not in told)
    retiring = ending.intersection(alone) | set(turns[:at_once])
    going = ending | retiring | vain.intersection(aged)
    sure = {at for at in going if at in told or not nodes.room[at]}
    silent = (at for at in placed if int(slots.node[at]) in going and not slots.seen[at].node_ends)
    marks = tuple(at for at in silent if not _waits(view, state, at))
    shut = told | (going - vain) if going else set[int]()
    return _Leaving(frozenset(retiring & sure), frozenset(ending & sure), marks, frozenset(shut))


def _aged(view: View, alone: list[int]) -> list[int]:
    """Of nodes without pods of others' those beyond their age that somebody takes away, the oldest first."""
    nodes, life_s = view.nodes, view.params.node_life_s
    if life_s is None:
        return []
    taken = [at for at in alone if nodes.seen[at].claim in view.claims]
    ages = sorted((nodes.seen[at].created_s + _life_s(life_s, nodes.seen[at].name), at) for at in taken)
    return [at for due_s, at in ages if due_s <= view.now_s]


def _in_vain(view: View, state: PoolState, at: int) -> bool:
    """Whether a slot was asked to say that its node ends, and has had the time to."""
    asked = state.marked.get(view.slots.seen[at].uid)
    return asked is not None and (asked.times > 1 or view.now_s - asked.at_s >= UNSEEN_S)


def _waits(view: View, state: PoolState, at: int) -> bool:
    """Whether a slot was asked too short a time ago to be asked again."""
    asked = state.marked.get(view.slots.seen[at].uid)
    return asked is not None and view.now_s - asked.at_s < doubled(UNSEEN_S, asked.times - 1, MARK_MOST_S)


def _life_s(life_s: float, name: str) -> float:
    return life_s * (1.0 + NODE_JITTER * fraction(name))
