"""What is told of a pool as true, false or unknown, each with the field and the remedy.

Enters: the view, the state, the outcome of a look. Leaves: one condition per aspect, always all of them. It decides
nothing; what stops orders is decided in `blocks`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from autoscaler.core.pool import breaker
from autoscaler.core.pool.circuits import Circuit, Position
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.intents import Aspect, Condition
from autoscaler.core.pool.loans import Lent
from autoscaler.core.pool.params import Domain
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.shapes import misfit, short_of_gpus
from autoscaler.core.pool.sizing import Sizing
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import NOWHERE, View
from autoscaler.core.pool.world import NodePoolSeen, World

DISPOSABLE: Final = -33_554_432
"""At or below this priority a pod costs nothing to evict: Karpenter takes its node for empty."""

IGNORED_BELOW: Final = -10
"""Cluster Autoscaler makes no node for pods below its cutoff, by default this."""

UNREAD_POOLS: Final = "NodePools were not read, or there is no Karpenter"

STUCK_S: Final = 300.0
"""A deletion with no grace that takes longer is stuck."""


def blocks(world: World, state: PoolState, now_s: float) -> Iterator[PoolReason]:
    """Why no slot is ordered at all, if so."""
    if world.synced is False:
        yield PoolReason.UNSYNCED
    if _priority_fault(world) is not None:
        yield PoolReason.PRIORITY
    if state.circuits.content.position(now_s) is Position.OPEN:
        yield PoolReason.CONTENT_FAILING


def conditions(view: View, state: PoolState, sizing: Sizing, warm: int, loans: Lent) -> tuple[Condition, ...]:
    """All conditions of a pool that was read."""
    lent = loans.slots
    return (
        _said(
            Aspect.READY,
            f"only {warm}{f' and {lent} lent' if lent else ''} of {sizing.target} slots are warm; {_stages(view)}"
            if warm + lent < sizing.target
            else "",
        ),
        _said(Aspect.SIGNALS_FRESH, _unknown(view.world)),
        _said(Aspect.CAPACITY_AVAILABLE, _out(view, state)),
        _pools(view, short=warm + lent < sizing.target),
        _said(Aspect.GPUS_USABLE, _gpus(view, state)),
        _content(view, state),
        _said(Aspect.WITHIN_LIMITS, _limits(view, sizing)),
        _drift(view),
        _said(Aspect.PRIORITY_USABLE, _priority_fault(view.world) or ""),
        _said(Aspect.SLOTS_DELETABLE, _stuck(view)),
        _said(Aspect.MODELS_SUPPORTED, _unsupported(view)),
        _returned(view, loans),
    )


def unread() -> tuple[Condition, ...]:
    """The conditions of a pool whose slots or nodes were not read."""
    words = "slots or nodes were not read; see the controller's log and its rights"
    stale = Condition(Aspect.SIGNALS_FRESH, False, "Unread", words)
    rest = [aspect for aspect in Aspect if aspect is not Aspect.SIGNALS_FRESH]
    return (stale, *(Condition(aspect, None, "Unread", words) for aspect in rest))


def _said(aspect: Aspect, fault: str) -> Condition:
    return Condition(aspect, not fault, f"Not{aspect.value}" if fault else aspect.value, fault or "nothing is wrong")


def _stages(view: View) -> str:
    counts = [(stage, int((view.slots.stage == stage).sum())) for stage in Stage if stage is not Stage.WEIGHTS_WARM]
    return ", ".join(f"{count} {stage.name.lower()}" for stage, count in counts if count) or "none is under way"


def _unknown(world: World) -> str:
    if world.demand is None:
        return "demand was not read: nothing shrinks"
    silent = sorted(each.workload for each in world.demand if each.replicas is None)
    return f"demand of {_listed(silent)} is not known: nothing shrinks" if silent else ""


def _out(view: View, state: PoolState) -> str:
    now_s = view.now_s
    opened = sorted(
        f"{_worded(domain)} (asks again in {kept.until_s - now_s:.0f} s)"
        for domain, kept in state.circuits.capacity.items()
        if kept.position(now_s) is Position.OPEN
    )
    if not opened:
        return ""
    tiers = [breaker.position(state.circuits, tier, None, now_s) for tier in view.params.tiers]
    every = " in every tier; add a tier or ask for quota" if Position.CLOSED not in tiers else ""
    return f"no capacity: {_listed(opened)}{every}"


def _pools(view: View, *, short: bool) -> Condition:
    """Whether every tier's NodePool can be used; not known where none was read, as where there is no Karpenter."""
    if view.world.node_pools is None:
        words = f"{UNREAD_POOLS}; slots are made all the same, within the tiers' own limits"
        return Condition(Aspect.NODE_POOLS_USABLE, None, "NotRead", words)
    return _said(Aspect.NODE_POOLS_USABLE, "; ".join(_pool_faults(view, view.world.node_pools, short=short)))


def _pool_faults(view: View, read: Sequence[NodePoolSeen], *, short: bool) -> Iterator[str]:
    seen = {pool.name: pool for pool in read}
    for at, tier in enumerate(view.params.tiers):
        field = f"spec.tiers[{at}].{'name' if view.params.managed else 'nodePoolRef'}"
        pool = seen.get(tier.node_pool)
        if pool is None:
            remedy = "it is being made" if view.params.managed else "create it or leave the tier out"
            yield f"{field}: there is no NodePool {tier.node_pool!r}; {remedy}"
        elif view.params.managed and not pool.ours:
            yield f"{field}: NodePool {tier.node_pool!r} is not of this pool's making; rename the tier or delete it"
        elif pool.deleting:
            yield f"{field}: NodePool {tier.node_pool!r} is being deleted; leave the tier out"
        elif pool.ready is False:
            yield f"{field}: NodePool {tier.node_pool!r} is not ready: {pool.problem or 'see its conditions'}"
        elif pool.unregistered:
            yield (
                f"{field}: nodes of NodePool {tier.node_pool!r} are launched and do not join the cluster "
                f"({pool.unregistered}); look at its NodeClass: image, user data, network, rights"
            )
        elif pool.static_nodes is not None and short:
            yield (
                f"{field}: NodePool {tier.node_pool!r} is static (spec.replicas: {pool.static_nodes}) and launches no "
                "node for a slot; raise its replicas, or add a tier whose NodePool has none"
            )


def _gpus(view: View, state: PoolState) -> str:
    seen = [node for at, node in enumerate(view.nodes.seen) if view.nodes.tier[at] != NOWHERE]
    faults = []
    for at, tier in enumerate(view.params.tiers):
        if state.circuits.gpus.get(tier.name, Circuit()).position(view.now_s) is Position.OPEN:
            faults.append(
                f"GPUs of tier {tier.name!r} (spec.tiers[{at}]) never became usable on several nodes, or these never "
                "joined: look at the NodeClass, the image, the driver and the device plugin; no more nodes are asked "
                "for meanwhile"
            )
    blind = sorted(c.name for c in view.claims.values() if c.units == 0 and c.launched_s is not None)
    if blind:
        faults.append(f"the provider reports no GPU for {_listed(blind)}: give the capacity by a NodeOverlay")
    short = sorted(node.name for node in seen if short_of_gpus(node))
    if short:
        faults.append(f"fewer GPUs than promised on {_listed(short)}: look at the device plugin")
    wrong = sorted(
        f"{node.name} ({why})"
        for node in seen
        if node.units is not None and (why := misfit(view.params.slot, node)) is not None
    )
    if wrong:
        faults.append(f"slots do not fit {_listed(wrong)}: change spec.slot or the nodes")
    return "; ".join(faults)


def _content(view: View, state: PoolState) -> Condition:
    """Whether images and weights come; where slots hold different images by the same tags, that as well."""
    if state.circuits.content.position(view.now_s) is Position.OPEN:
        words = next((slot.failed for slot in view.slots.seen if slot.failed), "they take too long, or disks run full")
        remedy = "look at spec.models and the cache volume; no slot is made meanwhile"
        return _said(Aspect.CONTENT_WARMS, f"images or weights keep failing: {words}; {remedy}")
    pulled = [slot.digests for slot in view.slots.seen if slot.digests and slot.content == view.params.content]
    old = sum(digests != view.pulled[view.params.content] for digests in pulled)
    if old:
        words = (
            f"a tag of spec.models has moved: {old} of {len(pulled)} slots hold another image than the one that was "
            "pulled last, and replicas start there with what their own pull policy makes of that; name images by "
            "digest (image@sha256:...) to have such slots made anew"
        )
        return Condition(Aspect.CONTENT_WARMS, True, "TagMoved", words)
    return _said(Aspect.CONTENT_WARMS, "")


def _limits(view: View, sizing: Sizing) -> str:
    bound = [step for step in sizing.steps if step.stage == "bound" and step.after < step.before]
    faults = [f"{step.before} slots are needed and {step.after} allowed ({step.reason.value})" for step in bound]
    faults += [
        f"NodePool {pool.name!r} holds {pool.used_gpus:g} GPUs, its limit is {pool.limit_gpus}"
        for pool in view.world.node_pools or ()
        if pool.limit_gpus is not None and pool.used_gpus > pool.limit_gpus
    ]
    return "; ".join(faults)


def _drift(view: View) -> Condition:
    """Drift is held back by budgets of 0; a NodePool that lets it run is said so, ours is patched."""
    if view.world.node_pools is None:
        return Condition(Aspect.DRIFT_HELD, None, "NotRead", f"{UNREAD_POOLS}: what drift may replace is not known")
    tiers = {tier.node_pool for tier in view.params.tiers}
    loose = sorted(p.name for p in view.world.node_pools if p.name in tiers and p.drifted_budget != 0)
    drifted = sum(node.drifted for node in view.nodes.seen)
    if loose:
        remedy = "give them a budget with reasons: [Drifted] and nodes: 0"
        return Condition(
            Aspect.DRIFT_HELD, False, "BudgetOpen", f"drift may replace nodes of {_listed(loose)}; {remedy}"
        )
    words = (
        f"{drifted} nodes have drifted and are kept; roll them by hand or by age" if drifted else "no node has drifted"
    )
    return Condition(Aspect.DRIFT_HELD, True, "DriftHeld", words)


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


def _stuck(view: View) -> str:
    stuck = sorted(
        slot.name for slot in view.slots.seen if slot.deleting_s is not None and view.now_s - slot.deleting_s > STUCK_S
    )
    return f"{_listed(stuck)} cannot be deleted; look at their nodes and finalizers" if stuck else ""


def _unsupported(view: View) -> str:
    faults = []
    claims = sorted(each.workload for each in view.world.demand or () if each.uses_claims)
    if claims:
        faults.append(
            f"{_listed(claims)}: GPUs by ResourceClaim (DRA) cannot be kept warm; ask for {view.params.slot.resource}"
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
    return _said(
        Aspect.LOANS_GIVEN_BACK,
        f"{what} on {_listed(where)} were called back and should be free: they count as lent no "
        "more, and others are called back or ordered; headroom queue names the gang: look at its pods' finalizers"
        if where
        else "",
    )


def _worded(domain: Domain) -> str:
    place = f" in {domain.zone}" if domain.zone else ""
    return f"{domain.sku} {domain.capacity_type.value}{place}"


def _listed(names: list[str]) -> str:
    shown = names[:5]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
