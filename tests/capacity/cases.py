"""The 48 edge cases of warm pools, by name: which tests show each, or why nothing here does.

usage: python3 dev.py cases [NUMBER...]

Enters: the table beside this file. Leaves: rows, and lines for people. It runs no test.
"""

import argparse
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class Case:
    """One row; either tests show it, or `not_shown` says why none does."""

    number: int
    name: str
    shown: tuple[str, ...] = ()
    """Tests as pytest names them, without parameters."""
    not_shown: str = ""
    note: str = ""
    """Of a case that tests show: what of its words they do not, or show otherwise."""


def table() -> list[Case]:
    """The rows in order. Raises TypeError for a row with another field."""
    rows = tomllib.loads(TABLE.read_text())["case"]
    return [Case(**row | {"shown": tuple(row.get("shown", ()))}) for row in rows]


def lines(cases: Sequence[Case]) -> list[str]:
    """Each case in a line, its tests or the reason below it."""
    found = []
    for case in cases:
        found.append(f"{case.number:2d}  {case.name}")
        found += [f"      {test}" for test in case.shown] or [f"      not shown: {case.not_shown}"]
        found += [f"      note: {case.note}"] if case.note else []
    return found


def main() -> int:
    """Print the chosen cases, all of them when none is chosen."""
    parser = argparse.ArgumentParser(prog="dev.py cases", description="the edge cases of warm pools and their tests")
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="all when none is given")
    given = parser.parse_args()
    cases = [case for case in table() if not given.numbers or case.number in given.numbers]
    print("\n".join(lines(cases)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
