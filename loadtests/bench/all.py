"""`bench all`: every figure the product promises, measured one command after the other, and the table of them.

Each command runs in a process of its own. A row that others' use of the processors spoilt is told of and not kept: what
was measured before stays, with its date. Exit codes: 0 all that was asked for is kept, 1 some is not, 2 unusable
arguments, 130 interrupted.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from autoscaler.cli.output import check_writable
from autoscaler.errors import InputError
from loadtests.bench.machine import machine
from loadtests.bench.others import Stretch
from loadtests.bench.record import RECORD, Measured, asked, read_figures, read_record, write_record
from loadtests.bench.rows import ROWS, Row

OTHERS_CORES: Final = 0.5
"""More than this spoils what is judged by the clock. A guess: a quarter of the smallest machine it is run on."""

MISSED: Final = 1
"""How a command that judges its own figures ends where it has told them and one misses."""

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "loadtests" / "README.md"


def main(arguments: list[str]) -> int:
    """Measure what is asked for, keep it, write the table; see the module for the exit codes."""
    parser = argparse.ArgumentParser(prog="bench all", allow_abbrev=False, description=__doc__)
    add = parser.add_argument
    add("--only", help=f"these rows, separated by commas: {', '.join(row.key for row in ROWS)}")
    add("--most-minutes", type=float, help="only rows that take about so long at most")
    add("--table", action="store_true", help="measure nothing: write the table of what was measured")
    add("--record", type=Path, default=RECORD, metavar="FILE", help="where it is kept (default: beside the code)")
    add("--readme", type=Path, default=README, metavar="FILE", help="put the table between the marks of this file")
    given = parser.parse_args(arguments)
    try:
        wanted = [] if given.table else _chosen(given.only, given.most_minutes)
        check_writable([given.record, given.readme])
        found = read_record(given.record)
        missed = 0
        write_record(found, ROWS, given.readme, given.record)
        for row in wanted:
            measured = _measured(row)
            if measured is None:
                missed += 1
                continue
            found[row.key] = measured
            write_record(found, ROWS, given.readme, given.record)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: what was measured until then is kept", file=sys.stderr)
        return 130
    return 1 if missed else 0


def _chosen(only: str | None, most_minutes: float | None) -> Sequence[Row]:
    words = None if only is None else only.split(",")
    strange = set(words or ()) - {row.key for row in ROWS}
    if strange:
        raise InputError(f"--only: {', '.join(sorted(strange))} not known; choose from {[row.key for row in ROWS]}")
    found = [row for row in ROWS if words is None or row.key in words]
    return [row for row in found if most_minutes is None or row.minutes <= most_minutes]


def _measured(row: Row) -> Measured | None:
    """The row, or None where its command failed or others spoilt it; either is told of."""
    print(f"{row.key}: {asked(row)}, about {row.minutes:g} min", file=sys.stderr, flush=True)
    stretch = Stretch.begin()
    told = _told(row)
    others = stretch.others_cores()
    if told is None:
        return None
    if row.alone and others is not None and others > OTHERS_CORES:
        limit = f"more than {OTHERS_CORES:g}"
        print(f"{row.key}: not kept, others used {others:.2f} cores, {limit}; run it again alone", file=sys.stderr)
        return None
    figures = read_figures(row, told)
    on = machine()
    print(json.dumps({"row": row.key, "others_cores": others, "figures": figures}), flush=True)
    seed = told.get("seed") if isinstance(told, dict) else None
    place = f"{on['cpu']}, {on['cores']} cores, Python {platform.python_version()}"
    return Measured(row.key, datetime.now(UTC).date().isoformat(), place, asked(row), figures, seed, others)


def _told(row: Row) -> Any:
    """The JSON of the row's command; None where it failed, which it says itself."""
    with tempfile.TemporaryDirectory(prefix="headroom-bench-") as folder:
        out = Path(folder) / "out.json"
        command = [sys.executable, "-m", "loadtests", row.name, *row.arguments, "--json", str(out)]
        if not row.loadtest:
            command = [sys.executable, "-m", "loadtests.bench", row.name, *row.arguments]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
        if done.returncode not in ({0, MISSED} if row.judges else {0}):
            print(f"{row.key}: not kept, its command ended with {done.returncode}", file=sys.stderr)
            return None
        try:
            return json.loads(out.read_bytes() if row.loadtest else done.stdout)
        except (OSError, ValueError) as error:
            print(f"{row.key}: not kept, its command told no JSON ({error})", file=sys.stderr)
            return None
