"""The model of a WarmPool.

Enters: the spec as JSON. Leaves: a frozen model, or an InputError naming field, value and remedy. What the
administrator's shapes make of it is compiled in `warm_pool_params`.
"""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from autoscaler.api.lines import decode_value
from autoscaler.api.model import Model, cel
from autoscaler.api.model_faults import first_fault
from autoscaler.api.schema import Spelling
from autoscaler.api.warm_pool_cache import CacheVolume
from autoscaler.api.warm_pool_parts import (
    MOST_SLOTS,
    Backend,
    GangPolicy,
    Gpus,
    HandOver,
    KnownWindow,
    LoanPolicy,
    SlotCount,
    SlotForm,
    Tier,
    WarmModel,
    ZoneMinimum,
    listed,
)
from autoscaler.errors import InputError


class WarmPoolSpec(Model):
    """What is kept warm: where, for which models, how much, and when."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("self.minSlots <= self.maxSlots", "minSlots is above maxSlots; lower the minimum or raise the maximum"),
            (
                "!has(self.zoneMinima) || self.zoneMinima.map(z, z.slots).sum() <= self.maxSlots",
                "zoneMinima in all are above maxSlots; lower a minimum or raise the maximum",
            ),
            (
                "!has(self.tiers) || self.tiers.all(t, has(t.nodePoolRef) != self.managed)",
                "a tier has a nodePoolRef exactly when the pool is not managed; change one of the two",
            ),
            (
                "!has(self.tiers) || self.tiers.all(t, has(t.nodeClassRef) == self.managed)",
                "a tier has a nodeClassRef exactly when the pool is managed; change one of the two",
            ),
            (
                "!has(self.models) || !self.models.exists(m, has(m.weights)) || has(self.cache)",
                "weights are given without a cache volume; give cache, or leave the weights out",
            ),
        )
    )

    backend: Annotated[Backend, Field(strict=False)] = Backend.SLOTS
    """What keeps capacity warm: slots, or observe, which only decides and tells."""
    managed: bool = False
    """Whether Headroom makes one NodePool per tier; else tiers refer to NodePools that others own."""
    tiers: Annotated[tuple[Tier, ...], listed(8, "tiers", least=1)] = ()
    """Where slots may stand, the preferred tier first. At least one."""
    slot: SlotForm = SlotForm()
    """What one slot asks for."""
    models: Annotated[tuple[WarmModel, ...], listed(16, "models", least=1)] = ()
    """What every slot warms. At least one."""
    cache: CacheVolume | None = None
    """The volume that weights are fetched into; needed where a model has weights."""
    min_slots: SlotCount = 0
    """The fewest warm slots; 0 lets the pool go to nothing when nothing needs it."""
    max_slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = 10
    """The most slots there may ever be; to keep none, delete the WarmPool."""
    max_gpus: Gpus | None = None
    """The most physical GPUs that all slots of the pool, and what it holds for gangs that have not started, hold
    together."""
    zone_minima: Annotated[tuple[ZoneMinimum, ...], listed(16, "zones")] = ()
    """Warm slots that are kept in each zone."""
    spot_max_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The share of the slots that may stand on spot capacity (0..1)."""
    calendar: Annotated[tuple[KnownWindow, ...], listed(64, "events")] = ()
    """Known events: windows of time with a floor or a ceiling in slots."""
    hit_ratio: Annotated[float, Field(ge=0.5, lt=1)] = 0.99
    """The share of growing demand that shall find a warm slot (0.5 up to, not including, 1)."""
    idle_hot_s: Annotated[float, Field(ge=60, le=86_400)] = 300.0
    """How long a slot that is no longer needed stays warm, in seconds (60..86400)."""
    slot_life_s: Annotated[float, Field(ge=1800, le=86_400)] = 14_400.0
    """When a slot ends by itself, also when no controller lives, in seconds (1800..86400)."""
    node_life_s: Annotated[float, Field(ge=3600, le=365 * 86_400.0)] | None = None
    """At what age idle nodes of Karpenter's are replaced, in seconds; left out, never. One with slots of another
    WarmPool stays."""
    max_starting: Annotated[int, Field(ge=1, le=1000)] = 100
    """Slots under way at once (1..1000)."""
    lead_prior_s: Annotated[float, Field(ge=10, le=7200)] = 600.0
    """How long a slot takes from its order to warm weights, in seconds (10..7200), until it has been measured."""
    hand_over: Annotated[HandOver, Field(strict=False)] = HandOver.PREEMPT
    """Who chooses the slot that gives way to a replica: Preempt leaves it to the scheduler, Choose to Headroom."""
    loan: LoanPolicy = LoanPolicy()
    """What batch work may borrow of idle slots."""
    gangs: GangPolicy = GangPolicy()
    """Nodes that are made for gangs of batch work that lack nothing else."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        for at, tier in enumerate(self.tiers):
            if (tier.node_pool_ref is None) != self.managed:
                given = "missing" if tier.node_pool_ref is None else "given"
                raise ValueError(
                    f"tiers[{at}].node_pool_ref is {given} though managed is {str(self.managed).lower()}; "
                    "a tier refers to a NodePool exactly when the pool is not managed"
                )
            if (tier.node_class_ref is not None) != self.managed:
                given = "missing" if tier.node_class_ref is None else "given"
                raise ValueError(
                    f"tiers[{at}].node_class_ref is {given} though managed is {str(self.managed).lower()}; "
                    "a tier has a NodeClass exactly when the pool is managed"
                )
        weights = [tier.weight for tier in self.tiers if tier.weight is not None]
        if weights != sorted(weights, reverse=True):
            raise ValueError("tiers: a later tier weighs more than an earlier one; order them by weight")
        if self.cache is None and any(model.weights is not None for model in self.models):
            raise ValueError("models have weights and there is no cache; give a cache volume, or leave the weights out")
        for name, parts in (("tiers", self.tiers), ("models", self.models), ("calendar", self.calendar)):
            names = [part.name for part in parts]
            twice = next((each for each in names if names.count(each) > 1), None)
            if twice is not None:
                raise ValueError(f"{name}: {twice!r} stands twice; give each a name of its own")
        return self

    def node_pool(self, pool: str, tier: Tier) -> str:
        """The name of a tier's NodePool: the one it refers to, else that of the one that is made for it."""
        return tier.node_pool_ref or f"{pool}-{tier.name}"


def read_warm_pool(spec_json: bytes) -> WarmPoolSpec:
    """The spec of a WarmPool. Raises InputError naming field, value and remedy for the first fault."""
    if not spec_json:
        raise InputError("spec: missing; a WarmPool has one")
    try:
        spec = WarmPoolSpec.model_validate(decode_value(spec_json))
    except ValidationError as error:
        raise InputError(first_fault(error, WarmPoolSpec, Spelling.CAMEL).after("spec")) from error
    if not spec.tiers:
        raise InputError("spec.tiers: missing; give at least one, with the shape and the NodePool of its nodes")
    if not spec.models:
        raise InputError("spec.models: missing; give at least one model to warm")
    return spec
