"""A pool that makes nodes for gangs, a gang of two pods that asks for them, and what holds places for it."""

from dataclasses import replace
from typing import Any

from autoscaler.core.pool.intents import CreateHolder
from autoscaler.core.pool.params import GangTerms, SlotForm
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.reconcile import Reconciled, reconcile
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.world import GangAsk, HolderSeen, PodsAsked, World
from tests.core.pool.builders import FIRST, NOW_S, SECOND, known, node_pools, of, pool, world

SHAPED = replace(FIRST, shape="h100")
OTHER = replace(SECOND, shape="a100")
ASK = GangAsk("job/ns/train", "u1", "h100", (PodsAsked(2, 8, 4.0, 32.0),))
MAKES = pool(SHAPED, OTHER, slot=SlotForm(count=8), gangs=GangTerms(32.0, 900.0))


def holder(at: int, ask: GangAsk = ASK, *, age_s: float = 60.0, **more: Any) -> HolderSeen:
    made = made_for(ask)[at]
    given = {"tier": made.tier, "units": made.units, "created_s": NOW_S - age_s, **more}
    return HolderSeen(made.name, f"u-{made.name}", ask.uid, **given)


def made_for(ask: GangAsk) -> list[CreateHolder]:
    return of(CreateHolder, looked(empty(asks=(ask,))))


def empty(**more: Any) -> World:
    return world((), node_pools=node_pools(SHAPED, OTHER), **more)


def looked(seen: World, state: PoolState | None = None, params: Any = MAKES, now_s: float = NOW_S) -> Reconciled:
    return reconcile(params, seen, known() if state is None else state, now_s)


def refusals(done: Reconciled) -> list[PoolReason | None]:
    return [each.refused for each in done.gangs.standings]
