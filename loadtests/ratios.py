"""`loadtests ratios`: what we cost over the clairvoyant bound, beside every rival swept in hindsight and a perfect
forecast, on recorded days, built-in workloads and on/off traffic.

Ours runs at one default everywhere. Results of the bounds and the rivals, which are frozen, are kept on disk; a change
to their code or to the plant runs them again. A day takes minutes per rival the first time and seconds afterwards.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from autoscaler.cli.output import check_writable, write_atomically
from autoscaler.errors import HeadroomError, InputError
from autoscaler.sim.contest import OURS, Bounds
from autoscaler.sim.entry import enter
from autoscaler.sim.rivals import RIVALS
from loadtests.bench.machine import machine
from loadtests.cases import Case, all_cases, chosen
from loadtests.figures import Record, figures
from loadtests.frozen import bounds_of, frontier_of
from loadtests.markdown import render

MARKS = ("<!-- ratios: written by `python3 dev.py loadtests ratios --readme FILE` -->", "<!-- ratios: end -->")


def measure(case: Case, policy: str = OURS) -> Record:
    """All figures of one case; what is frozen comes from disk where it is there."""
    instance = case.load()
    bounds = bounds_of(instance)
    frontiers = {name: frontier_of(instance, name) for name in RIVALS}
    return figures(case, instance, bounds, frontiers, enter(policy, instance, bounds, Bounds()).score)


def main(arguments: list[str]) -> int:
    """Measure, print a line per case and the tables at the end; write JSON after every case."""
    given = _parsed(arguments)
    command = shlex.join(["python3", "dev.py", "loadtests", "ratios", *arguments])
    try:
        days = _numbers("--days", given.days)
        models = tuple(given.models.split(","))
        cases = all_cases(given.data, models=models, days=tuple(round(day) for day in days), seed=given.seed)
        cases = chosen(cases, given.only, None if given.warmups is None else _numbers("--warmups", given.warmups))
        check_writable([path for path in (given.json, given.markdown) if path is not None])
        if given.readme is not None:
            _spliced(given.readme, "")
        done: dict[Case, Record] = {}
        for case, record in _measured(cases, given.policy, given.processes):
            done[case] = record
            print(_line(case, record), flush=True)
            if given.json is not None:
                _write_json(given.json, [done[case] for case in cases if case in done], command, given.seed)
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    text = _headline(command, given.seed) + render([done[case] for case in cases])
    print(f"\n{text}")
    if given.markdown is not None:
        _write(given.markdown, text)
    if given.readme is not None:
        _write(given.readme, _spliced(given.readme, text))
    return 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="loadtests ratios", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the trace files")
    parser.add_argument("--models", default="m-small,m-large", help="ServeGen models")
    parser.add_argument("--days", default="1,3", help="days of the week of rates, counted from 0")
    parser.add_argument("--warmups", help="only these warm-ups, seconds: 60,180,600")
    parser.add_argument("--only", help="only these kinds (day, named, on-off) or labels (m-small, ramp, …)")
    parser.add_argument("--policy", default=OURS, help="what stands for us: headroom, or headroom-TERM for an ablation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="cases measured at once")
    parser.add_argument("--json", type=Path, help="write all figures here, after every case")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--readme", type=Path, help="put the tables between the marks of this file")
    return parser.parse_args(arguments)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError as error:
        raise InputError(f"{option}: {text!r} cannot be used; give numbers separated by commas") from error


def _measured(cases: Sequence[Case], policy: str, processes: int) -> Iterator[tuple[Case, Record]]:
    if processes <= 1:
        for case in cases:
            yield case, measure(case, policy)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(measure, case, policy): case for case in cases}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def _line(case: Case, record: Record) -> str:
    compared, ours = record["compared"], record["headroom"]
    if not isinstance(compared, dict) or not isinstance(ours, dict):
        raise TypeError(f"{case.label}: a record of figures has two parts, compared and headroom")
    day = "" if case.day is None else f" day {case.day}"
    best, perfect, closed = (compared[key] for key in ("best_rival_ratio_d2", "perfect_ratio_d2", "gap_closed"))
    return (
        f"{case.label}{day}, {case.warmup_s:g} s: {compared['best_rival']} {_short(best)}, perfect {_short(perfect)}, "
        f"headroom {_short(ours['ratio_d2'])} at {ours['attainment']:.2%}, gap closed {_short(closed)}, "
        f"flips {compared['flips_per_day']:.0f} (kpa {compared['kpa_flips_per_day']:.0f})"
    )


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _headline(command: str, seed: int) -> str:
    host = machine()
    return (
        f"`{command}`, seed {seed}, on {host['cpu']}, Python {host['python']}, numpy {host['numpy']}. Rivals and "
        "perfect at the best of all their settings for each row, ours at one default; bold misses its target.\n\n"
    )


def _write_json(path: Path, records: Sequence[Record], command: str, seed: int) -> None:
    report = {"loadtest": "ratios", "command": command, "seed": seed, "machine": machine(), "results": records}
    _write(path, json.dumps(report, indent=1, allow_nan=False) + "\n")


def _write(path: Path, text: str) -> None:
    with write_atomically(path) as file:
        file.write(text.encode())


def _spliced(path: Path, text: str) -> str:
    """The file with `text` between its marks. InputError where it lacks them."""
    begin, end = MARKS
    content = path.read_text() if path.is_file() else ""
    if content.count(begin) != 1 or content.count(end) != 1:
        raise InputError(f"{path}: it needs the two lines {begin} and {end}, once each and in this order")
    head, rest = content.split(begin)
    return f"{head}{begin}\n{text}{end}{rest.split(end)[1]}"
