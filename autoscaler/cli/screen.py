"""What `headroom demo` shows in the terminal: one line while it plays, tables at the end.

On a terminal it is drawn in place, each workload below the clock, so that two of them have room in 80 columns;
elsewhere a plain line is printed now and then. Both go to standard error, so
that standard output holds the address and the tables. Every figure is a frame's.
"""

import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from autoscaler.cli.sheets import Sheet, print_sheet
from autoscaler.record.explain import clock, duration, number
from autoscaler.record.stream import Result, Results, WorkloadFrame

PLAIN_EVERY_S: Final = 10.0
"""Seconds between two plain lines."""
_WIDTH_WITHOUT_TERMINAL: Final = 132


class Line:
    """The progress line, as a context; `tell` it what is true now."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream if stream is not None else sys.stderr)
        self._bar = Progress(
            BarColumn(bar_width=16),
            TextColumn("{task.description}", table_column=None),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
            auto_refresh=False,
        )
        self._task = self._bar.add_task("", total=1.0)
        self._plain_at_s = float("-inf")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def tell(self, text: str, share: float, now_s: float) -> None:
        """Show the lines of `text` with `share` (0..1) of the work done; `now_s` is wall time of any origin."""
        if self._console.is_terminal:
            room = max(20, self._console.width - 18)
            lines = text.splitlines()
            shown = "\n".join(line if len(line) <= room else f"{line[: room - 1]}…" for line in lines)
            self._bar.update(self._task, completed=share, description=shown.replace("[", r"\["), refresh=True)
        elif now_s - self._plain_at_s >= PLAIN_EVERY_S:
            self._plain_at_s = now_s
            self._console.print("  ".join(text.splitlines()), markup=False, highlight=False, soft_wrap=True)


def progress(frames: Mapping[str, WorkloadFrame], data_s: float, left_s: float, speed: float) -> str:
    """The lines: data time, speed, what is left, then each workload with what it needs, has and is getting."""
    parts = [f"{clock(data_s)} ×{speed:g}, {max(0.0, left_s):.0f} s left"]
    for frame in frames.values():
        load = "load unknown" if frame.load_rps is None else f"{number(frame.load_rps)} req/s"
        needs = "?" if frame.needs is None else str(frame.needs)
        name = frame.workload.rpartition("/")[2]
        parts.append(f"{name}: {load}, needs {needs}, has {frame.ready}, getting {len(frame.starting)}")
    return "\n".join(parts)


def print_results(tables: Sequence[Results], *, warnings: Sequence[str] = (), to_stderr: bool = False) -> None:
    """Print one table per workload with what a reader must know, once where it is the same, then `warnings`."""
    console = Console(stderr=to_stderr)
    if not console.is_terminal:
        console = Console(stderr=to_stderr, width=_WIDTH_WITHOUT_TERMINAL)
    for index, results in enumerate(tables, start=1):
        print_sheet(console, _sheet(results))
        if results.note not in {after.note for after in tables[index:]}:
            console.print(results.note, style="dim", markup=False, highlight=False)
        console.print()
    for text in warnings:
        console.print(f"note: {text}", markup=False, highlight=False)


def _sheet(results: Results) -> Sheet:
    title = f"{results.workload}: us, the peers and the optimum on the same {duration(results.duration_s)} of traffic"
    sheet = Sheet(
        ("policy", "setting", "in time", "GPU-hours", "over optimum", "turns/day", "starts/day"), words=1, title=title
    )
    for row in results.rows:
        style = {"ours": "bold", "bound": "italic"}.get(row.kind, "")
        sheet.add(row.policy, row.knob, *_cells(row, results.goal_ratio), style=style)
    return sheet


def _cells(row: Result, goal_ratio: float) -> tuple[str, ...]:
    attained = row.attainment_ratio
    missed = attained is not None and attained < goal_ratio
    return (
        "–" if attained is None else f"{100 * attained:.2f} %{' !' if missed else ''}",
        f"{row.gpu_hours:.1f}",
        "–" if row.ratio_d2 is None else f"× {row.ratio_d2:.3f}",
        "–" if row.direction_changes_per_day is None else f"{row.direction_changes_per_day:,.0f}",
        "–" if row.starts_per_day is None else f"{row.starts_per_day:,.0f}",
    )
