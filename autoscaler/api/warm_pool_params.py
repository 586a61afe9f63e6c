"""A WarmPool compiled into the core's parameters.

Enters: a spec, the administrator's shapes, the time. Leaves: the core's parameters, or an InputError naming field,
value and remedy. Rules that join numbers are the core's own (`autoscaler.core.pool.params.PoolParams`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from autoscaler.api.calendar import read_schedule, read_zone, windows
from autoscaler.api.model_faults import respelled
from autoscaler.api.schema import Spelling
from autoscaler.api.shapes import Shape
from autoscaler.api.warm_pool import WarmPoolSpec
from autoscaler.api.warm_pool_parts import Backend, HandOver, SlotForm, Tier
from autoscaler.core.params import KnownEvent
from autoscaler.core.pool.params import CACHE_AFTER, GangTerms, LoanTerms, PoolParams, PoolTier
from autoscaler.core.pool.params import SlotForm as CoreForm
from autoscaler.errors import InputError

HORIZON_S: Final = 7 * 86_400.0
"""How far ahead schedules are unrolled; the parameters are compiled anew well before that."""


MOST_LABEL: Final = 63
"""Characters of a label's value (k8s.io/apimachinery, pkg/util/validation: LabelValueMaxLength); names may have 253."""


def compile_pool(name: str, spec: WarmPoolSpec, shapes: Mapping[str, Shape], *, now_s: float) -> PoolParams:
    """The core's parameters of the pool `name`.

    Raises InputError where the spec and the shapes contradict each other, or a name fits no label.
    """
    _labelled("metadata.name", name, "slots carry it")
    for at, tier in enumerate(spec.tiers):
        _labelled(f"spec.tiers[{at}].name", spec.node_pool(name, tier), "nodes of its NodePool carry the latter's name")
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


def _labelled(field: str, name: str, who: str) -> None:
    """Refuse a name that is too long for a label's value. Raises InputError."""
    if len(name) > MOST_LABEL:
        raise InputError(
            f"{field}: {name} has {len(name)} characters, and {who} in a label, whose value has {MOST_LABEL} at most; "
            "make the pool anew under a shorter name"
        )


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
    """A digest of what slots are asked to warm: another image, other weights or another volume for these make another
    one. What a tag stands for is known only of slots that have pulled it."""
    content = _digest([[model.name, model.image, model.weights] for model in spec.models])[:16]
    if spec.cache is None or all(model.weights is None for model in spec.models):
        return content
    return f"{content}{CACHE_AFTER}{_digest([spec.cache.host_path, spec.cache.claim])[:8]}"


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


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
    ref = tier.node_class_ref
    return PoolTier(
        name=tier.name,
        node_pool=spec.node_pool(pool, tier),
        sku=shape.sku,
        capacity_type=shape.capacity_type,
        zones=tier.zones,
        max_gpus=tier.limits.gpus,
        max_nodes=tier.limits.nodes,
        shape=tier.shape,
        instance_types=tier.instance_types,
        node_class="" if ref is None else f"{ref.group}/{ref.kind}/{ref.name}",
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
