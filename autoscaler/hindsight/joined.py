"""What the laps of a replay under other settings came to, put together, and how far two of them agree where they meet.

Enters: laps as they end, in any order. Leaves: one tally per workload, as if it had been counted from end to end, and
its agreement. It is an approximation: a lap begins with what was remembered as recorded. Where two laps share their
looks the elder has been under the other settings for hours longer, and what the two make of the same looks differs by
what is left of the beginning.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from autoscaler.errors import InputError
from autoscaler.hindsight.crew import Look, abreast
from autoscaler.hindsight.ledger import Three
from autoscaler.hindsight.overlaps import Cut, Lap
from autoscaler.hindsight.overlay import Overlay
from autoscaler.hindsight.recording import Begun, Fitted, Marked, Written
from autoscaler.hindsight.rerun import Counted, Fit, Rerun
from autoscaler.hindsight.whatif import Tally, WhatIf


@dataclass(frozen=True, slots=True)
class Lapped:
    """One lap, counted."""

    workload: str
    number: int
    row: str
    tally: Tally
    young: Tally | None
    """What it made of the looks that it shares with the lap before it; None for a first."""
    noted: tuple[Three, Three] | None
    """Its sums where those begin that it shares with the lap after it; None for a last."""
    found: tuple[float, float] | None = None
    """Requests that waited where it begins to count, as recorded and otherwise; None for a first."""
    left: tuple[float, float] | None = None
    """The same where it ends; None for a last."""


@dataclass(slots=True)
class Meeting:
    """What was compared in one world where laps meet, summed up."""

    looks: int = 0
    differ: int = 0
    """Looks after which the two hold different counts."""
    agreed: int = 0
    """Meetings at which none differs."""
    held_s: float = 0.0
    more_s: float = 0.0
    """Replica-seconds that the younger laps hold, and those beyond the elder ones' (negative: fewer)."""
    requests: float = 0.0
    later: float = 0.0
    """Requests that came, and those that the younger laps make late beyond the elder ones' (negative: fewer)."""

    @property
    def held_ratio(self) -> float:
        """What the younger laps hold more, as a share of what they hold."""
        return self.more_s / self.held_s if self.held_s > 0 else 0.0

    @property
    def late_ratio(self) -> float:
        """What the younger laps make late more, as a share of what came."""
        return self.later / self.requests if self.requests > 0 else 0.0


@dataclass(slots=True)
class Agreement:
    """How far a workload's laps agree on the looks that two of them share."""

    laps: int = 0
    joined: int = 0
    """Laps that did not begin where a queue lasted: the one before went on."""
    meetings: int = 0
    as_is: Meeting = field(default_factory=Meeting)
    other: Meeting = field(default_factory=Meeting)

    def note(self, elder: Lapped, younger: Lapped) -> None:
        """Compare two laps that follow each other."""
        if younger.young is None or elder.noted is None:
            return
        self.meetings += 1
        first, second = elder.tally, younger.young
        for meeting, name, before, sums in (
            (self.as_is, "as_is", elder.noted[0], (first.as_is.total, second.as_is.total)),
            (self.other, "other", elder.noted[1], (first.other.total, second.other.total)),
        ):
            line, again = first.told.timeline, second.told.timeline
            held = dict(zip(line.at_s, getattr(line, name), strict=True))
            pairs = [(held[at_s], n) for at_s, n in zip(again.at_s, getattr(again, name), strict=True) if at_s in held]
            differ = sum(mine != theirs for mine, theirs in pairs)
            meeting.looks += len(pairs)
            meeting.differ += differ
            meeting.agreed += not differ
            old, young = sums
            if old.counted_s < before.counted_s:
                continue  # its sums began anew meanwhile
            meeting.held_s += young.ours.held_s
            meeting.more_s += young.ours.held_s - (old.ours.held_s - before.ours.held_s)
            meeting.requests += young.requests
            meeting.later += young.ours.late - (old.ours.late - before.ours.late)


@dataclass(slots=True)
class Laps:
    """The laps that one process steps."""

    whatif: WhatIf
    bad_line: Callable[[str], None]
    """Told of a beginning within a lap that cannot be used."""
    ended: list[Lapped] = field(default_factory=list)
    _young: dict[str, Tally] = field(default_factory=dict)
    _noted: dict[str, tuple[Three, Three]] = field(default_factory=dict)
    _found: dict[str, tuple[float, float]] = field(default_factory=dict)

    def looks(self, lap: Lap) -> Iterator[Look]:
        """A lap's looks, one as each is asked for, with all that stands between them done in its place."""
        row, whatif = lap.row, self.whatif
        rerun = whatif.rerun
        if lap.begins is not None:
            whatif.begin(lap.begins, row)
            if lap.number > 1:
                whatif.uncounted.add(row)
                if lap.believed:
                    whatif.believed.add(row)
        for entry in lap.entries:
            if isinstance(entry, Written):
                looked = entry.looked()
                yield row, looked, rerun.readings(looked, row)
            elif isinstance(entry, Cut):
                self._cut(lap, entry)
            elif isinstance(entry, Fitted):
                whatif.fitted(entry, row)
            elif isinstance(entry, Marked):
                if row in rerun.table.rows and row not in rerun.afresh and not whatif.takes(row):
                    rerun.end(entry, row)
            else:
                self._begin(entry, row)

    def _begin(self, begun: Begun, row: str) -> None:
        try:
            self.whatif.begin(begun, row)
        except InputError as error:
            self.bad_line(str(error))

    def _cut(self, lap: Lap, cut: Cut) -> None:
        row, whatif = lap.row, self.whatif
        if cut is Cut.COMPARE:
            whatif.take(row)
        elif cut is Cut.COUNT:
            self._young[row], self._found[row] = whatif.take(row), whatif.waiting(row)
            whatif.uncounted.discard(row)
        elif cut is Cut.COMPARED:
            self._noted[row] = whatif.sums(row)
        else:
            self.end(lap, whatif.waiting(row))
            whatif.forget(row)

    def end(self, lap: Lap, left: tuple[float, float] | None = None) -> None:
        """Take what a lap came to; where another follows, with what waits."""
        row = lap.row
        tally, young, noted = self.whatif.take(row), self._young.pop(row, None), self._noted.pop(row, None)
        found = self._found.pop(row, None)
        self.ended.append(Lapped(lap.workload, lap.number, row, tally, young, noted, found, left))


def under(fit: Fit, overlay: Overlay, part: Sequence[Lap]) -> tuple[Counted, list[Lapped]]:
    """Step laps that are apart in a table of their own."""
    rerun = Rerun(fit)
    laps = Laps(WhatIf(rerun, overlay), bad_line=rerun.unlike.append)
    abreast(laps.whatif.step_rows, (laps.looks(lap) for lap in part))
    return rerun.counted(), laps.ended


def join(whatif: WhatIf, ended: Iterable[Lapped], joined: Mapping[str, int]) -> dict[str, Agreement]:
    """Give `whatif` each workload's tally from end to end; how far its laps agree, of those with several.

    `joined` is how many laps of a workload did not begin.
    """
    agreements, of = dict[str, Agreement](), defaultdict[str, list[Lapped]](list)
    for lapped in ended:
        of[lapped.workload].append(lapped)
    for workload, laps in of.items():
        laps.sort(key=lambda lapped: lapped.number)
        agreement, whole = Agreement(len(laps), joined.get(workload, 0)), Tally()
        for elder, younger in pairwise(laps):
            agreement.note(elder, younger)
        for lapped in laps:
            whole.follow(lapped.tally)
        whatif.give(workload, laps[-1].row, whole)
        if agreement.meetings or agreement.joined:
            agreements[workload] = agreement
    return agreements
