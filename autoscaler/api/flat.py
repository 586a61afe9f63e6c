"""A policy written as flat texts: as annotations, and as the metadata of a KEDA trigger.

Enters: names and texts, and how they are spelled. Leaves: a policy without target (whoever carries the texts names it),
or an InputError naming key, value and legal range. Every field of `ScalingPolicySpec` is one key; a field of `slo` or
`metrics` has its owner's name before it, and `events` is a JSON list.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from autoscaler.api.faults import shown
from autoscaler.api.model_faults import FieldFault, first_fault, legal, respelled
from autoscaler.api.policy import compile_params
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.api.schema import Spelling, descend, schema_of
from autoscaler.errors import InputError

LONGEST: Final = 80
"""Characters of an unknown key that a message repeats."""

_NUMBER: Final = re.compile(r"-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a policy as texts."""

    noun: str
    """What one of its keys is called in messages."""
    prefix: str
    """What stands before every key in messages."""
    spelling: Spelling
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Fields that are not among the texts, by their names in Python, each with where it stands instead."""
    beside: tuple[str, ...] = ()
    """Keys that others read, so that a misspelled one is recognised."""


def read_flat(texts: Mapping[str, str], form: Form, given: Mapping[str, Any] | None = None) -> ScalingPolicySpec:
    """The policy in `texts`, whose names are without the form's prefix; `given` are fields that stand elsewhere.

    Raises InputError for the first fault, unknown keys among them.
    """
    found: dict[str, Any] = dict(given or {})
    for name, text in sorted(texts.items()):
        place = _place(name, form)
        owner = found.setdefault(place.owner, {}) if place.owner else found
        owner[place.field] = _value(form.prefix + name, text, place.form)
    try:
        spec = ScalingPolicySpec.model_validate(found)
    except ValidationError as error:
        raise InputError(_message(first_fault(error, ScalingPolicySpec, form.spelling), form)) from error
    try:
        compile_params(spec)
    except InputError as error:
        words = respelled(str(error), ScalingPolicySpec, form.spelling)
        raise InputError(words.replace("policy.", form.prefix)) from error
    return spec


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the value of a key belongs in the model, in the user's spelling, and the form it has there."""

    owner: str | None
    field: str
    form: dict[str, Any]


@cache
def _places(form: Form) -> dict[str, _Place]:
    """Every key, without its prefix."""
    forms = schema_of(ScalingPolicySpec)["$defs"]
    spec = forms["ScalingPolicySpec"]
    places: dict[str, _Place] = {}
    for name in spec["properties"].keys() - {"target_ref", *dict(form.elsewhere)}:
        schema = descend(spec, name, forms)
        key = form.spelling.of(name, schema)
        if "properties" not in schema:
            places[key] = _Place(None, key, schema)
        for inner in schema.get("properties", ()):
            inner_schema = descend(schema, inner, forms)
            inner_key = form.spelling.of(inner, inner_schema)
            places[_joined(key, inner_key, form.spelling)] = _Place(key, inner_key, inner_schema)
    return dict(sorted(places.items()))


def _joined(owner: str, field: str, spelling: Spelling) -> str:
    return f"{owner}-{field}" if spelling is Spelling.KEBAB else owner + field[0].upper() + field[1:]


def _place(name: str, form: Form) -> _Place:
    places = _places(form)
    if name in places:
        return places[name]
    for field, where in form.elsewhere:
        if name == form.spelling.of(field, {}):
            raise InputError(f"{form.prefix}{name}: not read here; {where}")
    known = [*places, *form.beside]
    if len(name) > LONGEST:
        name = f"{name[:LONGEST]}..."
    folded = name.lower().replace("_", "-") if form.spelling is Spelling.KEBAB else name
    near = difflib.get_close_matches(folded, known, n=1, cutoff=0.6)
    remedy = f"did you mean {form.prefix}{near[0]}?" if near else f"known are {', '.join(sorted(known))}"
    raise InputError(f"{form.prefix}{name}: unknown {form.noun}; {remedy}")


def _value(key: str, text: str, form: dict[str, Any]) -> object:
    """The value that a text stands for; a text that does not fit its field stays one, for the model to refuse."""
    if form.get("type") in {"integer", "number"}:
        if not _NUMBER.fullmatch(text):
            return text
        return float(text) if set(text) & set(".eE") else int(text)
    if form.get("type") == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if form.get("type") != "array":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{key}: {shown(text)} is no JSON ({error}); it must be {legal(form)}") from error


def _message(fault: FieldFault, form: Form) -> str:
    """A fault under its key's name; one that joins several fields begins with a field's name itself."""
    names = [part for part in fault.path[:2] if isinstance(part, str)]
    if not names:
        return form.prefix + fault.text
    key = names[0] if len(names) == 1 else _joined(names[0], names[1], form.spelling)
    return FieldFault(fault.path[len(names) :], fault.text).after(form.prefix + key)
