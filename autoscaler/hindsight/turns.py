"""Which looks of a recording can be decided on at once: one at each of many workloads, as the core takes them.

Enters: entries in their order. Leaves: the same entries, looks in turns. A step of the core costs a millisecond however
few workloads are in it; what belongs to one workload keeps its order, and workloads know nothing of each other.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from autoscaler.hindsight.recording import Begun, Entry, Fitted, Looked, Marked

WIDEST: Final = 64
"""Looks of one turn: beyond it a decision gets hardly any cheaper."""

Turn = tuple[Looked, ...]


def turns(entries: Iterable[Entry], workload: str | None = None) -> Iterator[Begun | Fitted | Marked | Turn]:
    """The entries of all workloads, or of one; a workload occurs once in a turn."""
    waiting: dict[str, Looked] = {}
    for entry in entries:
        if workload not in {None, entry.workload}:
            continue
        if entry.workload in waiting or len(waiting) == WIDEST:
            yield tuple(waiting.values())
            waiting.clear()
        if isinstance(entry, Looked):
            waiting[entry.workload] = entry
        else:
            yield entry
    if waiting:
        yield tuple(waiting.values())
