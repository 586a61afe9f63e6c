"""Stretches of a recording shared out among processes, each with a core of its own.

Enters: strands, of which some begin with a memory and end in one. Leaves: what all of them came to, added up. Children
are forked, so that what was read is theirs without being sent; where a system cannot fork, one process does it all. A
strand goes to a child if it needs nothing from before it: no row, no model to be fitted.
"""

import gc
import math
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final, Generic, Protocol, Self, TypeVar

from autoscaler.core.params import BIN_S
from autoscaler.core.types import Readings
from autoscaler.errors import HeadroomError
from autoscaler.hindsight.recording import Fitted, Looked, Written
from autoscaler.hindsight.rerun import Counted, Fit, Rerun
from autoscaler.hindsight.strands import Strand

LEAST_LOOKS: Final = 5_000
"""Below so many, one second's work, a child is not worth its start."""

Look = tuple[str, Looked, Readings]


class Apart(Protocol):
    """A stretch, of strands or of laps."""

    @property
    def entries(self) -> Sequence[object]:
        """What is done in it."""

    @property
    def apart(self) -> bool:
        """Whether it rests on nothing before it and nothing after it rests on it."""

    @property
    def work(self) -> int:
        """What it takes, in any unit that is the same for all."""


S = TypeVar("S", bound=Apart)
A = TypeVar("A")


def shared_out(strands: Sequence[S], processes: int) -> tuple[list[S], list[list[S]]]:
    """What the caller is to do, and what each child is, nearest to its even part; no child for little work."""
    whole = [strand for strand in strands if strand.apart]
    if processes < 2 or _looks(whole) < LEAST_LOOKS or "fork" not in get_all_start_methods():
        return list(strands), []
    even = sum(strand.work for strand in strands) / processes
    # What has to stay counts for the caller: an audit of many workloads has two such stretches of each.
    ours = [strand for strand in strands if not strand.apart]
    parts: list[list[S]] = [[]]
    work = 0
    for strand in whole:
        work += strand.work
        if work - strand.work / 2 > even and len(parts) < processes:
            parts.append([])
            work = strand.work
        (parts[-1] if len(parts) < processes else ours).append(strand)
    return ours, [part for part in parts[: processes - 1] if part]


def _looks(strands: Iterable[Apart]) -> int:
    return sum(len(strand.entries) for strand in strands)


class Crew(Generic[S, A]):
    """Children at work on their parts, of which there may be none; leaving the block ends those not through."""

    def __init__(self, work: Callable[[Sequence[S]], A], parts: Iterable[Sequence[S]]) -> None:
        """`work` is done by a child on its part; what it returns is sent."""
        self._does = work
        self._parts = tuple(parts)
        self._working: list[tuple[BaseProcess, Connection]] = []
        self._collects = False
        self.left: list[S] = []
        """Parts for which the system gave no process: the caller's own."""

    def __enter__(self) -> Self:
        # What was read is not freed before all of it is stepped: looking through it again and again is for nothing, and
        # in a child would copy all of its pages. Nor do steps leave anything that holds itself.
        gc.freeze()
        self._collects = gc.isenabled()
        gc.disable()
        for part in self._parts:
            context = get_context("fork")
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(target=_work, args=(theirs, self._does, part), daemon=True)
            try:
                child.start()
            except OSError:
                self.left += part
                ours.close()
            else:
                self._working.append((child, ours))
            theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()
        if self._collects:
            gc.enable()
        for child, answers in self._working:
            child.terminate()
            child.join()
            answers.close()

    def collect(self) -> Iterator[A]:
        """What the children came to. Raises HeadroomError where one was ended."""
        for _, answers in self._working:
            try:
                answer: A = answers.recv()
            except EOFError as error:
                raise HeadroomError("a process of the replay was ended from outside; start it again") from error
            yield answer


def _work(answers: Connection, work: Callable[[Sequence[S]], object], part: Sequence[S]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at the terminal is the parent's to answer
    gc.disable()
    answers.send(work(part))


def again(fit: Fit, part: Sequence[Strand]) -> Counted:
    """Step strands in a table of their own."""
    rerun = Rerun(fit)
    abreast(rerun.step_rows, (stepped(rerun, strand) for strand in part))
    return rerun.counted()


@dataclass(slots=True)
class _Drawn:
    """A strand and the look that is its next."""

    looks: Iterator[Look]
    look: Look | None = None
    bin: float = math.nan
    """The number of the look's bin."""
    opens: bool = False
    """It is the strand's first look in its bin."""
    waited: bool = False

    def draw(self) -> bool:
        """Go on to the next look; whether there is one."""
        self.look, self.waited = next(self.looks, None), False
        if self.look is None:
            return False
        number = self.look[2].now_s // BIN_S
        self.opens, self.bin = number != self.bin, number
        return True


def abreast(step: Callable[[Sequence[Look]], None], strands: Iterable[Iterable[Look]]) -> None:
    """Step strands together, at most one look of each at a time, until all are through.

    The core forecasts where a bin closes, which costs nearly as much for few rows as for all. So looks that open a bin
    are stepped together: where most do and some do not, or the other way round, the few wait, for one turn at most.
    """
    drawn = [each for each in map(_Drawn, map(iter, strands)) if each.draw()]
    while drawn:
        most = 2 * sum([each.opens for each in drawn]) > len(drawn)
        turn = [each for each in drawn if each.opens is most or each.waited]
        step([each.look for each in turn if each.look is not None])
        for each in drawn:
            each.waited = True
        ended = [each for each in turn if not each.draw()]
        if ended:
            drawn = [each for each in drawn if each.look is not None]


def stepped(rerun: Rerun, strand: Strand) -> Iterable[Look]:
    """A strand's looks, one as each is asked for, with all that stands between them done in its place.

    Raises InputError for a beginning that cannot be used.
    """
    row = strand.row
    if strand.begins is not None:
        rerun.begin(strand.begins, row)
    elif row not in rerun.table.rows and strand.ends is not None:
        rerun.pass_over(strand.workload, sum(isinstance(entry, Written) for entry in strand.entries))
        return
    for entry in strand.entries:
        if isinstance(entry, Fitted):
            rerun.fitted(entry, row)
        else:
            looked = entry.looked()
            yield row, looked, rerun.readings(looked, row)
    if strand.ends is not None and row in rerun.table.rows and row not in rerun.afresh:
        rerun.end(strand.ends, row)
    if strand.over and row in rerun.table.rows:
        rerun.table.remove(row)
