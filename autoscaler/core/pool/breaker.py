"""The capacity breaker: where capacity is missing, by (SKU, zone, capacity type), and which claims said so.

Enters: signs of trouble and the claims that are there. Leaves: circuits per domain, and per tier where nodes never
join; for a tier and zone whether to order there now. A sign that repeats, or two signs of one claim, count once. What
became of a claim while claims were not read is not known: it lived until it was read last, and where that is long ago
its absence says nothing. It orders nothing.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from autoscaler.core.pool.circuits import CAPACITY, GPUS, OFFER, Circuit, Position, best, succeeded, troubled, worst
from autoscaler.core.pool.params import Domain, PoolTier
from autoscaler.core.pool.state import Circuits, Unjoined
from autoscaler.core.pool.world import Sign, Trouble, World

REMEMBER_S: Final = 3600.0
"""Signs are told again for as long as the cluster keeps events: an hour by default."""

REGISTRATION_S: Final = 840.0
"""Karpenter deletes a claim whose node has not joined 15 minutes after it was made (`registrationTimeout` in its
nodeclaim/lifecycle/liveness.go, no setting); a minute less, for clocks that differ."""

AWAY_S: Final = 600.0
"""Who has not read claims for longer does not know whether they were launched or have joined: they have time to, to
serve and to go again. A take-over is over long before."""


def noted(circuits: Circuits, world: World, now_s: float, read_s: float | None = None) -> Circuits:
    """The circuits after one look; `read_s` is when claims were last read before it."""
    told = {claim: at_s for claim, at_s in circuits.told.items() if now_s - at_s < REMEMBER_S}
    capacity = dict(circuits.capacity)
    unseen_s = read_s if _is_long_ago(read_s, now_s) else None
    signs = [*world.troubles, *_gone(circuits, world, now_s)]
    for sign in sorted(signs, key=lambda each: (each.at_s, each.claim)):
        if sign.claim not in told and now_s - sign.at_s < REMEMBER_S:
            told[sign.claim] = sign.at_s
            if sign.sign is Sign.CLAIM_GONE and unseen_s is not None and sign.at_s > unseen_s:
                continue
            kept = capacity.get(sign.domain, Circuit())
            rule = OFFER if sign.sign is Sign.NOT_OFFERED else CAPACITY
            capacity[sign.domain] = troubled(kept, sign.at_s, rule, "/".join(_named(sign.domain)))
    for domain, launched_s in _launched(world).items():
        capacity[domain] = succeeded(capacity.get(domain, Circuit()), launched_s)
    unlaunched = circuits.unlaunched
    if world.claims is not None:
        unlaunched = {claim.name: claim.domain for claim in world.claims if claim.launched_s is None}
    return replace(circuits, capacity=capacity, told=told, unlaunched=unlaunched)


def given_up(
    circuits: Circuits, world: World, tiers: Iterable[PoolTier], now_s: float, read_s: float | None
) -> Circuits:
    """The circuits after claims that were launched, and whose nodes had not joined when claims were last read, are no
    more; `read_s` is when that was.

    Karpenter deletes them after a quarter of an hour and asks anew, for ever: a launch is no success there, and for the
    tier such a node is as one whose GPUs never came. One that goes earlier was deleted by a person, with its NodePool
    or by a spot market, or its instance ended by itself: Karpenter gives up none before. By itself that says nothing of
    the tier; a slot that waits too long since then does (`went_early`).
    """
    if world.claims is None:
        return circuits
    there = {claim.name for claim in world.claims}
    gpus, told = dict(circuits.gpus), dict(circuits.told)
    for name, claim in circuits.unjoined.items() if not _is_long_ago(read_s, now_s) else ():
        if name in there or never_came(name) in told:
            continue
        lived_s = claim.deleting_s if claim.deleting_s is not None else read_s
        if lived_s is None or lived_s - claim.created_s < REGISTRATION_S:
            told[went_early(claim.node_pool)] = now_s
            continue
        told[never_came(name)] = now_s
        for tier in tiers:
            if tier.node_pool == claim.node_pool:
                gpus[tier.name] = troubled(gpus.get(tier.name, Circuit()), now_s, GPUS, tier.name)
    unjoined = {
        claim.name: Unjoined(claim.node_pool, claim.created_s, claim.deleting_s)
        for claim in world.claims
        if claim.launched_s is not None and claim.registered_s is None
    }
    return replace(circuits, gpus=gpus, told=told, unjoined=unjoined)


def of_tiers(circuits: Circuits, tiers: Sequence[PoolTier]) -> Circuits:
    """The circuits that some tier goes by: nobody asks again where a pool has no tier any more."""
    names = {tier.name for tier in tiers}
    capacity = {where: kept for where, kept in circuits.capacity.items() if any(_asks(tier, where) for tier in tiers)}
    gpus = {name: kept for name, kept in circuits.gpus.items() if name in names}
    return replace(circuits, capacity=capacity, gpus=gpus)


def _asks(tier: PoolTier, where: Domain) -> bool:
    """Whether a tier asks for capacity in a domain; one that names no zones may in any."""
    anywhere = not where.zone or not tier.zones or where.zone in tier.zones
    return anywhere and (where.sku, where.capacity_type) == (tier.sku, tier.capacity_type)


def with_zones(circuits: Circuits, tiers: Iterable[PoolTier], world: World) -> Circuits:
    """The circuits with the zones that NodePools require, of tiers that name none; as they were where none was read."""
    if world.node_pools is None:
        return circuits
    pools = {pool.name: pool.template.zones for pool in world.node_pools}
    zones = {tier.name: pools.get(tier.node_pool, ()) for tier in tiers if not tier.zones}
    return replace(circuits, zones={name: told for name, told in zones.items() if told})


def never_came(claim: str) -> str:
    """The name under which it is remembered that a claim's node or its GPUs never came."""
    return f"gpu/{claim}"


def went_early(node_pool: str) -> str:
    """Under which name it is remembered when a launched claim of a NodePool last went before Karpenter gives any up."""
    return f"early/{node_pool}"


def position(circuits: Circuits, tier: PoolTier, zone: str | None, now_s: float) -> Position:
    """Whether to order in a tier now: in one zone, or wherever there is room where `zone` is None. Of a tier whose
    zones nobody names, one that is without capacity says nothing of the others: claims that leave the zone open do."""
    capacity = circuits.capacity
    anywhere = capacity.get(Domain(tier.sku, "", tier.capacity_type), Circuit()).position(now_s)
    gpus = circuits.gpus.get(tier.name, Circuit()).position(now_s)
    zones = (zone,) if zone is not None else tier.zones or circuits.zones.get(tier.name, ())
    found = [capacity.get(Domain(tier.sku, each, tier.capacity_type), Circuit()).position(now_s) for each in zones]
    return worst((anywhere, gpus, best(found)))


def launched_since(circuits: Circuits, tier: PoolTier, zone: str | None, since_s: float) -> bool:
    """Whether something was launched in a tier's zone, or in any of its zones, since then."""
    kept = circuits.capacity.get(Domain(tier.sku, zone or "", tier.capacity_type), Circuit())
    return kept.success_s is not None and kept.success_s >= since_s


def _launched(world: World) -> dict[Domain, float]:
    """The last launch of each domain, zone by zone and wherever it was."""
    newest: dict[Domain, float] = {}
    for claim in world.claims or ():
        if claim.launched_s is not None and claim.launched_s > newest.get(claim.domain, -math.inf):
            newest[claim.domain] = claim.launched_s
    for domain, launched_s in list(newest.items()):
        anywhere = Domain(domain.sku, "", domain.capacity_type)
        newest[anywhere] = max(launched_s, newest.get(anywhere, -math.inf))
    return newest


def _is_long_ago(read_s: float | None, now_s: float) -> bool:
    """Whether claims were not read for so long that those that are no more may have been anything."""
    return read_s is not None and now_s - read_s > AWAY_S


def _gone(circuits: Circuits, world: World, now_s: float) -> Iterator[Trouble]:
    """Claims that were not launched when they were last read, and are no more."""
    if world.claims is None:
        return
    there = {claim.name for claim in world.claims}
    for name, domain in circuits.unlaunched.items():
        if name not in there:
            yield Trouble(Sign.CLAIM_GONE, name, now_s, domain)


def _named(domain: Domain) -> tuple[str, str, str]:
    return domain.sku, domain.zone, domain.capacity_type.value
