"""The world of one pool as columns: each slot's stage and whether it counts, each node's room.

Enters: what was observed, the parameters, the time. Leaves: arrays of shape (slots,) and (nodes,). All is derived from
the objects themselves, so that a process that starts anew sees the same; nothing is remembered here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np

from autoscaler.core.columns import F64, I64, Bools
from autoscaler.core.pool.clock import Stage, StartKind
from autoscaler.core.pool.params import CACHE_AFTER, PoolParams
from autoscaler.core.pool.shapes import has_gpus, staying, works
from autoscaler.core.pool.world import ClaimSeen, NodeSeen, SlotSeen, World

NOWHERE: Final = -1

UNLISTED_S: Final = 60.0
"""What a node shows may be read this much later than a pod's binding to it: two watches are two clocks."""

_TIMES = attrgetter("created_s", "scheduled_s", "images_s", "weights_s", "ready_s", "deadline_s", "unready_s")
_MARKS = attrgetter("node", "claim", "tier", "node_pool", "deleting_s", "failed", "lease", "content", "units")


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes by their place in `seen`; arrays of shape (nodes,)."""

    seen: Sequence[NodeSeen]
    index: Mapping[str, int]
    usable: Bools
    """A slot on it can be handed over now."""
    staying: Bools
    """Nobody takes it, and slots fit it as far as it is known."""
    tier: I64
    """The tier's place, `NOWHERE` where its NodePool is no tier's."""
    room: I64
    """Slots that fit into what is free."""


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Slots by their place in `seen`; arrays of shape (slots,)."""

    seen: Sequence[SlotSeen]
    instants_s: F64
    """Shape (slots, 6): creation, then the ends of the five stages; NaN for what has not happened."""
    stage: I64
    since_s: F64
    """When its stage began."""
    node: I64
    """The place of the node it is bound to, `NOWHERE` while it is not bound or the node is gone."""
    bound: Bools
    tier: I64
    current: Bools
    """Made for the images, weights, cache and size that are wanted now."""
    counts: Bools
    """Warm, or on its way without fault: it is supply unless something else speaks against it."""

    def where(self, mask: Bools) -> list[int]:
        """The places of the slots in a mask."""
        return np.flatnonzero(mask).tolist()


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One look at a pool."""

    params: PoolParams
    world: World
    now_s: float
    nodes: Nodes
    slots: Slots
    claims: Mapping[str, ClaimSeen]
    pulled: Mapping[str, str]
    """Content -> the digests under which it was pulled last: a tag may have moved since the others."""

    def zone_of(self, slot: int) -> str:
        """The zone a slot is in, or is pinned to; empty while neither is known."""
        seen = self.slots.seen[slot]
        node = int(self.slots.node[slot])
        if node != NOWHERE:
            return self.nodes.seen[node].zone
        return self._claimed_zone(seen) or seen.zone or ""

    def kind_of(self, slot: int) -> StartKind:
        """What the slot's start is alike to."""
        seen, at = self.slots.seen[slot], int(self.slots.tier[slot])
        tier = self.params.tiers[at]
        node = int(self.slots.node[slot])
        new_node = node == NOWHERE or self.nodes.seen[node].created_s >= seen.created_s
        content = content_as(seen.content, seen.digests) if seen.digests else self._expected(seen.content)
        return StartKind(tier.sku, self.zone_of(slot), tier.capacity_type.value, content, new_node)

    @property
    def content(self) -> str:
        """What a slot that is ordered now is expected to pull."""
        return self._expected(self.params.content)

    def _expected(self, content: str) -> str:
        digests = self.pulled.get(content)
        return content if digests is None else content_as(content, digests)

    def _claimed_zone(self, seen: SlotSeen) -> str:
        claim = None if seen.claim is None else self.claims.get(seen.claim)
        return "" if claim is None else claim.domain.zone


def content_as(content: str, digests: str) -> str:
    """What starts are alike in: the content that was asked for, as the digests that its tags stood for."""
    return f"{content}@{digests}"


def look(params: PoolParams, world: World, now_s: float) -> View:
    """The world as columns. Slots and nodes were read; a caller that has not read them has nothing to look at."""
    nodes = _nodes(params, world.nodes or ())
    claims = {claim.name: claim for claim in world.claims or ()}
    slots = _slots(params, world.slots or (), nodes, claims, now_s)
    return View(params, world, now_s, nodes, slots, claims, _pulled(slots.seen))


def _pulled(seen: Sequence[SlotSeen]) -> dict[str, str]:
    told = [slot for slot in seen if slot.digests]
    return {slot.content: slot.digests for slot in sorted(told, key=lambda slot: (slot.images_s or 0.0, slot.uid))}


def _nodes(params: PoolParams, seen: Sequence[NodeSeen]) -> Nodes:
    place = {tier.node_pool: at for at, tier in enumerate(params.tiers)}
    count = params.slot.count
    stays = [staying(params.slot, node) for node in seen]
    can = [ok and works(params.slot, node) for node, ok in zip(seen, stays, strict=True)]
    room = [node.free_units // count if ok and node.free_units > 0 else 0 for node, ok in zip(seen, can, strict=True)]
    return Nodes(
        seen=seen,
        index={node.name: at for at, node in enumerate(seen)},
        usable=np.array(can, dtype=np.bool_),
        staying=np.array(stays, dtype=np.bool_),
        tier=_whole(place.get(node.node_pool, NOWHERE) for node in seen),
        room=_whole(room),
    )


def _slots(
    params: PoolParams, seen: Sequence[SlotSeen], nodes: Nodes, claims: Mapping[str, ClaimSeen], now_s: float
) -> Slots:
    size = len(seen)
    times = np.array([_TIMES(slot) for slot in seen], dtype=np.float64).reshape(size, 7)
    marks = list(zip(*map(_MARKS, seen), strict=True)) or [()] * 9
    node_of, claim_of, tier_of, pinned, deleting, failed, lease, content, units = marks
    node = _whole(NOWHERE if name is None else nodes.index.get(name, NOWHERE) for name in node_of)
    bound = np.array([name is not None for name in node_of], dtype=np.bool_)
    place = {tier.name: at for at, tier in enumerate(params.tiers)}
    instants_s = np.full((size, 6), np.nan)
    instants_s[:, 0] = times[:, 0]
    instants_s[:, 1:4] = _arrivals(node, bound, claim_of, nodes, claims)
    instants_s[:, 3] = np.where(np.isnan(times[:, 1]), instants_s[:, 3], times[:, 1])
    instants_s[:, 4] = times[:, 2]
    instants_s[:, 5] = np.where(np.isnan(times[:, 3]), np.nan, times[:, 4])
    reached = np.isfinite(instants_s)
    stage = 5 - np.argmax(reached[:, ::-1], axis=1)
    since_s = np.fmax.reduce(np.where(reached, instants_s, -np.inf), axis=1, initial=-np.inf)
    # A slot that was warm is not late with its weights: a node that is cut off for a moment has its pods not ready.
    again = ~np.isnan(times[:, 3]) & np.isnan(times[:, 4])
    since_s[again] = np.fmax(since_s[again], times[again, 6])
    ended = _ended(deleting, failed, lease, times[:, 5] <= now_s, stage)
    listed = ~bound | (node != NOWHERE)
    pool_of = {tier.name: tier.node_pool for tier in params.tiers}
    tier = _whole(
        place.get(name, NOWHERE) if not pool or pool == pool_of.get(name) else NOWHERE
        for name, pool in zip(tier_of, pinned, strict=True)
    )
    standing = np.ones(size, dtype=np.bool_)
    on_node = node != NOWHERE
    standing[on_node] = nodes.usable[node[on_node]]
    just_bound = bound & (now_s - times[:, 1] < UNLISTED_S) & (stage < Stage.WEIGHTS_WARM)
    just_bound[on_node] &= nodes.staying[node[on_node]]
    return Slots(
        seen=seen,
        instants_s=instants_s,
        stage=np.where(ended != NOWHERE, ended, stage),
        since_s=since_s,
        node=node,
        bound=bound,
        tier=tier,
        current=_current(params, content, units),
        counts=(ended == NOWHERE) & ((listed & standing) | just_bound) & (tier != NOWHERE),
    )


def _current(params: PoolParams, content: Sequence[str], units: Sequence[int | None]) -> Bools:
    """Which slots are made for what is wanted now. One that does not say of which cache, as earlier versions made them,
    is taken to be made for that one."""
    alike, count = {params.content, params.content.partition(CACHE_AFTER)[0]}, params.slot.count
    same = [each in alike and asks in {None, count} for each, asks in zip(content, units, strict=True)]
    return np.array(same, dtype=np.bool_)


def _arrivals(
    node: I64, bound: Bools, claim_of: Sequence[str | None], nodes: Nodes, claims: Mapping[str, ClaimSeen]
) -> F64:
    """When each slot's node was launched, had joined and had its GPUs, shape (slots, 3); a slot that is not bound yet
    goes by the claim that it was nominated to."""
    times = np.full((len(nodes.seen) + 1, 3), np.nan)
    if nodes.seen:
        times[:-1] = np.array([_joined(each, claims) for each in nodes.seen], dtype=np.float64)
    found = times[node]  # NOWHERE is the last row, in which nothing has happened
    named = {at: name for at, name in enumerate(claim_of) if name is not None and name in claims and not bound[at]}
    rows = [_promised(claims[name], nodes) for name in named.values()]
    found[list(named)] = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
    return found


def _joined(node: NodeSeen, claims: Mapping[str, ClaimSeen]) -> tuple[float, float, float | None]:
    claim = None if node.claim is None else claims.get(node.claim)
    launched_s = node.created_s if claim is None or claim.launched_s is None else claim.launched_s
    return launched_s, node.created_s, node.gpu_ready_s if has_gpus(node) else None


def _promised(claim: ClaimSeen, nodes: Nodes) -> tuple[float | None, float | None, float | None]:
    at = None if claim.node is None else nodes.index.get(claim.node)
    node = None if at is None else nodes.seen[at]
    gpu_s = node.gpu_ready_s if node is not None and has_gpus(node) else None
    return claim.launched_s, claim.registered_s, gpu_s


def _ended(
    deleting: Sequence[float | None],
    failed: Sequence[str | None],
    lease: Sequence[str | None],
    late: Bools,
    stage: I64,
) -> I64:
    """The stages that outrank a start's own: leased, draining, failed, expired; `NOWHERE` where none does."""
    marked = np.array([each is not None for each in lease], dtype=np.bool_) & (stage == Stage.WEIGHTS_WARM)
    out = np.where(marked, int(Stage.LEASED), NOWHERE)
    out = np.where(late, int(Stage.EXPIRED), out)
    out = np.where(np.array([each is not None for each in failed], dtype=np.bool_), int(Stage.FAILED), out)
    return np.where(np.array([at is not None for at in deleting], dtype=np.bool_), int(Stage.DRAINING), out)


def _whole(values: Iterable[int]) -> I64:
    return np.array(list(values), dtype=np.int64)
