"""The model of a WarmPool, and its compilation into the core's parameters.

Enters: the spec as JSON, the administrator's shapes. Leaves: a frozen model or the core's parameters, or an InputError
naming field, value and remedy. Rules that join numbers are the core's own (`autoscaler.core.pool.params.PoolParams`).
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from autoscaler.api.calendar import read_schedule, read_zone, windows
from autoscaler.api.lines import decode_value
from autoscaler.api.model import Model, cel
from autoscaler.api.model_faults import first_fault, respelled
from autoscaler.api.schema import Spelling
from autoscaler.api.shapes import Shape
from autoscaler.api.warm_pool_parts import (
    MOST_SLOTS,
    Backend,
    CacheVolume,
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
from autoscaler.core.params import KnownEvent
from autoscaler.core.pool.params import GangTerms, LoanTerms, PoolParams, PoolTier
from autoscaler.core.pool.params import SlotForm as CoreForm
from autoscaler.errors import InputError

HORIZON_S: Final = 7 * 86_400.0
"""How far ahead schedules are unrolled; the parameters are compiled anew well before that."""


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


def compile_pool(name: str, spec: WarmPoolSpec, shapes: Mapping[str, Shape], *, now_s: float) -> PoolParams:
    """The core's parameters of the pool `name`.

    Raises InputError where the spec and the shapes contradict each other.
    """
    used = [_shape(at, tier, shapes) for at, tier in enumerate(spec.tiers)]
    for at, shape in enumerate(used):
        if (shape.resource, shape.sharing, shape.parts) != (used[0].resource, used[0].sharing, used[0].parts):
            raise InputError(
                f"spec.tiers[{at}].shape: {spec.tiers[at].shape!r} divides GPUs otherwise than "
                f"{spec.tiers[0].shape!r}; slots of one pool are alike: make another WarmPool for it"
            )
    try:
        return PoolParams(
            name=name,
            tiers=tuple(_tier(name, spec, tier, shape) for tier, shape in zip(spec.tiers, used, strict=True)),
            models=tuple(model.name for model in spec.models),
            content=content_of(spec),
            slot=_form(spec.slot, used[0]),
            min_slots=spec.min_slots,
            max_slots=spec.max_slots,
            max_gpus=spec.max_gpus,
            zone_minima=tuple((minimum.zone, minimum.slots) for minimum in spec.zone_minima),
            spot_ratio=spec.spot_max_ratio,
            events=events_of(spec, now_s),
            hit_ratio=spec.hit_ratio,
            idle_hot_s=spec.idle_hot_s,
            slot_life_s=spec.slot_life_s,
            node_life_s=spec.node_life_s,
            max_starting=spec.max_starting,
            lead_prior_s=spec.lead_prior_s,
            choose=spec.hand_over is HandOver.CHOOSE,
            managed=spec.managed,
            observe=spec.backend is Backend.OBSERVE,
            loan=LoanTerms(spec.loan.keep_slots, spec.loan.reclaim_s) if spec.loan.enabled else None,
            gangs=None if spec.gangs.max_gpus is None else GangTerms(spec.gangs.max_gpus, spec.gangs.timeout_s),
        )
    except ValueError as error:
        words = str(error).replace("spot_ratio", "spot_max_ratio").replace("pool.", "spec.", 1)
        raise InputError(respelled(words, WarmPoolSpec, Spelling.CAMEL)) from error


def events_of(spec: WarmPoolSpec, now_s: float) -> tuple[KnownEvent, ...]:
    """The windows of the calendar that touch the next week, in order; what expires in one ends it."""
    found: list[KnownEvent] = []
    for event in spec.calendar:
        if event.from_s is not None and event.to_s is not None:
            spans = [(event.from_s, event.to_s)]
        else:
            assert event.schedule is not None
            assert event.duration_s is not None
            schedule, zone = read_schedule(event.schedule), read_zone(event.time_zone)
            spans = list(windows(schedule, zone, event.duration_s, now_s, now_s + HORIZON_S))
        for begin_s, end_s in spans:
            last_s = end_s if event.expires_s is None else min(end_s, event.expires_s)
            if now_s < last_s and begin_s < last_s and begin_s < now_s + HORIZON_S:
                found.append(KnownEvent(begin_s, last_s, event.slots, event.ceiling))
    return tuple(sorted(found, key=lambda window: (window.from_s, window.to_s)))


def content_of(spec: WarmPoolSpec) -> str:
    """A digest of what slots are asked to warm: another image or other weights make another one. What a tag stands for
    is known only of slots that have pulled it."""
    parts = [[model.name, model.image, model.weights] for model in spec.models]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _shape(at: int, tier: Tier, shapes: Mapping[str, Shape]) -> Shape:
    found = shapes.get(tier.shape)
    if found is None:
        known = ", ".join(sorted(shapes)) or "none yet"
        raise InputError(
            f"spec.tiers[{at}].shape: {tier.shape!r} is not among the administrator's shapes ({known}); name one of "
            "them, or ask for it to be added to the settings"
        )
    return found


def _tier(pool: str, spec: WarmPoolSpec, tier: Tier, shape: Shape) -> PoolTier:
    return PoolTier(
        name=tier.name,
        node_pool=spec.node_pool(pool, tier),
        sku=shape.sku,
        capacity_type=shape.capacity_type,
        zones=tier.zones,
        max_gpus=tier.limits.gpus,
        max_nodes=tier.limits.nodes,
        shape=tier.shape,
    )


def _form(form: SlotForm, shape: Shape) -> CoreForm:
    return CoreForm(
        resource=shape.resource,
        count=form.count,
        sharing=shape.sharing,
        parts=shape.parts,
        min_driver=_version(form.min_driver),
        min_cuda=_version(form.min_cuda),
    )


def _version(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else tuple(int(part) for part in text.split("."))
