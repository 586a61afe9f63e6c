"""How fast one replica's engine is: prefill time by prompt length, decode step time by batch, and its memory.

Enters: a CSV of measured latencies, read by column name, or nothing (a built-in profile with its source). Leaves: a
`Profile`, a value the request-level engine reads. It knows nothing of arrivals, replicas, prices or policies.

Between measured points both curves are linear. Below the shortest prompt the prefill keeps its time (a short prompt is
bound by reading the weights, not by its length); beyond the last point of either curve the last slope goes on. Decode
time depends on the batch alone: in the measured file a 64 times longer prompt slows a decode step by 8 % at most.
"""

import csv
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from autoscaler.errors import InputError

DEFAULT_CHUNK_TOKENS = 2048
"""Prompt tokens one step may carry: the common setting of vLLM's max_num_batched_tokens."""
USABLE_MEMORY_RATIO = 0.9
"""Share of GPU memory an engine takes: vLLM's default gpu_memory_utilization before 0.15."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The speed and memory of one replica. Raises InputError where a field has no meaning.

    Both curves are ascending in their x and never descending in their y, so that more work is never faster.
    """

    name: str
    source: str
    """Where the numbers come from, as a person would cite it."""
    prefill_points: tuple[tuple[int, float], ...]
    """(prompt tokens, seconds) of a lone prompt's prefill."""
    tpot_points: tuple[tuple[int, float], ...]
    """(running requests, seconds) of one decode step that gives each of them one token."""
    max_num_seqs: int
    """Slots: requests in the batch at once, the one in prefill included."""
    kv_tokens: int
    """Tokens the KV cache holds; a request holds its prompt and what it generated so far."""
    chunk_tokens: int | None = DEFAULT_CHUNK_TOKENS
    """A longer prompt is cut into equal chunks of at most this; None runs it whole while decoding stalls."""
    shared_s: float = 0.0
    """What a step saves that computes a prompt beside decoding, as both read the weights once; at most the chunk's own
    time. 0 adds the two times, an upper estimate."""
    prompts_share: bool = False
    """Whether several prompts share the `chunk_tokens` of a step, of which each decoding request takes one, as in
    vLLM's scheduler; what is left of a prompt goes on in the next step. Otherwise one prompt is computed at a time."""
    prefill_waits: bool = False
    """Whether the metrics page counts a request whose prompt is being computed among those that wait, not those that
    run. vLLM and SGLang count it among those that run."""
    page_by_step: bool = False
    """Whether the metrics page is written at the end of a step: who came since then is not on it yet. Otherwise it
    tells of each request from its arrival."""

    def __post_init__(self) -> None:
        for field in ("prefill_points", "tpot_points"):
            _check_curve(self.name, field, getattr(self, field))
        for field in ("max_num_seqs", "kv_tokens", "chunk_tokens"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise InputError(f"profile {self.name}: {field} is {value}; it must be at least 1")
        if self.prompts_share and (self.chunk_tokens is None or self.chunk_tokens < self.max_num_seqs):
            raise InputError(
                f"profile {self.name}: chunk_tokens is {self.chunk_tokens}; where prompts share them it must be at "
                f"least max_num_seqs, {self.max_num_seqs}"
            )
        if not (math.isfinite(self.shared_s) and self.shared_s >= 0.0):
            raise InputError(f"profile {self.name}: shared_s is {self.shared_s}; it must be 0 s or more")

    def prefill_s(self, tokens: int) -> float:
        """Seconds to compute `tokens` (>= 1) of prompt with nothing else in the batch."""
        return _interpolated(self.prefill_points, max(tokens, self.prefill_points[0][0]))

    def tpot_s(self, batch: int) -> float:
        """Seconds of one decode step of `batch` requests; 0.0 for an empty batch."""
        return 0.0 if batch < 1 else _interpolated(self.tpot_points, max(batch, self.tpot_points[0][0]))


def _check_curve(name: str, field: str, points: tuple[tuple[int, float], ...]) -> None:
    if not points:
        raise InputError(f"profile {name}: {field} is empty; it needs at least one measured point")
    for x, y in points:
        if x < 1 or not (math.isfinite(y) and y > 0):
            raise InputError(f"profile {name}: {field} has ({x}, {y}); both must be positive and finite")
    for (low, below), (high, above) in pairwise(points):
        if high <= low or above < below:
            raise InputError(
                f"profile {name}: {field} falls from ({low}, {below}) to ({high}, {above}); it must ascend"
            )


def _interpolated(points: tuple[tuple[int, float], ...], x: int) -> float:
    if len(points) == 1:
        return points[0][1]
    above = min(max(bisect_right(points, x, key=lambda point: point[0]), 1), len(points) - 1)
    (low, below), (high, over) = points[above - 1], points[above]
    return below + (over - below) * ((x - low) / (high - low))


def kv_tokens_from_memory(
    *, gpus: int, gpu_bytes: float, weight_bytes: float, kv_bytes_per_token: float, usable: float = USABLE_MEMORY_RATIO
) -> int:
    """KV tokens that fit beside the weights: (usable * GPU memory - weights) / bytes per token, rounded down.

    Activations are left out, so it is an upper estimate. Raises InputError where the weights do not fit.
    """
    left_bytes = usable * gpus * gpu_bytes - weight_bytes
    if left_bytes < kv_bytes_per_token:
        raise InputError(
            f"{gpus} GPUs of {gpu_bytes / 1e9:g} GB leave no memory for a KV cache beside {weight_bytes / 1e9:g} GB of "
            "weights; give kv_tokens or more GPUs"
        )
    return int(left_bytes / kv_bytes_per_token)


@dataclass(frozen=True, slots=True)
class _ModelShape:
    weight_bytes: float
    kv_bytes_per_token: float


_SHAPES: Mapping[str, _ModelShape] = {
    # 68.98e9 parameters, 80 layers, 8 key-value heads of 128 (Touvron et al., Llama 2, 2307.09288), 2 bytes each.
    "llama2-70b": _ModelShape(weight_bytes=2 * 68.98e9, kv_bytes_per_token=2 * 80 * 8 * 128 * 2),
}
_DEFAULT_KEY = ("llama2-70b", "h100-80gb", 4)
_SPLITWISE = (
    "Patel et al., Splitwise, ISCA 2024; Mutinifni/splitwise-sim @ 8f99e7dc9b40, data/perf_model.csv (MIT), "
    "medians over repeats"
)

DEFAULT_PROFILE = Profile(
    name="llama2-70b/h100-80gb/tp4",
    source=_SPLITWISE,
    prefill_points=(
        (128, 0.049086), (256, 0.050977), (512, 0.059714), (1024, 0.105612), (2048, 0.200681), (4096, 0.463455),
        (8192, 0.953582),
    ),
    # Batch 4 was measured 0.2 % faster than batch 2; the slower of the two stands.
    tpot_points=(
        (1, 0.029334), (2, 0.02998), (4, 0.02998), (8, 0.031436), (16, 0.032843), (32, 0.036885), (64, 0.052356),
    ),
    max_num_seqs=64,
    kv_tokens=457_885,
)  # fmt: skip
"""Llama 2 70B on four H100: prompts of 128 to 8192 tokens, batches of 1 to 64 (the largest measured)."""

_COUNTS = ("tp", "prompt_tokens", "batch", "output_tokens")
_TIMES = ("prefill_ms", "tpot_ms")
_COLUMNS = ("model", "gpu_model", *_COUNTS, *_TIMES)


@dataclass(frozen=True, slots=True)
class _Row:
    key: tuple[str, str, int]
    prompt_tokens: int
    batch: int
    output_tokens: int
    prefill_ms: float
    tpot_ms: float


def read_profile(
    path: Path,
    *,
    model: str | None = None,
    gpu_model: str | None = None,
    tp: int | None = None,
    max_num_seqs: int | None = None,
    kv_tokens: int | None = None,
    chunk_tokens: int | None = DEFAULT_CHUNK_TOKENS,
) -> Profile:
    """Read one (model, gpu_model, tp) of a latency CSV; columns are found by name, others are ignored.

    Several left after the selection: the built-in profile's if it is among them, else InputError listing them. The
    prefill curve comes from batch 1, the decode curve from the prompt length with the most batches, medians over the
    rest. A row faster than a smaller batch in both phases is faulty and dropped. Where noise makes a curve fall, the
    slower point stands. Without `max_num_seqs`: the largest batch measured. Without `kv_tokens`: from the memory of
    the GPU's name and the model's shape, where known. Raises InputError naming file, line, field and value.
    """
    wanted = (model, gpu_model, tp)
    rows = [row for row in _rows(path) if all(w is None or w == k for w, k in zip(wanted, row.key, strict=True))]
    key = _chosen_key(path, {row.key for row in rows})
    sound = list(_sound([row for row in rows if row.key == key]))
    by_prompt: dict[int, set[int]] = {}
    for row in sound:
        by_prompt.setdefault(row.prompt_tokens, set()).add(row.batch)
    base = max(by_prompt, key=lambda prompt: (len(by_prompt[prompt]), -prompt))
    prefill = _curve((row.prompt_tokens, row.prefill_ms) for row in sound if row.batch == 1)
    tpot = _curve((row.batch, row.tpot_ms) for row in sound if row.prompt_tokens == base)
    if not prefill:
        raise InputError(f"{path}: {key} has no row with batch 1; the prefill time of a lone prompt is needed")
    return Profile(
        name=f"{key[0]}/{key[1]}/tp{key[2]}",
        source=str(path),
        prefill_points=prefill,
        tpot_points=tpot,
        max_num_seqs=max_num_seqs if max_num_seqs is not None else tpot[-1][0],
        kv_tokens=kv_tokens if kv_tokens is not None else _known_kv_tokens(path, key),
        chunk_tokens=chunk_tokens,
    )


def _rows(path: Path) -> Iterator[_Row]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
            if missing:
                raise InputError(
                    f"{path}: line 1: no column {', '.join(missing)}; a profile needs {', '.join(_COLUMNS)}"
                )
            for record in reader:
                where = f"{path}: line {reader.line_num}"
                tp, prompt, batch, output = (_count(where, column, record[column]) for column in _COUNTS)
                prefill_ms, tpot_ms = (_positive(where, column, record[column]) for column in _TIMES)
                yield _Row((record["model"], record["gpu_model"], tp), prompt, batch, output, prefill_ms, tpot_ms)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a text CSV ({error}); give a latency profile with a header line") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a readable profile file") from error


def _positive(where: str, column: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{where}: {column} is {text!r}; it must be a positive number")
    return value


def _count(where: str, column: str, text: str | None) -> int:
    value = _positive(where, column, text)
    if value != int(value):
        raise InputError(f"{where}: {column} is {text!r}; it must be a whole number")
    return int(value)


def _chosen_key(path: Path, keys: set[tuple[str, str, int]]) -> tuple[str, str, int]:
    if not keys:
        raise InputError(f"{path}: no row for the model, gpu_model and tp asked for; check their spelling")
    if len(keys) > 1 and _DEFAULT_KEY in keys:
        return _DEFAULT_KEY
    if len(keys) > 1:
        listed = "; ".join(f"{model} {gpu} tp={tp}" for model, gpu, tp in sorted(keys))
        raise InputError(f"{path}: it holds several profiles ({listed}); choose model, gpu_model and tp")
    return next(iter(keys))


def _sound(rows: list[_Row]) -> Iterator[_Row]:
    for row in rows:
        peers = (r for r in rows if (r.prompt_tokens, r.output_tokens) == (row.prompt_tokens, row.output_tokens))
        smaller = [r for r in peers if r.batch < row.batch]
        if not any(row.prefill_ms < r.prefill_ms and row.tpot_ms < r.tpot_ms for r in smaller):
            yield row


def _curve(samples: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    grouped: dict[int, list[float]] = {}
    for x, milliseconds in samples:
        grouped.setdefault(x, []).append(milliseconds)
    points: list[tuple[int, float]] = []
    slowest_s = 0.0
    for x in sorted(grouped):
        slowest_s = max(slowest_s, median(grouped[x]) / 1000.0)
        points.append((x, slowest_s))
    return tuple(points)


def _known_kv_tokens(path: Path, key: tuple[str, str, int]) -> int:
    model, gpu_model, gpus = key
    shape, memory = _SHAPES.get(model), re.search(r"-(\d+)gb$", gpu_model)
    if shape is None or memory is None:
        raise InputError(f"{path}: the KV capacity of {model} on {gpu_model} is not known; give kv_tokens")
    return kv_tokens_from_memory(
        gpus=gpus,
        gpu_bytes=int(memory[1]) * 1e9,
        weight_bytes=shape.weight_bytes,
        kv_bytes_per_token=shape.kv_bytes_per_token,
    )
