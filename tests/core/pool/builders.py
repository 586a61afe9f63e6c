"""Pools, worlds and their parts with defaults, and a look that is taken in one line."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from autoscaler.core.pool.history import BIN_S, DemandHistory
from autoscaler.core.pool.intents import (
    Aspect,
    Condition,
    CreateHolder,
    CreateNodePool,
    CreateSlot,
    DeleteClaim,
    DeleteSlot,
    Intent,
    MarkNodeEnds,
    MarkSlot,
    PatchNodePool,
)
from autoscaler.core.pool.params import CapacityType, Domain, PoolParams, PoolTier
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.reconcile import Reconciled, reconcile
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.world import ClaimSeen, ModelDemand, NodePoolSeen, NodeSeen, Sign, SlotSeen, Trouble, World

NOW_S = 1_000_000.0
FIRST = PoolTier("first", "np-first", "h100", CapacityType.ON_DEMAND)
SECOND = PoolTier("second", "np-second", "a100", CapacityType.ON_DEMAND)
SPOT = PoolTier("spot", "np-spot", "h100", CapacityType.SPOT)
CONTENT = "c1"

I = TypeVar(
    "I", CreateHolder, CreateNodePool, CreateSlot, DeleteClaim, DeleteSlot, MarkNodeEnds, MarkSlot, PatchNodePool
)


def pool(*tiers: PoolTier, **fields: Any) -> PoolParams:
    given = {"name": "p", "tiers": tiers or (FIRST,), "models": ("chat",), "content": CONTENT, **fields}
    return PoolParams(**given)


def slot(name: str = "p-0", **fields: Any) -> SlotSeen:
    """A slot that was just ordered."""
    given = {"uid": f"u-{name}", "tier": "first", "created_s": NOW_S - 10.0, "content": CONTENT, **fields}
    return SlotSeen(name=name, **given)


def warm(name: str = "p-0", node: str | None = None, *, age_s: float = 1000.0, **fields: Any) -> SlotSeen:
    """A slot that has been warm for `age_s` on a node named after it."""
    at_s = NOW_S - age_s
    given: dict[str, Any] = {
        "created_s": at_s - 300.0, "node": node or f"n-{name}", "scheduled_s": at_s - 200.0, "images_s": at_s - 60.0,
        "weights_s": at_s, "ready_s": at_s, "deadline_s": NOW_S + 7200.0, **fields,
    }  # fmt: skip
    return slot(name, **given)


def node(name: str = "n-p-0", **fields: Any) -> NodeSeen:
    """A node of the first tier whose one GPU is taken."""
    given: dict[str, Any] = {
        "node_pool": "np-first", "sku": "h100", "zone": "a", "capacity_type": CapacityType.ON_DEMAND,
        "created_s": NOW_S - 5000.0, "claim": f"claim-{name}", "units": 1, "free_units": 0, **fields,
    }  # fmt: skip
    return NodeSeen(name=name, **given)


def claim(name: str = "claim-n-p-0", **fields: Any) -> ClaimSeen:
    """A claim of the first tier that was created a minute ago."""
    given: dict[str, Any] = {
        "uid": f"u-{name}", "node_pool": "np-first", "created_s": NOW_S - 60.0, "domain": domain(), **fields,
    }  # fmt: skip
    return ClaimSeen(name=name, **given)


def domain(zone: str = "a", sku: str = "h100", capacity_type: CapacityType = CapacityType.ON_DEMAND) -> Domain:
    return Domain(sku, zone, capacity_type)


def trouble(name: str = "c-0", at_s: float = NOW_S, sign: Sign = Sign.INSUFFICIENT, **where: Any) -> Trouble:
    return Trouble(sign, name, at_s, domain(**where))


def demand(replicas: float | None = 0.0, workload: str = "ns/chat", **fields: Any) -> ModelDemand:
    return ModelDemand(workload, "chat", replicas, **fields)


def node_pools(*tiers: PoolTier, **fields: Any) -> tuple[NodePoolSeen, ...]:
    given = {"ready": True, "drifted_budget": 0, **fields}
    return tuple(NodePoolSeen(tier.node_pool, **given) for tier in tiers or (FIRST,))


def world(slots: Sequence[SlotSeen] = (), **fields: Any) -> World:
    """A world whose nodes, unless given, are those that the slots are bound to."""
    names = dict.fromkeys(each.node for each in slots if each.node is not None)
    given: dict[str, Any] = {
        "nodes": tuple(node(name) for name in names), "node_pools": node_pools(FIRST, SECOND, SPOT),
        "demand": (demand(),), **fields,
    }  # fmt: skip
    return World(slots=tuple(slots), **given)


def fleet(count: int, **fields: Any) -> tuple[SlotSeen, ...]:
    """Warm slots on nodes of their own."""
    return tuple(warm(f"p-{at}", **fields) for at in range(count))


def known(*levels: float, hours: float = 2.0, now_s: float = NOW_S) -> PoolState:
    """A state that has seen these levels of demand, repeated over the last hours."""
    bins = round(hours * 3600.0 / BIN_S)
    seen = np.resize(np.array(levels or (0.0,)), bins)
    return PoolState(DemandHistory(int(now_s // BIN_S), seen, seen.copy(), float(seen[-1]), float(seen[-1])))


def taken(params: PoolParams, seen: World, state: PoolState | None = None, now_s: float = NOW_S) -> Reconciled:
    """One look."""
    return reconcile(params, seen, known() if state is None else state, now_s)


def of(kind: type[I], done: Reconciled | Sequence[Intent]) -> list[I]:
    """The intents of one kind."""
    intents = done.intents if isinstance(done, Reconciled) else done
    return [intent for intent in intents if isinstance(intent, kind)]


def reasons(done: Reconciled) -> set[PoolReason]:
    """Every reason that the trace holds."""
    return {step.reason for step in done.decision.trace}


def told(done: Reconciled, aspect: Aspect) -> Condition:
    """One condition."""
    return next(each for each in done.conditions if each.aspect is aspect)


def with_circuits(state: PoolState, **fields: Any) -> PoolState:
    """The state with other circuits."""
    return replace(state, circuits=replace(state.circuits, **fields))


DAY_BINS = 1440


def days(by_hour: dict[int, float], count: int, until_hour: float, level: float | None = None) -> DemandHistory:
    """So many whole days of demand that changes at these hours, and the next one until an hour; its last demand may be
    another one."""
    hours = sorted(by_hour)
    one = np.array([by_hour[max(at for at in hours if at * 60 <= minute)] for minute in range(DAY_BINS)])
    bins = count * DAY_BINS + int(until_hour * 60)
    levels = np.tile(one, count + 1)[:bins]
    last = one[int(until_hour * 60)] if level is None else level
    return DemandHistory(bins, levels, levels, last, last)


EVENING = {0: 2.0, 8: 10.0, 20: 2.0}
"""Ten slots of demand by day, two from eight in the evening."""
