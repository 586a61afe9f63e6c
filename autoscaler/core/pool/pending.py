"""What was asked for and is not seen yet, so that looking twice asks for nothing twice.

Enters: the intents of a look, and which of them never left. Leaves: the state that remembers the others, and what of it
counts as if it were there. What became of an intent that left is not known here: what is seen later says it.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from autoscaler.core.pool.intents import (
    CreateHolder,
    CreateNodePool,
    CreateSlot,
    DeleteSlot,
    Intent,
    MarkNodeEnds,
    PatchNodePool,
)
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import Edited, Made, Marked, Ordered, PoolState
from autoscaler.core.pool.world import HolderSeen

AHEAD_S: Final = 10.0
"""Clocks of two leaders are seldom so far apart: when something of a later instant was asked for, nobody knows."""


def come(state: PoolState, now_s: float) -> PoolState:
    """The state without what was asked for at an instant that has not come, by a leader whose clock was ahead: it would
    be taken to have been asked for a moment ago until then."""
    latest_s = now_s + AHEAD_S
    return replace(
        state,
        ordered={name: each for name, each in state.ordered.items() if each.at_s <= latest_s},
        made={name: each for name, each in state.made.items() if each.at_s <= latest_s},
        dropped={uid: at_s for uid, at_s in state.dropped.items() if at_s <= latest_s},
        marked={uid: each for uid, each in state.marked.items() if each.at_s <= latest_s},
        edited={name: each for name, each in state.edited.items() if each.at_s <= latest_s},
        handed={name: each for name, each in state.handed.items() if each.at_s <= latest_s},
        created_s=state.created_s if state.created_s <= latest_s else -math.inf,
        claims_read_s=None if state.claims_read_s is None or state.claims_read_s > latest_s else state.claims_read_s,
    )


def coming(state: PoolState) -> Iterator[HolderSeen]:
    """What was made to hold places for gangs and is not seen yet; nobody can delete it before its uid is known."""
    for name, each in state.made.items():
        yield HolderSeen(name, "", each.gang_uid, each.tier, each.units, each.at_s, deleting=True)


def remembered(state: PoolState, now_s: float, intents: tuple[Intent, ...], *, launches: bool) -> PoolState:
    """The state with what a look asks for; `launches` says whether a slot of it needs a node to be launched."""
    ordered, made = dict(state.ordered), dict(state.made)
    dropped, marked, edited = dict(state.dropped), dict(state.marked), dict(state.edited)
    for intent in intents:
        match intent:
            case CreateSlot():
                ordered[intent.name] = Ordered(intent.tier, intent.zone, now_s)
            case CreateHolder():
                made[intent.name] = Made(intent.gang_uid, intent.tier, intent.units, now_s)
                launches |= intent.reason is PoolReason.PROBE
            case DeleteSlot(of_gang=False):
                dropped[intent.uid] = now_s
            case MarkNodeEnds():
                before = marked.get(intent.uid)
                marked[intent.uid] = Marked(now_s, 1 if before is None else before.times + 1)
            case CreateNodePool() | PatchNodePool():
                limits, last = (intent.limit_gpus, intent.limit_nodes), edited.get(intent.name)
                again = last is not None and last.limits == limits
                edited[intent.name] = Edited(now_s, limits, last.times + 1 if last is not None and again else 1)
            case _:
                pass
    created_s = now_s if launches else state.created_s
    return replace(
        state, ordered=ordered, made=made, dropped=dropped, marked=marked, edited=edited, created_s=created_s
    )


def without_unsent(state: PoolState, before: PoolState, unsent: Iterable[Intent]) -> PoolState:
    """The state without intents that are known not to have left, `before` the look that they are of: what was not
    asked for does not count as if it were there, and is asked for again at the next look."""
    ordered, made = dict(state.ordered), dict(state.made)
    dropped, marked, edited = dict(state.dropped), dict(state.marked), dict(state.edited)
    for intent in unsent:
        match intent:
            case CreateSlot():
                ordered.pop(intent.name, None)
            case CreateHolder():
                made.pop(intent.name, None)
            case DeleteSlot():
                dropped.pop(intent.uid, None)
            case MarkNodeEnds():
                asked = before.marked.get(intent.uid)
                marked.pop(intent.uid, None)
                if asked is not None:
                    marked[intent.uid] = asked
            case CreateNodePool() | PatchNodePool():
                last = before.edited.get(intent.name)
                edited.pop(intent.name, None)
                if last is not None:
                    edited[intent.name] = last
            case _:
                pass
    asks = (ordered.items() - before.ordered.items()) or (made.items() - before.made.items())
    created_s = state.created_s if asks else before.created_s
    return replace(
        state, ordered=ordered, made=made, dropped=dropped, marked=marked, edited=edited, created_s=created_s
    )
