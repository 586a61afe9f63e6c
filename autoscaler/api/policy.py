"""The one model of a scaling policy, however it is spelled, and its compilation into the core's parameters.

Field names are snake_case in Python and JSON lines, camelCase in custom resources and trigger metadata, kebab-case in
annotations; all three are read everywhere. Ranges stand here for people and schemas; rules that join several fields
are the core's own (`autoscaler.core.params.Params`) and are applied by `compile_params`.
"""

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Final, Self

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from autoscaler.api.faults import shown
from autoscaler.core.params import KnownEvent, Params
from autoscaler.core.params import Slo as CoreSlo
from autoscaler.errors import InputError

DEFAULTS: Final = Params()
MOST_REPLICAS: Final = 100_000
MOST_INSTANT_S: Final = 1e11
"""Instants lie within 3,000 years of their origin: epoch seconds do, epoch milliseconds (1.7e12) do not."""


def spellings(name: str) -> AliasChoices:
    """Every spelling of a field: snake_case, camelCase, kebab-case."""
    return AliasChoices(name, to_camel(name), name.replace("_", "-"))


def _whole(value: object) -> object:
    """3.0 is a whole number; programs that count in floats write it so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(ge=0, le=MOST_REPLICAS), BeforeValidator(_whole)]
PositiveCount = Annotated[int, Field(ge=1, le=MOST_REPLICAS), BeforeValidator(_whole)]
ObjectiveSeconds = Annotated[float, Field(ge=0.001, le=3600)]
Instant = Annotated[float, Field(ge=-MOST_INSTANT_S, le=MOST_INSTANT_S)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        alias_generator=AliasGenerator(validation_alias=spellings),
    )


class Slo(_Model):
    """The latency objective in seconds: a wait in the queue, a time to first token, a time per output token."""

    wait_s: ObjectiveSeconds | None = None
    ttft_s: ObjectiveSeconds | None = None
    tpot_s: ObjectiveSeconds | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if self.wait_s is None and self.ttft_s is None and self.tpot_s is None:
            raise ValueError("no objective; give one of wait_s, ttft_s, tpot_s")
        return self


class Event(_Model):
    """A known event: from `from_s` up to `to_s`, in the time of the readings, a floor or a ceiling in replicas."""

    from_s: Instant
    to_s: Instant
    floor: Count | None = None
    ceiling: Count | None = None

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if not self.from_s < self.to_s:
            raise ValueError(f"from_s {self.from_s:g} is not before to_s {self.to_s:g}; give a window that ends later")
        if self.floor is None and self.ceiling is None:
            raise ValueError("no floor and no ceiling; give one of them")
        if self.floor is not None and self.ceiling is not None and self.floor > self.ceiling:
            raise ValueError(f"floor {self.floor} is above ceiling {self.ceiling}; lower the floor")
        return self


class Policy(_Model):
    """What a workload's owner allows and aims for; what is left out keeps the core's default."""

    min_replicas: Count = DEFAULTS.min_replicas
    max_replicas: PositiveCount = DEFAULTS.max_replicas
    slo: Slo = Slo(wait_s=DEFAULTS.slo.wait_s)
    tick_s: Annotated[float, Field(ge=0.2, le=300)] = DEFAULTS.tick_s
    warmup_prior_s: Annotated[float, Field(gt=0, le=7200)] | None = None
    target_ratio: Annotated[float, Field(ge=0.5, lt=1)] = DEFAULTS.target_ratio
    idle_after_s: Annotated[float, Field(gt=0, le=MOST_INSTANT_S)] = DEFAULTS.idle_after_s
    events: Annotated[tuple[Event, ...], Field(strict=False)] = ()


def read_policy(raw: object, *, base: Policy | None = None) -> Policy:
    """The policy in a decoded JSON object; fields it does not name stay as in `base`.

    Raises InputError naming field, value and legal range for the first fault.
    """
    try:
        given = Policy.model_validate(raw)
    except ValidationError as error:
        raise InputError(_message(error.errors(include_url=False)[0])) from error
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


def _message(fault: ErrorDetails) -> str:
    path = "policy" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
    kind, given = fault["type"], fault["input"]
    model, legal = _place(fault["loc"])
    if kind == "extra_forbidden":
        return f"{path}: unknown field; known are {', '.join(model.model_fields)}"
    if kind == "missing":
        return f"{path}: missing; it must be {legal}"
    if kind == "value_error":
        return f"{path}: {fault['ctx']['error']}"
    if kind in {"model_type", "model_attributes_type"}:
        return f"{path}: {shown(given)} is no object; give one with {', '.join(model.model_fields)}"
    return f"{path}: {shown(given)} is out of range; it must be {legal}"


def _place(loc: Iterable[int | str]) -> tuple[type[_Model], str]:
    """The model that `loc` ends in, and the legal range of its last field in words."""
    model: type[_Model] = Policy
    legal = "an object"
    for part in loc:
        if isinstance(part, int):
            model, legal = Event, "an object"
        elif part in model.model_fields:
            legal = _legal(part, model)
            model = Slo if part == "slo" else model
    return model, legal


@cache
def _legal(name: str, model: type[_Model]) -> str:
    """The range of one field in words, such as "a whole number, 0..100000" or "a number, at least 0.5 and below 1"."""
    form = model.model_json_schema()["properties"][name]
    form = form.get("anyOf", [form])[0]
    if "$ref" in form or form["type"] == "array":
        return "an object" if "$ref" in form else "a list of windows"
    unit = " s" if name.endswith("_s") else ""
    if "minimum" in form and "maximum" in form:
        span = f"{form['minimum']:.10g}..{form['maximum']:.10g}"
    else:
        low = f"at least {form['minimum']:.10g}" if "minimum" in form else f"above {form['exclusiveMinimum']:.10g}"
        high = f"at most {form['maximum']:.10g}" if "maximum" in form else f"below {form['exclusiveMaximum']:.10g}"
        span = f"{low} and {high}"
    return f"{'a whole number' if form['type'] == 'integer' else 'a number'}, {span}{unit}"
