"""Slots that go whatever the target is: failed, ended, overdue, stranded; and claims whose GPUs never came.

Enters: the view and what was learnt. Leaves: which slot goes for what reason, which claims shall be deleted, and what
that teaches. A claim is named only when a slot of ours was on it or nominated to it and no foreign pod is on its node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autoscaler.core.columns import Bools
from autoscaler.core.pool import breaker, clock
from autoscaler.core.pool.circuits import CAPACITY, CONTENT, GPUS, Circuit, Position, succeeded, troubled
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.intents import DeleteClaim
from autoscaler.core.pool.params import Domain
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.shapes import strange
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import NOWHERE, UNLISTED_S, View
from autoscaler.core.pool.world import ClaimSeen

UNUSABLE_S: Final = 600.0
"""How long a node may be unready or gated before its slots are given up: AWS repairs accelerators after 10 minutes."""

_LATE: Final = {
    Stage.REQUESTED: PoolReason.LATE_LAUNCH,
    Stage.NODE_LAUNCHED: PoolReason.LATE_REGISTRATION,
    Stage.REGISTERED: PoolReason.LATE_GPU,
    Stage.GPU_READY: PoolReason.LATE_IMAGE,
    Stage.IMAGE_PRESENT: PoolReason.LATE_WEIGHTS,
}
_CONTENT: Final = frozenset({PoolReason.LATE_IMAGE, PoolReason.LATE_WEIGHTS, PoolReason.FAILED})
_FAULTS: Final = _CONTENT | {PoolReason.LATE_REGISTRATION, PoolReason.LATE_GPU}


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """Slots by place with their reason, claims to delete, and slots that are going already."""

    reasons: dict[int, PoolReason]
    claims: tuple[DeleteClaim, ...]
    going: Bools
    """Deleted already, by whomever; they are no supply and get no further order."""


def lost(view: View, state: PoolState) -> Lost:
    """What goes now."""
    slots = view.slots
    going = np.array([slot.uid in state.dropped for slot in slots.seen], dtype=np.bool_)
    going |= slots.stage == Stage.DRAINING
    reasons: dict[int, PoolReason] = {}
    for mask, reason in _plain(view):
        for at in slots.where(mask & ~going):
            reasons.setdefault(at, reason)
    for at in slots.where((slots.stage == Stage.FAILED) & ~going):
        reasons.setdefault(at, _ended(view, at))
    starting = (slots.stage < Stage.WEIGHTS_WARM) & (slots.tier != NOWHERE) & ~going
    out = _out(view, state, starting)
    for at in slots.where(starting if out else starting & _begun_long_ago(view)):
        overdue = None if at in reasons else _overdue(view, state, at, out)
        if overdue is not None:
            reasons[at] = overdue
    claims = tuple(_claims(view, state, [at for at, why in reasons.items() if why is PoolReason.LATE_GPU]))
    return Lost(reasons, claims, going)


def taught(state: PoolState, view: View, found: Lost) -> PoolState:
    """The state after what was lost: circuits of GPUs and content, and how many starts fail."""
    circuits, now_s = state.circuits, view.now_s
    gpus, capacity = dict(circuits.gpus), dict(circuits.capacity)
    told = dict.fromkeys(_filled(view, found), now_s) | dict(circuits.told)
    content = circuits.content
    for _ in range(len(told) - len(circuits.told)):
        content = troubled(content, now_s, CONTENT, view.params.name)
    for at, reason in found.reasons.items():
        if reason in _CONTENT:
            content = troubled(content, now_s, CONTENT, view.params.name)
        if reason is PoolReason.LATE_LAUNCH:
            where = _where(view, at)
            capacity[where] = troubled(capacity.get(where, _NEW), now_s, CAPACITY, where.sku)
        joins_late = reason is PoolReason.LATE_REGISTRATION and (
            view.slots.stage[at] == Stage.NODE_LAUNCHED or _lost_its_node_early(view, state, at)
        )
        if reason is PoolReason.LATE_GPU or joins_late:
            tier, claim = view.params.tiers[int(view.slots.tier[at])].name, _claim_of(view, at)
            name = breaker.never_came(claim.name if claim is not None else view.slots.seen[at].uid)
            if name not in told:
                told[name] = now_s
                gpus[tier] = troubled(gpus.get(tier, Circuit()), now_s, GPUS, tier)
    warm = view.slots.where(view.slots.counts & (view.slots.stage == Stage.WEIGHTS_WARM) & view.slots.current)
    ends_s = view.slots.instants_s
    for at in warm if any(kept != _NEW for kept in gpus.values()) else ():
        tier = view.params.tiers[int(view.slots.tier[at])].name
        if gpus.get(tier, _NEW) != _NEW:
            gpus[tier] = succeeded(gpus[tier], float(ends_s[at, Stage.GPU_READY]))
    for tier, usable_s in _usable_for_gangs(view):
        if gpus.get(tier, _NEW) != _NEW:
            gpus[tier] = succeeded(gpus[tier], usable_s)
    if warm:
        content = succeeded(content, float(np.nanmax(ends_s[warm, Stage.WEIGHTS_WARM])))
    failed = sum(reason in _FAULTS for reason in found.reasons.values())
    kept = replace(circuits, capacity=capacity, content=content, gpus=gpus, told=told)
    return replace(state, circuits=kept, clock=clock.failed(state.clock, failed))


_NEW: Final = Circuit()


def _filled(view: View, found: Lost) -> Iterator[str]:
    """Nodes whose disk ran full while a slot got its images or weights, by the name under which that is remembered: one
    may be full of others' things, but on several these do not fit, and every further node would be made for nothing."""
    for at, reason in found.reasons.items():
        if reason is PoolReason.DISK_FULL and view.slots.seen[at].weights_s is None:
            yield f"disk/{view.slots.seen[at].node}"


def _usable_for_gangs(view: View) -> Iterator[tuple[str, float]]:
    """Tiers on whose nodes pods for gangs hold GPUs, with since when these are usable."""
    for each in view.world.holders:
        at = None if each.node is None else view.nodes.index.get(each.node)
        if at is not None and view.nodes.usable[at] and (usable_s := view.nodes.seen[at].gpu_ready_s) is not None:
            yield each.tier, usable_s


def _plain(view: View) -> Iterator[tuple[Bools, PoolReason]]:
    """Masks of slots that go for a reason that can be seen at once, the first one that holds counts."""
    slots, seen = view.slots, view.nodes.seen
    yield slots.tier == NOWHERE, PoolReason.UNKNOWN_TIER
    yield slots.stage == Stage.EXPIRED, PoolReason.EXPIRED
    unlisted = view.now_s - slots.instants_s[:, Stage.GPU_READY] > UNLISTED_S
    yield slots.bound & (slots.node == NOWHERE) & unlisted, PoolReason.NODE_LOST
    on_node = slots.node != NOWHERE
    for test, reason in (
        ([node.interrupted for node in seen], PoolReason.INTERRUPTED),
        ([node.disk_full for node in seen], PoolReason.DISK_FULL),
        ([_is_lost_for_good(view, at) for at in range(len(seen))], PoolReason.NODE_UNUSABLE),
    ):
        mask = np.zeros(len(slots.seen), dtype=np.bool_)
        mask[on_node] = np.array(test, dtype=np.bool_)[slots.node[on_node]]
        yield mask, reason


def _is_lost_for_good(view: View, at: int) -> bool:
    """Whether a node holds slots that can never be handed over: cordoned, of another shape, or gated, or
    without what slots need, for too long."""
    node = view.nodes.seen[at]
    if view.nodes.usable[at]:
        return False
    if node.cordoned or (node.units is not None and strange(view.params.slot, node) is not None):
        return True
    return node.unusable_since_s is not None and view.now_s - node.unusable_since_s > UNUSABLE_S


def _ended(view: View, at: int) -> PoolReason:
    """A slot that failed after its images and weights were there has reached its end, whatever ended it; one that
    failed before has failed. No pod is ready once it has ended, so that it does not say whether it was warm."""
    return PoolReason.FAILED if view.slots.seen[at].weights_s is None else PoolReason.EXPIRED


def _begun_long_ago(view: View) -> Bools:
    """Slots whose stage has lasted longer than any is given up after: of five thousand that start these are few."""
    slots = view.slots
    least_s = np.array(clock.LEAST_S)[np.minimum(slots.stage, Stage.IMAGE_PRESENT)]
    return np.asarray(view.now_s - slots.since_s > least_s)


def _out(view: View, state: PoolState, starting: Bools) -> set[tuple[int, str | None]]:
    """Of the tiers and zones in which slots wait, those that are without capacity and without a free place."""
    slots, nodes = view.slots, view.nodes
    tiers = slots.tier.tolist()
    asked = {(tiers[at], slots.seen[at].zone) for at in slots.where(starting & (slots.stage == Stage.REQUESTED))}
    return {
        (at, zone)
        for at, zone in asked
        if breaker.position(state.circuits, view.params.tiers[at], zone, view.now_s) is Position.OPEN
        and not int(nodes.room[nodes.tier == at].sum())
    }


def _overdue(view: View, state: PoolState, at: int, out: set[tuple[int, str | None]]) -> PoolReason | None:
    """Why a start is given up, if it is: its stage takes too long, or it waits where capacity is missing."""
    stage, seen = Stage(int(view.slots.stage[at])), view.slots.seen[at]
    age_s = view.now_s - float(view.slots.since_s[at])
    waits = stage is Stage.REQUESTED and seen.claim not in view.claims
    if waits and (int(view.slots.tier[at]), seen.zone) in out:
        return PoolReason.MOVED
    if (node := int(view.slots.node[at])) != NOWHERE:
        # What a node that is cut off holds up is no fault of images or weights: it has a time of its own.
        if not view.nodes.seen[node].ready:
            return None
        ready_s = view.nodes.seen[node].ready_s
        age_s = age_s if ready_s is None else min(age_s, view.now_s - ready_s)
    if age_s <= clock.LEAST_S[stage]:
        return None
    if age_s <= clock.patience_s(state.clock, view.kind_of(at), stage):
        return None
    gpus = state.circuits.gpus.get(view.params.tiers[int(view.slots.tier[at])].name, _NEW)
    given_up = gpus.trouble_s is not None and gpus.trouble_s > seen.created_s
    if stage is Stage.REQUESTED and (given_up or _lost_its_node_early(view, state, at)):
        return PoolReason.LATE_REGISTRATION  # it had a node, which went: capacity is not what lacks
    return _LATE[stage]


def _lost_its_node_early(view: View, state: PoolState, at: int) -> bool:
    """Whether a launched claim of a slot's NodePool went before its node joined, by whatever cause, since it waits.

    One that a person deletes is made anew, and the slot is warm in time; where instances end by themselves it never is.
    """
    went = breaker.went_early(view.params.tiers[int(view.slots.tier[at])].node_pool)
    return state.circuits.told.get(went, -np.inf) > view.slots.seen[at].created_s


def _where(view: View, at: int) -> Domain:
    """Where a slot waits for capacity."""
    tier = view.params.tiers[int(view.slots.tier[at])]
    return Domain(tier.sku, view.slots.seen[at].zone or "", tier.capacity_type)


def _claim_of(view: View, at: int) -> ClaimSeen | None:
    """The claim that a slot was nominated to, or whose node it is bound to."""
    seen, node = view.slots.seen[at], int(view.slots.node[at])
    name = seen.claim if node == NOWHERE else view.nodes.seen[node].claim
    return None if name is None else view.claims.get(name)


def _claims(view: View, state: PoolState, late: list[int]) -> Iterator[DeleteClaim]:
    """Claims whose GPUs never came, while that does not happen to every new node: then the image or driver is bad."""
    done: set[str] = set()
    for at in late:
        claim = _claim_of(view, at)
        if claim is None or claim.name in done or claim.deleting_s is not None or claim.initialized_s is not None:
            continue
        tier = view.params.tiers[int(view.slots.tier[at])]
        node = None if claim.node is None else view.nodes.index.get(claim.node)
        alone = node is not None and not view.nodes.seen[node].foreign_pods
        closed = state.circuits.gpus.get(tier.name, _NEW).position(view.now_s) is not Position.OPEN
        if alone and closed and claim.node_pool == tier.node_pool:
            done.add(claim.name)
            yield DeleteClaim(claim.name, claim.uid, claim.node_pool, PoolReason.LATE_GPU)
