"""A recording's stretches that do not depend on each other, stepped side by side.

Enters: entries in their order. Leaves: looks in turns, one of each stretch. A stretch of a workload begins where the
record holds all that was remembered of it, and ends where it does so again; what is remembered then is compared with
the record, so that stretches replayed apart stand for one replay from end to end. Side by side, because a step of the
core costs a millisecond however few rows are in it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from autoscaler.hindsight.recording import Begun, Fitted, Marked, Unread, Written

MOST_BYTES: Final = 320_000_000
"""Text held at a time, a workload-week with a decision every 5 s; a stretch that this cuts goes on in the same row."""


Stretch = TypeVar("Stretch")


@dataclass(slots=True)
class Strand:
    """A stretch of one workload, or a part of one."""

    workload: str
    row: str
    """Its row in the table: the workload's name, and a number for stretches beyond the first."""
    begins: Begun | Marked | None = None
    """What its row begins with; None where it goes on, or where the record does not say."""
    entries: list[Written | Fitted] = field(default_factory=list)
    ends: Marked | None = None
    """What its row must hold at its end; None where the record does not say, or where it goes on."""
    over: bool = False
    """Nothing follows it in its row."""

    @property
    def apart(self) -> bool:
        """Whether it rests on nothing before it and nothing after it rests on it."""
        return isinstance(self.begins, Marked) and self.over

    @property
    def work(self) -> int:
        """What it takes."""
        return len(self.entries)


class Holds(Protocol[Stretch]):
    """Stretches of a recording while it is read."""

    def add(self, entry: Unread) -> None:
        """Take in the next entry."""

    def take(self) -> list[Stretch]:
        """Those held so far; those that are not over go on."""

    def last(self) -> list[Stretch]:
        """Those held so far, as nothing follows."""


def in_parts(entries: Iterable[Unread], held: Holds[Stretch], workload: str | None) -> Iterator[list[Stretch]]:
    """The stretches of all workloads, or of one, so many at a time as may be held."""
    size_bytes = 0
    for entry in entries:
        if workload not in {None, entry.workload}:
            continue
        held.add(entry)
        if isinstance(entry, Written):
            size_bytes += len(entry.text) + len(entry.decision)
        if size_bytes >= MOST_BYTES:
            yield held.take()
            size_bytes = 0
    yield held.last()


def plait(entries: Iterable[Unread], workload: str | None = None) -> Iterator[list[Strand]]:
    """The strands of all workloads, or of one, so many at a time as may be held; those of one time in their order."""
    return in_parts(entries, _Held(), workload)


@dataclass(slots=True)
class _Held:
    strands: list[Strand] = field(default_factory=list)
    open: dict[str, Strand] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    """How many strands each workload has had."""

    def add(self, entry: Unread) -> None:
        name = entry.workload
        if isinstance(entry, Begun | Marked):
            before = self.open.get(name)
            if before is not None:
                before.over, before.ends = True, entry if isinstance(entry, Marked) else None
            self._begin(name, entry)
        else:
            (self.open.get(name) or self._begin(name, None)).entries.append(entry)

    def take(self) -> list[Strand]:
        taken, self.strands = self.strands, []
        self.open = {name: Strand(name, strand.row) for name, strand in self.open.items()}
        self.strands += self.open.values()
        return taken

    def last(self) -> list[Strand]:
        return self.take()

    def _begin(self, name: str, begins: Begun | Marked | None) -> Strand:
        number = self.begun[name] = self.begun.get(name, 0) + 1
        strand = Strand(name, name if number == 1 else f"{name} #{number}", begins)
        self.strands.append(strand)
        self.open[name] = strand
        return strand
