"""What is told of a pool as true, false or unknown, each with the field and the remedy.

Enters: the view, the state, the outcome of a look. Leaves: one condition per aspect, always all of them. It decides
nothing; what stops orders is decided in `blocks`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from autoscaler.core.pool import breaker
from autoscaler.core.pool.circuits import Position
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.handover import pause_s
from autoscaler.core.pool.intents import Aspect, Condition
from autoscaler.core.pool.limit_conditions import Refused, limits
from autoscaler.core.pool.loans import Lent
from autoscaler.core.pool.node_conditions import drift, gpus, listed, pools, said
from autoscaler.core.pool.params import Domain
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.sizing import Sizing
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import View
from autoscaler.core.pool.world import ClaimSeen, World

DISPOSABLE: Final = -33_554_432
"""At or below this priority a pod costs nothing to evict: Karpenter takes its node for empty."""

IGNORED_BELOW: Final = -10
"""Cluster Autoscaler makes no node for pods below its cutoff, by default this."""

MOST_WORDS: Final = 200
"""Characters of what a provider says."""

STUCK_S: Final = 300.0
"""A deletion with no grace that takes longer is stuck."""


def blocks(world: World, state: PoolState, now_s: float) -> Iterator[PoolReason]:
    """Why no slot is ordered at all, if so."""
    if _priority_fault(world) is not None:
        yield PoolReason.PRIORITY
    if state.circuits.content.position(now_s) is Position.OPEN:
        yield PoolReason.CONTENT_FAILING


def conditions(
    view: View, state: PoolState, sizing: Sizing, warm: int, loans: Lent, *, refused: Refused
) -> tuple[Condition, ...]:
    """All conditions of a pool that was read."""
    lent = loans.slots
    refused = replace(refused, is_short=warm + lent < sizing.target)
    return (
        said(Aspect.READY, "; ".join(_short(view, sizing, warm, lent))),
        said(Aspect.SIGNALS_FRESH, _unknown(view.world)),
        said(Aspect.CAPACITY_AVAILABLE, _out(view, state)),
        pools(view, state, short=refused.is_short),
        said(Aspect.GPUS_USABLE, gpus(view, state)),
        _content(view, state),
        said(Aspect.WITHIN_LIMITS, limits(view, state, sizing, refused)),
        drift(view),
        said(Aspect.PRIORITY_USABLE, _priority_fault(view.world) or _meek(view)),
        said(Aspect.SLOTS_DELETABLE, _stuck(view)),
        _models(view, state),
        _returned(view, loans),
    )


def unread() -> tuple[Condition, ...]:
    """The conditions of a pool whose slots or nodes were not read."""
    words = "slots or nodes were not read; see the controller's log and its rights"
    stale = Condition(Aspect.SIGNALS_FRESH, False, "Unread", words)
    rest = [aspect for aspect in Aspect if aspect is not Aspect.SIGNALS_FRESH]
    return (stale, *(Condition(aspect, None, "Unread", words) for aspect in rest))


def _short(view: View, sizing: Sizing, warm: int, lent: int) -> Iterator[str]:
    """What is not warm that should be: slots in all, and those of zones."""
    if warm + lent < sizing.target:
        yield f"only {warm}{f' and {lent} lent' if lent else ''} of {sizing.target} slots are warm; {_stages(view)}"
    if not view.params.zone_minima:
        return
    stands = view.slots.where(view.slots.counts & (view.slots.stage == Stage.WEIGHTS_WARM))
    zones = Counter(view.zone_of(at) for at in stands)
    is_full = len(stands) >= sizing.most
    for zone, least in view.params.zone_minima:
        if zones[zone] < least:
            full = "; the pool has as many as it may: one follows there when one ends elsewhere" if is_full else ""
            yield f"{zones[zone]} warm slots are in zone {zone!r}, its minimum is {least}{full}"


def _stages(view: View) -> str:
    counts = [(stage, int((view.slots.stage == stage).sum())) for stage in Stage if stage is not Stage.WEIGHTS_WARM]
    return ", ".join(f"{count} {stage.name.lower()}" for stage, count in counts if count) or "none is under way"


def _unknown(world: World) -> str:
    if world.demand is None:
        return "demand was not read: nothing shrinks"
    silent = sorted(each.workload for each in world.demand if each.replicas is None)
    return f"demand of {listed(silent)} is not known: nothing shrinks" if silent else ""


def _out(view: View, state: PoolState) -> str:
    now_s = view.now_s
    opened = sorted(
        f"{_worded(domain)} (asks again in {kept.until_s - now_s:.0f} s)"
        for domain, kept in state.circuits.capacity.items()
        if kept.position(now_s) is Position.OPEN
    )
    refused = sorted(f"NodeClaim {each.name} ({each.refused[:MOST_WORDS]})" for each in _refused(view))
    words = f"not launched: {listed(refused)}: look at the NodeClass, its rights and quotas" if refused else ""
    if not opened:
        return words
    tiers = [breaker.position(state.circuits, tier, None, now_s) for tier in view.params.tiers]
    every = " in every tier; add a tier or ask for quota" if Position.CLOSED not in tiers else ""
    return "; ".join(filter(None, (f"no capacity: {listed(opened)}{every}", words)))


def _refused(view: View) -> Iterator[ClaimSeen]:
    """Claims that the provider does not launch; one of each cause."""
    causes = {each.refused: each for each in view.claims.values() if each.refused and each.launched_s is None}
    return iter(causes.values())


def _content(view: View, state: PoolState) -> Condition:
    """Whether images and weights come; where slots hold different images by the same tags, that as well."""
    if state.circuits.content.position(view.now_s) is Position.OPEN:
        words = next((slot.failed for slot in view.slots.seen if slot.failed), "they take too long, or disks run full")
        remedy = "look at spec.models and the cache volume; no slot is made meanwhile"
        return said(Aspect.CONTENT_WARMS, f"images or weights keep failing: {words}; {remedy}")
    pulled = [slot.digests for slot in view.slots.seen if slot.digests and slot.content == view.params.content]
    old = sum(digests != view.pulled[view.params.content] for digests in pulled)
    if old:
        words = (
            f"a tag of spec.models has moved: {old} of {len(pulled)} slots hold another image than the one that was "
            "pulled last, and replicas start there with what their own pull policy makes of that; name images by "
            "digest (image@sha256:...) to have such slots made anew"
        )
        return Condition(Aspect.CONTENT_WARMS, True, "TagMoved", words)
    return said(Aspect.CONTENT_WARMS, "")


def _priority_fault(world: World) -> str | None:
    value = world.slot_priority
    if value is None:
        return "the slots' PriorityClass does not exist; install it, its value is -10"
    if value <= DISPOSABLE:
        return f"the slots' PriorityClass is {value}: Karpenter takes their nodes for empty; its value is -10"
    if value < IGNORED_BELOW:
        return f"the slots' PriorityClass is {value}: Cluster Autoscaler ignores pods below -10; its value is -10"
    if value >= world.serving_priority:
        return f"the slots' PriorityClass is {value} and serving's {world.serving_priority}: slots would not give way"
    return None


def _meek(view: View) -> str:
    """Workloads to whose pods no slot gives way though its priority is lower."""
    if view.params.choose:
        return ""
    meek = sorted(each.workload for each in view.world.demand or () if not (each.preempts or each.uses_claims))
    return (
        f"pods of {listed(meek)} preempt nobody (preemptionPolicy: Never of their PriorityClass): slots hold their "
        "GPUs and do not give way; give them another PriorityClass, or set spec.handOver: Choose"
        if meek
        else ""
    )


def _stuck(view: View) -> str:
    stuck = sorted(
        slot.name for slot in view.slots.seen if slot.deleting_s is not None and view.now_s - slot.deleting_s > STUCK_S
    )
    return f"{listed(stuck)} cannot be deleted; look at their nodes and finalizers" if stuck else ""


def _models(view: View, state: PoolState) -> Condition:
    """Whether slots can stand for what the workloads of the pool's models ask; whether there are any of each model."""
    fault, demand = _unsupported(view, state), view.world.demand
    strange = sorted(set(view.params.models) - {each.model for each in demand or ()})
    if fault or demand is None or not strange:
        return said(Aspect.MODELS_SUPPORTED, fault)
    words = (
        f"no workload that Headroom scales is of the models {listed(strange)}: no slot is kept on their account; label "
        "one headroom.dev/model, or call it so"
    )
    return Condition(Aspect.MODELS_SUPPORTED, True, "NoWorkload", words)


def _unsupported(view: View, state: PoolState) -> str:
    faults = []
    claims = sorted(each.workload for each in view.world.demand or () if each.uses_claims)
    if claims:
        faults.append(
            f"{listed(claims)}: GPUs by ResourceClaim (DRA) cannot be kept warm; ask for {view.params.slot.resource}"
        )
    for each in view.world.demand or ():
        handed = state.handed.get(each.workload)
        if handed is not None and (later_s := pause_s(handed, each, view.now_s)) > 0:
            faults.append(
                f"{handed.slots} slots gave way to {each.workload} and {each.waiting} of its replicas wait all the "
                "same, for something else than GPUs: look at the events of their pods; the next slot gives way in "
                f"{later_s:.0f} s"
            )
    return "; ".join(faults)


def _returned(view: View, loans: Lent) -> Condition:
    """Whether gangs that were called back have gone in time; not known while nobody knows what is lent."""
    if view.world.lent is None:
        return Condition(Aspect.LOANS_GIVEN_BACK, None, "NotKnown", "what gangs have on loan is not known yet")
    late = [each for each in view.world.lent if each.overdue]
    where, units = sorted(each.node for each in late), sum(min(each.overdue, each.units) for each in late)
    # A gang may hold less of a node than a slot is.
    what = f"{loans.overdue} slots" if loans.overdue else f"{units} of {view.params.slot.resource}, less than a slot,"
    return said(
        Aspect.LOANS_GIVEN_BACK,
        f"{what} on {listed(where)} were called back and should be free: they count as lent no "
        "more, and others are called back or ordered; headroom queue names the gang: look at its pods' finalizers"
        if where
        else "",
    )


def _worded(domain: Domain) -> str:
    place = f" in {domain.zone}" if domain.zone else ""
    return f"{domain.sku} {domain.capacity_type.value}{place}"
