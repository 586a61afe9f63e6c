"""`loadtests batch`: batch admission under several policies beside bounds: recorded and drawn work, packing, sharing.

Without options all cases with goals run, in minutes; `--only` takes some. `--trace FILE --gpus N` plays a job list of
your own (the columns of Philly, CSV or gzip), `--load X` the generator. Rows hold mean completion over its bound,
the worst wait of a gang above 8 GPUs, makespan over its bound, work that lasted over GPU-hours, evictions, GPU-hours
in vain, and what the worst tenant got of its fair share.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from autoscaler.cli.output import check_writable, write_atomically
from autoscaler.errors import HeadroomError, InputError
from autoscaler.sim.batch import files
from autoscaler.sim.batch.contest import POLICIES, parse
from autoscaler.sim.batch.generate import KUEUE_FLOOR_S, mixed, overstated
from autoscaler.sim.batch.work import Case, cluster_of, scaled
from loadtests.batch_cases import PHILLY_GPUS, generator, helios, joint, kueue, openb, packing, played, recorded
from loadtests.bench.machine import machine

TARGETS = {
    "completion_ratio": {"load 0.8": 1.45, "load 0.95": 2.2},
    "worst_large_wait_s": "at most EASY's",
    "kueue_makespan_s": round(1.1 * KUEUE_FLOOR_S, 1),
    "packing_gap_ratio": 0.02,
    "openb_points_above_best_fit": 2.0,
    "joint_used_ratio": 0.9,
    "joint_lost_points": 0.1,
}
Cases = Callable[[], list[dict[str, object]]]
"""Plays one kind of case."""


def own(given: argparse.Namespace) -> list[dict[str, object]]:
    """What the options describe."""
    names = parse(given.policy)
    if given.load is not None:
        case = mixed(load=given.load, seed=given.seed)
    else:
        jobs = files.philly(given.trace, first_day=given.day, days=given.days)
        guarantees = {} if given.quotas is None else files.quotas(given.quotas)
        tenants = scaled(guarantees, files.tenants_of(jobs, guarantees), given.gpus)
        case = Case(given.trace.name, cluster_of(given.gpus), tenants, jobs)
    if given.overstate > 1.0:
        case = overstated(case, given.overstate, given.seed)
    return [played(case, names)]


def main(arguments: list[str]) -> int:
    """Play, print a line for each policy, write JSON after every case."""
    parser = argparse.ArgumentParser(prog="loadtests batch", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the trace files")
    parser.add_argument("--only", help="only these: generator, philly, kueue, packing, openb, helios, joint")
    parser.add_argument("--trace", type=Path, help="a job list of your own")
    parser.add_argument("--gpus", type=int, default=PHILLY_GPUS, help="with --trace: GPUs, on nodes of 8")
    parser.add_argument("--day", type=int, default=0, help="with --trace: the first day, counted from 0")
    parser.add_argument("--days", type=int, help="with --trace: how many")
    parser.add_argument("--quotas", type=Path, help="with --trace: what tenants are guaranteed")
    parser.add_argument("--load", type=float, help="the generator at this load")
    parser.add_argument("--overstate", type=float, default=1.0, help="jobs say they run up to this many times too long")
    parser.add_argument("--policy", default="all", help=f"of --trace and --load: {', '.join(POLICIES)}, or all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5, help="of what is drawn, from --seed on")
    parser.add_argument("--json", type=Path, help="write all figures here, after every case")
    given = parser.parse_args(arguments)
    command = shlex.join(["python3", "dev.py", "loadtests", "batch", *arguments])
    cases: dict[str, Cases] = {
        "generator": lambda: generator(given.seeds, given.seed),
        "philly": lambda: recorded(given.data),
        "kueue": kueue,
        "packing": lambda: packing(given.seeds, given.seed),
        "openb": lambda: openb(given.data, given.seeds, given.seed),
        "helios": lambda: helios(given.data),
        "joint": lambda: joint(given.data),
    }
    about = {"loadtest": "batch", "command": command, "seed": given.seed, "machine": machine(), "targets": TARGETS}
    results: dict[str, object] = {}
    try:
        _refuse(given)
        _refuse_idle(given, parser)
        check_writable([path for path in (given.json,) if path is not None])
        mine: dict[str, Cases] = {"own": lambda: own(given)}
        wanted = mine if given.trace is not None or given.load is not None else _chosen(cases, given.only)
        for name, play in wanted.items():
            results[name] = play()
            if given.json is not None:
                _write(given.json, {**about, "results": results})
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("interrupted: the JSON holds the cases that were done", file=sys.stderr)
        return 130
    return 0


def _refuse(given: argparse.Namespace) -> None:
    if given.trace is not None and given.load is not None:
        raise InputError("--load: the generator has no trace; leave out --trace or --load")
    if given.gpus < 1 or given.gpus > files.MOST_GPUS:
        raise InputError(f"--gpus: {given.gpus} cannot be used; give 1 to {files.MOST_GPUS}")
    if given.day < 0 or (given.days is not None and given.days < 1):
        raise InputError(f"--day {given.day}, --days {given.days}: give a day from 0 on, and 1 day or more")
    if not 1.0 <= given.overstate <= 100.0:
        raise InputError(f"--overstate: {given.overstate} cannot be used; give 1 to 100")
    if given.seed < 0 or given.seeds < 1:
        raise InputError(f"--seed {given.seed}, --seeds {given.seeds}: give a seed from 0 on, and 1 of them or more")


def _refuse_idle(given: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """InputError for an option that would change nothing of what is asked."""
    own = given.trace is not None or given.load is not None
    names = [] if given.trace is not None else ["gpus", "day", "days", "quotas"]
    names += ["only"] if own else ["policy", "overstate"]
    idle = [f"--{name}" for name in names if getattr(given, name) != parser.get_default(name)]
    if idle:
        asked = "--trace" if given.trace is not None else "--load" if own else "neither --trace nor --load"
        raise InputError(f"{', '.join(idle)}: changes nothing with {asked}; leave it out")


def _chosen(cases: dict[str, Cases], only: str | None) -> dict[str, Cases]:
    if only is None:
        return cases
    words = only.split(",")
    strange = sorted(set(words) - set(cases))
    if strange:
        raise InputError(f"--only: {', '.join(strange)} not known; choose from {', '.join(cases)}")
    return {name: cases[name] for name in cases if name in words}


def _write(path: Path, report: dict[str, object]) -> None:
    with write_atomically(path) as file:
        file.write((json.dumps(report, indent=1, allow_nan=False) + "\n").encode())
