"""Stretches of a recording shared out among processes, each with a core of its own.

Enters: strands, of which some begin with a memory and end in one. Leaves: what all of them came to, added up. Children
are forked, so that what was read is theirs without being sent; where a system cannot fork, one process does it all. A
strand goes to a child if it needs nothing from before it: no row, no model to be fitted.
"""

import gc
import signal
from collections.abc import Iterable, Sequence
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final

from autoscaler.core.types import Readings
from autoscaler.errors import HeadroomError
from autoscaler.hindsight.recording import Fitted, Looked, Marked, Written
from autoscaler.hindsight.rerun import Counted, Rerun
from autoscaler.hindsight.strands import Strand

LEAST_LOOKS: Final = 5_000
"""Below so many, one second's work, a child is not worth its start."""

Look = tuple[str, Looked, Readings]


def shared_out(strands: Sequence[Strand], processes: int) -> tuple[list[Strand], list[list[Strand]]]:
    """What the caller is to do, and what each child is, no more than its even part; no child for little work."""
    whole = [strand for strand in strands if isinstance(strand.begins, Marked) and strand.over]
    if processes < 2 or _looks(whole) < LEAST_LOOKS or "fork" not in get_all_start_methods():
        return list(strands), []
    even = _looks(strands) / processes
    # What has to stay counts for the caller: an audit of many workloads has two such stretches of each.
    ours = [strand for strand in strands if not (isinstance(strand.begins, Marked) and strand.over)]
    parts: list[list[Strand]] = [[]]
    looks = 0
    for strand in whole:
        looks += len(strand.entries)
        if looks > even and len(parts) < processes:
            parts.append([])
            looks = len(strand.entries)
        (parts[-1] if len(parts) < processes else ours).append(strand)
    return ours, [part for part in parts[: processes - 1] if part]


def _looks(strands: Iterable[Strand]) -> int:
    return sum(len(strand.entries) for strand in strands)


class Crew:
    """Children at work on their parts, of which there may be none; leaving the block ends those not through."""

    def __init__(self, rerun: Rerun, parts: Iterable[Sequence[Strand]]) -> None:
        self._rerun = rerun
        self._parts = tuple(parts)
        self._working: list[tuple[BaseProcess, Connection]] = []
        self.left: list[Strand] = []
        """Parts for which the system gave no process: the caller's own."""

    def __enter__(self) -> "Crew":
        # What was read is not freed before all of it is stepped: looking through it again and again is for nothing, and
        # in a child would copy all of its pages.
        gc.freeze()
        for part in self._parts:
            context = get_context("fork")
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(target=_work, args=(theirs, self._rerun, part), daemon=True)
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
        for child, answers in self._working:
            child.terminate()
            child.join()
            answers.close()

    def collect(self) -> None:
        """Add what the children counted. Raises HeadroomError where one was ended."""
        for _, answers in self._working:
            try:
                counted: Counted = answers.recv()
            except EOFError as error:
                raise HeadroomError("a process of the replay was ended from outside; start it again") from error
            self._rerun.add(counted)


def _work(answers: Connection, parent: Rerun, part: Sequence[Strand]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at the terminal is the parent's to answer
    gc.disable()
    rerun = Rerun(parent.fit)
    abreast(rerun, (stepped(rerun, strand) for strand in part))
    answers.send(rerun.counted())


def abreast(rerun: Rerun, strands: Iterable[Iterable[Look]]) -> None:
    """Step strands together, one look of each at a time, until all are through."""
    steps = [iter(each) for each in strands]
    while steps:
        drawn = [(each, next(each, None)) for each in steps]
        turn = [look for _, look in drawn if look is not None]
        if turn:
            rerun.step_rows(turn)
        steps = [each for each, look in drawn if look is not None]


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
