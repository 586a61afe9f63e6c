"""Tables of figures that a terminal of any width shows whole: no figure is ever cut off.

Where a table is wider than the terminal, its rows become columns, as many beside each other as there is room for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_ANY_WIDTH: Final = 10_000
_FOLDED_CELLS: Final = 16
"""Width at which a column of words is still readable; its cells take several lines."""


@dataclass(slots=True)
class Sheet:
    """Headings and rows of text, the first column the row's name; a heading may be of two lines."""

    headings: Sequence[str]
    words: int | None = None
    """The one column that may be folded."""
    title: str | None = None
    rows: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    sections: set[int] = field(default_factory=set)

    def add(self, *cells: str, style: str = "") -> None:
        """One row; cells that are left out are empty."""
        self.rows.append((cells, style))

    def section(self) -> None:
        """A gap before the next row."""
        self.sections.add(len(self.rows))


def print_sheet(console: Console, sheet: Sheet) -> None:
    """Print it across, or down where it is too wide for that."""
    across = _across(sheet)
    if _cells_wide(console, across, folded=sheet.words) <= console.width:
        console.print(across)
        return
    for table in _down(console, sheet):
        console.print(table)


def _across(sheet: Sheet) -> Table:
    table = _table(sheet.title)
    for index, heading in enumerate(sheet.headings):
        words = index == sheet.words
        table.add_column(heading, justify="right" if index and not words else "left", no_wrap=not words)
    for index, (cells, style) in enumerate(sheet.rows):
        if index in sheet.sections:
            table.add_section()
        table.add_row(*cells, style=style)
    return table


def _down(console: Console, sheet: Sheet) -> Iterator[Table]:
    """Tables of some rows each, a row a column."""
    left, title = sheet.rows, sheet.title
    while left:
        count = 1
        while count < len(left) and _cells_wide(console, _beside(sheet, left[: count + 1])) <= console.width:
            count += 1
        yield _beside(sheet, left[:count], title)
        left, title = left[count:], None


def _beside(sheet: Sheet, rows: Sequence[tuple[tuple[str, ...], str]], title: str | None = None) -> Table:
    table = _table(title)
    table.add_column(_joined(sheet.headings[0]), no_wrap=True)
    for cells, _ in rows:
        table.add_column(cells[0], justify="right")
    lines = zip_longest(*(cells[1:] for cells, _ in rows), fillvalue="")
    for heading, values in zip(sheet.headings[1:], lines, strict=False):
        table.add_row(_joined(heading), *values)
    return table


def _table(title: str | None) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)


def _joined(heading: str) -> str:
    return heading.replace("\n", "")


def _cells_wide(console: Console, table: Table, *, folded: int | None = None) -> int:
    """How wide it is with nothing folded but the column `folded`."""
    if folded is not None:
        table.columns[folded].max_width = _FOLDED_CELLS
    title, table.title = table.title, None
    width = Measurement.get(console, console.options.update(width=_ANY_WIDTH), table).maximum
    table.title = title
    if folded is not None:
        table.columns[folded].max_width = None
    return width
