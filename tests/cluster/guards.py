"""Proof that the tests guard what they say: one guard of the product is removed at a time, and its test must fail.

usage: python3 dev.py guards [NAME...] [--json] [--list]

Enters: the table beside this file and the working tree. Leaves: a verdict per guard. Each removal is made in a copy of
the tree and runs the one test that is named for it, which has to fail with the assertion that is named for it: a test
that passes guards nothing, and one that fails otherwise shows something else. NAME may be a pattern, as in 'page-*'.
"""

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).resolve().parent.parent.parent
TABLE: Final = Path(__file__).with_suffix(".toml")

PROVEN: Final = "fails without it"
WIDEST: Final = 100
"""Of what is shown of an assertion."""


class StaleError(Exception):
    """The table and the sources do not fit together any more."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A text that occurs once in a file of the product, and what stands there instead without the guard."""

    file: str
    find: str
    replace: str

    def of(self, source: str) -> str:
        """The source without it. Raises StaleError unless it is there exactly once."""
        count = source.count(self.find)
        if count != 1:
            raise StaleError(f"{self.find.strip()!r} occurs {count} times in {self.file}; mend the table")
        return source.replace(self.find, self.replace)


@dataclass(frozen=True, slots=True)
class Guard:
    """One row: what is removed, the test that must then fail, and the words that its assertion must have."""

    name: str
    fault: str
    removals: tuple[Removal, ...]
    """More than one where two guards stand behind each other."""
    test: str
    fails: str
    without: str
    """What goes wrong without the guard, for people."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one removal; `words` are those of the assertion, or of whatever else there was."""

    guard: str
    test: str
    outcome: str
    words: str
    seconds: float


def table() -> list[Guard]:
    """The rows in order. Raises KeyError or TypeError for a row that lacks something."""
    return [_guard(row) for row in tomllib.loads(TABLE.read_text())["guard"]]


def _guard(row: dict[str, Any]) -> Guard:
    first = {name: row.pop(name) for name in ("file", "find", "replace")}
    removals = tuple(Removal(**one) for one in (first, *row.pop("also", ())))
    return Guard(removals=removals, **row)


def prove(guard: Guard) -> Verdict:
    """Remove one guard from a copy of the working tree and run its test there."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headroom-guard-") as folder:
        tree = Path(folder, "tree")
        _copy(tree)
        for removal in guard.removals:
            harmed = tree / removal.file
            harmed.write_text(removal.of(harmed.read_text()))
        report = Path(folder, "report.xml")
        command = [
            sys.executable, "-m", "pytest", guard.test, "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
            f"--basetemp={folder}/pytest",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=tree, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        outcome, words = read(guard, report, done.stdout + done.stderr)
    return Verdict(guard.name, guard.test, outcome, words, round(time.monotonic() - begin, 1))


def _copy(tree: Path) -> None:
    """The working tree as it is, without what git ignores."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def read(guard: Guard, report: Path, output: str) -> tuple[str, str]:
    """Outcome and words out of pytest's report."""
    if not report.exists():
        return "no test was run", output[-2000:]
    case = ET.parse(report).getroot().find(".//testcase")
    found = None if case is None else next((one for one in case if one.tag in {"failure", "error", "skipped"}), None)
    if case is None:
        return "no test was run", output[-2000:]
    if found is None:
        return "PASSES WITHOUT IT", ""
    words = found.get("message", "").removeprefix('failed on setup with "')
    if found.tag == "skipped":
        return "skipped", words
    if not words.startswith(("AssertionError", "assert ")):
        return "FAILS WITHOUT AN ASSERTION", words
    return (PROVEN if guard.fails in words else "FAILS OTHERWISE"), words


def chosen(guards: Sequence[Guard], names: Sequence[str]) -> list[Guard]:
    """The rows with these names, all of them where there are none. Raises StaleError for a name that fits no row."""
    for name in names:
        if not any(fnmatch.fnmatch(guard.name, name) for guard in guards):
            raise StaleError(f"no guard is named {name!r}; --list shows them")
    return [guard for guard in guards if not names or any(fnmatch.fnmatch(guard.name, name) for name in names)]


def main() -> int:
    """Prove the chosen guards; 1 when one of them is not proven, 2 when the table does not fit the sources."""
    parser = argparse.ArgumentParser(prog="dev.py guards", description="remove a guard, see its test fail")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a guard or a pattern; all when none is given")
    parser.add_argument("--json", action="store_true", help="the verdicts as JSON on standard output")
    parser.add_argument("--list", action="store_true", help="show the guards and run nothing")
    given = parser.parse_args()
    try:
        guards = chosen(table(), given.names)
        for removal in (one for guard in guards for one in guard.removals):
            removal.of((ROOT / removal.file).read_text())
    except StaleError as error:
        print(f"dev.py guards: error: {error}", file=sys.stderr)
        return 2
    width = max(len(guard.name) for guard in guards)
    if given.list:
        for guard in guards:
            print(f"{guard.name:<{width}}  {guard.fault}")
        return 0
    verdicts = []
    for guard in guards:
        verdicts.append(verdict := prove(guard))
        line = f"{verdict.guard:<{width}}  {verdict.seconds:6.1f} s  {verdict.outcome}: {_short(verdict.words)}"
        print(line, file=sys.stderr if given.json else sys.stdout, flush=True)
    if given.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=1, ensure_ascii=False))
    unproven = [verdict for verdict in verdicts if verdict.outcome != PROVEN]
    print(f"{len(verdicts) - len(unproven)} of {len(verdicts)} guards proven", file=sys.stderr)
    return 1 if unproven else 0


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…"


if __name__ == "__main__":
    sys.exit(main())
