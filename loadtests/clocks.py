"""`loadtests clocks`: how often a pool goes by a clock where there is none, and what it saves where there is one.

Enters: recorded traffic, as `loadtests warm` reads it. Leaves two lists. Of stretches of loads that know no clock, how
many choose the rule by the minute of the hour, and what of the hour after they find warm, beside the rule by time of
day on the same stretches; both as plans in the same plant. Of functions that wake by the clock, other stretches than
the one of `loadtests warm`: later hours, each half of the functions, other draws of the plant; each beside the smallest
static pool that hits as often.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from autoscaler.cli.output import check_writable, write_atomically
from autoscaler.core.pool import growth, hourly
from autoscaler.core.pool.history import DemandHistory
from autoscaler.core.pool.params import CapacityType, PoolParams, PoolTier
from autoscaler.errors import HeadroomError, InputError
from autoscaler.sim.warm.demand import IntArray, ReplicaDemand
from autoscaler.sim.warm.headroom import HeadroomPool
from autoscaler.sim.warm.hindsight import PlannedPool
from autoscaler.sim.warm.plant_parts import Stages
from autoscaler.sim.warm.run import TIER, Outcome, Statics, run
from loadtests.bench.machine import machine
from loadtests.warm import BIN_S, CASES, MEAN_RPS, MOST_SLOTS, RATES, TARGET, demand_of, replicas_at

WITHOUT: Final = {
    "m-mid, days 0-2": f"{RATES}#model=m-mid&day=0&days=3&rate={MEAN_RPS:g}",
    "deepseek-r1, a day": f"inference/servegen_rates_deepseek-r1_day.csv.gz#rate={MEAN_RPS:g}",
}
"""Loads that know no clock."""

TIMES: Final = (1, 10)
"""How many replicas stand for one of the load: larger pools see so much more come at once."""

MINUTES: Final = (140, 200, 260, 380)
"""How long stretches are: what is known when the rule may first be chosen, where much comes, then where little does."""

STRETCHES: Final = 100
HOUR_BINS: Final = 60
USUAL_S: Final = 800.0
"""What a refill of the plant takes in nine of ten cases, as pools there measure it, and a look."""

LATEST_S: Final = 860.0
"""The same in all but one of a hundred."""

LEARNS_S: Final = 2 * 3600.0
"""Before it a pool on functions is not counted."""


@dataclass(slots=True)
class Chosen:
    """What stretches of one load came to."""

    stretches: int = 0
    chose: int = 0
    new: int = 0
    """Replicas of the hours after those that chose."""
    missed: int = 0
    missed_by_time_of_day: int = 0


def without(levels: IntArray, minutes: int, count: int, seed: int) -> Chosen:
    """Stretches of a load of one model, spread evenly over it."""
    found = Chosen()
    for end in np.linspace(minutes, levels.size - HOUR_BINS - 1, count).astype(int).tolist():
        found.stretches += 1
        stretch = levels[end - minutes : end + HOUR_BINS + 1]
        history = _history(stretch, minutes)
        level = growth.level_for(history, USUAL_S, TARGET["hit_ratio"])
        rhythm = None if level is None else hourly.rhythm_for(history, USUAL_S, TARGET["hit_ratio"], level)
        usual = None if level is None else growth.usual(history, minutes * BIN_S, USUAL_S, level)
        if rhythm is None or usual is None:
            continue
        plan = np.full(stretch.size, usual.slots)
        by_time = _after(stretch, plan, minutes, seed)
        for at in range(minutes - growth.bins_of(LATEST_S), stretch.size):
            minute = hourly.usual(_history(stretch, at), LATEST_S, rhythm)
            plan[at] = usual.slots if minute is None else minute.slots
        by_minute = _after(stretch, plan, minutes, seed)
        found.chose, found.new = found.chose + 1, found.new + by_minute.demanded
        found.missed += by_minute.demanded - by_minute.hits
        found.missed_by_time_of_day += by_time.demanded - by_time.hits
    return found


def _history(levels: IntArray, at: int) -> DemandHistory:
    """What is known in the bin `at`, which is open."""
    before, now = levels[:at].astype(np.float64), float(levels[at])
    return DemandHistory(at, before, before, now, now)


def _after(levels: IntArray, plan: IntArray, minutes: int, seed: int) -> Outcome:
    """What a plan of slots finds warm after so many minutes."""
    demand = ReplicaDemand(("model",), BIN_S, levels[None, :])
    pool = PlannedPool(plan.copy(), BIN_S)
    return run(demand, pool, stages=Stages(), seed=seed, step_s=BIN_S, score_from_s=minutes * BIN_S)


def functions(demand: ReplicaDemand) -> Iterator[tuple[str, ReplicaDemand, int]]:
    """Stretches of the functions: what it is, its demand, the seed of the plant."""
    yield from ((f"all, plant {seed}", demand, seed) for seed in range(5))
    for hours in (1, 2, 3):
        yield f"all, from hour {hours}", _part(demand, 0, 1, hours), 0
    for half in (0, 1):
        yield f"half {half + 1} of the functions", _part(demand, half, 2, 0), 0


def _part(demand: ReplicaDemand, first: int, every: int, hours: int) -> ReplicaDemand:
    replicas = demand.replicas[first::every, hours * HOUR_BINS :]
    return ReplicaDemand(demand.models[first::every], demand.step_s, replicas)


def saved(demand: ReplicaDemand, seed: int, learns_s: float) -> dict[str, object]:
    """Ours beside the smallest static pool that hits as often, from `learns_s` on."""
    tier = PoolTier(TIER.name, TIER.name, TIER.sku, CapacityType.ON_DEMAND)
    policy = HeadroomPool(PoolParams("pool", (tier,), demand.models, "content", max_slots=MOST_SLOTS))
    ours = run(demand, policy, stages=Stages(), seed=seed, step_s=BIN_S, score_from_s=learns_s)
    statics = Statics(demand, stages=Stages(), seed=seed, step_s=BIN_S, score_from_s=learns_s)
    size, static = statics.smallest(ours.hit_ratio, MOST_SLOTS)
    return {
        "demanded": ours.demanded, "hits": ours.hits, "idle_warm_h": round(ours.idle_warm_h, 1),
        "without_work_h": round(_without_work_h(ours), 1), "static_slots": size, "static_hits": static.hits,
        "static_idle_warm_h": round(static.idle_warm_h, 1), "static_without_work_h": round(_without_work_h(static), 1),
        "fewer_idle_ratio": round(1.0 - ours.idle_warm_h / static.idle_warm_h, 3) if static.idle_warm_h else None,
    }  # fmt: skip


def _without_work_h(outcome: Outcome) -> float:
    """Hours of all GPUs without work: warm slots, those on their way, free nodes."""
    return outcome.idle_warm_h + outcome.starting_h + outcome.free_node_h


def main(arguments: list[str]) -> int:
    """Measure, print a line per row, write JSON at the end."""
    parser = argparse.ArgumentParser(prog="loadtests clocks", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the trace files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write all figures here")
    given = parser.parse_args(arguments)
    report: dict[str, Any] = {
        "loadtest": "clocks", "command": shlex.join(["python3", "dev.py", "loadtests", "clocks", *arguments]),
        "seed": given.seed, "machine": machine(), "without_a_clock": [], "with_a_clock": [],
    }  # fmt: skip
    try:
        check_writable([path for path in (given.json,) if path is not None])
        for name, make in (("without_a_clock", _rows_without), ("with_a_clock", _rows_with)):
            _told(report[name], make, given.data, given.seed)
        if given.json is not None:
            with write_atomically(given.json) as file:
                file.write((json.dumps(report, indent=1, allow_nan=False) + "\n").encode())
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0


def _told(rows: list[object], make: Callable[[Path, int], Iterator[dict[str, object]]], data: Path, seed: int) -> None:
    for row in make(data, seed):
        print(json.dumps(row), flush=True)
        rows.append(row)


def drawn(seed: int) -> IntArray:
    """Three days of two jumps of twenty an hour, at any minute, beside a replica that comes and goes all the time: by
    chance two of them come an hour apart more often than in recordings."""
    rng = np.random.default_rng(seed)
    levels = 2 + rng.integers(0, 2, 3 * 24 * HOUR_BINS)
    for at in rng.choice(levels.size, size=2 * 3 * 24, replace=False).tolist():
        levels[at : at + 10] += 20
    return levels


def _rows_without(data: Path, seed: int) -> Iterator[dict[str, object]]:
    loads = [(name, replicas_at(f"{data}/{selection}", seed)) for name, selection in WITHOUT.items()]
    told = [(name, times, levels) for name, levels in loads for times in TIMES]
    for name, times, levels in (*told, ("drawn jumps", 1, drawn(seed))):
        for minutes in MINUTES:
            found = without(times * levels, minutes, STRETCHES, seed)
            yield {"load": name, "times": times, "minutes": minutes, **asdict(found)}


def _rows_with(data: Path, seed: int) -> Iterator[dict[str, object]]:
    (case,) = (case for case in CASES if not case.models)
    for label, demand, plant in functions(demand_of(case, data, seed)):
        yield {"functions": label, **saved(demand, plant, LEARNS_S)}
