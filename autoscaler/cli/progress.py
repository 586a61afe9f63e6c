"""A progress bar over all the runs of a command: on a terminal only, on standard error, so that output stays clean."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_STEP: Final = 0.002
"""Share of a part that must have passed before the bar is drawn again: drawing must not cost more than simulating."""


def announce(what: str) -> None:
    """Say that work has begun which may take a while and has no bar."""
    if sys.stderr.isatty():
        print(f"{what} …", file=sys.stderr, flush=True)


def amount(paths: Sequence[Path]) -> str:
    """How many files, and how large they are together; what cannot be looked at is refused when it is read."""
    size = sum(path.stat().st_size for path in paths if path.exists())
    return f"{len(paths)} file{'s' if len(paths) != 1 else ''}, {size / 1e6:,.1f} MB"


class Meter:
    """A bar over `parts` of equal length; use it as a context, `begin` each part, `move` within it.

    Where work `forks` the bar is drawn as it is moved only: a thread that draws could hold a lock, and a child would
    wait for that forever.
    """

    def __init__(self, parts: int, *, forks: bool = False) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            auto_refresh=not forks,
        )
        self._forks = forks
        self._task = self._bar.add_task("", total=float(parts))
        self._done = -1
        self._share = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, what: str) -> None:
        """The part before is over and this one starts."""
        self._done += 1
        self._share = 0.0
        self._bar.update(self._task, description=what, completed=self._done, refresh=self._forks)

    def move(self, share: float) -> None:
        """`share` (0..1) of the present part is done."""
        if share - self._share >= _STEP:
            self._share = share
            self._bar.update(self._task, completed=self._done + share, refresh=self._forks)
