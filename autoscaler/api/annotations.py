"""The policy that a workload carries as annotations.

Enters: the annotations of an object. Leaves: a policy without target (it is the object itself), None where nobody
asked for scaling, or an InputError naming annotation, value and legal range. Every field of `ScalingPolicySpec` but the
target is an annotation in kebab-case; a field of `slo` has its owner's name before it, and `events` is a JSON list.
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

PREFIX: Final = "headroom.dev/"
SCALE: Final = PREFIX + "scale"

_NUMBER: Final = re.compile(r"-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?")


def read_annotations(annotations: Mapping[str, str]) -> ScalingPolicySpec | None:
    """The policy in an object's annotations; None without ``headroom.dev/scale: "true"``.

    Raises InputError for the first fault, unknown annotations of ours among them.
    """
    scale = annotations.get(SCALE, "false")
    if scale not in {"true", "false"}:
        raise InputError(f'{SCALE}: {shown(scale)} is neither; it must be "true" or "false"')
    if scale == "false":
        return None
    given: dict[str, Any] = {}
    for key, text in sorted(annotations.items()):
        if key.startswith(PREFIX) and key != SCALE:
            place = _place(key)
            owner = given.setdefault(place.owner, {}) if place.owner else given
            owner[place.field] = _value(key, text, place.form)
    try:
        spec = ScalingPolicySpec.model_validate(given)
    except ValidationError as error:
        raise InputError(_message(first_fault(error, ScalingPolicySpec, Spelling.KEBAB))) from error
    try:
        compile_params(spec)
    except InputError as error:
        raise InputError(respelled(str(error), ScalingPolicySpec, Spelling.KEBAB).replace("policy.", PREFIX)) from error
    return spec


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the value of an annotation belongs in the model, in kebab-case, and the form it has there."""

    owner: str | None
    field: str
    form: dict[str, Any]


@cache
def _places() -> dict[str, _Place]:
    """Every annotation, without its prefix."""
    forms = schema_of(ScalingPolicySpec)["$defs"]
    spec = forms["ScalingPolicySpec"]
    places: dict[str, _Place] = {}
    for name in spec["properties"].keys() - {"target_ref"}:
        form = descend(spec, name, forms)
        key = Spelling.KEBAB.of(name, form)
        if "properties" not in form:
            places[key] = _Place(None, key, form)
        for inner in form.get("properties", ()):
            inner_form = descend(form, inner, forms)
            inner_key = Spelling.KEBAB.of(inner, inner_form)
            places[f"{key}-{inner_key}"] = _Place(key, inner_key, inner_form)
    return dict(sorted(places.items()))


def _place(key: str) -> _Place:
    places = _places()
    name = key.removeprefix(PREFIX)
    if name in places:
        return places[name]
    near = difflib.get_close_matches(name.lower().replace("_", "-"), places, n=1, cutoff=0.6)
    remedy = f"did you mean {PREFIX}{near[0]}?" if near else f"known are {', '.join(places)}"
    raise InputError(f"{key}: unknown annotation; {remedy}")


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


def _message(fault: FieldFault) -> str:
    """A fault under the annotation's name; one that joins several fields begins with a field's name itself."""
    names = [part for part in fault.path[:2] if isinstance(part, str)]
    if not names:
        return PREFIX + fault.text
    return FieldFault(fault.path[len(names) :], fault.text).after(PREFIX + "-".join(names))
