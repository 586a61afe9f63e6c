"""Mooncake traces (Qin et al., FAST 2025): JSON lines `timestamp` (ms), `input_length`, `output_length`, `hash_ids`.

Enters: the file's content. Leaves: a `RequestLog`. The hashes of prefix blocks are checked and not used.
"""

import json
import math
from array import array
from pathlib import Path

import numpy as np

from autoscaler.errors import InputError
from autoscaler.sim.traces.requestlog import RequestLog
from autoscaler.sim.traces.table import bad_field, lines_of

REQUIRED = ("timestamp", "input_length", "output_length", "hash_ids")
WHAT = "a Mooncake trace"


def read(path: Path, content: bytes) -> RequestLog:
    """The requests in order; InputError naming line and field on a line that is not one of this format."""
    instants_ms, prompt, output = array("d"), array("d"), array("d")
    before_ms = 0.0
    for number, line in enumerate(lines_of(content, newline="\n"), start=1):
        if not line.strip():
            continue
        at_ms, given, generated = _request(path, number, line.removesuffix("\n"))
        if at_ms < before_ms:
            problem = f"goes backwards: the row before has {before_ms:g}; sort the file by timestamp"
            raise bad_field(path, number, "timestamp", at_ms, problem)
        before_ms = at_ms
        instants_ms.append(at_ms)
        prompt.append(given)
        output.append(generated)
    return RequestLog(
        path=path,
        arrival_s=np.array(instants_ms) / 1000.0,
        prompt_tokens=np.array(prompt),
        output_tokens=np.array(output),
    )


def _request(path: Path, number: int, line: str) -> tuple[float, float, float]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:  # a list in a list, thousands deep
        raise InputError(f"{path}: line {number}: not JSON ({error}); {WHAT} has {', '.join(REQUIRED)}") from error
    if not isinstance(fields, dict):
        raise InputError(f"{path}: line {number}: a JSON {type(fields).__name__} where an object is expected")
    for field in REQUIRED:
        if field not in fields:
            raise InputError(f"{path}: line {number}: no field {field!r}, which {WHAT} needs")
    unknown = sorted(set(fields) - set(REQUIRED))
    if unknown:
        raise InputError(f"{path}: line {number}: unknown field {unknown[0]!r}; {WHAT} has {', '.join(REQUIRED)}")
    hashes = fields["hash_ids"]
    if not isinstance(hashes, list) or not all(type(block) is int for block in hashes):
        raise bad_field(path, number, "hash_ids", hashes, "is not a list of whole numbers")
    timestamp = _number(path, number, "timestamp", fields["timestamp"], whole=False)
    prompt = _number(path, number, "input_length", fields["input_length"], whole=True)
    return timestamp, prompt, _number(path, number, "output_length", fields["output_length"], whole=True)


def _number(path: Path, line: int, field: str, value: object, *, whole: bool) -> float:
    kind = "a whole number" if whole else "a number"
    # JSON's true would pass as 1, and its NaN and Infinity as floats.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_field(path, line, field, value, f"is not a number; it must be {kind}, 0 or more")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0 or (whole and number != int(number)):
        raise bad_field(path, line, field, value, f"cannot be used; it must be {kind}, finite and 0 or more")
    return number
