"""What is not tried again at once: gangs that are left alone for a while, and writes of which the outcome is open.

Enters: refusals, silences, instants. Leaves: until when a gang rests, and whether a start or a stop may be asked for
now. It neither writes nor decides who starts.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.adapters.kube.batch_work import Work
from autoscaler.core.batch.running import Running, Runs
from autoscaler.core.doubling import doubled

LOST_S: Final = 2.0
"""Before a start that nobody answered is written again: the first may still come through, and then this one cannot."""

RETRY_S: Final = 5.0
RETRY_MOST_S: Final = 600.0
"""After a refusal or a start in vain a gang is left alone for so long, twice as long each time, up to the latter."""

REFUSED_MOST: Final = 240
"""So many stops of one gang are refused, which takes 20 minutes, before somebody else is asked to go in its place: what
refuses all stops does not last that long, or is told and mended (a guess)."""

NEVER: Final = (0, -math.inf)


@dataclass(slots=True)
class Rest:
    """A gang that is left alone for a while."""

    until_s: float
    times: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """A start of which it is not known whether it was written, or that met another version of its object."""

    version: str
    """The version that would not take it; empty where nobody answered."""
    until_s: float
    words: str


class Rests:
    """The rests of one cluster's gangs."""

    def __init__(self) -> None:
        self.all: dict[str, Rest] = {}
        self._doubts: dict[str, Doubt] = {}
        self._unstopped: dict[str, tuple[str, float]] = {}
        """Gangs whose stop was not taken: of which version, and until when it is not asked for again."""
        self._times_unstopped: dict[str, tuple[int, float]] = {}
        """How many stops of those that run on were not taken, of whatever version, once in `RETRY_S`; the last one."""

    def begin(self, name: str, now_s: float, first_s: float = RETRY_S) -> None:
        """Leave a gang alone: `first_s` the first time, twice as long each time after."""
        times = self.all[name].times + 1 if name in self.all else 1
        self.all[name] = Rest(now_s + doubled(first_s, times - 1, RETRY_MOST_S), times)

    def holds(self, name: str, now_s: float) -> bool:
        """Whether a gang is left alone still."""
        return name in self.all and self.all[name].until_s > now_s

    def over(self, now_s: float) -> tuple[str, ...]:
        """Gangs whose rest is over."""
        return tuple(name for name, rest in self.all.items() if rest.until_s <= now_s)

    def forget(self, name: str) -> None:
        """A gang is no more."""
        self.all.pop(name, None)
        self._doubts.pop(name, None)
        self._unstopped.pop(name, None)

    def start_lost(self, work: Work, now_s: float) -> None:
        """Nobody knows whether a start was written: it is asked for again soon, and is done once at most."""
        self._doubts[work.name] = Doubt("", now_s + LOST_S, "")

    def start_changed(self, work: Work, words: str, now_s: float) -> None:
        """The object was another version than was written for: its next one says what is to be done."""
        self._doubts[work.name] = Doubt(work.version, now_s + RETRY_S, words)

    def start_doubt(self, work: Work, now_s: float) -> Doubt | None:
        """Why a start is not to be written now; None where it may. A doubt that is over is told once and forgotten."""
        doubt = self._doubts.get(work.name)
        if doubt is None or (doubt.version and doubt.version != work.version):
            self._doubts.pop(work.name, None)
            return None
        if now_s < doubt.until_s:
            return doubt
        del self._doubts[work.name]
        return doubt if doubt.version else None

    def unseen(self, now_s: float) -> None:
        """Nothing could be seen until now: the next versions of objects may be there, and are waited for anew."""
        self._doubts = {name: replace(doubt, until_s=now_s + RETRY_S) for name, doubt in self._doubts.items()}

    def not_stopped(self, work: Work, now_s: float) -> bool:
        """The object would not take a stop, or nobody answered: this version is asked again a while later.

        Whether that was so of this version before.
        """
        again = work.name in self._unstopped and self._unstopped[work.name][0] == work.version
        times, counted_s = self._times_unstopped.get(work.name, NEVER)
        if now_s >= counted_s + RETRY_S:  # a new version, of each pod that starts or ends, is asked at once
            self._times_unstopped[work.name] = times + 1, now_s
        self._unstopped[work.name] = (work.version, now_s + RETRY_S)
        return again

    def is_given_up(self, name: str) -> bool:
        """Whether so many stops of a gang were not taken, for whatever reason, that nobody waits for it any more."""
        return self._times_unstopped.get(name, NEVER)[0] >= REFUSED_MOST

    def note_unwritten(self, works: Mapping[str, Work], runs: Runs, now_s: float) -> None:
        """Gangs whose objects do not say yet that they are to leave have all of their time before them, unless they
        refused to say so time after time: whoever waits for them does not wait for ever."""
        names = [work.name for work, _ in unstopped(works, runs.all) if work.can_be_stopped]
        self._times_unstopped = {name: self._times_unstopped.get(name, NEVER) for name in names}
        for name in names:
            if not self.is_given_up(name):
                runs.unwritten(name, now_s)

    def may_stop(self, work: Work, now_s: float) -> bool:
        """Whether a stop may be asked for now."""
        version, until_s = self._unstopped.get(work.name, ("", 0.0))
        return version != work.version or until_s <= now_s


def unstopped(works: Mapping[str, Work], runs: Mapping[str, Running]) -> Iterator[tuple[Work, Running]]:
    """Gangs that were told to leave and whose objects do not say so yet."""
    for name, run in runs.items():
        work = works.get(name)
        if run.leaving_s is not None and work is not None and not (work.suspended or work.ended):
            yield work, run
