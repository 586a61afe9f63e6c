"""The schema of a model of users' input, to be walked: by messages, by annotations, by the custom resource.

Names in it are Python's; `Spelling` gives the user's. A type may say its legal range in words under `legal`, where that
is neither a span of numbers nor a closed set.
"""

from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel


class Spelling(Enum):
    """How a user spells a field; an instant has its unit in Python and JSON lines only."""

    SNAKE = "snake_case"
    CAMEL = "camelCase"
    KEBAB = "kebab-case"

    def of(self, name: str, form: dict[str, Any]) -> str:
        """The user's name of a field, from its name in Python and its schema."""
        if self is Spelling.SNAKE:
            return name
        plain = name.removesuffix("_s") if form.get("format") == "date-time" else name
        return to_camel(plain) if self is Spelling.CAMEL else plain.replace("_", "-")


@cache
def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The model's schema under its names in Python, itself among its `$defs`."""
    schema = model.model_json_schema(by_alias=False)
    return {"$defs": {**schema.pop("$defs", {}), model.__name__: schema}}


def resolved(form: dict[str, Any], forms: dict[str, Any]) -> dict[str, Any]:
    """A form without reference and without null; what stands beside a reference, such as a description, wins."""
    rest = {key: value for key, value in form.items() if key not in {"anyOf", "$ref"}}
    if "anyOf" in form:
        (value,) = (option for option in form["anyOf"] if option != {"type": "null"})
        return resolved(value, forms) | rest
    if "$ref" in form:
        return resolved(forms[form["$ref"].removeprefix("#/$defs/")], forms) | rest
    return form


def descend(form: dict[str, Any], part: int | str, forms: dict[str, Any]) -> dict[str, Any]:
    """The form of one part of a value: a field, an item of a list, a value of a map; empty where there is none."""
    if isinstance(part, int):
        inner = form.get("items", {})
    else:
        values: dict[str, Any] = next(iter(form.get("patternProperties", {}).values()), {})
        inner = form.get("properties", {}).get(part, values)
    return resolved(inner, forms)


def custom_resource(model: BaseModel) -> dict[str, Any]:
    """A model as it stands in a custom resource: camelCase, instants as dates, nothing that is None."""
    forms = schema_of(type(model))["$defs"]
    found = _written(model.model_dump(mode="json", exclude_none=True), forms[type(model).__name__], forms)
    assert isinstance(found, dict)
    return found


def _written(value: Any, form: dict[str, Any], forms: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        inner = {name: descend(form, name, forms) for name in value}
        return {Spelling.CAMEL.of(n, inner[n]): _written(item, inner[n], forms) for n, item in value.items()}
    if isinstance(value, list):
        return [_written(item, descend(form, 0, forms), forms) for item in value]
    if form.get("format") == "date-time":
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return value
