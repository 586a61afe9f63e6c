"""One look at a pool: (parameters, world, state, now) -> (state, intents, decision, conditions). Deterministic.

Enters: what was observed. Leaves: what shall be done. What was not read is left alone. Orders that were given and are
not seen yet count as slots, and deletions as gone, so that looking twice does nothing twice; names of new slots are the
lowest free ones, so that a second process would give the same orders.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from autoscaler.core.pool import breaker, clock
from autoscaler.core.pool.ahead import Ahead, thinned
from autoscaler.core.pool.circuits import Circuit, Position
from autoscaler.core.pool.clock import Stage, StartKind
from autoscaler.core.pool.conditions import blocks, conditions, unread
from autoscaler.core.pool.gangs import Gangs, hold
from autoscaler.core.pool.handover import handed_over, handed_to
from autoscaler.core.pool.intents import (
    Condition,
    DeleteClaim,
    DeleteSlot,
    Intent,
    MarkNodeEnds,
    PoolDecision,
    PoolStep,
)
from autoscaler.core.pool.learning import learnt, leveled, wanted
from autoscaler.core.pool.limit_conditions import Refused
from autoscaler.core.pool.limits import asked, kept_gpus
from autoscaler.core.pool.loans import Lending, blind, lending, there
from autoscaler.core.pool.losses import lost, taught
from autoscaler.core.pool.node_pools import mended
from autoscaler.core.pool.params import PoolParams
from autoscaler.core.pool.pending import come, coming, remembered
from autoscaler.core.pool.placement import Placed, by_zone, place
from autoscaler.core.pool.placing import Need
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.sizing import LOOK_S, Sizing, most_slots, refill, size
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.stock import Stock, stock_of, without
from autoscaler.core.pool.surplus import Excess, chosen
from autoscaler.core.pool.view import NOWHERE, View, look
from autoscaler.core.pool.world import AskedOf, World

HINDER_GANGS: Final = frozenset({PoolReason.PRIORITY})
"""What stops orders of slots and keeps nodes from being asked for gangs as well."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The outcome of one look."""

    state: PoolState
    intents: tuple[Intent, ...]
    decision: PoolDecision
    conditions: tuple[Condition, ...]
    ahead: Ahead | None
    """What the next replica finds; None where slots or nodes were not read."""
    lending: Lending
    """What batch work may borrow, and what is called back."""
    gangs: Gangs = field(default_factory=Gangs)
    """Nodes for gangs of batch work."""
    asked: tuple[AskedOf, ...] | None = None
    """What of NodePools has no node yet, this look's orders included; None where it was not read."""


def reconcile(params: PoolParams, world: World, state: PoolState, now_s: float) -> Reconciled:
    """Decide what one pool needs now."""
    if world.slots is None or world.nodes is None:
        return _unread(params, world, state, now_s)
    view, want, state = look(params, world, now_s), wanted(world), come(state, now_s)
    state = learnt(state, view, want, refill(state, _next_kind(view, state), params).usual_s)
    view = replace(view, world=replace(world, holders=(*world.holders, *coming(state))))
    found = lost(view, state)
    state = taught(state, view, found)
    stock = stock_of(view, state, found)
    lead = refill(state, _next_kind(view, state), params)
    state = leveled(state, params.hit_ratio, lead.usual_s + LOOK_S)
    sizing = size(params, state, now_s, want=want, supply=stock.supply, lead=lead)
    unknown = (PoolReason.LOANS_UNKNOWN,) if world.lent is None else ()
    stopped = (*blocks(world, state, now_s), *unknown)
    gone = dict(_gone(view, stock, sizing, calm=not stopped))
    placed, steps = _ordered(view, state, stock, sizing, gone=list(gone), stopped=stopped)
    hand = [] if params.observe else list(handed_over(view, state, without(stock.good, list(gone)), found.going))
    gives_way = [at for intent in hand if isinstance(intent, DeleteSlot) for at in _places(view, intent.uid)]
    state = replace(state, handed=handed_to(view, state, gives_way))
    gone |= dict.fromkeys(gives_way, PoolReason.HANDED_OVER)
    deletes = [DeleteSlot(view.slots.seen[at].name, view.slots.seen[at].uid, reason) for at, reason in gone.items()]
    ends = (view.slots.seen[at] for at in stock.rotation.marks if at not in gone)
    marks: list[Intent] = [MarkNodeEnds(seen.name, seen.uid, PoolReason.RETIRED) for seen in ends]
    marks += (intent for intent in hand if not isinstance(intent, DeleteSlot))
    claims = [*found.claims, *_retired_claims(view, gone)]
    stays = without(stock.good & ~stock.rotation.ending, list(gone))
    loans = lending(
        view, state, want, good=stays, has=stock.lent,
        missing=max(0, sizing.target - there(view, stays) - stock.lent.slots), keep=sizing.keep,
    )  # fmt: skip
    # What a slot warms is nothing to a gang.
    hinders = tuple(r for r in stopped if r in HINDER_GANGS)
    held = hold(view, state, hinders, stock.standing, placed.orders)
    trace = (*sizing.steps, *_gone_steps(stock, gone), *steps, *loans.steps, *held.steps)
    decision = PoolDecision(
        params.name, now_s, stock.supply, stock.warm, sizing.target, sizing.keep,
        _reason(sizing), trace, _by_stage(view, state), round(lead.usual_s, 1),
    )  # fmt: skip
    no_room = any(step.reason is PoolReason.NO_ROOM for step in steps)
    told = conditions(view, state, sizing, stock.warm, stock.lent, refused=Refused(placed.orders, no_room))
    ahead = Ahead(stock.together, thinned(clock.whole_s(state.clock, _next_kind(view, state))))
    state = replace(state, targets=sizing.targets, gave_back=held.gave_back)
    if params.observe:
        return Reconciled(state, (), decision, told, ahead, loans, held, asked(view, state))
    of_gangs: tuple[Intent, ...] = (*held.deletes, *held.makes)
    intents: tuple[Intent, ...] = (*deletes, *claims, *marks, *placed.orders, *of_gangs, *mended(view, state))
    state = remembered(state, now_s, intents, launches=placed.launches)
    return Reconciled(state, intents, decision, told, ahead, loans, held, asked(view, state, held.makes))


def _next_kind(view: View, state: PoolState) -> StartKind:
    """What the start of a slot that is ordered now would be alike to."""
    tiers = view.params.tiers
    open_to = (tier for tier in tiers if breaker.position(state.circuits, tier, None, view.now_s) is not Position.OPEN)
    tier = next(open_to, tiers[0])
    return StartKind(tier.sku, "", tier.capacity_type.value, view.content, new_node=True)


def _unread(params: PoolParams, world: World, state: PoolState, now_s: float) -> Reconciled:
    kept, loans = state.targets[-1][1] if state.targets else 0, blind(world, params)
    trace = (PoolStep("observe", kept, kept, PoolReason.UNREAD), *loans.steps)
    decision = PoolDecision(params.name, now_s, 0, 0, kept, kept, PoolReason.UNREAD, trace, ())
    return Reconciled(state, (), decision, unread(), None, loans)


def _gone(view: View, stock: Stock, sizing: Sizing, *, calm: bool) -> Iterator[tuple[int, PoolReason]]:
    """Slots to delete, each with its reason: lost ones, those of rotation, those beyond the need."""
    yield from stock.lost.reasons.items()
    retiring = view.slots.where(stock.rotation.retiring)
    room = sizing.most - stock.standing
    if stock.warm >= sizing.target:
        yield from ((at, PoolReason.RETIRED) for at in retiring)
    elif retiring and room <= 0 and stock.supply >= sizing.target - len(retiring) and not stock.lost.going.any():
        yield retiring[0], PoolReason.RETIRED
    counted = stock.good & ~stock.rotation.ending
    # What is lent is let go of before a slot is: the gang stays where it is, and nothing has to come back for it. It
    # counts for no limit either: no slot stands there, and none is ordered while it would be one too many.
    standing = stock.standing - stock.lent.slots - stock.lent.overdue
    hard = standing - int(stock.lost.going.sum()) - len(stock.lost.reasons) - sizing.most
    surplus = chosen(view, counted, Excess(stock.supply - sizing.keep - stock.lent.slots, hard))
    yield from ((at, PoolReason.SURPLUS) for at in surplus)
    if calm and not surplus:
        yield from stock.rotation.anew


def _ordered(
    view: View,
    state: PoolState,
    stock: Stock,
    sizing: Sizing,
    *,
    gone: list[int],
    stopped: tuple[PoolReason, ...],
) -> tuple[Placed, tuple[PoolStep, ...]]:
    """The orders of this look, and why there are not more."""
    params = view.params
    counted = without(stock.good & ~stock.rotation.ending, gone)
    missing = max(0, sizing.target - int(counted.sum()) - len(state.ordered) - stock.lent.slots)
    zones = by_zone(view, counted, state) if params.zone_minima else {}
    short = tuple(
        (zone, count - zones.get(zone, 0)) for zone, count in params.zone_minima if count > zones.get(zone, 0)
    )
    wanted_slots = max(missing, sum(count for _, count in short))
    nothing = Placed((), launches=False, refused=())
    if not wanted_slots:
        return nothing, ()
    if stopped:
        return nothing, tuple(PoolStep("order", wanted_slots, 0, reason) for reason in stopped)
    gang_gpus = kept_gpus(view, state)
    most = most_slots(params, gang_gpus)
    free, begin = max(0, most - stock.standing), max(0, params.max_starting - stock.starting)
    need = Need(wanted_slots, short, min(free, begin), sizing.target, stock.rotation.shut)
    placed = place(view, state, need, [*gone, *view.slots.where(stock.lost.going)])
    done = len(placed.orders)
    steps = [PoolStep("order", wanted_slots, done, PoolReason.REFILL, (("ordered_slots", done),))] if done else []
    if free < min(wanted_slots, sizing.most - stock.standing):
        evidence = (("max_gpus", params.max_gpus), ("slot_gpus", params.slot.gpus), ("gang_gpus", gang_gpus))
        steps.append(PoolStep("order", wanted_slots, free, PoolReason.GANGS_HOLD, evidence))
    if begin < min(wanted_slots, free):
        steps.append(
            PoolStep("order", wanted_slots, begin, PoolReason.STARTS_LIMITED, (("starting_slots", stock.starting),))
        )
    if done < min(wanted_slots, need.most):
        steps += [PoolStep("order", wanted_slots, done, reason) for reason, _ in placed.refused]
    return placed, tuple(steps)


def _places(view: View, uid: str) -> list[int]:
    return [at for at, slot in enumerate(view.slots.seen) if slot.uid == uid]


def _gone_steps(stock: Stock, gone: dict[int, PoolReason]) -> Iterator[PoolStep]:
    """One step for each reason that slots go for."""
    before = stock.standing
    for reason in dict.fromkeys(gone.values()):
        count = sum(each is reason for each in gone.values())
        yield PoolStep("delete", before, before - count, reason, (("deleted_slots", count),))
        before -= count


def _retired_claims(view: View, gone: dict[int, PoolReason]) -> Iterator[DeleteClaim]:
    """The claims of nodes that retire, once every slot on them goes; nobody else is on a node that retires."""
    leaving = {int(view.slots.node[at]) for at, reason in gone.items() if reason is PoolReason.RETIRED}
    for at in sorted(leaving - {NOWHERE}):
        node = view.nodes.seen[at]
        claim = None if node.claim is None else view.claims.get(node.claim)
        stays = [s for s in np.flatnonzero(view.slots.node == at).tolist() if s not in gone]
        if claim is not None and claim.deleting_s is None and not stays:
            yield DeleteClaim(claim.name, claim.uid, claim.node_pool, PoolReason.RETIRED)


def _reason(sizing: Sizing) -> PoolReason:
    """What decided the target."""
    decisive = [step for step in sizing.steps if step.stage in {"size", "bound"}]
    return decisive[-1].reason if decisive else PoolReason.STEADY


def _by_stage(view: View, state: PoolState) -> tuple[tuple[str, int], ...]:
    """Slots by stage; those that wait for GPUs where GPUs do not come are quarantined."""
    slots, stage = view.slots, view.slots.stage.copy()
    for at, tier in enumerate(view.params.tiers):
        if state.circuits.gpus.get(tier.name, Circuit()).position(view.now_s) is Position.OPEN:
            stage[(slots.tier == at) & (slots.stage == Stage.REGISTERED)] = Stage.QUARANTINED
    counts = np.bincount(stage, minlength=len(Stage)).tolist()
    return tuple((each.name.lower(), int(counts[each])) for each in Stage)
