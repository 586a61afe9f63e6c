"""How many slots to keep warm: every term that asks, every bound that refuses, each with its step.

Enters: the history of demand, the lead of a refill, what is wanted and what is there. Leaves: the target, and how many
of the slots that are there are kept. The base is an upper quantile of growth over the refill lead at this time of the
day, or its highest at this minute of the hour, pooled over all models (echelon base stock); a forecast may raise it and
never lowers it; after a rise the history of such rises says whether a refill would be in time for anything. It gives no
order.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from autoscaler.core.pool import clock, growth, hourly
from autoscaler.core.pool.clock import StartKind
from autoscaler.core.pool.history import BIN_S
from autoscaler.core.pool.intents import PoolStep
from autoscaler.core.pool.learning import Wanted
from autoscaler.core.pool.params import PoolParams
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import PoolState
from autoscaler.core.types import Evidence

LOOK_S: Final = 60.0
"""Demand may grow for as long as this before the next look (a bin of its history)."""

SLOT_ROUNDING: Final = 1e-9
"""A slot of 1/11 GPU, as a float, is a hair more than a part of eleven: budgets are kept to this part of a slot."""


@dataclass(slots=True)
class Chain:
    """A number on its way through terms and bounds, and the steps that changed it."""

    number: int = 0
    steps: list[PoolStep] = field(default_factory=list)

    def to(self, number: int, reason: PoolReason, evidence: Evidence = (), *, stage: str = "size") -> None:
        """Change the number, with a step when it does change."""
        if number != self.number:
            self.steps.append(PoolStep(stage, self.number, number, reason, evidence))
            self.number = number

    def raise_to(self, number: int, reason: PoolReason, evidence: Evidence = ()) -> None:
        """At least this many."""
        self.to(max(self.number, number), reason, evidence)

    def cap(self, number: int, reason: PoolReason, evidence: Evidence = ()) -> None:
        """At most this many."""
        self.to(min(self.number, number), reason, evidence, stage="bound")


@dataclass(frozen=True, slots=True)
class Sizing:
    """The outcome: slots to have, slots not to delete, and the most that limits allow."""

    target: int
    keep: int
    most: int
    steps: tuple[PoolStep, ...]
    targets: tuple[tuple[float, int], ...]
    """What the state remembers of targets."""


def most_slots(params: PoolParams, gang_gpus: float = 0.0) -> int:
    """The most slots that the pool's own limits allow, beside GPUs that are held for gangs."""
    if params.max_gpus is None:
        return params.max_slots
    left_gpus = max(0.0, params.max_gpus - gang_gpus)
    return min(params.max_slots, math.floor(left_gpus / params.slot.gpus + SLOT_ROUNDING))


@dataclass(frozen=True, slots=True)
class Refill:
    """How long a refill takes, those that fail and are given again included (s)."""

    usual_s: float
    """In nine of ten cases: growth comes at any time, and not all at once."""
    latest_s: float
    """In all cases but the share that may be missed: what a clock starts needs all of its slots at one minute."""


def refill(state: PoolState, kind: StartKind, params: PoolParams) -> Refill:
    """What starts of a kind took so far; the prior where none was seen."""
    took_s = sorted(clock.whole_s(state.clock, kind)) or [params.lead_prior_s]
    usual_s, latest_s = (took_s[math.ceil(share * len(took_s)) - 1] for share in (0.9, max(0.9, params.hit_ratio)))
    well = 1.0 - state.clock.failing_ratio
    return Refill(usual_s / well, latest_s / well)


def size(params: PoolParams, state: PoolState, now_s: float, *, want: Wanted, supply: int, lead: Refill) -> Sizing:
    """The target now. `supply` are the slots that count."""
    chain = Chain()
    young = _needs(chain, state, now_s, want=want, supply=supply, lead=lead)
    _events(chain, params, now_s, lead.usual_s)
    chain.raise_to(params.min_slots, PoolReason.MINIMUM, (("min_slots", params.min_slots),))
    minima = sum(count for _, count in params.zone_minima)
    chain.raise_to(minima, PoolReason.ZONE_MINIMUM, (("zones", len(params.zone_minima)),))
    held_slots = max(supply, state.targets[-1][1] if state.targets else 0)
    if want.slots is None:
        chain.raise_to(held_slots, PoolReason.STALE)
    elif young:
        chain.raise_to(held_slots, PoolReason.YOUNG, (("known_s", state.history.known * BIN_S),))
    chain.cap(params.max_slots, PoolReason.MAXIMUM, (("max_slots", params.max_slots),))
    most = most_slots(params)
    chain.cap(most, PoolReason.BUDGET, (("max_gpus", params.max_gpus), ("slot_gpus", params.slot.gpus)))
    target = chain.number
    targets = tuple(_recent(state.targets, now_s, target, params.idle_hot_s))
    keep = min(most, targets[0][1])
    if supply > target and keep > target:
        held: Evidence = (("idle_hot_s", params.idle_hot_s), ("kept_slots", min(keep, supply)))
        chain.steps.append(PoolStep("keep", target, min(keep, supply), PoolReason.IDLE_HOT, held))
    return Sizing(target, keep, most, tuple(chain.steps), targets)


def _needs(chain: Chain, state: PoolState, now_s: float, *, want: Wanted, supply: int, lead: Refill) -> bool:
    """What growth, forecast and bursts ask for; whether too little was seen yet."""
    within_s = lead.usual_s + LOOK_S
    common: Evidence = (("demand_slots", want.slots), ("refill_s", round(lead.usual_s, 1)))
    level: Evidence = (("level_ratio", round(state.level, 4)),)
    latest_s = min(lead.latest_s + LOOK_S, hourly.LONGEST_S)  # the hours before tell no more of a straggler
    hour = None if state.rhythm is None else hourly.usual(state.history, latest_s, state.rhythm)
    is_whole = hour is not None and state.rhythm is not None and hour.samples >= state.rhythm.hours
    by_day = None if is_whole else growth.usual(state.history, now_s, within_s, state.level)
    usual = hour or by_day
    if state.rhythm is not None and hour is not None:
        rule: Evidence = (("more_slots", state.rhythm.more or None), ("reach_s", state.rhythm.reach * BIN_S))
        seen_in: Evidence = (("refill_s", round(lead.latest_s, 1)), ("hours", hour.samples))
        chain.to(hour.slots, PoolReason.RHYTHM, (common[0], *seen_in, *rule))
    if by_day is not None:  # what an hour that nobody saw may have had is not taken for nothing
        told = (*common, *level, ("samples", by_day.samples), ("seen_at", by_day.seen_at))
        chain.raise_to(by_day.slots, PoolReason.GROWTH, told)
    ahead = math.ceil(want.forecast - 1e-9)
    chain.raise_to(ahead, PoolReason.FORECAST, (("forecast_slots", ahead), *common))
    risen = growth.after_rise(state.history, within_s, growth.LEVELS[-1])
    if risen is not None and usual is not None:
        rise, further = risen
        seen: Evidence = (("rise_slots", round(rise, 1)), ("further_slots", further.slots), ("rises", further.samples))
        refilled = max(further.slots, ahead, min(supply, chain.number))
        chain.to(min(chain.number, refilled), PoolReason.NOISE, (*seen, *common))
    if usual is not None and not chain.number:
        chain.steps.append(PoolStep("size", 0, 0, PoolReason.UNUSED, (*common, *level)))
    return usual is None


def _events(chain: Chain, params: PoolParams, now_s: float, refill_s: float) -> None:
    """Known events: a floor is prepared for one refill ahead, a ceiling holds within its window."""
    for event in params.events:
        begins: Evidence = (("begins_in_s", max(0.0, event.from_s - now_s)), ("ends_in_s", event.to_s - now_s))
        if event.floor is not None and event.from_s - refill_s <= now_s < event.to_s:
            chain.raise_to(event.floor, PoolReason.EVENT, begins)
    for event in params.events:
        if event.ceiling is not None and event.from_s <= now_s < event.to_s:
            chain.cap(event.ceiling, PoolReason.EVENT_CEILING, (("ends_in_s", event.to_s - now_s),))


def _recent(
    targets: tuple[tuple[float, int], ...], now_s: float, target: int, window_s: float
) -> Iterator[tuple[float, int]]:
    """The targets of the window that nothing newer exceeds, and the present one: the first is the highest."""
    for at_s, slots in targets:
        if now_s - at_s < window_s and slots > target:
            yield at_s, slots
    yield now_s, target
