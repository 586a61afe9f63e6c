"""A recording's stretches for other settings: each begins before the one before it has ended.

Enters: entries in their order. Leaves: laps, so many at a time as may be held. What would have been remembered under
other settings is not in the record, so a lap begins with what was remembered as recorded and is not counted for half an
hour, for so long replicas are held at most. What arrived is the same under any settings. The time that two laps share
tells how much is left of where they began.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from autoscaler.hindsight import strands
from autoscaler.hindsight.ledger import BLOCK_S
from autoscaler.hindsight.recording import Begun, Fitted, Marked, Unread, Written

MEMORIES: Final = 2
"""A lap begins at every second memory, four hours after the one before it: shorter ones spend more looks on what two of
them share, longer ones have fewer rows in a step."""

UNCOUNTED_S: Final = 1800.0
WHOLE_S: Final = BLOCK_S
"""A lap counts from the first whole five minutes on that are so long after its beginning: spans that are compared with
the model stay whole. An hour of waiting in place of half a one left laps that meet no nearer to each other."""

SHARED_S: Final = 900.0
"""Two laps are compared over the last of the time that they share."""


class Cut(Enum):
    """An instant of a lap, between two looks."""

    COMPARE = "the lap before it is compared with it from here on"
    COUNT = "it counts from here on"
    COMPARED = "it is compared with the lap after it from here on"
    END = "the lap after it counts from here on"


@dataclass(slots=True)
class Lap:
    """A stretch of one workload, or a part of one."""

    workload: str
    number: int
    row: str
    """Its row in the table: the workload's name, and a number for laps beyond the first."""
    begins: Marked | None = None
    """What its row begins with; None where it goes on, or where its entries say."""
    entries: list[Written | Fitted | Begun | Marked | Cut] = field(default_factory=list)
    """A memory among them is to be compared with."""
    over: bool = False
    """Nothing follows it in its row."""
    steady: bool = True
    """One policy is in force throughout."""
    last: bool = False
    """The record ends in it."""

    @property
    def apart(self) -> bool:
        """Whether it rests on nothing before it and nothing after it rests on it."""
        return self.over and self._alone

    @property
    def believed(self) -> bool:
        """Whether its recorded decisions need not be made again; a first lap makes its own in any case, as a sample."""
        return self.number > 1 and self.steady and (self.over or self.last) and self._alone

    @property
    def _alone(self) -> bool:
        return self.begins is not None and not any(isinstance(entry, Begun) for entry in self.entries)

    @property
    def work(self) -> int:
        """What it takes: to make its decisions again, and put them in words, is more than all the rest (measured)."""
        return len(self.entries) * (3 if self.believed else 7)


def overlapped(
    entries: Iterable[Unread], workload: str | None = None, joined: Mapping[str, Collection[int]] | None = None
) -> Iterator[list[Lap]]:
    """The laps of all workloads, or of one, so many at a time as may be held.

    Where the laps numbered in `joined` would begin, the one before goes on in their place.
    """
    return strands.in_parts(entries, _Held(joined or {}), workload)


@dataclass(slots=True)
class _Open:
    """Laps of one workload that are not over: one, or two while they share their looks."""

    laps: list[Lap] = field(default_factory=list)
    begun: int = 0
    memories: int = 0
    """Since the youngest began."""
    counts_s: float = math.inf
    """From when on the younger of two counts."""
    compared: bool = False
    policy: bytes | None = None
    """Of the last look."""


@dataclass(slots=True)
class _Held:
    joined: Mapping[str, Collection[int]]
    laps: list[Lap] = field(default_factory=list)
    open: dict[str, _Open] = field(default_factory=dict)

    def add(self, entry: Unread) -> None:
        name = entry.workload
        ours = self.open.setdefault(name, _Open())
        if not ours.laps:
            self._begin(name, ours, entry if isinstance(entry, Marked) else None)
            if isinstance(entry, Marked):
                return
        if isinstance(entry, Written):
            _pass(ours, entry.now_s)
            same = ours.policy in {None, entry.policy_json}
            ours.policy = entry.policy_json
            for lap in ours.laps:
                lap.entries.append(entry)
                lap.steady = lap.steady and same
        elif isinstance(entry, Marked):
            ours.laps[0].entries.append(entry)
            ours.memories += 1
            if len(ours.laps) > 1 or ours.memories < MEMORIES:
                return
            if ours.begun + 1 in self.joined.get(name, ()):
                ours.begun, ours.memories = ours.begun + 1, 0
            else:
                self._begin(name, ours, entry)
                ours.counts_s = WHOLE_S * math.ceil((entry.now_s + UNCOUNTED_S) / WHOLE_S)
        else:
            for lap in ours.laps:
                lap.entries.append(entry)

    def take(self) -> list[Lap]:
        """Those held so far; those that are not over go on."""
        taken, self.laps = self.laps, []
        for ours in self.open.values():
            ours.laps = [Lap(lap.workload, lap.number, lap.row) for lap in ours.laps]
            self.laps += ours.laps
        return taken

    def last(self) -> list[Lap]:
        """The rest; one that had not begun to count is let go."""
        young = {id(ours.laps[1]) for ours in self.open.values() if len(ours.laps) > 1}
        for ours in self.open.values():
            for lap in ours.laps:
                lap.last = True
        return [lap for lap in self.laps if id(lap) not in young]

    def _begin(self, name: str, ours: _Open, begins: Marked | None) -> None:
        ours.begun += 1
        ours.memories, ours.compared = 0, False
        lap = Lap(name, ours.begun, name if ours.begun == 1 else f"{name} #{ours.begun}", begins)
        ours.laps.append(lap)
        self.laps.append(lap)


def _pass(ours: _Open, now_s: float) -> None:
    """Mark what falls between the look before and the one at `now_s`."""
    if len(ours.laps) < 2:
        return
    old, young = ours.laps
    if not ours.compared and now_s > ours.counts_s - SHARED_S:
        old.entries.append(Cut.COMPARED)
        young.entries.append(Cut.COMPARE)
        ours.compared = True
    if now_s > ours.counts_s:
        old.entries.append(Cut.END)
        old.over = True
        young.entries.append(Cut.COUNT)
        ours.laps.remove(old)
