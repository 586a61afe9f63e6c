"""What each tier has left for new slots: free nodes, limits, the share of spot, and whether to ask it at all.

Enters: the view, circuits, what was asked for and has no node yet. Leaves: for one slot after another the tier that
takes it, or that none does and why. While something is wrong in a pool, a tier that has not launched anything lately is
asked with one slot first; while every tier is out, the whole pool asks once in `PROBE_EVERY_S`; a pod that asks for a
gang asks for slots too, for so long. It names no slot and orders none.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from autoscaler.core.pool import breaker
from autoscaler.core.pool.circuits import Position
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.limits import asked_beside, slots_left
from autoscaler.core.pool.params import CapacityType, PoolTier
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import NOWHERE, View

PROBE_EVERY_S: Final = 90.0
"""Orders of the whole pool while no tier is known to have capacity: less than one a minute."""

RECENT_S: Final = 600.0
"""A launch within this time shows that a tier has capacity (a guess)."""


@dataclass(frozen=True, slots=True)
class Need:
    """What is missing: slots in all, of which so many in each zone, and the most that may be ordered."""

    slots: int
    zones: tuple[tuple[str, int], ...]
    most: int
    target: int
    shut: frozenset[int] = frozenset()
    """Nodes, by their place, that no new slot goes on."""


@dataclass(slots=True)
class Placing:
    """What is left in each tier while orders are given out one by one."""

    view: View
    state: PoolState
    spot_left: int
    rooms: dict[tuple[int, str], int] = field(default_factory=dict)
    """(tier, zone) -> slots that fit on free nodes."""
    limits: dict[int, int] = field(default_factory=dict)
    """Tier -> slots that its limits let it launch; a tier without limits is absent."""
    unlaunched: Counter[tuple[int, str]] = field(default_factory=Counter)
    """(tier, zone or nothing) -> slots ordered there whose node was not launched yet."""
    by_gangs: frozenset[str] = frozenset()
    """Tiers in which pods for gangs asked a moment ago and have no node yet."""
    refused: Counter[PoolReason] = field(default_factory=Counter)

    def order(self, zone: str | None) -> tuple[int, bool] | None:
        """The tier of one more slot, and whether it needs a node to be launched; None where no tier takes it."""
        tiers = self.view.params.tiers
        takes = [at for at, tier in enumerate(tiers) if self._may(at, tier, zone)]
        for at in takes:
            for key in [(t, z) for (t, z), room in self.rooms.items() if t == at and room > 0 and zone in {None, z}]:
                self.rooms[key] -= 1
                self._take(at)
                return at, False
        for at in takes:
            if self._launches(at, tiers[at], zone):
                self.unlaunched[at, zone or ""] += 1
                if at in self.limits:
                    self.limits[at] -= 1
                self._take(at)
                return at, True
        return None

    def _take(self, at: int) -> None:
        if self.view.params.tiers[at].capacity_type is CapacityType.SPOT:
            self.spot_left -= 1

    def _may(self, at: int, tier: PoolTier, zone: str | None) -> bool:
        """Whether a tier is in the zone, usable, and within the share of spot."""
        if zone is not None and tier.zones and zone not in tier.zones:
            return False
        if not usable(self.view, tier):
            return False
        if tier.capacity_type is CapacityType.SPOT and self.spot_left <= 0:
            self.refused[PoolReason.SPOT_SHARE] += 1
            return False
        return True

    def _launches(self, at: int, tier: PoolTier, zone: str | None) -> bool:
        """Whether a tier may launch one more node for a slot."""
        now_s, circuits = self.view.now_s, self.state.circuits
        if self.limits.get(at, 1) <= 0:
            self.refused[PoolReason.NO_ROOM] += 1
            return False
        stands = breaker.position(circuits, tier, zone, now_s)
        asked = bool(self.unlaunched[at, zone or ""])
        asked |= stands is Position.HALF_OPEN and tier.name in self.by_gangs
        if stands is Position.OPEN:
            self.refused[PoolReason.NO_CAPACITY] += 1
            return False
        if stands is Position.HALF_OPEN or self._in_trouble():
            proven = stands is Position.CLOSED and breaker.launched_since(circuits, tier, zone, now_s - RECENT_S)
            if not proven and (asked or self._too_soon()):
                self.refused[PoolReason.NO_CAPACITY] += 1
                return False
        return True

    def _in_trouble(self) -> bool:
        """Whether some tier is out."""
        return any(self._stands(tier) is not Position.CLOSED for tier in self.view.params.tiers)

    def _too_soon(self) -> bool:
        """Whether every tier is out and the pool asked a moment ago, in this look or an earlier one."""
        if any(self._stands(tier) is Position.CLOSED for tier in self.view.params.tiers):
            return False
        return bool(self.unlaunched.total()) or self.view.now_s - self.state.created_s < PROBE_EVERY_S

    def _stands(self, tier: PoolTier) -> Position:
        return breaker.position(self.state.circuits, tier, None, self.view.now_s)


def placing_of(view: View, state: PoolState, need: Need, going: list[int]) -> Placing:
    """What is left before the first order of a look; `going` are the places of slots that will not stay."""
    params, slots, nodes = view.params, view.slots, view.nodes
    staying = np.ones(len(slots.seen), dtype=np.bool_)
    staying[going] = False
    spot = [at for at, tier in enumerate(params.tiers) if tier.capacity_type is CapacityType.SPOT]
    on_spot = int((np.isin(slots.tier, spot) & slots.counts & staying).sum())
    on_spot += sum(order.tier in {params.tiers[at].name for at in spot} for order in state.ordered.values())
    placing = Placing(view, state, int(params.spot_ratio * need.target + 1e-9) - on_spot, by_gangs=_by_gangs(view))
    taken = {holder.node for holder in view.world.holders if not holder.over}
    for at in np.flatnonzero((nodes.tier != NOWHERE) & (nodes.room > 0)).tolist():
        if nodes.seen[at].name in taken or at in need.shut:
            continue  # what holds a place for a gang lets no slot onto its node
        key = int(nodes.tier[at]), nodes.seen[at].zone
        placing.rooms[key] = placing.rooms.get(key, 0) + int(nodes.room[at])
    for at, tier in enumerate(params.tiers):  # what other WarmPools wait for may take a free node as well
        for _ in range(math.ceil(asked_beside(view, tier).gpus / params.slot.gpus - 1e-9)):
            if not _take_room(placing, at, None):
                break
    place_of = {tier.name: at for at, tier in enumerate(params.tiers)}
    tiers = slots.tier.tolist()
    open_orders = [(tiers[at], slots.seen[at].zone) for at in slots.where(staying & _unlaunched(view))]
    open_orders += [(place_of[o.tier], o.zone) for o in state.ordered.values() if o.tier in place_of]
    left = Counter[int]()
    for (tier_at, _), room in placing.rooms.items():
        left[tier_at] += room
    for tier_at, zone in open_orders:
        if left[tier_at] and _take_room(placing, tier_at, zone):
            left[tier_at] -= 1
        else:
            placing.unlaunched[tier_at, zone or ""] += 1
    waiting = Counter[int]()
    for (tier_at, _), count in placing.unlaunched.items():
        waiting[tier_at] += count
    placing.limits = slots_left(view, state, waiting)
    return placing


def _by_gangs(view: View) -> frozenset[str]:
    """Tiers in which a pod for a gang waits for its node, but for those that wait for long: no slot waits for these."""
    holders = (each for each in view.world.holders if each.node is None and not each.over)
    return frozenset(each.tier for each in holders if view.now_s < each.created_s + PROBE_EVERY_S)


def _unlaunched(view: View) -> np.ndarray:
    return np.asarray((view.slots.stage == Stage.REQUESTED) & view.slots.counts)


def _take_room(placing: Placing, at: int, zone: str | None) -> bool:
    """Let a slot that waits have the room that it will take on a free node; whether there is one for it."""
    for (tier, where), room in placing.rooms.items():
        if tier == at and room > 0 and zone in {None, where}:
            placing.rooms[tier, where] -= 1
            return True
    return False


def usable(view: View, tier: PoolTier) -> bool:
    """Whether the tier's NodePool is there and ready, as far as NodePools were read."""
    if view.world.node_pools is None:
        return True
    found = next((pool for pool in view.world.node_pools if pool.name == tier.node_pool), None)
    if found is None or found.deleting or found.ready is False:
        return False
    return found.ours or not view.params.managed
