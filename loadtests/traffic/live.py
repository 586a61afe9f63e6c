"""The run as a person watches it: a bar and the figures so far on a terminal, a line now and then elsewhere.

Enters: tallies. Leaves: text on standard error, so that standard output stays the result's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from loadtests.traffic.report import table
from loadtests.traffic.tally import Tally

LINE_EVERY_S = 5.0


class View(Protocol):
    """What shows a run."""

    def show(self, tally: Tally, at_s: float) -> None:
        """Show what is known `at_s` seconds after the first instant."""
        ...


class _Terminal:
    def __init__(self, requests: int, live: Live) -> None:
        self._live = live
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), auto_refresh=False
        )
        self._task = self._progress.add_task("requests due", total=requests)

    def show(self, tally: Tally, at_s: float) -> None:
        self._progress.update(self._task, completed=tally.due)
        self._live.update(Group(self._progress, Text(status(tally, at_s)), table(tally)), refresh=True)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = LINE_EVERY_S

    def show(self, tally: Tally, at_s: float) -> None:
        if at_s >= self._next_s:
            self._next_s = at_s + LINE_EVERY_S
            self._console.print(f"{at_s:.0f} s: {status(tally, at_s)}", highlight=False, soft_wrap=True)


def status(tally: Tally, at_s: float) -> str:
    """The counts so far, and the events of the last whole second."""
    before = tally.seconds.get(int(at_s) - 1)
    now = f", {before.events:,} events/s" if before is not None else ""
    ttft_s = tally.ttft_s.quantile(0.99)
    slow = "" if ttft_s is None else f", first token p99 {ttft_s:.3f} s"
    return f"{tally.open_now:,} open, {tally.completed:,} completed, {tally.failed:,} failed{now}{slow}"


@contextmanager
def watching(console: Console, requests: int) -> Iterator[View]:
    """A view for this console."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _Terminal(requests, live)
