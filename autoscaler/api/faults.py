"""What an error message says of a faulty JSON value: where it stands, what it is, what it must be.

Enters: the text, and what the decoder said of it. Leaves: one sentence; nothing here raises.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

_KINDS: Final = {
    "int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "null",
}  # fmt: skip


def shown(value: object) -> str:
    """A value as an error message repeats it, in JSON's own words and cut to a readable length."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 77 digits"  # Python refuses to print the longest ones
    text = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def worded(key: str, raw: bytes, message: str) -> str:
    """A decoder's message ("Expected `float | null`, got `str` - at `$[0].waiting`") with field, value and remedy.

    `raw` is the JSON of the part `key`, in which the message's path begins.
    """
    what, _, at = message.partition(" - at `$")
    at = at.rstrip("`")
    path = key + at
    if name := re.search(r"unknown field `(.*)`", what):
        return f"{path}.{name[1]}: unknown field; leave it out"
    if name := re.search(r"missing required field `(.*)`", what):
        return f"{path}.{name[1]}: missing; it must be given"
    value = _value_at(raw, at)
    if wanted := re.search(r"Expected `([^`]*)`, got", what):
        kinds = " or ".join(_KINDS.get(kind, kind) for kind in wanted[1].split(" | "))
        return f"{path}: {value} is of another type; it must be {kinds}"
    if limit := re.search(r"Expected `\w+` (of length )?(>=|<=) (\S+)", what):
        side = "at least" if limit[2] == ">=" else "at most"
        unit = " characters long" if limit[1] else ""
        return f"{path}: {value} is out of range; it must be {side} {float(limit[3]):.15g}{unit}"
    if "out of range" in what:
        return f"{path}: {value} is out of range; it must be a number that a computer's float can hold"
    return f"{path}: {what}; give UTF-8 JSON"


def not_json(text: bytes, error: Exception) -> str:
    """What makes a line no JSON: a NaN or an infinity with its field, else the parser's own words."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return f"not JSON: {error}; give one JSON object per line"
    for path, number in _not_finite(value, ""):
        return f"{path}: {number} is no finite number; give a number or null"
    return f"not JSON: {error}; give one JSON object per line"


def _value_at(raw: bytes, path: str) -> str:
    """The value at a path such as `[0].waiting`, as an error message shows it."""
    try:
        value = json.loads(raw)
        for index, name in re.findall(r"\[(\d+)\]|\.(\w+)", path):
            value = value[int(index)] if index else value[name]
    except (ValueError, RecursionError, TypeError, LookupError):  # no JSON, or a key that is given twice
        return "the value"
    return shown(value)


def _not_finite(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _not_finite(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_finite(item, f"{path}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, value
