"""`loadtests loop`: `headroom decide --jsonl` in closed loop with a plant of single requests, as an outsider drives it.

Enters: names of cases, seeds. Leaves: a line per run, a table at the end, and JSON. Beside ours stand the best constant
count in hindsight and HPAs at three targets, on the same requests. Exit codes: 0 done, 1 decide ended or refused a
line, 2 unusable arguments, 130 interrupted; what was measured until then is told and written in each case.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from autoscaler.cli.output import check_writable, write_together
from autoscaler.cli.progress import Meter
from autoscaler.errors import HeadroomError, InputError
from loadtests.bench.machine import machine
from loadtests.loop.cases import all_cases, chosen
from loadtests.loop.closed import Case, Move, best_constant, closed_loop
from loadtests.loop.fleet import Requests
from loadtests.loop.policies import DECIDE, Decide, Hpa
from loadtests.loop.scores import Score
from loadtests.loop.tables import CONSTANT, HPA_ON_ALL, HPA_ON_RUNNING, OURS, number, table

HPAS: Final = {HPA_ON_RUNNING: False, HPA_ON_ALL: True}
TARGETS: Final = (0.5, 0.65, 0.8)
ROOT: Final = Path(__file__).parents[2]
MOST_SEEDS: Final = 1000

Scores = dict[str, Score | None]
"""By policy; None where no constant count is enough."""


def main(arguments: list[str]) -> int:
    """Measure, print, write; see the module for the exit codes."""
    given = _parser().parse_args(arguments)
    report: dict[str, Any] = {
        "loadtest": "loop", "command": shlex.join(["python3", "dev.py", "loadtests", "loop", *arguments]),
        "commit": commit(), "machine": machine(), "decide": given.decide or "headroom decide --jsonl", "seeds": [],
        "results": [],
    }  # fmt: skip
    code = 0
    try:
        cases, seeds = _checked(given)
        report["seeds"] = list(seeds)
        if given.list:
            print("\n".join(case.name for case in cases))
            return 0
        with Meter(len(cases) * len(seeds)) as meter:
            for case in cases:
                for seed in seeds:
                    meter.begin(f"{case.name}, seed {seed}")
                    row = _measured(case, seed, given, meter.move)
                    report["results"].append(row)
                    print(_line(row), flush=True)
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    return _told(report, given.json, code)


def commit() -> str | None:
    """The commit of this tree, marked where it was changed since; None where git does not tell."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return None
    return done.stdout.strip() or None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="loadtests loop", allow_abbrev=False, description=__doc__)
    add = parser.add_argument
    add("--only", metavar="NAME,…", help="only these cases, or those whose names begin so (step, untold-2s, …)")
    add("--list", action="store_true", help="print the names of the cases and run nothing")
    add("--seeds", default="0,1", metavar="N,…", help="by default 0,1")
    add("--alone", action="store_true", help="ours only: no constant count, no HPA")
    add("--data", type=Path, default=Path("../shared/data"), help="folder of the trace files")
    add("--decide", metavar="COMMAND", help="what is driven, by default this tree's `headroom decide --jsonl`")
    add("--keep", type=Path, metavar="FOLDER", help="keep each run's lines and answers there, in turn")
    add("--json", type=Path, metavar="FILE", help="write everything there")
    return parser


def _checked(given: argparse.Namespace) -> tuple[tuple[Case, ...], tuple[int, ...]]:
    """The cases and the seeds; InputError where it cannot be run as it is asked for."""
    words = given.seeds.split(",")
    if not all(word.isdecimal() and int(word) < 2**31 for word in words) or len(words) > MOST_SEEDS:
        raise InputError(f"--seeds: {given.seeds!r} cannot be used; give numbers from 0 on, separated by commas")
    if given.keep is not None and not given.keep.is_dir():
        raise InputError(f"--keep: {given.keep} is no folder; make one")
    if given.decide is not None and not shlex.split(given.decide):
        raise InputError("--decide: no command is named")
    check_writable([given.json] if given.json is not None else [])
    return chosen(all_cases(given.data), given.only), tuple(int(word) for word in words)


def _measured(case: Case, seed: int, given: argparse.Namespace, move: Move) -> dict[str, Any]:
    """One case at one seed, by all who decide."""
    requests = case.requests(seed)
    began_s = time.monotonic()
    with ExitStack() as stack:
        kept = given.keep / f"{case.name}-{seed}.jsonl" if given.keep is not None else None
        file = stack.enter_context(nullcontext() if kept is None else kept.open("w", encoding="utf-8"))
        command = DECIDE if given.decide is None else shlex.split(given.decide)
        child = stack.enter_context(Decide(command, file))
        scores: Scores = {OURS: closed_loop(case, requests, seed, child, move)}
    took_s = time.monotonic() - began_s
    count = None
    if not given.alone:
        count = _rivals(case, requests, seed, scores)
    return {
        "case": case.name, "seed": seed, "hours": case.for_s / 3600.0, "constant": count,
        "ours_took_s": round(took_s, 2), "scores": {name: _rounded(each) for name, each in scores.items()},
    }  # fmt: skip


def _rivals(case: Case, requests: Requests, seed: int, scores: Scores) -> int | None:
    best = best_constant(case, requests, seed)
    scores[CONSTANT] = None if best is None else best[1]
    for kind, waiting in HPAS.items():
        for target in TARGETS:
            hpa = Hpa(case.fleet.slots, target, waiting=waiting)
            scores[f"{kind}{target:g}"] = closed_loop(case, requests, seed, hpa)
    return None if best is None else best[0]


def _rounded(found: Score | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {name: round(value, 5) if isinstance(value, float) else value for name, value in asdict(found).items()}


def _line(row: dict[str, Any]) -> str:
    told = ", ".join(
        f"{name} none enough" if each is None else f"{name} {number(each['cost'])} at {each['late']:.2%} late"
        for name, each in row["scores"].items()
    )
    return f"{row['case']}, seed {row['seed']}: {told}"


def _told(report: dict[str, Any], path: Path | None, code: int) -> int:
    """The table, and the JSON where it was asked for; `code`, or 1 where that cannot be written."""
    if not report["results"]:
        return code
    print("\n" + "\n".join(table(report)))
    if path is not None:
        try:
            write_together({path: json.dumps(report | {"exit_code": code}, indent=1, allow_nan=False) + "\n"})
        except HeadroomError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return code
