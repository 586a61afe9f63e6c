"""`loadtests recovery`: how long requests are late after a step of three times that nobody foresaw, with and without
warm slots, beside what the stage clock said of the next start when the step came.

Enters: how many slots are kept warm, and seeds. Leaves: a line per step: seconds, and the ratio to nine of ten starts
as the stage clock knew them (all stages without a warm slot, those that remain with one). How long stages take is an
input (published medians, spread by a fifth); noticing, deciding and clearing the queue are the core's own.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from autoscaler.cli.output import check_writable, write_together
from autoscaler.errors import HeadroomError, InputError
from autoscaler.sim.warm.plant_parts import Stages
from autoscaler.sim.warm.serving import Course, Engine, Recovery, recovered
from loadtests.bench.machine import machine

MOST_RATIO: Final = 1.6
SLOTS: Final = (0, 16, 32)
"""None; as many as the step asks for; twice as many, which is what clearing its queue takes."""


def line(found: Recovery, seed: int) -> str:
    """One step for people."""
    what = f"{found.slots} slots warm" if found.slots else "no warm slot"
    if found.foretold is None or found.ratio is None:
        return f"seed {seed}, {what}: {found.recovery_s:.0f} s; the stage clock had seen too few starts to say"
    left = "what is left of a start" if found.foretold.warm else "a whole start"
    within_s, samples = found.foretold.spread.p90_s, found.foretold.spread.samples
    return (
        f"seed {seed}, {what}: {found.recovery_s:.0f} s; {left} takes nine of ten times at most {within_s:.0f} s "
        f"({samples} starts): {found.ratio:.2f} times, asked ≤ {MOST_RATIO:g}"
    )


def main(arguments: list[str]) -> int:
    """Run, print, write; 0 where every ratio is within what is asked, 1 where one is not, or is not known, 2 for
    unusable arguments."""
    parser = argparse.ArgumentParser(prog="loadtests recovery", allow_abbrev=False, description=__doc__)
    listed = ",".join(map(str, SLOTS))
    parser.add_argument("--slots", default=listed, metavar="N,…", help=f"warm slots, by default {listed}")
    parser.add_argument("--seeds", default="0,1,2,3,4", metavar="N,…", help="by default 0,1,2,3,4")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    given = parser.parse_args(arguments)
    try:
        slots, seeds = _counts("--slots", given.slots, 64), _counts("--seeds", given.seeds, 2**31)
        check_writable([given.json] if given.json is not None else [])
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found, misses = list[dict[str, object]](), 0
    for each, seed, step in _steps(slots, seeds):
        found.append({"slots": each, "seed": seed, **told(step)})
        misses += step.ratio is None or step.ratio > MOST_RATIO
        print(line(step, seed), flush=True)
    if given.json is not None:
        command = shlex.join(["python3", "dev.py", "loadtests", "recovery", *arguments])
        report = {
            "loadtest": "recovery", "command": command, "seed": seeds[0], "machine": machine(),
            "inputs": {"stages_s": asdict(Stages()), "engine_s": asdict(Engine()), "course_s": asdict(Course())},
            "target_ratio": MOST_RATIO, "results": found,
        }  # fmt: skip
        write_together({given.json: json.dumps(report, indent=1, allow_nan=False) + "\n"})
    return 1 if misses else 0


def told(found: Recovery) -> dict[str, object]:
    """One step as plain values."""
    return {
        "warm": found.warm,
        "foretold": None if found.foretold is None else asdict(found.foretold),
        "recovery_s": round(found.recovery_s, 1),
        "ratio": None if found.ratio is None else round(found.ratio, 3),
    }


def _steps(slots: Sequence[int], seeds: Sequence[int]) -> Iterator[tuple[int, int, Recovery]]:
    for each in slots:
        for seed in seeds:
            yield each, seed, recovered(each, seed)


def _counts(option: str, text: str, most: int) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) <= most for word in words):
        raise InputError(f"{option}: {text!r} cannot be used; give numbers from 0 to {most} separated by commas")
    return tuple(int(word) for word in words)
