"""The one model of a scaling policy, however it is spelled, and its compilation into the core's parameters.

Ranges stand here for people and schemas; rules that join several fields are the core's own
(`autoscaler.core.params.Params`) and are applied by `compile_params`.
"""

from typing import Annotated, Final, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from autoscaler.api.model import Instant, Model, cel, instant_spellings
from autoscaler.api.model_faults import first_fault
from autoscaler.core.params import KnownEvent, Params
from autoscaler.core.params import Slo as CoreSlo
from autoscaler.errors import InputError

DEFAULTS: Final = Params()
MOST_REPLICAS: Final = 100_000
MOST_EVENTS: Final = 100
MOST_IDLE_S: Final = 1e11


def _whole(value: object) -> object:
    """3.0 is a whole number; programs that count in floats write it so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(ge=0, le=MOST_REPLICAS), BeforeValidator(_whole)]
PositiveCount = Annotated[int, Field(ge=1, le=MOST_REPLICAS), BeforeValidator(_whole)]
ObjectiveSeconds = Annotated[float, Field(ge=0.001, le=3600)]


class Slo(Model):
    """The latency objective in seconds; at least one of the three is given, and the first one given binds."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("has(self.waitS) || has(self.ttftS) || has(self.tpotS)", "no objective; give one of waitS, ttftS, tpotS")
        )
    )

    wait_s: ObjectiveSeconds | None = None
    """How long a request may wait for a free slot, in seconds (0.001..3600)."""
    ttft_s: ObjectiveSeconds | None = None
    """Time from a request's arrival to its first token, in seconds (0.001..3600)."""
    tpot_s: ObjectiveSeconds | None = None
    """Time per output token after the first, in seconds (0.001..3600)."""

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if self.wait_s is None and self.ttft_s is None and self.tpot_s is None:
            raise ValueError("no objective; give one of wait_s, ttft_s, tpot_s")
        return self


class Event(Model):
    """A known event: a window of time in which a floor or a ceiling in replicas is wanted."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("self.from < self.to", "from is not before to; give a window that ends later"),
            ("has(self.floor) || has(self.ceiling)", "no floor and no ceiling; give one of them"),
            (
                "!has(self.floor) || !has(self.ceiling) || self.floor <= self.ceiling",
                "floor is above ceiling; lower the floor",
            ),
        )
    )

    from_s: Annotated[Instant, Field(validation_alias=instant_spellings("from_s"))]
    """When the window begins: a date and time with offset, such as 2026-11-28T08:00:00+01:00."""
    to_s: Annotated[Instant, Field(validation_alias=instant_spellings("to_s"))]
    """When the window has ended; later than its beginning."""
    floor: Count | None = None
    """At least this many replicas within the window, maxReplicas and the GPU budget permitting."""
    ceiling: Count | None = None
    """At most this many replicas within the window."""

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if not self.from_s < self.to_s:
            raise ValueError(
                f"from_s {self.from_s:.15g} is not before to_s {self.to_s:.15g}; give a window that ends later"
            )
        if self.floor is None and self.ceiling is None:
            raise ValueError("no floor and no ceiling; give one of them")
        if self.floor is not None and self.ceiling is not None and self.floor > self.ceiling:
            raise ValueError(f"floor {self.floor} is above ceiling {self.ceiling}; lower the floor")
        return self


Events = Annotated[
    tuple[Event, ...],
    Field(
        strict=False, max_length=MOST_EVENTS, json_schema_extra={"legal": f"a list of windows, at most {MOST_EVENTS}"}
    ),
]


class Policy(Model):
    """What a workload's owner allows and aims for; what is left out keeps the core's default."""

    min_replicas: Count = DEFAULTS.min_replicas
    """The floor in replicas; 0 lets the workload go to zero, which needs a signal that lives at zero (a gateway)."""
    max_replicas: PositiveCount = DEFAULTS.max_replicas
    """The most replicas there may ever be."""
    slo: Slo = Slo(wait_s=DEFAULTS.slo.wait_s)
    """The latency objective: at least one of waitS, ttftS, tpotS. Left out, a request may wait 10 s."""
    tick_s: Annotated[float, Field(ge=0.2, le=300)] = DEFAULTS.tick_s
    """The longest time between two decisions, in seconds (0.2..300); news is acted on at once."""
    warmup_prior_s: Annotated[float, Field(gt=0, le=7200)] | None = None
    """How long a new replica takes to serve, in seconds (up to 7200), until it has been measured."""
    target_ratio: Annotated[float, Field(ge=0.5, lt=1)] = DEFAULTS.target_ratio
    """The share of requests that shall meet the objective (0.5 up to, not including, 1)."""
    idle_after_s: Annotated[float, Field(gt=0, le=MOST_IDLE_S)] = DEFAULTS.idle_after_s
    """How long a workload without work keeps its GPUs, in seconds, where the floor lets it give them up."""
    events: Events = ()
    """Known events: windows of time with a floor or a ceiling."""


def read_policy(raw: object, *, base: Policy | None = None) -> Policy:
    """The policy in a decoded JSON object; fields it does not name stay as in `base`.

    Raises InputError naming field, value and legal range for the first fault.
    """
    try:
        given = Policy.model_validate(raw)
    except ValidationError as error:
        raise InputError(first_fault(error, Policy).after("policy")) from error
    if base is None:
        return given
    return base.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def compile_params(policy: Policy) -> Params:
    """The core's parameters for a policy. Raises InputError where fields contradict each other."""
    try:
        return Params(
            min_replicas=policy.min_replicas,
            max_replicas=policy.max_replicas,
            slo=CoreSlo(policy.slo.wait_s, policy.slo.ttft_s, policy.slo.tpot_s),
            tick_s=policy.tick_s,
            warmup_prior_s=policy.warmup_prior_s,
            target_ratio=policy.target_ratio,
            idle_after_s=policy.idle_after_s,
            events=tuple(KnownEvent(e.from_s, e.to_s, e.floor, e.ceiling) for e in policy.events),
        )
    except ValueError as error:
        raise InputError(str(error)) from error
