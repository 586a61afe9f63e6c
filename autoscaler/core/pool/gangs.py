"""Nodes for whole gangs of batch work: pods that hold the places of a gang's pods, so that nodes are made for all.

Enters: the view, gangs that lack nothing but nodes, what holds places for them. Leaves: pods to make and to delete, how
each request stands, and requests that were given back. A request is made whole, within the pool's limits, in one tier
that has capacity; where it is not known whether capacity is back, one pod asks first. It is given back whole where
capacity is missing, limits allow it no more, or time is up, and not made again for a while, ever longer. While it is
not known who wants nodes nothing is made and nothing deleted; where it was known a while ago nothing is begun, and what
was begun stays up to its time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.core.pool import breaker
from autoscaler.core.pool.circuits import Position
from autoscaler.core.pool.gang_pods import holders_of, names_of, pods_of, units_of
from autoscaler.core.pool.intents import CreateHolder, CreateSlot, DeleteSlot, PoolStep
from autoscaler.core.pool.limits import asked_beside, held, left, ordered
from autoscaler.core.pool.params import GangTerms, PoolTier
from autoscaler.core.pool.placement import PROBE_EVERY_S, usable
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import GaveBack, PoolState
from autoscaler.core.pool.view import View
from autoscaler.core.pool.world import GangAsk, HolderSeen

AGAIN_S: Final = 30.0
"""After limits kept a request from being made it may be made again this much later (a guess)."""

LONGEST_S: Final = 3600.0
"""After requests in vain the next one waits twice as long each time, up to this (a guess)."""

MANY: Final = 16
"""After so many the pause is the longest; a gang may wait for months."""

FRESH_S: Final = 60.0
"""Nothing is begun on requests that were last said to stand longer ago. Whoever knows says so every five seconds; who
has been blind for a dozen looks cannot say whose gang was deleted meanwhile, and nodes would be made for nobody."""

FORGET_S: Final = 6 * 3600.0
"""What was given back is forgotten this long after it might have been asked for again."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the request for one gang stands."""

    gang: str
    uid: str
    pods: int
    placed: int = 0
    """Pods whose places are held on a node."""
    since_s: float | None = None
    """When the request was made; None where there is none."""
    refused: PoolReason | None = None
    """Why there is none; None while it stands."""
    until_s: float | None = None
    """Of a refusal: when it may be made again."""


@dataclass(frozen=True, slots=True)
class Gangs:
    """What a look at a pool says of nodes for gangs."""

    makes: tuple[CreateHolder, ...] = ()
    deletes: tuple[DeleteSlot, ...] = ()
    standings: tuple[Standing, ...] = ()
    gave_back: Mapping[str, GaveBack] = field(default_factory=dict)
    steps: tuple[PoolStep, ...] = ()
    held_gpus: float | None = None
    """Physical GPUs whose places were held when it was looked, with or without a node; None where it was not looked."""
    holds: frozenset[str] = frozenset()
    """Whom places were held for, by uid."""


def pause_s(times: int) -> float:
    """For how long no request is made after so many in vain."""
    return min(LONGEST_S, AGAIN_S * 2.0 ** min(times, MANY))


def hold(
    view: View, state: PoolState, blocked: tuple[PoolReason, ...], standing: int, orders: tuple[CreateSlot, ...] = ()
) -> Gangs:
    """What is made, given back and told. `blocked` is why nothing may be made; `standing` are slots that hold GPUs, and
    `orders` those that this look orders besides."""
    now_s, world, terms = view.now_s, view.world, view.params.gangs
    kept = {uid: each for uid, each in state.gave_back.items() if now_s < each.until_s + FORGET_S}
    gpus = sum(each.units for each in world.holders if not each.over) / view.params.slot.parts
    holds = frozenset(each.gang_uid for each in world.holders if not (each.over or each.deleting))
    if world.asks is None or view.params.observe:
        return Gangs(gave_back=kept, held_gpus=gpus, holds=holds)
    is_sure = world.asks_age_s <= FRESH_S
    why_not = blocked if is_sure else (PoolReason.GANG_UNSURE, *blocked)
    round_ = _Round(view, state, why_not, standing, orders, is_sure, kept)
    wanted = {ask.uid for ask in world.asks}
    for holder in world.holders:
        if is_sure and holder.gang_uid not in wanted:
            round_.delete(holder, PoolReason.GANG_OVER)
    starting = {ask.uid for ask in world.asks if ask.starts}
    round_.stays = sum(each.units for each in world.holders if each.gang_uid in starting and not each.over)
    for ask in world.asks:
        round_.take(ask, terms)
    made, gone, standings = tuple(round_.makes), tuple(round_.deletes), tuple(round_.standings)
    return Gangs(made, gone, standings, kept, tuple(round_.steps()), gpus, holds)


@dataclass(slots=True)
class _Round:
    """One look, gang after gang; GPUs that one takes are gone for the next."""

    view: View
    state: PoolState
    blocked: tuple[PoolReason, ...]
    standing: int
    orders: tuple[CreateSlot, ...]
    is_sure: bool
    """Whether the requests were said to stand a moment ago."""
    kept: dict[str, GaveBack]
    makes: list[CreateHolder] = field(default_factory=list)
    deletes: list[DeleteSlot] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    to_come: int = 0
    """Units that gangs of which one pod asks first will hold besides."""
    asking: list[str] = field(default_factory=list)
    """These gangs."""
    stays: int = 0
    """Units that gangs hold which start, and that those ask for whose requests stand."""

    def take(self, ask: GangAsk, terms: GangTerms | None) -> None:
        """Decide about one gang."""
        mine = [each for each in self.view.world.holders if each.gang_uid == ask.uid]
        if ask.starts:
            return
        names = set(names_of(self.view.params.name, ask))
        for each in mine:
            if self.is_sure and each.name not in names:
                self.delete(each, PoolReason.GANG_OVER)  # made for another form of it
        mine = [each for each in mine if each.name in names]
        since_s = min((each.created_s for each in mine), default=self.view.now_s)
        wrong = self._wrong(ask, mine, since_s, terms) if mine else None
        if wrong is not None:
            self._give_back(ask.uid, wrong)
        before = self.kept.get(ask.uid)
        if before is not None and self.view.now_s < before.until_s:
            for each in mine:
                self.delete(each, before.reason)
            self._refuse(ask, before.reason, before.until_s)
            return
        if not mine:
            self._begin(ask, terms)
            return
        assert terms is not None, "a pool that makes nodes for gangs says how"
        self.stays += units_of(ask)
        for each in mine:
            if each.over:
                self.delete(each, PoolReason.FAILED)
        tier = next(tier for tier in self.view.params.tiers if tier.name == mine[0].tier)
        there = {each.name for each in mine}
        lost = [each for each in holders_of(self.view.params.name, ask, tier, terms) if each.name not in there]
        units = sum(each.units for each in lost)
        if lost and self.is_sure and self._may_hold(units, terms) and self._fits(tier, units, len(lost)):
            self._make(lost, tier)  # somebody may have taken what they left: then the rest waits until its time is up
        placed = sum(each.node is not None and not each.deleting and not each.over for each in mine)
        self.standings.append(Standing(ask.gang, ask.uid, pods_of(ask), placed, since_s))

    def delete(self, holder: HolderSeen, reason: PoolReason) -> None:
        """Delete a pod that holds a place, unless it goes already."""
        if not holder.deleting:
            self.deletes.append(DeleteSlot(holder.name, holder.uid, reason, of_gang=True))

    def steps(self) -> Iterator[PoolStep]:
        """One step for each gang that waits, one more where one pod asks first, and one for what goes because its gang
        has gone."""
        for each in self.standings:
            reason = PoolReason.GANG if each.refused is None else each.refused
            yield PoolStep("gangs", each.pods, each.placed, reason, (("gang", each.gang),))
        for gang in self.asking:
            yield PoolStep("gangs", 1, 1, PoolReason.PROBE, (("gang", gang),))
        over = sum(each.reason is PoolReason.GANG_OVER for each in self.deletes)
        if over:
            yield PoolStep("gangs", over, 0, PoolReason.GANG_OVER)

    def _begin(self, ask: GangAsk, terms: GangTerms | None) -> None:
        tier, refused = None, PoolReason.GANG_LIMIT
        if self.blocked:
            refused = self.blocked[0]
        elif terms is not None:
            tier, refused = self._tier(ask, terms)
        if tier is None or terms is None:
            self._refuse(ask, refused, self.view.now_s + AGAIN_S)
            return
        self._make(holders_of(self.view.params.name, ask, tier, terms), tier)
        self.standings.append(Standing(ask.gang, ask.uid, pods_of(ask), 0, self.view.now_s))

    def _make(self, holders: list[CreateHolder], tier: PoolTier) -> None:
        """Make pods in a tier: all of them, or the one that asks where it is not known whether capacity is back."""
        if self._stands(tier) is Position.CLOSED:
            self.makes += holders
            return
        asks = [replace(holders[0], reason=PoolReason.PROBE)] if self._may_probe(tier) else []
        self.makes += asks
        self.to_come += sum(each.units for each in holders[len(asks) :])
        if self._stands(tier) is Position.HALF_OPEN:
            self.asking.append(holders[0].gang)

    def _may_probe(self, tier: PoolTier) -> bool:
        """Whether a tier is half-open and nothing asks there already, nor has just asked while every tier is out."""
        if self._stands(tier) is not Position.HALF_OPEN:
            return False
        if held(self.view, tier, self.makes).nodes or ordered(self.view, self.state, tier, self.orders).nodes:
            return False
        if any(self._stands(each) is Position.CLOSED for each in self.view.params.tiers):
            return True
        this_look = self.orders or any(each.reason is PoolReason.PROBE for each in self.makes)
        return not this_look and self.view.now_s - self.state.created_s >= PROBE_EVERY_S

    def _stands(self, tier: PoolTier) -> Position:
        return breaker.position(self.state.circuits, tier, None, self.view.now_s)

    def _refuse(self, ask: GangAsk, reason: PoolReason, until_s: float) -> None:
        self.standings.append(Standing(ask.gang, ask.uid, pods_of(ask), refused=reason, until_s=until_s))

    def _tier(self, ask: GangAsk, terms: GangTerms) -> tuple[PoolTier | None, PoolReason]:
        """The first tier that takes the whole gang; why none does, where none does."""
        params = self.view.params
        if not self._may_hold(units_of(ask), terms):
            return None, PoolReason.GANG_LIMIT
        why = PoolReason.NO_ROOM
        for tier in params.tiers:
            if tier.shape != ask.shape or not usable(self.view, tier):
                continue
            if self._stands(tier) is not Position.CLOSED and not self._may_probe(tier):
                why = PoolReason.NO_CAPACITY
            elif self._fits(tier, units_of(ask), pods_of(ask)):
                return tier, PoolReason.GANG
        return None, why

    def _may_hold(self, units: int, terms: GangTerms) -> bool:
        """Whether so much more may be held for gangs, by what they may have and by what the whole pool may."""
        params = self.view.params
        there = sum(each.units for each in self.view.world.holders) + sum(each.units for each in self.makes)
        there += self.to_come
        gpus = (there + units) / params.slot.parts
        slots = (self.standing + len(self.orders)) * params.slot.gpus
        return gpus <= terms.max_gpus and (params.max_gpus is None or slots + gpus <= params.max_gpus)

    def _fits(self, tier: PoolTier, units: int, pods: int) -> bool:
        """Whether the limits of a tier leave so much, beside what is asked for there and has no node yet."""
        world = self.view.world
        pool = next((each for each in world.node_pools or () if each.name == tier.node_pool), None)
        if pool is None:
            # Whose nodes are on their way is not known either: a gang can wait until it is.
            return world.node_pools is None and tier.max_gpus is None and tier.max_nodes is None
        beside = left(pool, tier).less(asked_beside(self.view, tier))
        room = beside.less(held(self.view, tier, self.makes)).less(ordered(self.view, self.state, tier, self.orders))
        # Karpenter keeps the limit of a NodePool, however many pods share a node; another one nobody else keeps.
        is_kept = tier.max_nodes is None or (pool.limit_nodes is not None and pool.limit_nodes <= tier.max_nodes)
        nodes = beside.nodes > 0 if is_kept else pods <= room.nodes
        return nodes and units / self.view.params.slot.parts <= room.gpus

    def _wrong(
        self, ask: GangAsk, mine: list[HolderSeen], since_s: float, terms: GangTerms | None
    ) -> PoolReason | None:
        """Why a request is given back now; None while it stands."""
        tier = next((each for each in self.view.params.tiers if each.name == mine[0].tier), None)
        if terms is None or tier is None:
            return PoolReason.GANG_LIMIT
        if (self.stays + units_of(ask)) / self.view.params.slot.parts > terms.max_gpus:
            return PoolReason.GANG_LIMIT  # it was lowered since
        if self.view.now_s >= since_s + terms.timeout_s:
            return PoolReason.GANG_LATE
        if self._stands(tier) is Position.OPEN and any(each.node is None for each in mine):
            return PoolReason.NO_CAPACITY
        return None

    def _give_back(self, uid: str, reason: PoolReason) -> None:
        """The request for a gang is over, unless it is already; the next one has to wait, ever longer."""
        before = self.kept.get(uid)
        if before is None or self.view.now_s >= before.until_s:
            times = 1 if before is None else before.times + 1
            self.kept[uid] = GaveBack(reason, self.view.now_s + pause_s(times), times)
