"""What is told of the NodePools and nodes that a pool's slots stand on, each with the field and the remedy.

Enters: the view and the state. Leaves: conditions, and words for them. It decides nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from autoscaler.core.pool.circuits import Circuit, Position
from autoscaler.core.pool.intents import Aspect, Condition
from autoscaler.core.pool.node_pools import pause_s
from autoscaler.core.pool.params import PoolTier
from autoscaler.core.pool.shapes import misfit, short_of_gpus
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import NOWHERE, View
from autoscaler.core.pool.world import NodePoolSeen

UNREAD_POOLS: Final = "NodePools were not read, or there is no Karpenter"

FOUGHT: Final = 3
"""A NodePool that was written so often and differs still is set back by somebody: once was when it was made."""


def pools(view: View, state: PoolState, *, short: bool) -> Condition:
    """Whether every tier's NodePool can be used; not known where none was read, as where there is no Karpenter."""
    if view.world.node_pools is None:
        words = f"{UNREAD_POOLS}; slots are made all the same, within the tiers' own limits"
        return Condition(Aspect.NODE_POOLS_USABLE, None, "NotRead", words)
    faults = "; ".join((*_pool_faults(view, state, view.world.node_pools, short=short), *_strange_ends(view)))
    taken = "" if faults else "; ".join(_taken(view, view.world.node_pools))
    if taken:
        return Condition(Aspect.NODE_POOLS_USABLE, True, "WarmNodesTaken", taken)
    return said(Aspect.NODE_POOLS_USABLE, faults)


def _pool_faults(view: View, state: PoolState, read: Sequence[NodePoolSeen], *, short: bool) -> Iterator[str]:
    seen = {pool.name: pool for pool in read}
    for at, tier in enumerate(view.params.tiers):
        field = f"spec.tiers[{at}].{'name' if view.params.managed else 'nodePoolRef'}"
        pool = seen.get(tier.node_pool)
        if pool is None:
            remedy = "it is being made" if view.params.managed else "create it or leave the tier out"
            yield f"{field}: there is no NodePool {tier.node_pool!r}; {remedy}"
        elif view.params.managed and not pool.ours:
            yield f"{field}: NodePool {tier.node_pool!r} is not of this pool's making; rename the tier or delete it"
        elif view.params.managed and (words := _set_back(view, state, tier, pool)):
            yield f"{field}: {words}"
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
        else:
            yield from _contradictions(view.params.managed, at, tier, pool)


def _strange_ends(view: View) -> Iterator[str]:
    """Nodes that say of their end what nobody can read; a NodePool's template sets it."""
    seen = sorted((node.name, node.ends_unread) for node in view.nodes.seen if node.ends_unread)
    if seen:
        yield (
            f"headroom.dev/capacity-ends of {listed([name for name, _ in seen])} is {seen[0][1]!r}, no date and time "
            "with offset such as 2027-01-31T18:00:00Z: slots there are not replaced ahead of that end"
        )


def _contradictions(managed: bool, at: int, tier: PoolTier, pool: NodePoolSeen) -> Iterator[str]:
    """What a tier says of its nodes and its NodePool says otherwise; one that is made for it says all that it does."""
    has = pool.template
    for field, wanted, given in (
        ("zones", tier.zones, has.zones),
        ("shape", (tier.capacity_type.value,), has.capacity_types),
        ("instanceTypes", tier.instance_types, has.instance_types),
        ("nodeClassRef", (tier.node_class,), (has.node_class,)),
    ):
        where = f"spec.tiers[{at}].{field}: {', '.join(wanted) or 'nothing'}, and NodePool {pool.name!r} "
        if managed and has.node_class and set(wanted) != set(given):
            yield (
                f"{where}was made with {', '.join(given) or 'nothing'}; a template is never edited, as that drifts "
                "every node: give the tier another name to have another NodePool made, or edit that one"
            )
        elif not managed and given and field in {"zones", "shape"} and not set(wanted) <= set(given):
            yield f"{where}has {', '.join(given)}; change one of the two"


def _taken(view: View, read: Sequence[NodePoolSeen]) -> Iterator[str]:
    """NodePools by which Karpenter takes nodes away though warm slots are on them."""
    tiers = {tier.node_pool: at for at, tier in enumerate(view.params.tiers)}
    for pool in sorted((pool for pool in read if pool.name in tiers), key=lambda pool: tiers[pool.name]):
        if pool.consolidates:
            yield (
                f"NodePool {pool.name!r} lets Karpenter take nodes away that are not empty, warm slots with them "
                f"(consolidationPolicy: {pool.consolidates}): set WhenEmpty, or a budget with reasons: [Underutilized] "
                "and nodes: 0"
            )
        if pool.expires:
            yield (
                f"nodes of NodePool {pool.name!r} end after {pool.expires} whatever is on them (expireAfter): set "
                "Never, and spec.nodeLifeS of the WarmPool, which has others warm first"
            )


def _set_back(view: View, state: PoolState, tier: PoolTier, pool: NodePoolSeen) -> str:
    """What to say of a NodePool of ours that differs from its tier though it was written more than once."""
    edited = state.edited.get(tier.node_pool)
    is_as_written = (pool.limit_gpus, pool.limit_nodes, pool.drifted_budget) == (tier.max_gpus, tier.max_nodes, 0)
    if edited is None or edited.times < FOUGHT or is_as_written or pool.deleting:
        return ""
    return (
        f"limits or budget of NodePool {tier.node_pool!r} were written {edited.times} times and differ still: somebody "
        f"sets them back, or refuses them; written again in {pause_s(tier, edited, view.now_s):.0f} s"
    )


def gpus(view: View, state: PoolState) -> str:
    """What is wrong with the GPUs of the tiers' nodes; empty where nothing is."""
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
        faults.append(f"the provider reports no GPU for {listed(blind)}: give the capacity by a NodeOverlay")
    short = sorted(node.name for node in seen if short_of_gpus(node))
    if short:
        faults.append(f"fewer GPUs than promised on {listed(short)}: look at the device plugin")
    wrong = sorted(
        f"{node.name} ({why})"
        for node in seen
        if node.units is not None and (why := misfit(view.params.slot, node)) is not None
    )
    if wrong:
        faults.append(f"slots do not fit {listed(wrong)}: change spec.slot or the nodes")
    return "; ".join(faults)


def drift(view: View) -> Condition:
    """Drift is held back by budgets of 0; a NodePool that lets it run is said so, ours is patched."""
    if view.world.node_pools is None:
        return Condition(Aspect.DRIFT_HELD, None, "NotRead", f"{UNREAD_POOLS}: what drift may replace is not known")
    tiers = {tier.node_pool for tier in view.params.tiers}
    loose = sorted(p.name for p in view.world.node_pools if p.name in tiers and p.drifted_budget != 0)
    drifted = sum(node.drifted for node in view.nodes.seen)
    if loose:
        remedy = "give them a budget with reasons: [Drifted] and nodes: 0"
        return Condition(
            Aspect.DRIFT_HELD, False, "BudgetOpen", f"drift may replace nodes of {listed(loose)}; {remedy}"
        )
    words = (
        f"{drifted} nodes have drifted and are kept; roll them by hand or by age" if drifted else "no node has drifted"
    )
    return Condition(Aspect.DRIFT_HELD, True, "DriftHeld", words)


def said(aspect: Aspect, fault: str) -> Condition:
    """What an aspect is with this fault, or without one where it is empty."""
    return Condition(aspect, not fault, f"Not{aspect.value}" if fault else aspect.value, fault or "nothing is wrong")


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    shown = names[:5]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
