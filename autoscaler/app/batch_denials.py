"""Stops that are refused as such: whether it is one gang that may not be stopped, or all.

Enters: refusals, and whether the server would take the stop of another gang. Leaves: which gangs nobody counts on any
more, so that others are told to leave in their place; which other gang is to be asked about; who need not leave any
more, because whom it was for has a place without it. What refuses all stops, such as a webhook that is out of order,
has nobody else told to leave: all of them would go when that is over.
"""

import math
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.adapters.kube.batch_work import Work
from autoscaler.app.batch_notes import STOP_DENIED, Note
from autoscaler.app.batch_rests import REFUSED_MOST, RETRY_S, Rests, unstopped
from autoscaler.app.batch_tally import Tally
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.running import Running
from autoscaler.core.batch.spared import go_on, is_done_without

MOST: Final = 12
"""So many times the stop of a gang is refused as such, once in `RETRY_S` and so within a minute, before it is asked
whether another one's would be (a guess)."""

TRY_S: Final = 15.0
"""Between two such questions."""

NEXT_S: Final = REFUSED_MOST * RETRY_S
"""After another gang was told to leave in the place of one that may not be stopped, for so long none is in the place of
the other: a dry run of a stop may be taken where no stop is."""

LEASE_S: Final = 3600.0
"""A gang that may not be stopped, and runs on, is asked to leave again after so long (a guess). It is more than NEXT_S,
so that it is not the next one again."""


@dataclass(frozen=True, slots=True)
class Denial:
    """How often the stop of a gang was refused, when that was counted last, and the last words."""

    times: int = 0
    counted_s: float = -math.inf
    words: str = ""
    asked: int = 0
    """How often it was asked whether another gang's stop would be taken."""
    asked_s: float = -math.inf
    """When it was last asked."""
    alone: bool = False
    """It would be: it is this gang that may not be stopped."""


class Denials:
    """Those of one cluster's gangs; `rests` know which of them were given up anyhow, `tally` counts who was stopped."""

    def __init__(self, rests: Rests, tally: Tally) -> None:
        self._rests, self._tally = rests, tally
        self._all: dict[str, Denial] = {}
        self._next_s = -math.inf
        """Before when nobody else is told to leave in a gang's place."""

    def denied(self, name: str, words: str, now_s: float) -> None:
        """The stop of a gang was refused as it stands, by a webhook, a policy or for want of the right."""
        before = self._all.get(name, Denial())
        if now_s >= before.counted_s + RETRY_S:  # a new version, of each pod that starts or ends, is asked at once
            before = replace(before, times=before.times + 1, counted_s=now_s)
        self._all[name] = replace(before, words=words)

    def due(self, works: Mapping[str, Work], runs: Mapping[str, Running], now_s: float) -> Iterator[tuple[str, Work]]:
        """Gangs that were refused so often, each with another one, another each time, whose stop is to be tried out."""
        for name, each in self._all.items():
            if each.alone or each.times < MOST or now_s < each.asked_s + TRY_S:
                continue
            self._all[name] = replace(each, asked=each.asked + 1, asked_s=now_s)
            others = [works[other] for other, run in runs.items() if run.leaving_s is None and other in works]
            others = [work for work in others if work.can_be_stopped and not (work.suspended or work.ended)]
            if others:
                yield name, others[each.asked % len(others)]

    def is_alone(self, name: str) -> None:
        """The server would take the stop of another gang."""
        if name in self._all:
            self._all[name] = replace(self._all[name], alone=True)

    def note(self, works: Mapping[str, Work], room: Room, notes: MutableMapping[str, Note], now_s: float) -> None:
        """Who was told to leave, and whose object does not say so. Nobody counts on gangs that may not be stopped, one
        at a time, and they run on once others have left in their place; `notes` are what is told of gangs."""
        self._rests.note_unwritten(works, room.runs, now_s)
        runs = room.runs.all
        spared = tuple(work.name for work, run in unstopped(works, runs) if is_done_without(room, run, now_s))
        for name in spared:
            if runs[name].stays:
                self._next_s = now_s + NEXT_S
            go_on(room, runs[name], now_s + LEASE_S if name in self._all else now_s, now_s)
        self._tally.run_on(spared)
        leaving = {work.name for work, _ in unstopped(works, runs)}
        self._tally.written(leaving)
        self._all = {name: each for name, each in self._all.items() if name in leaving}
        alone = [name for name, each in self._all.items() if each.alone]
        for name in alone:
            early = [each for each in alone if runs[each].stays and not self._rests.is_given_up(each)]
            runs[name].stays = runs[name].stays or not (early or now_s < self._next_s)
        for name in [name for name, note in notes.items() if note.reason == STOP_DENIED]:
            del notes[name]
        for name in [name for name in alone if runs[name].stays]:
            till = "it is asked until another one leaves in its place, and then runs on"
            notes[name] = Note(STOP_DENIED, f"{self._all[name].words}; {till}")
