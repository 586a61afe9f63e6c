"""What an error message says of a field that a model refuses: where it stands, what it is, what it must be.

Enters: pydantic's error and the model. Leaves: the place and one sentence; nothing here raises. The legal range is
read from the model's own schema, so that it cannot differ from what is checked; a type whose range is not a span of
numbers or a closed set says it in its schema's `legal`.
"""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from autoscaler.api.faults import shown
from autoscaler.api.model import instant_spellings, spellings
from autoscaler.api.schema import Spelling, descend, resolved, schema_of


@dataclass(frozen=True, slots=True)
class FieldFault:
    """The first fault of a value: `path` in the user's spelling, numbers for places in lists."""

    path: tuple[int | str, ...]
    text: str

    def after(self, root: str) -> str:
        """The whole message, the path hung on the name of the value it begins in."""
        return root + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path) + f": {self.text}"


def first_fault(error: ValidationError, model: type[BaseModel], spelling: Spelling = Spelling.SNAKE) -> FieldFault:
    """The first fault that `model` found."""
    fault = error.errors(include_url=False)[0]
    path: list[int | str] = []
    forms = schema_of(model)["$defs"]
    owner = form = forms[model.__name__]
    field: str | None = None
    is_key = fault["loc"][-1:] == ("[key]",)
    for part in fault["loc"][:-1] if is_key else fault["loc"]:
        owner, field = form, _field(part, form, forms)
        form = descend(form, part if field is None else field, forms)
        path.append(part)
    if is_key:
        form = owner.get("propertyNames", {})
    kind, given = fault["type"], shown(fault["input"])
    if kind == "value_error":
        return FieldFault(tuple(path), respelled(str(fault["ctx"]["error"]), model, spelling))
    if kind == "missing" and field is not None:
        path[-1] = spelling.of(field, form)
    if kind == "extra_forbidden" and field is not None:
        return FieldFault(tuple(path), f"given twice, also as another spelling of {field}; give it once")
    if kind == "extra_forbidden":
        return FieldFault(tuple(path), f"unknown field; known are {_names(owner, forms, spelling)}")
    if kind == "missing":
        return FieldFault(tuple(path), f"missing; it must be {legal(form)}")
    if "properties" in form:
        return FieldFault(tuple(path), f"{given} is no object; give one with {_names(form, forms, spelling)}")
    return FieldFault(tuple(path), f"{given} is out of range; it must be {legal(form)}")


def _field(part: int | str, form: dict[str, Any], forms: dict[str, Any]) -> str | None:
    """The field of an object that `part` names in any spelling."""
    for name, item in form.get("properties", {}).items():
        is_instant = resolved(item, forms).get("format") == "date-time"
        if part in (instant_spellings(name) if is_instant else spellings(name)).choices:
            return str(name)
    return None


def respelled(text: str, model: type[BaseModel], spelling: Spelling) -> str:
    """A sentence that speaks of fields by their names in Python, in the user's spelling."""
    forms = schema_of(model)["$defs"]
    fields = {name: item for form in forms.values() for name, item in form.get("properties", {}).items()}

    def user_name(found: re.Match[str]) -> str:
        name = found[0]
        return spelling.of(name, resolved(fields[name], forms)) if name in fields else name

    return re.sub(r"\b[a-z]+(_[a-z]+)+\b", user_name, text)


def _names(form: dict[str, Any], forms: dict[str, Any], spelling: Spelling) -> str:
    fields = form.get("properties", {}).items()
    return ", ".join(spelling.of(name, resolved(item, forms)) for name, item in fields)


def legal(form: dict[str, Any]) -> str:
    """The legal range of a field in words, such as "a whole number, 0..100000" or "one of critical, normal"."""
    if "legal" in form:
        return str(form["legal"])
    if "enum" in form:
        return f"one of {', '.join(form['enum'])}"
    if form.get("format") == "date-time":
        return "a date and time with offset such as 2026-11-28T08:00:00+01:00, or a number of seconds"
    match form.get("type"):
        case "integer":
            return f"a whole number, {_span(form)}"
        case "number":
            return f"a number, {_span(form)}"
        case "array":
            return f"a list of {form.get('minItems', 0)}..{form['maxItems']}" if "maxItems" in form else "a list"
        case "string" if "maxLength" in form:
            return f"a text of {form.get('minLength', 0)}..{form['maxLength']} characters"
        case kind:
            return {"object": "an object", "boolean": "true or false"}.get(str(kind), "a text")


def _span(form: dict[str, Any]) -> str:
    unit = " s" if form.get("title", "").endswith(" S") else ""
    if "minimum" in form and "maximum" in form:
        return f"{form['minimum']:.10g}..{form['maximum']:.10g}{unit}"
    low = f"at least {form['minimum']:.10g}" if "minimum" in form else f"above {form['exclusiveMinimum']:.10g}"
    if "maximum" in form:
        return f"{low} and at most {form['maximum']:.10g}{unit}"
    if "exclusiveMaximum" in form:
        return f"{low} and below {form['exclusiveMaximum']:.10g}{unit}"
    return f"{low}{unit}"
