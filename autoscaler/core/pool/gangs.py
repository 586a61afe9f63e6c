"""Nodes for whole gangs of batch work: pods that hold the places of a gang's pods, so that nodes are made for all.

Enters: the view, gangs that lack nothing but nodes, what holds places for them. Leaves: pods to make and to delete, how
each request stands, and requests that were given back. A request is made whole, within the pool's limits, in one tier
that has capacity; where it is not known whether capacity is back, one pod asks first. It is given back whole where
capacity is missing, limits allow it no more, or time is up, and not made again for a while, ever longer. While it is
not known who wants nodes nothing is made and nothing deleted; where it was known a while ago nothing is begun, and what
was begun stays up to its time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.core.doubling import doubled
from autoscaler.core.pool.circuits import Position
from autoscaler.core.pool.gang_pods import holders_of, names_of, pods_of, units_of
from autoscaler.core.pool.gang_room import GangRoom
from autoscaler.core.pool.gang_standings import Standing, begun, steps_of
from autoscaler.core.pool.intents import CreateHolder, CreateSlot, DeleteSlot, PoolStep
from autoscaler.core.pool.params import GangTerms, PoolTier
from autoscaler.core.pool.placing import usable
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import GaveBack, PoolState
from autoscaler.core.pool.view import View
from autoscaler.core.pool.world import GangAsk, HolderSeen

AGAIN_S: Final = 30.0
"""After limits kept a request from being made it may be made again this much later (a guess)."""

LONGEST_S: Final = 3600.0
"""After requests in vain the next one waits twice as long each time, up to this (a guess)."""

FRESH_S: Final = 60.0
"""Nothing is begun on requests that were last said to stand longer ago. Whoever knows says so every five seconds; who
has been blind for a dozen looks cannot say whose gang was deleted meanwhile, and nodes would be made for nobody."""

FORGET_S: Final = 6 * 3600.0
"""What was given back is forgotten this long after it might have been asked for again."""


@dataclass(frozen=True, slots=True)
class Gangs:
    """What a look at a pool says of nodes for gangs."""

    makes: tuple[CreateHolder, ...] = ()
    deletes: tuple[DeleteSlot, ...] = ()
    standings: tuple[Standing, ...] = ()
    gave_back: Mapping[str, GaveBack] = field(default_factory=dict)
    steps: tuple[PoolStep, ...] = ()
    held_gpus: float | None = None
    """Physical GPUs whose places were seen to be held, with or without a node; None where it was not looked."""
    holds: frozenset[str] = frozenset()
    """Whom places were held for, by uid."""


def pause_s(times: int) -> float:
    """For how long no request is made after so many in vain."""
    return doubled(AGAIN_S, times, LONGEST_S)


def hold(
    view: View, state: PoolState, blocked: tuple[PoolReason, ...], standing: int, orders: tuple[CreateSlot, ...] = ()
) -> Gangs:
    """What is made, given back and told. `blocked` is why nothing may be made; `standing` are slots that hold GPUs, and
    `orders` those that this look orders besides."""
    now_s, world, terms = view.now_s, view.world, view.params.gangs
    kept = {uid: each for uid, each in state.gave_back.items() if now_s < each.until_s + FORGET_S}
    gpus = sum(each.units for each in world.holders if each.uid and not each.over) / view.params.slot.parts
    holds = frozenset(each.gang_uid for each in world.holders if not (each.over or each.deleting))
    if world.asks is None or view.params.observe:
        standings = tuple(begun(view))
        return Gangs(standings=standings, gave_back=kept, steps=tuple(steps_of(standings)), held_gpus=gpus, holds=holds)
    is_sure = world.asks_age_s <= FRESH_S
    why_not = blocked if is_sure else (PoolReason.GANG_UNSURE, *blocked)
    round_ = _Round(view, GangRoom(view, state, standing, orders), why_not, is_sure, kept)
    round_.deletes += unwanted(world.holders, world.asks, world.asks_age_s)
    starting = {ask.uid for ask in world.asks if ask.starts}
    round_.stays = sum(each.units for each in world.holders if each.gang_uid in starting and not each.over)
    for ask in world.asks:
        round_.room.lacking[ask.uid] = round_.lacks(ask, terms)
    for ask in world.asks:
        round_.take(ask, terms)
    made, gone, standings = tuple(round_.room.makes), tuple(round_.deletes), tuple(round_.standings)
    return Gangs(made, gone, standings, kept, tuple(round_.steps()), gpus, holds)


def unwanted(holders: Iterable[HolderSeen], asks: Sequence[GangAsk] | None, age_s: float) -> Iterator[DeleteSlot]:
    """Deletions of what holds places for gangs that ask for none; of nothing while it is not known who asks."""
    if asks is None or age_s > FRESH_S:
        return
    wanted = {ask.uid for ask in asks}
    for each in holders:
        if each.gang_uid not in wanted and not each.deleting:
            yield DeleteSlot(each.name, each.uid, PoolReason.GANG_OVER, of_gang=True)


@dataclass(slots=True)
class _Round:
    """One look, gang after gang."""

    view: View
    room: GangRoom
    blocked: tuple[PoolReason, ...]
    is_sure: bool
    """Whether the requests were said to stand a moment ago."""
    kept: dict[str, GaveBack]
    deletes: list[DeleteSlot] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    asking: list[str] = field(default_factory=list)
    """Gangs of which one pod asks first."""
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
            self.room.lacking[ask.uid] = []
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
        lost = self.room.lacking[ask.uid]
        units = sum(each.units for each in lost)
        may = self.is_sure and self.room.may_hold(ask.uid, units, terms)
        if lost and may and self.room.fits(ask.uid, tier, units, len(lost)):
            self._make(lost, tier)  # slots may have taken what they left: then the rest waits until its time is up
        placed = sum(each.node is not None and not each.deleting and not each.over for each in mine)
        self.standings.append(Standing(ask.gang, ask.uid, pods_of(ask), placed, since_s))

    def lacks(self, ask: GangAsk, terms: GangTerms | None) -> list[CreateHolder]:
        """What the request of a gang lacks still; nothing of one that starts, was not begun, or was given back."""
        before = self.kept.get(ask.uid)
        there = {each.name: each for each in self.view.world.holders if each.gang_uid == ask.uid}
        mine = [there[name] for name in names_of(self.view.params.name, ask) if name in there]
        tier = next((each for each in self.view.params.tiers if mine and each.name == mine[0].tier), None)
        is_over = before is not None and self.view.now_s < before.until_s
        if ask.starts or terms is None or tier is None or is_over:
            return []
        return [each for each in holders_of(self.view.params.name, ask, tier, terms) if each.name not in there]

    def delete(self, holder: HolderSeen, reason: PoolReason) -> None:
        """Delete a pod that holds a place, unless it goes already."""
        if not holder.deleting:
            self.deletes.append(DeleteSlot(holder.name, holder.uid, reason, of_gang=True))

    def steps(self) -> Iterator[PoolStep]:
        """One step for each gang that waits, one more where one pod asks first, and one for what goes because its gang
        has gone."""
        yield from steps_of(self.standings)
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
        stands, uid = self.room.stands(tier), holders[0].gang_uid
        if stands is Position.CLOSED:
            self.room.makes += holders
            self.room.lacking[uid] = []
            return
        asks = [replace(holders[0], reason=PoolReason.PROBE)] if self.room.may_probe(tier) else []
        self.room.makes += asks
        self.room.lacking[uid] = holders[len(asks) :]
        if stands is Position.HALF_OPEN:
            self.asking.append(holders[0].gang)

    def _refuse(self, ask: GangAsk, reason: PoolReason, until_s: float) -> None:
        self.standings.append(Standing(ask.gang, ask.uid, pods_of(ask), refused=reason, until_s=until_s))

    def _tier(self, ask: GangAsk, terms: GangTerms) -> tuple[PoolTier | None, PoolReason]:
        """The first tier that takes the whole gang; why none does, where none does."""
        params = self.view.params
        if not self.room.may_hold(ask.uid, units_of(ask), terms):
            return None, PoolReason.GANG_LIMIT
        why = PoolReason.NO_ROOM
        for tier in params.tiers:
            if tier.shape != ask.shape or not usable(self.view, tier):
                continue
            if self.room.stands(tier) is not Position.CLOSED and not self.room.may_probe(tier):
                why = PoolReason.NO_CAPACITY
            elif self.room.fits(ask.uid, tier, units_of(ask), pods_of(ask)):
                return tier, PoolReason.GANG
        return None, why

    def _wrong(
        self, ask: GangAsk, mine: list[HolderSeen], since_s: float, terms: GangTerms | None
    ) -> PoolReason | None:
        """Why a request is given back now; None while it stands."""
        tier = next((each for each in self.view.params.tiers if each.name == mine[0].tier), None)
        if terms is None or tier is None:
            return PoolReason.GANG_LIMIT
        if self.room.is_beyond(self.stays + units_of(ask), terms):
            return PoolReason.GANG_LIMIT  # a limit was lowered since
        if self.view.now_s >= since_s + terms.timeout_s:
            return PoolReason.GANG_LATE
        if self.room.stands(tier) is Position.OPEN and any(each.node is None for each in mine):
            return PoolReason.NO_CAPACITY
        return None

    def _give_back(self, uid: str, reason: PoolReason) -> None:
        """The request for a gang is over, unless it is already; the next one has to wait, ever longer."""
        before = self.kept.get(uid)
        if before is None or self.view.now_s >= before.until_s:
            times = 1 if before is None else before.times + 1
            self.kept[uid] = GaveBack(reason, self.view.now_s + pause_s(times), times)
