"""What of a pool's idle slots batch work may borrow, and how much of it serving takes back now.

Enters: the view, demand's history, what is lent. Leaves: slots on offer by node, slots to call back, and why. A loan is
called back once idle slots no longer cover the growth of demand over the reclaim; one is made only where they cover
that of half an hour besides, a burst of the last half hour included, so that it is worth its start and is not called
back by the next look. Growth is that of the time of day or, where a clock sizes the pool and two days of it are known,
of the minute of the hour. What demand is not known keeps loans from being made; what is known of need, a replica that
waits, calls them back without it.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autoscaler.core.columns import Bools
from autoscaler.core.pool import growth, hourly
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.growth import Growth
from autoscaler.core.pool.history import BIN_S
from autoscaler.core.pool.intents import PoolStep
from autoscaler.core.pool.learning import Wanted
from autoscaler.core.pool.params import LoanTerms, PoolParams
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.sizing import LOOK_S
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import NOWHERE, View
from autoscaler.core.pool.world import World

LENDING_S: Final = (1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0)
"""For how long a loan may be expected to last, the shortest that is worth a start of some minutes first (a guess)."""

HEARD_S: Final = 5.0
"""Whoever admits batch work follows pods by itself, and may hear so much later that a slot is bound (a guess)."""


@dataclass(frozen=True, slots=True)
class Lent:
    """What is lent, in slots."""

    slots: int = 0
    """That gangs hold, those they leave included; a slot that stands there still is not counted twice."""
    leaving: int = 0
    overdue: int = 0
    """That should long be back, besides: they are no supply, and hold their GPUs all the same."""
    giving: tuple[int, ...] = ()
    """Places of slots that give way to a gang that was let in, and are no supply any more."""


@dataclass(frozen=True, slots=True)
class Lending:
    """What a look at a pool says of loans."""

    offer: tuple[tuple[str, int], ...] = ()
    """(node, slots): idle slots that may be lent now."""
    expected_s: float = 0.0
    """How long a loan that is made now lasts, as demand grew so far."""
    recall: int = 0
    """Slots' worth of loans to call back, beyond those that leave already."""
    leaving: int = 0
    """Slots' worth of loans that were leaving when it was looked."""
    lent: int | None = None
    """Slots' worth that gangs have on loan, those they leave included; None while that is not known."""
    overdue: int = 0
    """Slots' worth besides that were called back and should long be free."""
    missing: int = 0
    """Slots that the pool lacks, or that were bound just now: what becomes free on its nodes is theirs."""
    steps: tuple[PoolStep, ...] = ()


def lent(view: View, good: Bools) -> Lent:
    """What is lent; `good` are the slots that count."""
    count, slots = view.params.slot.count, view.slots
    giving: list[int] = []
    held = leaving = overdue = 0
    for each in view.world.lent or ():
        late = min(each.overdue, each.units) // count
        held += each.units // count - late
        leaving += min(each.leaving, each.units) // count
        overdue += late
        at = view.nodes.index.get(each.node)
        here = [] if at is None else np.flatnonzero(good & (slots.node == at)).tolist()
        # The scheduler chooses who gives way; slots of one node are alike.
        giving += here[: math.ceil(min(each.coming, each.units) / count)]
    return Lent(held, leaving, overdue, tuple(giving))


def there(view: View, stays: Bools) -> int:
    """Of the slots that stay those that everybody knows to be on their nodes."""
    just_bound = view.now_s - view.slots.instants_s[:, Stage.GPU_READY] < HEARD_S
    return int((stays & view.slots.bound & ~just_bound).sum())


def lending(view: View, state: PoolState, want: Wanted, *, good: Bools, has: Lent, missing: int, keep: int) -> Lending:
    """What may be lent, and what is called back. `good` are slots that count and neither go nor give way; `missing`
    are the slots that the pool lacks, `keep` those that it would not delete."""
    known = None if view.world.lent is None else has.slots
    return replace(
        _decided(view, state, want, good=good, has=has, keep=keep), leaving=has.leaving, missing=missing, lent=known,
        overdue=has.overdue,
    )  # fmt: skip


def _decided(view: View, state: PoolState, want: Wanted, *, good: Bools, has: Lent, keep: int) -> Lending:
    warm = view.slots.where(good & (view.slots.stage == Stage.WEIGHTS_WARM) & (view.slots.node != NOWHERE))
    # What is on its way on a node that is there has image and weights: it is warm well within the reclaim.
    soon = int((good & (view.slots.stage < Stage.WEIGHTS_WARM) & (view.slots.node != NOWHERE)).sum())
    idle = len(warm) + soon + has.leaving - _waiting(view.world)
    stays = has.slots - has.leaving
    terms = view.params.loan
    if terms is None or view.params.observe:
        step = [PoolStep("loan", stays, 0, PoolReason.RECALLS_ALL)] if terms is None and stays else []
        return Lending(recall=stays if terms is None else 0, steps=tuple(step))
    within_s = terms.reclaim_s + LOOK_S
    usual, least = _usual(state, view.now_s, within_s), _least(view.params, terms, want, view.now_s, within_s)
    # Idle slots beyond what the pool keeps, after its limits, are deleted: a gang that left for one would leave for
    # nobody. Replicas that wait are a need of another kind: `idle` is less by them, however few are kept.
    need = min(keep, max(least, usual or 0))
    recall = min(stays, max(0, need - idle))
    waiting = _waiting(view.world)
    told = (
        ("idle_slots", idle + waiting), ("waiting_slots", waiting or None), ("need_slots", need),
        ("reclaim_s", terms.reclaim_s),
    )  # fmt: skip
    if recall:
        step = [PoolStep("loan", stays, stays - recall, PoolReason.RECALLS, told)]
        return Lending(recall=recall, steps=tuple(step))
    if usual is None or view.world.lent is None or want.slots is None:
        known_s = state.history.known * BIN_S
        step = [PoolStep("loan", stays, stays, PoolReason.LENDS_NOT, (("known_s", known_s),))]
        return Lending(steps=tuple(step))
    longest = list(_lasting(view, terms, state, want, len(warm) - _waiting(view.world)))
    room, expected_s = longest[-1] if longest else (0, 0.0)
    offer = tuple(_offered(view, warm, room))
    number = sum(slots for _, slots in offer)
    steps = (PoolStep("loan", len(warm), number, PoolReason.LENDS, (*told, ("lent_slots", has.slots))),)
    return Lending(offer, expected_s if number else 0.0, steps=steps if number or has.slots else ())


def blind(world: World, params: PoolParams) -> Lending:
    """Slots or nodes were not read: replicas that are known to wait call back what they need, and nothing is lent."""
    count = params.slot.count
    held = sum((each.units - each.leaving - each.overdue) // count for each in world.lent or ())
    recall = min(held, _waiting(world))
    steps = (PoolStep("loan", held, held - recall, PoolReason.RECALLS),) if recall else ()
    leaving = sum(each.leaving for each in world.lent or ()) // count
    overdue = sum(each.overdue for each in world.lent or ()) // count
    known = None if world.lent is None else held + leaving
    return Lending(recall=recall, leaving=leaving, lent=known, overdue=overdue, steps=steps)


def _lasting(view: View, terms: LoanTerms, state: PoolState, want: Wanted, idle: int) -> Iterator[tuple[int, float]]:
    """Slots that may be lent, with for how long: as long as the growth of so long a time leaves as many."""
    room = None
    for within_s in LENDING_S:
        usual = _usual(state, view.now_s, within_s + LOOK_S)
        least = _least(view.params, terms, want, view.now_s, max(within_s, terms.reclaim_s) + LOOK_S)
        need = max(usual or 0, least, _lately(state, within_s + LOOK_S))
        if usual is None or idle - need < (1 if room is None else room):
            return
        room = idle - need
        yield room, within_s


def _usual(state: PoolState, now_s: float, within_s: float) -> int | None:
    """By how much demand grows at most within a time, as far as it was seen; None where too little was."""
    hour = _by_minute(state, within_s)
    if hour is not None:
        return hour.slots
    usual = growth.usual(state.history, now_s, within_s, growth.LEVELS[-1])
    return None if usual is None else usual.slots


def _lately(state: PoolState, within_s: float) -> int:
    """A burst of these minutes, but for what the clock had foretold: it is no sample of the past yet, and would be one
    by the time the loan has begun."""
    if _by_minute(state, within_s) is not None:
        return hourly.unforeseen(state.history, within_s)
    return growth.lately(state.history, within_s)


def _by_minute(state: PoolState, within_s: float) -> Growth | None:
    """What two days say of this minute of the hour; None where the clock does not size the pool, or they do not."""
    return None if state.rhythm is None else hourly.careful(state.history, within_s, state.rhythm)


def _least(params: PoolParams, terms: LoanTerms, want: Wanted, now_s: float, within_s: float) -> int:
    """Idle slots that are not lent whatever was seen: those that are never lent, forecast, zones', of known events."""
    events = [e.floor for e in params.events if e.floor is not None and e.from_s - within_s <= now_s < e.to_s]
    return max(terms.keep_slots, math.ceil(want.forecast - 1e-9), sum(n for _, n in params.zone_minima), *events)


def _waiting(world: World) -> int:
    """Slots' worth of replicas that no node has room for yet: they take what is idle."""
    return sum(each.waiting * each.slots_per_replica for each in world.demand or () if not each.uses_claims)


def _offered(view: View, warm: Sequence[int], room: int) -> Iterator[tuple[str, int]]:
    """Nodes with most idle slots first, so that gangs find whole nodes; zones keep their minima."""
    node = view.slots.node
    zones = Counter(view.zone_of(at) for at in warm)
    minima = dict(view.params.zone_minima)
    here = Counter(int(node[at]) for at in warm)
    for at in sorted(here, key=lambda at: (-here[at], view.nodes.seen[at].name)):
        seen = view.nodes.seen[at]
        slots = min(here[at], room, zones[seen.zone] - minima.get(seen.zone, 0))
        if slots > 0 and seen.ends_s is None and not seen.drifted:
            zones[seen.zone] -= slots
            room -= slots
            yield seen.name, slots
