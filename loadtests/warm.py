"""`loadtests warm`: warm hits and idle-warm hours of our pool beside the smallest static pool that hits as often.

Enters: recorded traffic of models that share a pool, turned into replicas by a plain rule. Ours learns from nothing for
the first days, which are not counted, and runs at one default. The static pool keeps the same number of slots at all
times and is sized in hindsight, twice: to hit as often as ours did, and to hit as often as asked. Beside them stands
what pools would keep idle that know the demand to come: every rise, or what each hour of the day or minute of the hour
needs; what plans would that go by all that demand told a refill before, tuned on the days they are judged on, and on
the other days; and what our idle slots stood for, by depth and by hour of the day.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from autoscaler.cli.output import check_writable, write_atomically
from autoscaler.core.pool.params import CapacityType, PoolParams, PoolTier
from autoscaler.errors import HeadroomError, InputError
from autoscaler.sim.traces.reader import read_selection
from autoscaler.sim.traces.selection import split_trace
from autoscaler.sim.traces.table import checked, parse_csv, read_bytes
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warm.causes import Watched, by_depth, by_hour
from autoscaler.sim.warm.demand import IntArray, ReplicaDemand, replicas_of, together
from autoscaler.sim.warm.foresight import foresight
from autoscaler.sim.warm.headroom import HeadroomPool
from autoscaler.sim.warm.hindsight import Tried, every_rise, pattern
from autoscaler.sim.warm.plant_parts import Stages
from autoscaler.sim.warm.run import TIER, Outcome, PoolPolicy, Statics, run
from loadtests.bench.machine import machine
from loadtests.warm_tables import tables

DAY_S = 86_400.0
RATES = "inference/servegen_rates_week1.csv.gz"
FUNCTIONS = "inference/azurefunc2019_dev_minutes.csv.gz"
BIN_S = 60.0
MEAN_RPS = 200.0
BUSIEST_REPLICAS = 37
"""Replicas of one model in its busiest minute, as in the other load tests."""

HOLD_S = 300.0
"""A replica stays for five minutes after it was needed: what HPA does by default."""

WAKING_HOLD_S = 600.0
"""A function that woke from nothing stays for ten minutes, which is customary for keep-alive."""

MOST_SLOTS = 64
PARTS = (1, 4, 16)
"""Into how many parts bins are parted by what was known before them."""

REFILLS = (10, 13)
"""Minutes of a refill that plans reckon with, in the middle and in all but 1 of 100 cases: the better is told."""

TARGET = {"hit_ratio": 0.99, "fewer_idle_ratio": 0.4}


@dataclass(frozen=True, slots=True)
class Case:
    """Models that share a pool, and from when on they are counted."""

    label: str
    models: tuple[str, ...]
    counted_from_s: float
    fold_s: float = DAY_S
    """What a plan that is tuned on other days has not seen."""


CASES = (
    Case("m-small", ("m-small",), 2 * DAY_S),
    Case("m-small+m-large", ("m-small", "m-large"), 2 * DAY_S),
    Case("functions", (), 2 * 3600.0, fold_s=3600.0),
)


def demand_of(case: Case, data: Path, seed: int) -> ReplicaDemand:
    """What the case's models want. InputError where its file cannot be read."""
    if not case.models:
        return together(list(_functions(data / FUNCTIONS)), BIN_S)
    week = f"day=0&days=7&rate={MEAN_RPS:g}"
    return together([(m, replicas_at(f"{data / RATES}#model={m}&{week}", seed)) for m in case.models], BIN_S)


def measure(case: Case, data: Path, *, seed: int, step_s: float) -> dict[str, object]:
    """Ours and the static pools on one case."""
    demand, stages = demand_of(case, data, seed), Stages()
    tier = PoolTier(TIER.name, TIER.name, TIER.sku, CapacityType.ON_DEMAND)
    policy = HeadroomPool(PoolParams("pool", (tier,), demand.models, "content", max_slots=MOST_SLOTS))
    begin_s = case.counted_from_s

    def tried(pool: PoolPolicy) -> Outcome:
        return run(demand, pool, stages=stages, seed=seed, step_s=step_s, score_from_s=begin_s)

    watched = Watched(policy)
    ours = tried(watched)
    statics = Statics(demand, stages=stages, seed=seed, step_s=step_s, score_from_s=begin_s)
    found: dict[str, object] = {}
    for name, asked in (("as_often_as_ours", ours.hit_ratio), ("as_often_as_asked", TARGET["hit_ratio"])):
        size, static = statics.smallest(asked, MOST_SLOTS)
        fewer = 1.0 - ours.idle_warm_h / static.idle_warm_h if static.idle_warm_h else None
        found[name] = {"size": size, **_told(static), "ours_has_fewer_idle_ratio": _short(fewer)}
    minutes = np.arange(demand.replicas.shape[1]) * round(BIN_S) // 60
    asked, from_bin = TARGET["hit_ratio"], round(begin_s / BIN_S)
    known = {
        "every_rise": every_rise(demand, asked, tried),
        "hours_of_the_day": pattern(demand, minutes // 60 % 24, asked, tried, from_bin=from_bin),
        "minutes_of_the_hour": pattern(demand, minutes % 60, asked, tried, from_bin=from_bin),
    }
    foreseen = list(_foreseen(demand, from_bin, round(case.fold_s / BIN_S), tried, statics))
    total = demand.replicas.sum(axis=0)
    return {
        "case": case.label,
        "counted_h": round((demand.duration_s - case.counted_from_s) / 3600.0, 1),
        "replicas": {"mean": _short(float(total.mean())), "most": int(total.max())},
        "ours": _told(ours),
        "static": found,
        "known_in_hindsight": {name: None if outcome is None else _told(outcome) for name, outcome in known.items()},
        "foreseen": foreseen,
        "stood_for": {
            "by_depth": [_rounded(asdict(row)) for row in by_depth(demand, watched, begin_s)],
            "by_hour": [_rounded(asdict(row)) for row in by_hour(demand, watched, begin_s)],
        },
    }


def _foreseen(
    demand: ReplicaDemand, from_bin: int, fold_bins: int, tried: Tried, statics: Statics
) -> Iterator[dict[str, object]]:
    """By number of parts the best plan that was tuned on the days it is judged on, and on the others."""
    told = [foresight(demand, from_bin, refill_bins) for refill_bins in REFILLS]
    for parts in PARTS:
        found: dict[str, list[Outcome | None]] = {"tuned_on_these": [], "tuned_on_others": []}
        for each in told:
            for name, plan_of in zip(found, (each.tuned(parts), each.untuned(parts, fold_bins)), strict=True):
                found[name].append(each.cheapest(plan_of, TARGET["hit_ratio"], BIN_S, tried))
        yield {"parts": parts, **{name: _beside(plans, statics) for name, plans in found.items()}}


def main(arguments: list[str]) -> int:
    """Measure, print a line per case, write JSON after every case."""
    parser = argparse.ArgumentParser(prog="loadtests warm", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the trace files")
    parser.add_argument("--only", help=f"only these cases: {', '.join(case.label for case in CASES)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", type=float, default=30.0, help="seconds between two looks")
    parser.add_argument("--json", type=Path, help="write all figures here, after every case")
    parser.add_argument("--tables", action="store_true", help="print tables instead of JSON")
    given = parser.parse_args(arguments)
    command = shlex.join(["python3", "dev.py", "loadtests", "warm", *arguments])
    results: list[dict[str, object]] = []
    try:
        cases = _chosen(given.only)
        check_writable([path for path in (given.json,) if path is not None])
        for case in cases:
            results.append(measure(case, given.data, seed=given.seed, step_s=given.step))
            print("\n".join(tables(results[-1])) if given.tables else json.dumps(results[-1]), flush=True)
            if given.json is not None:
                _write(given.json, command, given.seed, results)
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0


def _chosen(only: str | None) -> tuple[Case, ...]:
    if only is None:
        return CASES
    words = only.split(",")
    strange = sorted(set(words) - {case.label for case in CASES})
    if strange:
        raise InputError(f"--only: {', '.join(strange)} not known; choose from {', '.join(c.label for c in CASES)}")
    return tuple(case for case in CASES if case.label in words)


def replicas_at(selected: str, seed: int) -> IntArray:
    """Replicas of one model at production rates, from a file and what is selected of it."""
    file, selection = split_trace(selected, seed=seed)
    traffic = read_selection(file, selection, step_s=BIN_S)
    return replicas_of(traffic, replica_rps=traffic.peak_minute_rps / BUSIEST_REPLICAS, hold_s=HOLD_S, least=1)


def _functions(path: Path) -> Iterator[tuple[str, IntArray]]:
    """Functions that wake from nothing: one replica while there were requests lately."""
    table = parse_csv(path, checked(path, read_bytes(path)))
    table.require(("minute", "model", "requests"), ("tenant",), "invocations per minute")
    minutes, requests = table.numbers("minute", whole=True).astype(np.int64), table.numbers("requests", whole=True)
    names = table.columns["model"]
    for name in sorted(set(names)):
        mine = np.array([each == name for each in names], dtype=np.bool_)
        arrivals = np.bincount(minutes[mine], weights=requests[mine], minlength=int(minutes.max()) + 1)
        traffic = Traffic(name, BIN_S, np.minimum(arrivals, 1.0), path.name)
        yield name, replicas_of(traffic, replica_rps=1.0, hold_s=WAKING_HOLD_S)


def _beside(plans: Sequence[Outcome | None], statics: Statics) -> dict[str, object] | None:
    """The plan that keeps least idle, and how much less that is than the smallest static pool that hits as often."""
    outcome = min((each for each in plans if each is not None), key=lambda each: each.idle_warm_h, default=None)
    if outcome is None:
        return None
    static = statics.smallest(outcome.hit_ratio, MOST_SLOTS)[1]
    fewer = 1.0 - outcome.idle_warm_h / static.idle_warm_h if static.idle_warm_h else None
    return {**_told(outcome), "fewer_idle_ratio": _short(fewer)}


def _told(outcome: Outcome) -> dict[str, object]:
    return _rounded({"hit_ratio": outcome.hit_ratio, **asdict(outcome)})


def _rounded(figures: dict[str, object]) -> dict[str, object]:
    return {name: _short(value) if isinstance(value, float) else value for name, value in figures.items()}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _write(path: Path, command: str, seed: int, results: list[dict[str, object]]) -> None:
    report = {
        "loadtest": "warm", "command": command, "seed": seed, "machine": machine(), "targets": TARGET,
        "stages_s": asdict(Stages()), "results": results,
    }  # fmt: skip
    with write_atomically(path) as file:
        file.write((json.dumps(report, indent=1, allow_nan=False) + "\n").encode())
