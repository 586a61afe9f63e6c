"""What a pool learns from one look: demand, how starts went, what growing demand found warm.

Enters: the view and the state before. Leaves: the state after. Demand of a workload that is not known makes the pool's
demand unknown; a workload that uses resource claims is none of the pool's.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.core.pool import breaker, clock, growth, handover, hourly, node_pools
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.history import BIN_S, DemandHistory, noted
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import View
from autoscaler.core.pool.world import ModelDemand, World

RECHOOSE_BINS: Final = 10
"""The quantile of growth is chosen anew every so many bins."""

REMEMBER_S: Final = 86_400.0
"""Found and missed slots count for about this long: a pool's first hours weigh on it for a day, not for its life."""

SLACKS: Final = ((0.25, 4.0), (0.5, 2.0), (1.0, 1.0))
"""(share of the allowance that is missed in fact, what the past may miss then, in allowances), first that holds."""

OVER: Final = 0.5
"""What the past may miss while more than the allowance is missed."""

UNSEEN_S: Final = 60.0
"""An order that is not seen after this long came to nothing, and a deletion is given again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the pool's workloads want, in slots; None where it is not known."""

    by_workload: dict[str, float]
    slots: float | None
    forecast: float
    """How much more than now is forecast within the lead, of those that have a forecast."""


def wanted(world: World) -> Wanted:
    """What the workloads want now."""
    known: dict[str, float] = {}
    forecast, whole = 0.0, world.demand is not None
    for each in world.demand or ():
        if each.uses_claims:
            continue
        now = _slots(each.replicas, each)
        if now is None:
            whole = False
            continue
        known[each.workload] = now
        ahead = _slots(each.forecast, each)
        forecast += 0.0 if ahead is None else max(0.0, ahead - now)
    return Wanted(known, sum(known.values()) if whole else None, forecast)


def learnt(state: PoolState, view: View, want: Wanted, refill_s: float) -> PoolState:
    """The state after one look; looking again at an unchanged world changes nothing that counts."""
    now_s, slots = view.now_s, view.slots
    rise = sum(max(0.0, now - state.demand.get(name, now)) for name, now in want.by_workload.items())
    if state.history.known < growth.LEAST_BINS + math.ceil(refill_s / BIN_S):
        rise = 0.0  # what the first order of a pool could not have met yet is nothing it has to answer for
    found = min(rise, float(state.warm))
    history = noted(state.history, now_s, want.slots)
    fades = _fading(state.history, history)
    warm = slots.counts & (slots.stage == Stage.WEIGHTS_WARM)
    seen = {slot.name for slot in slots.seen}
    uids = {slot.uid for slot in slots.seen}
    mute = {slot.uid for slot in slots.seen if not slot.node_ends} if state.marked else set[str]()
    held = {holder.name for holder in view.world.holders}
    circuits = breaker.noted(
        breaker.of_tiers(state.circuits, view.params.tiers), view.world, now_s, state.claims_read_s
    )
    circuits = breaker.with_zones(circuits, view.params.tiers, view.world)
    return replace(
        state,
        history=history,
        clock=_timed(state, view, uids),
        circuits=breaker.given_up(circuits, view.world, view.params.tiers, now_s, state.claims_read_s),
        claims_read_s=state.claims_read_s if view.world.claims is None else now_s,
        demand={**{k: v for k, v in state.demand.items() if _still(k, view.world)}, **want.by_workload},
        warm=int(warm.sum()) + int(view.nodes.room.sum()),
        hits=fades * state.hits + found,
        misses=fades * state.misses + rise - found,
        ordered={
            name: order for name, order in state.ordered.items() if name not in seen and now_s - order.at_s < UNSEEN_S
        },
        made={name: each for name, each in state.made.items() if name not in held and now_s - each.at_s < UNSEEN_S},
        dropped={uid: at_s for uid, at_s in state.dropped.items() if uid in uids and now_s - at_s < UNSEEN_S},
        marked={uid: each for uid, each in state.marked.items() if uid in mute},
        edited={name: each for name, each in state.edited.items() if now_s - each.at_s < node_pools.REMEMBER_S},
        handed=handover.still(state.handed, view.world),
    )


def leveled(state: PoolState, hit_ratio: float, within_s: float) -> PoolState:
    """The state with the quantile of growth that its history asks for, and the past that speaks, chosen now and then.

    The past is no promise: what it may miss follows what is missed in fact.
    """
    now_bin = state.history.last_bin
    if now_bin is None or (state.leveled_bin is not None and now_bin - state.leveled_bin < RECHOOSE_BINS):
        return state
    allowed = (1.0 - hit_ratio) * (state.hits + state.misses)
    slack = next((slack for share, slack in SLACKS if state.misses <= share * allowed), OVER)
    level = growth.level_for(state.history, within_s, 1.0 - slack * (1.0 - hit_ratio))
    if level is None:
        return state
    missable = min(slack, 1.0) * (1.0 - hit_ratio)  # hours are judged as they would have gone: that needs no slack
    believed = state.rhythm is not None
    rhythm = hourly.rhythm_for(state.history, within_s, 1.0 - missable, level, believed=believed)
    return replace(state, level=level, leveled_bin=now_bin, rhythm=rhythm)


def _fading(before: DemandHistory, after: DemandHistory) -> float:
    """What is left of counts after the bins that were closed."""
    if before.last_bin is None or after.last_bin is None:
        return 1.0
    return math.exp(-(after.last_bin - before.last_bin) * BIN_S / REMEMBER_S)


def _slots(replicas: float | None, each: ModelDemand) -> float | None:
    """Replicas in slots; None for what is no amount."""
    if replicas is None or not math.isfinite(replicas) or replicas < 0:
        return None
    return replicas * each.slots_per_replica


def _still(workload: str, world: World) -> bool:
    return world.demand is None or any(each.workload == workload for each in world.demand)


def _timed(state: PoolState, view: View, uids: set[str]) -> clock.SlotClock:
    """The stage clock with the slots that became warm since the last look."""
    slots, kept = view.slots, replace(state.clock, told=state.clock.told & uids)
    reached = (slots.stage == Stage.WEIGHTS_WARM) | (slots.stage == Stage.LEASED)
    places = [at for at in slots.where(reached & (slots.tier >= 0)) if slots.seen[at].uid not in kept.told]
    if not places:
        return kept
    kinds = [view.kind_of(at) for at in places]
    instants_s = _instants(view, places, kinds).tolist()
    fetched_s = [slots.seen[at].weights_s or math.inf for at in places]
    uids_of = [slots.seen[at].uid for at in places]
    starts = [clock.Start(*start) for start in zip(uids_of, kinds, instants_s, fetched_s, strict=True)]
    return clock.noted(kept, sorted(starts, key=lambda start: (start.instants[-1], start.uid)))


def _instants(view: View, places: list[int], kinds: list[clock.StartKind]) -> F64:
    """The six instants of slots that are warm, shape (places, 6): what was there before a slot was ordered took no
    time; so did what is not told, as its neighbours in time have it."""
    instants_s = view.slots.instants_s[places]
    was_there = np.array([not kind.new_node for kind in kinds], dtype=np.bool_)
    instants_s[was_there, 1:3] = instants_s[was_there, :1]
    for at in range(1, instants_s.shape[1]):
        instants_s[:, at] = np.where(np.isnan(instants_s[:, at]), instants_s[:, at - 1], instants_s[:, at])
    return instants_s
