"""All that the core remembers of one workload, to the last bit, out of a table and back into one.

Enters: a row. Leaves: a value that owns its data, and a row that goes on from it exactly as the first would have. A
checkpoint is what a restart must not lose, in 4 KiB; this is what a replay must not lack, in 60 KiB. The policy is not
in it, nor are the fitted models: whoever keeps a memory keeps those beside it.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from autoscaler.core.capacity.leadtime import LeadTrack
from autoscaler.core.columns import Columns
from autoscaler.core.observe.pods import WorkloadTrack
from autoscaler.core.state import Seen, Table

_POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Memory:
    """One workload's memory. It is not compared by `==`: what is not known is NaN."""

    columns: dict[str, bytes]
    """Each column's values, little-endian, by `group.column`."""
    pods: WorkloadTrack
    lead: LeadTrack
    seen_s: tuple[tuple[str, float], ...]
    """When each signal was last read, in the order in which they were first seen."""
    sources: frozenset[str]
    seen: Seen | None
    zero_signal: bool
    fit_asked_s: float


def remember(table: Table, name: str) -> Memory:
    """The memory of a workload as it is now. Raises KeyError for one that is not in the table."""
    row = table.rows[name]
    track = table.track(row)
    kept = {f"{key}.{spec}": _bytes(group, spec, row) for key, group in _groups(table) for spec in _names(group)}
    pods = replace(track.pods, pods=dict(track.pods.pods))
    lead, placed_s = track.lead, dict(track.lead.placed_s)
    lead = replace(lead, samples_s=list(lead.samples_s), waited=set(lead.waited), placed_s=placed_s)
    seen_s, sources = tuple(track.fresh.seen_s.items()), track.fresh.sources
    return Memory(kept, pods, lead, seen_s, sources, track.seen, track.zero_signal, track.fit_asked_s)


def recall(table: Table, name: str, memory: Memory) -> None:
    """Let a workload that is in the table go on from a memory; its policy stays.

    Raises ValueError for a memory of other columns, as another build has them; the table is then as it was.
    """
    check(table, memory)
    row = table.rows[name]
    for key, group in _groups(table):
        for spec in _names(group):
            column = getattr(group, spec)
            kept = np.frombuffer(memory.columns[f"{key}.{spec}"], _little(column.dtype))
            column[row] = kept.reshape(column.shape[1:])
    track, lead = table.track(row), memory.lead
    track.pods = replace(memory.pods, pods=dict(memory.pods.pods))
    placed_s = dict(lead.placed_s)
    track.lead = replace(lead, samples_s=list(lead.samples_s), waited=set(lead.waited), placed_s=placed_s)
    track.fresh.seen_s, track.fresh.sources = dict(memory.seen_s), memory.sources
    track.last, track.zero_signal, track.fit_asked_s = memory.seen, memory.zero_signal, memory.fit_asked_s


def completed(table: Table, memory: Memory) -> Memory:
    """Return a memory with the columns that came later than its build, as they were then: at their fill."""
    later = {
        f"{key}.{spec.name}": spec.metadata
        for key, group in _groups(table)
        for spec in fields(group)
        if spec.metadata["later"]
    }
    missing = {name: _fill(declared) for name, declared in later.items() if name not in memory.columns}
    return replace(memory, columns=memory.columns | missing) if missing else memory


def check(table: Table, memory: Memory) -> None:
    """Raise ValueError, naming a column, where a memory has others than rows of this table."""
    sizes = {
        f"{key}.{spec}": getattr(group, spec).itemsize * int(np.prod(getattr(group, spec).shape[1:]))
        for key, group in _groups(table)
        for spec in _names(group)
    }
    for name in sizes.keys() | memory.columns.keys():
        kept = memory.columns.get(name)
        if name not in sizes or kept is None or len(kept) != sizes[name]:
            raise ValueError(f"{name}: {'missing' if kept is None else f'{len(kept)} bytes'}; another build's memory")


def _groups(table: Table) -> list[tuple[str, Columns]]:
    return [(key, group) for key, group in table.groups().items() if key != _POLICY]


def _names(group: Columns) -> list[str]:
    return [spec.name for spec in fields(group)]


def _bytes(group: Columns, name: str, row: int) -> bytes:
    column = getattr(group, name)
    packed: bytes = column[row].astype(_little(column.dtype)).tobytes()
    return packed


def _fill(declared: Any) -> bytes:
    dtype = _little(np.dtype(declared["dtype"]))
    return np.full(declared["shape"], declared["fill"], dtype).tobytes()


def _little(dtype: np.dtype) -> np.dtype:
    return dtype.newbyteorder("<")
