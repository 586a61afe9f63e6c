"""Memory lines: all that the core remembered of a workload after a decision, one line of versioned JSON.

Enters: a memory, and the models beside it as packed bytes, which this module does not look into. Leaves: bytes without
a line end, and back. In an audit stream a memory line stands right behind a decision, some hours apart: a replay can
begin there as exactly as at the workload's beginning, and what it remembers when it comes there must be the same.
"""

import math
import zlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from autoscaler.core.capacity.leadtime import LeadTrack, Start
from autoscaler.core.observe.pods import WorkloadTrack
from autoscaler.core.recall import Memory
from autoscaler.core.state import Seen
from autoscaler.core.types import StartingReplica

PREFIX: Final = b'{"kind":"memory"'
"""How every memory line begins, and no other line of an audit stream."""

VERSION: Final = 1
"""Raised when a key, or a column that keeps its name and its size, changes its meaning, and when a key goes; a new key
does not raise it. Columns that come, go or change their size need not: whoever reads a memory compares their names and
sizes with its own (`core.recall.check`) and refuses one that differs as another build's, but for columns that are
declared to begin at their fill (`core.recall.completed`)."""

_MOST_BYTES: Final = 16 << 20
"""A memory with ten thousand pods has two megabytes; whatever unfolds to more than this is none."""


class Kept(msgspec.Struct, frozen=True):
    """A memory line as it is read; `msgspec.json.Decoder(Kept)` raises msgspec.DecodeError for any other."""

    kind: str
    version: int
    now_s: float
    """When the decision before it was made."""
    workload: str
    memory: bytes
    """Some 25 KB, as base64 in the line; `unpacked` opens it."""
    fitted: bytes | None = None
    """The model in force, as in a fit line; None without one."""
    coming: bytes | None = None
    """A model that was handed over and is not in force yet."""


class _Lead(msgspec.Struct, array_like=True):
    samples_s: list[float]
    starting: list[StartingReplica]
    waited: list[Start]
    placed_s: list[tuple[Start, float]]
    desired: int | None
    ready: int
    pods: list[str] | None
    landed_since_s: float = -math.inf
    """Builds before this field told of none."""


class _Wire(msgspec.Struct, array_like=True):
    columns: dict[str, bytes]
    pods: WorkloadTrack
    lead: _Lead
    seen_s: list[tuple[str, float]]
    sources: list[str]
    seen: Seen | None
    zero_signal: bool
    fit_asked_s: float


@dataclass(frozen=True, slots=True)
class Models:
    """Packed models of one workload; None where there is none."""

    fitted: bytes | None = None
    coming: bytes | None = None


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(_Wire)


def memory_line(workload: str, now_s: float, memory: Memory, models: Models) -> bytes:
    """The memory of `workload` after its decision at `now_s` as one line of JSON, without the line end."""
    body = zlib.compress(plain(memory), 1)
    return msgspec.json.encode(Kept("memory", VERSION, now_s, workload, body, models.fitted, models.coming))


def plain(memory: Memory) -> bytes:
    """The memory as bytes that are equal where two memories are."""
    lead = memory.lead
    started = _Lead(
        lead.samples_s,
        list(lead.starting),
        sorted(lead.waited, key=_order),
        sorted(lead.placed_s.items(), key=lambda item: _order(item[0])),
        lead.desired,
        lead.ready,
        None if lead.pods is None else sorted(lead.pods),
        lead.landed_since_s,
    )
    return _ENCODER.encode(
        _Wire(
            memory.columns, memory.pods, started, list(memory.seen_s), sorted(memory.sources), memory.seen,
            memory.zero_signal, memory.fit_asked_s,
        )
    )  # fmt: skip


def unpacked(body: bytes) -> Memory:
    """The memory in a line's `memory`. Raises ValueError for what is none."""
    try:
        opened = zlib.decompressobj()
        text = opened.decompress(body, _MOST_BYTES)
        if not opened.eof:
            raise ValueError("cut off, or larger than any memory")
        wire: _Wire = _DECODER.decode(text)
    except (zlib.error, msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    lead = wire.lead
    track = LeadTrack(
        lead.samples_s,
        tuple(lead.starting),
        set(lead.waited),
        dict(lead.placed_s),
        lead.desired,
        lead.ready,
        None if lead.pods is None else frozenset(lead.pods),
        lead.landed_since_s,
    )
    return Memory(
        wire.columns, wire.pods, track, tuple(wire.seen_s), frozenset(wire.sources), wire.seen, wire.zero_signal,
        wire.fit_asked_s,
    )  # fmt: skip


def _order(start: Start) -> tuple[float, str]:
    return start[0], start[1] or ""
