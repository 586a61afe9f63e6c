"""What is told of limits: of the pool's own, and of those of NodePools and tiers that let no further node be launched.

Enters: the view, the state, the outcome of sizing, what was ordered and what was refused. Leaves: words with the field
and the remedy. It decides nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.pool.intents import CreateSlot
from autoscaler.core.pool.limits import Amount, asked_beside, held, left, ordered
from autoscaler.core.pool.params import PoolTier
from autoscaler.core.pool.sizing import Sizing
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import View
from autoscaler.core.pool.world import NodePoolSeen


@dataclass(frozen=True, slots=True)
class Refused:
    """What came of a look's orders."""

    orders: Sequence[CreateSlot] = ()
    no_room: bool = False
    """Limits of tiers or of their NodePools kept some from being given."""
    is_short: bool = False
    """Fewer slots are warm or lent than wanted."""


def limits(view: View, state: PoolState, sizing: Sizing, refused: Refused) -> str:
    """What limits allow less than is needed, or were exceeded; empty where none do."""
    bound = [step for step in sizing.steps if step.stage == "bound" and step.after < step.before]
    faults = [f"{step.before} slots are needed and {step.after} allowed ({step.reason.value})" for step in bound]
    faults += _awaited(view, sizing.most)
    pools = {pool.name: pool for pool in view.world.node_pools or ()}
    for at, tier in enumerate(view.params.tiers):
        pool = pools.get(tier.node_pool)
        if pool is None or pool.static_nodes is not None:
            continue
        exceeded = list(_exceeded(tier, at, pool))
        faults += exceeded
        if refused.no_room and not exceeded:
            faults += _full(view, state, at, pool, refused.orders)
        if refused.is_short and pool.scarce:
            remedy = "less than a node of it has; raise them or add a tier"
            faults.append(f"spec.limits of NodePool {pool.name!r} leave {', '.join(pool.scarce)}: {remedy}")
    return "; ".join(faults)


def _awaited(view: View, most: int) -> Iterator[str]:
    """The first known event that will ask for more than the pool may have: when it begins it is late to raise that."""
    later = (each for each in view.params.events if (each.floor or 0) > most and each.from_s > view.now_s)
    event = min(later, key=lambda each: each.from_s, default=None)
    if event is not None:
        hours = (event.from_s - view.now_s) / 3600.0
        yield (
            f"an event of spec.calendar asks for {event.floor} slots in {hours:.1f} hours and {most} are allowed: "
            "raise spec.maxSlots, or spec.maxGpus where that allows fewer"
        )


def _exceeded(tier: PoolTier, at: int, pool: NodePoolSeen) -> Iterator[str]:
    """Limits that what stands is beyond already."""
    for what, used, own, ours, field in (
        ("GPUs", pool.used_gpus, pool.limit_gpus, tier.max_gpus, "gpus"),
        ("nodes", pool.used_nodes, pool.limit_nodes, tier.max_nodes, "nodes"),
    ):
        where = f"NodePool {pool.name!r} holds {used:g} {what}"
        if own is not None and used > own:
            yield f"{where}, its limit is {own}; no node is asked for there"
        elif ours is not None and used > ours:
            yield f"{where}, spec.tiers[{at}].limits.{field} is {ours}; no node is asked for there"


def _full(view: View, state: PoolState, at: int, pool: NodePoolSeen, orders: Sequence[CreateSlot]) -> Iterator[str]:
    """A tier in which no further slot fits into what its limits leave, beside all that was asked for there."""
    tier = view.params.tiers[at]
    waits = (asked_beside(view, tier), held(view, tier), ordered(view, state, tier, orders))
    asked = Amount(sum(each.gpus for each in waits), sum(each.nodes for each in waits))
    room = left(pool, tier).less(asked)
    if room.gpus >= view.params.slot.gpus and room.nodes >= 1:
        return
    fields = [
        f"{field} {limit}"
        for field, limit in (
            ("its limit of GPUs", pool.limit_gpus), (f"spec.tiers[{at}].limits.gpus", tier.max_gpus),
            ("its limit of nodes", pool.limit_nodes), (f"spec.tiers[{at}].limits.nodes", tier.max_nodes),
        )
        if limit is not None
    ]  # fmt: skip
    more = f" and is asked for {asked.gpus:g} more" if asked.gpus else ""
    yield (
        f"NodePool {pool.name!r} holds {pool.used_gpus:g} GPUs on {pool.used_nodes} nodes{more}, and no further slot "
        f"fits into its limits ({', '.join(fields)}): raise them or add a tier"
    )
