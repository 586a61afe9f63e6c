"""Mooncake traces (Qin et al., FAST 2025): JSON lines `timestamp` (ms), `input_length`, `output_length`, `hash_ids`.

Enters: the file's text. Leaves: a `RequestLog`. The hashes of prefix blocks are checked and not used.
"""

import json
import math
from pathlib import Path

import numpy as np

from autoscaler.errors import InputError
from autoscaler.sim.traces.requestlog import RequestLog
from autoscaler.sim.traces.table import bad_field

REQUIRED = ("timestamp", "input_length", "output_length", "hash_ids")
WHAT = "a Mooncake trace"


def read(path: Path, text: str) -> RequestLog:
    """The requests in order; InputError naming line and field on a line that is not one of this format."""
    rows: list[tuple[float, float, float]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        row = _request(path, number, line)
        if rows and row[0] < rows[-1][0]:
            problem = f"goes backwards: the row before has {rows[-1][0]:g}; sort the file by timestamp"
            raise bad_field(path, number, "timestamp", row[0], problem)
        rows.append(row)
    columns = np.array(rows, dtype=np.float64)
    return RequestLog(
        path=path, arrival_s=columns[:, 0] / 1000.0, prompt_tokens=columns[:, 1], output_tokens=columns[:, 2]
    )


def _request(path: Path, number: int, line: str) -> tuple[float, float, float]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise InputError(f"{path}: line {number}: not JSON ({error})") from error
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
