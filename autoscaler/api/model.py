"""What all models of users' input share: strict types, three spellings of every field, instants.

A field is snake_case in Python and JSON lines, camelCase in custom resources and trigger metadata, kebab-case in
annotations; all three are read everywhere. A docstring below a field is what a reader of the schema is shown.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

MOST_INSTANT_S: Final = 1e11
"""Instants lie within 3,000 years of their origin: epoch seconds do, epoch milliseconds (1.7e12) do not."""

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


def spellings(name: str) -> AliasChoices:
    """Every spelling of a field: snake_case, camelCase, kebab-case."""
    return AliasChoices(name, to_camel(name), name.replace("_", "-"))


def instant_spellings(name: str) -> AliasChoices:
    """Every spelling of a field of `Instant`: with its unit, and without, as custom resources and annotations have it.

    The name with its unit stands first: error messages and schemas speak of it.
    """
    plain = name.removesuffix("_s")
    return AliasChoices(name, plain, *(str(c) for c in (*spellings(name).choices[1:], *spellings(plain).choices[1:])))


class Model(BaseModel):
    """The base of every model of users' input: frozen, unknown fields refused, no guessing of types."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        alias_generator=AliasGenerator(validation_alias=spellings),
    )


def spelled(pattern: str, most: int, legal: str) -> Any:
    """The constraints of a text: its pattern, its greatest length, and what is legal in words."""
    return Field(pattern=pattern, max_length=most, json_schema_extra={"legal": legal})


def cel(*rules: tuple[str, str]) -> dict[str, JsonValue]:
    """Rules that join fields, each as an expression for the API server and what it says when the rule is broken.

    The model's own validators refuse the same; the server says it earlier, to the person who is writing.
    """
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


def _seconds(value: object) -> object:
    """The epoch seconds of a date and time with offset; anything else is left for the model to judge."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value.upper()):
        return value
    try:
        return datetime.fromisoformat(value.upper()).timestamp()
    except ValueError:  # no such day, hour or offset
        return value


Instant = Annotated[
    float,
    Field(ge=-MOST_INSTANT_S, le=MOST_INSTANT_S),
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Seconds in the time of the readings; live, that is since 1970, and a date and time with offset is read as such."""
