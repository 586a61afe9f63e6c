"""Tables on terminals of any width: every figure stands whole."""

import io

import pytest
from rich.console import Console

from autoscaler.cli.sheets import Sheet, print_sheet

HEADINGS = ("policy", "setting", "in time", "GPU-hours", "over D1", "turns\n/day")
ROWS = (
    ("headroom", "", "99.51%", "108.3", "1.123", "12"),
    ("kpa", "target 0.7, best in hindsight of 24 settings", "99.02%", "128.4", "1.331", "184"),
    ("static", "", "100.00%", "162.0", "1.679", "0"),
)


def shown(width: int) -> list[str]:
    """The lines of three policies and a bound, on a terminal of this width."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    sheet = Sheet(HEADINGS, words=1, title="step-x3")
    for row in ROWS:
        sheet.add(*row)
    sheet.section()
    sheet.add("D1", "", "", "96.5")
    print_sheet(console, sheet)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def values_of(heading: str, lines: list[str]) -> list[str]:
    """What stands behind a heading, in all the blocks."""
    return [value for line in lines if line.split()[:1] == [heading] for value in line.split()[1:]]


@pytest.mark.parametrize("width", [24, 40, 60, 80, 140])
def test_no_figure_and_no_heading_is_cut_at_any_width(width: int):
    lines = shown(width)
    words = " ".join(lines).split()
    assert max(len(line) for line in lines) <= width
    assert "…" not in "".join(lines)
    for row in (*ROWS, ("D1", "96.5")):
        assert [cell for cell in row if " " not in cell and cell and cell not in words] == []
    assert "GPU-hours" in words


def test_a_wide_terminal_has_a_policy_in_each_line():
    (line,) = [line for line in shown(140) if "headroom" in line]
    assert line.split() == ["headroom", "99.51%", "108.3", "1.123", "12"]


def test_a_narrow_terminal_has_a_figure_in_each_line_and_the_policies_beside_each_other():
    lines = shown(46)
    assert values_of("policy", lines) == ["headroom", "kpa", "static", "D1"]
    assert values_of("GPU-hours", lines) == ["108.3", "128.4", "162.0", "96.5"]
    assert values_of("turns/day", lines) == ["12", "184", "0"]
