"""How fast an engine is: what a step of its batch takes, by the prompt tokens and the decoding requests in it.

Enters: a CSV of measured latencies, one row per measurement, found by column name. Leaves: a `Speed`. It knows nothing
of requests, sockets or memory in use.

Between two measured points a curve is a power law, and the last one goes on beyond the last point. The prompts of one
step cost what one prompt of their total length does. A step reads the weights once: of a step that computes prompts and
decodes, the smaller of the prompts' time and of a lone decode is saved, so that a short prompt rides along.
"""

import csv
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from autoscaler.errors import InputError

BUILT_IN = Path(__file__).parent / "profiles" / "llama2-70b-h100x4.csv"
"""Llama 2 70B on four H100: Patel et al., Splitwise, ISCA 2024; Mutinifni/splitwise-sim @ 8f99e7dc9b40,
data/perf_model.csv (MIT), medians over repeats."""

KV_TOKENS = 457_000
"""What is left of four times 80 GB at a use of 0.9 beside 138 GB of weights, at 328 kB a token (80 layers, 8 key-value
heads of 128, two bytes)."""

STEP_TOKENS = 2048
"""Tokens of one step: a common setting of vLLM's max_num_batched_tokens."""

BLOCK_TOKENS = 16
"""Memory is held in blocks of so many tokens: vLLM's default."""

_COLUMNS = ("model", "gpu_model", "tp", "prompt_tokens", "batch", "prefill_ms", "tpot_ms")

Points = tuple[tuple[int, float], ...]


class Curve:
    """Seconds over a count, never descending. Below the first point it keeps that point's time; 0 at nothing."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self._counts = [count for count, _ in points]

    def at(self, count: float) -> float:
        """Seconds for `count`; 0.0 for none."""
        first, first_s = self.points[0]
        if count <= first:
            return first_s if count > 0 else 0.0
        if len(self.points) == 1:
            return first_s
        above = min(bisect_left(self._counts, count), len(self.points) - 1)
        (low, low_s), (high, high_s) = self.points[above - 1], self.points[above]
        exponent = math.log(high_s / low_s) / math.log(high / low)
        return low_s * math.exp(exponent * math.log(count / low))


@dataclass(frozen=True, slots=True)
class Speed:
    """One engine's speed and the bounds of its batch."""

    name: str
    prefill: Curve
    """Seconds by tokens of a lone prompt."""
    decode: Curve
    """Seconds of one step by requests that get a token in it."""
    slots: int
    kv_tokens: int
    step_tokens: int = STEP_TOKENS

    def step_s(self, prompts: Sequence[tuple[int, int]], decoding: int) -> float:
        """Seconds of a step that computes `prompts`, each (tokens computed before, tokens now), beside decoding."""
        decode_s = self.decode.at(decoding)
        if not prompts:
            return decode_s
        begin = prompts[0][0]
        prompt_s = self.prefill.at(begin + sum(tokens for _, tokens in prompts)) - self.prefill.at(begin)
        return prompt_s + decode_s - min(prompt_s, self.decode.at(1)) if decoding else prompt_s


def read_speed(
    path: Path, *, only: str | None = None, slots: int | None = None, kv_tokens: int | None = None,
    step_tokens: int = STEP_TOKENS,
) -> Speed:  # fmt: skip
    """The engine of a file; `only` is MODEL/GPU/TP where the file has several.

    The prompts' curve is taken from rows with batch 1, the decoding curve from the median of each batch; where noise
    makes a curve fall, the slower point stands. Slots are the largest batch measured unless given. A file other than
    the built-in one says nothing of memory: `kv_tokens` is then needed. InputError names file, line, field and value.
    """
    rows = [row for row in _rows(path) if only is None or row[0] == only]
    names = sorted({row[0] for row in rows})
    if len(names) != 1:
        offers = "; ".join(sorted({row[0] for row in _rows(path)}))
        raise InputError(f"{path}: choose one engine with --engine MODEL/GPU/TP; it has {offers}")
    if kv_tokens is None and path != BUILT_IN:
        raise InputError(f"{path}: a profile says nothing of memory; give --kv-tokens, what the KV cache holds")
    if kv_tokens is not None and kv_tokens < BLOCK_TOKENS:
        raise InputError(f"--kv-tokens is {kv_tokens}; the KV cache is held in blocks of {BLOCK_TOKENS}: give more")
    prefill = _curve((prompt, prefill_s) for _, prompt, batch, prefill_s, _ in rows if batch == 1)
    decode = _curve((batch, tpot_s) for _, _, batch, _, tpot_s in rows)
    if not prefill:
        raise InputError(f"{path}: {names[0]} has no row with batch 1, which tells what a lone prompt takes")
    return Speed(
        name=names[0], prefill=Curve(prefill), decode=Curve(decode),
        slots=slots if slots is not None else decode[-1][0],
        kv_tokens=kv_tokens if kv_tokens is not None else KV_TOKENS, step_tokens=step_tokens,
    )  # fmt: skip


_Row = tuple[str, int, int, float, float]
"""Engine, prompt tokens, batch, seconds of the prefill, seconds of a decode step."""


def _rows(path: Path) -> list[_Row]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path}: line 1: no column {missing[0]!r}; a profile has {', '.join(_COLUMNS)}")
            found = [_row(f"{path}: line {reader.line_num}", record) for record in reader]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a CSV of measured latencies") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV text ({error}); give a CSV of measured latencies") from error
    if not found:
        raise InputError(f"{path}: line 2: no row follows the header; a profile needs at least one")
    return found


def _row(where: str, record: dict[str, str]) -> _Row:
    def positive(field: str) -> float:
        text = record[field]
        try:
            value = float(text)
        except (TypeError, ValueError):
            value = math.nan
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{where}, field {field}: {text!r} is no positive number")
        return value

    def count(field: str) -> int:
        value = positive(field)
        if not value.is_integer():
            raise InputError(f"{where}, field {field}: {record[field]!r} is no whole number")
        return int(value)

    name = f"{record['model']}/{record['gpu_model']}/{record['tp']}"
    return name, count("prompt_tokens"), count("batch"), positive("prefill_ms") / 1e3, positive("tpot_ms") / 1e3


def _curve(samples: Iterable[tuple[int, float]]) -> Points:
    by_count: dict[int, list[float]] = {}
    for count, seconds in samples:
        by_count.setdefault(count, []).append(seconds)
    points: list[tuple[int, float]] = []
    slowest_s = 0.0
    for count in sorted(by_count):
        slowest_s = max(slowest_s, median(by_count[count]))
        points.append((count, slowest_s))
    return tuple(points)
