"""What one warm pool may do and aims for, as frozen values in slots, GPUs and seconds.

Enters: nothing; `autoscaler.api` compiles a WarmPool into these. Rules that join fields are checked here, once, for
every way in. It knows no object of a cluster.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from autoscaler.core.params import KnownEvent

WHOLE_RESOURCE: Final = "nvidia.com/gpu"

CACHE_AFTER: Final = "."
"""In a content, between the digest of images and weights and that of the cache that the weights are in."""

LEAD_PRIOR_S: Final = 600.0
"""From the order of a slot to warm weights before anything was measured: 284 + 126 + 101 + 62 s in the one published
run (kaito-project/kaito#2325), rounded up."""


class CapacityType(Enum):
    """How a node is paid for, as Karpenter labels it."""

    RESERVED = "reserved"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Sharing(Enum):
    """What a slot holds of a GPU."""

    WHOLE = "whole"
    MIG = "mig"
    TIME_SLICING = "time-slicing"


@dataclass(frozen=True, slots=True)
class Domain:
    """Where capacity may be missing. An empty zone stands for a claim that leaves the zone open."""

    sku: str
    zone: str
    capacity_type: CapacityType


@dataclass(frozen=True, slots=True)
class SlotForm:
    """What one slot asks of a node: as much as one replica."""

    resource: str = WHOLE_RESOURCE
    count: int = 1
    """Units of the resource."""
    sharing: Sharing = Sharing.WHOLE
    parts: int = 1
    """How many such units one physical GPU is divided into; 1 for whole GPUs."""
    min_driver: tuple[int, ...] | None = None
    """The oldest driver that runs the models, such as (580, 65); None where any does."""
    min_cuda: tuple[int, ...] | None = None

    @property
    def gpus(self) -> float:
        """Physical GPUs that one slot holds; a quarter of a GPU is 0.25."""
        return self.count / self.parts


@dataclass(frozen=True, slots=True)
class PoolTier:
    """One shape of node, in one NodePool; earlier tiers are preferred."""

    name: str
    node_pool: str
    sku: str
    capacity_type: CapacityType
    zones: tuple[str, ...] = ()
    """Zones the NodePool may use; empty where they are not known."""
    max_gpus: int | None = None
    """Physical GPUs that the NodePool may hold in all, serving included; None is no limit of ours."""
    max_nodes: int | None = None
    shape: str = ""
    """What an administrator calls its nodes; batch work asks for nodes by it."""
    instance_types: tuple[str, ...] = ()
    """What a NodePool that is made for it may launch; empty for anything."""
    node_class: str = ""
    """The NodeClass of one that is made for it, as group/kind/name."""


@dataclass(frozen=True, slots=True)
class GangTerms:
    """What batch work may have nodes made for: whole gangs that wait for nothing else."""

    max_gpus: float
    """Physical GPUs that are held at once for gangs that have not started."""
    timeout_s: float = 900.0
    """From the request until it is given back where the gang could not start."""


@dataclass(frozen=True, slots=True)
class LoanTerms:
    """What batch work may borrow of the pool's idle slots."""

    keep_slots: int = 1
    """Warm slots that are never lent."""
    reclaim_s: float = 60.0
    """Within this long a borrower is gone."""


@dataclass(frozen=True, slots=True)
class PoolParams:
    """What a pool is allowed and aims for. Raises ValueError naming field, value and remedy when fields contradict."""

    name: str
    tiers: tuple[PoolTier, ...]
    models: tuple[str, ...]
    """Every slot warms all of them."""
    content: str
    """A digest of images and weights, and of their cache: a slot made for another one is out of date."""
    slot: SlotForm = SlotForm()
    min_slots: int = 0
    max_slots: int = 10
    max_gpus: float | None = None
    """Physical GPUs that all slots of the pool, and what is held for gangs that have not started, may hold together."""
    zone_minima: tuple[tuple[str, int], ...] = ()
    """(zone, slots) that are kept warm there."""
    spot_ratio: float = 0.0
    """The share of the slots that may stand on spot capacity, 0..1."""
    events: tuple[KnownEvent, ...] = ()
    """Windows with a floor or a ceiling in slots; a floor is met when its window begins."""
    hit_ratio: float = 0.99
    """The share of growing demand that shall find a warm slot."""
    idle_hot_s: float = 300.0
    """How long a slot that is no longer needed stays warm."""
    slot_life_s: float = 4 * 3600.0
    """After this long a slot ends by itself, also when no controller lives."""
    node_life_s: float | None = None
    """Idle nodes are replaced at this age, spread by up to a fifth; None never."""
    max_starting: int = 100
    """Slots under way at once, and orders in one step."""
    lead_prior_s: float = LEAD_PRIOR_S
    choose: bool = False
    """Whether the slot that gives way to a waiting replica is chosen here instead of by the scheduler."""
    managed: bool = False
    """Whether the NodePools are ours to edit."""
    observe: bool = False
    """Decide and explain, and do nothing."""
    loan: LoanTerms | None = None
    """None where nothing is lent; what was lent before is called back."""
    gangs: GangTerms | None = None
    """None where no node is made for batch work."""

    def __post_init__(self) -> None:
        self._numbers()
        _need(bool(self.tiers), "tiers", "none", "give at least one")
        _need(bool(self.models), "models", "none", "give at least one to warm")
        for field in ("name", "node_pool"):
            names = [getattr(tier, field) for tier in self.tiers]
            twice = next((name for name in names if names.count(name) > 1), None)
            _need(twice is None, "tiers", f"{twice!r} stands in two tiers", "give each tier its own name and NodePool")
        self._zones()
        only_spot = all(tier.capacity_type is CapacityType.SPOT for tier in self.tiers)
        _need(
            not only_spot or self.spot_ratio == 1.0,
            "spot_ratio",
            f"{self.spot_ratio:g} though every tier is spot",
            "set it to 1 or add an on-demand tier",
        )

    def _numbers(self) -> None:
        _need(self.min_slots >= 0, "min_slots", self.min_slots, "give 0 or more")
        _need(self.max_slots >= 1, "max_slots", self.max_slots, "give 1 or more; delete the WarmPool to keep none")
        _need(
            self.min_slots <= self.max_slots,
            "min_slots",
            f"{self.min_slots} is above max_slots {self.max_slots}",
            "lower the minimum or raise the maximum",
        )
        _need(0.0 <= self.spot_ratio <= 1.0, "spot_ratio", self.spot_ratio, "give 0..1")
        _need(0.5 <= self.hit_ratio < 1.0, "hit_ratio", self.hit_ratio, "give 0.5 up to, not including, 1")
        for name in ("idle_hot_s", "slot_life_s", "lead_prior_s"):
            value = getattr(self, name)
            _need(math.isfinite(value) and value > 0, name, value, "give more than 0 s")
        _need(self.max_starting >= 1, "max_starting", self.max_starting, "give 1 or more")
        if self.max_gpus is not None:
            least = self.min_slots * self.slot.gpus
            _need(
                least <= self.max_gpus,
                "max_gpus",
                f"{self.max_gpus:g} is less than the {least:g} of min_slots {self.min_slots}",
                "raise the budget or lower the minimum",
            )
        for tier in self.tiers:
            _need(
                tier.max_gpus is None or tier.max_gpus >= self.slot.gpus,
                "tiers",
                f"{tier.name!r} may hold {tier.max_gpus} GPUs and one slot needs {self.slot.gpus:g}",
                "raise its limit or leave the tier out",
            )

    def _zones(self) -> None:
        wanted = sum(count for _, count in self.zone_minima)
        _need(
            wanted <= self.max_slots,
            "zone_minima",
            f"{wanted} in all is above max_slots {self.max_slots}",
            "lower a minimum or raise the maximum",
        )
        if self.max_gpus is not None:
            _need(
                wanted * self.slot.gpus <= self.max_gpus,
                "zone_minima",
                f"{wanted * self.slot.gpus:g} GPUs in all are above max_gpus {self.max_gpus:g}",
                "lower a minimum or raise the budget",
            )
        if all(tier.zones for tier in self.tiers):
            known = {zone for tier in self.tiers for zone in tier.zones}
            strange = next((zone for zone, _ in self.zone_minima if zone not in known), None)
            _need(
                strange is None,
                "zone_minima",
                f"{strange!r} is in no tier's zones",
                "name a zone of a tier, or add the zone to one",
            )


def _need(condition: bool, field: str, value: object, remedy: str) -> None:
    if not condition:
        raise ValueError(f"pool.{field}: {value}; {remedy}")
