"""All requests of a run, drawn before it starts: when each is due, how long it is, whose it is.

Enters: instants or a recorded trace, distributions, a seed. Leaves: a `Schedule`, the same bytes for the same words and
seed. Instants, prompts, answers and tenants are drawn from streams of their own: another distribution of one leaves the
others as they were.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from autoscaler.errors import InputError
from loadtests.traffic.lengths import IntArray, Lengths, whole
from loadtests.traffic.shapes import FloatArray, Shape, instants

_INSTANTS, _PROMPTS, _OUTPUTS, _TENANTS = range(4)
TENANT_EXPONENT = 1.0
"""Of the law of Zipf by which tenants share the requests: the second sends half as many as the first."""


class Slice(msgspec.Struct, frozen=True):
    """The requests of one worker, as bytes of arrays (float64, then int64)."""

    due_s: bytes
    prompt_tokens: bytes
    output_tokens: bytes
    tenant: bytes


@dataclass(frozen=True, slots=True)
class Schedule:
    """Arrays of shape (N,): seconds from the start, ascending; tokens; number of the tenant."""

    due_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    tenant: IntArray

    def __len__(self) -> int:
        return len(self.due_s)

    def first(self, count: int) -> "Schedule":
        """Only the first `count` requests."""
        return self._at(slice(0, count))

    def share(self, number: int, of: int) -> "Schedule":
        """Every `of`-th request, from `number` on."""
        return self._at(slice(number, None, of))

    def digest(self) -> str:
        """SHA-256 of the whole of it, by which two runs are known to have asked the same."""
        return hashlib.sha256(b"".join(msgspec.structs.astuple(self.packed()))).hexdigest()

    def packed(self) -> Slice:
        """As bytes, for another process."""
        arrays = (self.due_s, self.prompt_tokens, self.output_tokens, self.tenant)
        return Slice(*(np.ascontiguousarray(array).tobytes() for array in arrays))

    def _at(self, part: slice) -> "Schedule":
        return Schedule(self.due_s[part], self.prompt_tokens[part], self.output_tokens[part], self.tenant[part])


def unpacked(packed: Slice) -> Schedule:
    """What `packed` packed."""
    counts = (packed.prompt_tokens, packed.output_tokens, packed.tenant)
    return Schedule(np.frombuffer(packed.due_s), *(np.frombuffer(each, dtype=np.int64) for each in counts))


def drawn(shape: Shape, *, prompts: Lengths, outputs: Lengths, tenants: int, seed: int, even: bool) -> Schedule:
    """A schedule of a shape."""
    due_s = instants(shape, _rng(seed, _INSTANTS), even=even)
    return _with_lengths(due_s, prompts, outputs, tenants, seed)


def replayed(
    trace: str, *, duration_s: float | None, rate: float | None, prompts: Lengths | None, outputs: Lengths | None,
    tenants: int, seed: int,
) -> Schedule:  # fmt: skip
    """A recorded trace, or the part of it that `trace` selects (FILE#day=N&...), from its start.

    `rate` stretches time so that the mean of the whole selection is so many requests/s. Lengths are the trace's unless
    given. InputError where the trace holds nothing of what is asked.
    """
    from autoscaler.sim.traces import read_selection, split_trace  # noqa: PLC0415 - a second of imports

    path, selection = split_trace(trace, seed=seed)
    traffic = read_selection(Path(path), selection, with_requests=True)
    if traffic.arrival_s is None or not traffic.arrival_s.size:
        raise InputError(
            f"--trace {trace}: no instants to replay; leave rate= out and give --rate, which stretches time"
        )
    due_s = traffic.arrival_s - traffic.arrival_s[0]
    if rate is not None:
        due_s = due_s * (len(due_s) / max(float(due_s[-1]), 1e-9) / rate)
    kept = len(due_s) if duration_s is None else int(np.searchsorted(due_s, duration_s))
    due_s = np.ascontiguousarray(due_s[:kept])
    fresh = _with_lengths(due_s, prompts, outputs, tenants, seed)
    prompt, output = fresh.prompt_tokens, fresh.output_tokens
    if prompts is None and traffic.prompt_tokens is not None:
        prompt = whole(traffic.prompt_tokens[:kept])
    if outputs is None and traffic.output_tokens is not None:
        output = whole(traffic.output_tokens[:kept])
    return Schedule(due_s, prompt, output, fresh.tenant)


DEFAULT_PROMPTS, DEFAULT_OUTPUTS = Lengths("constant", 128), Lengths("constant", 64)


def _with_lengths(
    due_s: FloatArray, prompts: Lengths | None, outputs: Lengths | None, tenants: int, seed: int
) -> Schedule:  # fmt: skip
    count = len(due_s)
    shares = np.arange(1, tenants + 1, dtype=np.float64) ** -TENANT_EXPONENT
    edges = np.cumsum(shares / shares.sum())
    tenant = np.minimum(np.searchsorted(edges, _rng(seed, _TENANTS).random(count), side="right"), tenants - 1)
    return Schedule(
        due_s,
        (prompts or DEFAULT_PROMPTS).draw(count, _rng(seed, _PROMPTS)),
        (outputs or DEFAULT_OUTPUTS).draw(count, _rng(seed, _OUTPUTS)),
        tenant.astype(np.int64),
    )


def _rng(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])
