"""Laps that are stepped again, as one, where a queue lasted from one into the next.

Enters: laps as they were stepped, each begun with the queue that was recorded. Leaves: the same, but for those that the
other settings had left another queue: there the lap before goes on, from where it began, until both would have begun
alike. A queue that never goes makes the whole record one lap, in order.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final

from autoscaler.hindsight.crew import Crew, Look, abreast, shared_out
from autoscaler.hindsight.joined import Lapped, Laps, under
from autoscaler.hindsight.overlaps import Lap
from autoscaler.hindsight.whatif import WhatIf

LOST_RATIO: Final = 0.01
"""Where a lap ends and the next counts, what waits may differ by this share of what came in the quarter of an hour that
both decided on, nine seconds' worth: counts that differ by a replica leave as much, and it is gone soon (a guess)."""

Step = Callable[[Sequence[Look]], None]


def stepped(
    parts: Iterable[Sequence[Lap]],
    whatif: WhatIf,
    processes: int,
    *,
    told: Callable[[Step, Sequence[Lap]], Step],
    bad_line: Callable[[str], None],
) -> list[Lapped]:
    """What laps came to that are stepped side by side, as they are read; `told` may wrap the steps of some."""
    ended: list[Lapped] = []
    mine = Laps(whatif, bad_line=bad_line)
    open_: list[Lap] = []
    for laps in parts:
        ours, theirs = shared_out(laps, processes)
        with Crew(partial(under, whatif.rerun.fit, whatif.overlay), theirs) as crew:
            ours += crew.left
            abreast(told(whatif.step_rows, ours), (mine.looks(lap) for lap in ours))
            for counted, lapped in crew.collect():
                whatif.rerun.add(counted)
                ended += lapped
        open_ = [lap for lap in ours if not lap.over]
    for lap in open_:
        mine.end(lap)
    for row in tuple(whatif.uncounted):  # the record ended before it counted
        whatif.forget(row)
    return [*ended, *mine.ended]


@dataclass(slots=True)
class Seams:
    """The laps of a replay, and which of them did not begin for themselves in the end."""

    ended: list[Lapped]
    joined: dict[str, set[int]] = field(default_factory=dict)
    """By workload, the numbers of laps in whose place the one before goes on."""

    def widen(self) -> frozenset[tuple[str, int]]:
        """Join what a queue was lost between; the laps, by workload and number, that are longer by that."""
        longer = set[tuple[str, int]]()
        self.ended.sort(key=lambda lapped: (lapped.workload, lapped.number))
        for elder, younger in pairwise(self.ended):
            if elder.workload == younger.workload and _lost(elder, younger):
                self.joined.setdefault(younger.workload, set()).add(younger.number)
                begun = elder.number
                while begun in self.joined[elder.workload]:
                    begun -= 1
                longer.add((elder.workload, begun))
        return frozenset(longer)

    def put(self, again: Iterable[Lapped]) -> None:
        """Let longer laps take the place of those that they were made of."""
        longer = {(lapped.workload, lapped.number): lapped for lapped in again}
        last = {lapped.workload: lapped.row for lapped in self.ended}  # in the order of their numbers
        kept = [longer.get((lapped.workload, lapped.number), lapped) for lapped in self.ended if self._begins(lapped)]
        # How a workload stands at the end is told by the row that was there from the first.
        self.ended = [lapped if lapped.left else replace(lapped, row=last[lapped.workload]) for lapped in kept]

    def _begins(self, lapped: Lapped) -> bool:
        return lapped.number not in self.joined.get(lapped.workload, ())


def _lost(elder: Lapped, younger: Lapped) -> bool:
    """Whether the elder leaves another queue than the younger had where it began to count; of none is known: no."""
    if elder.left is None or younger.found is None or younger.young is None:
        return False
    came = younger.young.as_is.total.requests
    return any(abs(had - has) > LOST_RATIO * came for had, has in zip(elder.left, younger.found, strict=True))
