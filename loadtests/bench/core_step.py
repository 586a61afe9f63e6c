"""How long one step of the core takes over a large table when few, and when all, of its workloads have new readings.

Every workload has four pods, a gateway, six hours of history and a fitted model in force, and is read every five
seconds, so that half of the readings close a history bin and forecast; fits fall due as often as they do in life. The
readings are made outside of the measured time. Nothing is acted on: the plant answers with the count it was given.
"""

import argparse
import cProfile
import gc
import json
import pstats
import time
from dataclasses import fields

import numpy as np

from autoscaler.core import engine
from autoscaler.core.columns import F64
from autoscaler.core.forecast.features import NAMES
from autoscaler.core.forecast.models import FittedModel, Trees
from autoscaler.core.params import BIN_S, HISTORY_BINS, Params
from autoscaler.core.state import Table
from autoscaler.core.types import GatewayReading, PodReading, Readings, ReplicaReading
from loadtests.bench.machine import command, machine, peak_rss_mib

PODS = 4
POD_RPS = 2.0
READ_EVERY_S = 5.0
REFIT_S = 1800.0
START_S = HISTORY_BINS * BIN_S
TARGET_P99_MS = 50.0


class Fleet:
    """Workloads whose counters grow with a noisy load of their own; `read` makes the readings of some of them."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.names = [f"team-{i % 97}/service-{i}" for i in range(size)]
        self.pod_names = [[f"service-{i}-{k}" for k in range(PODS)] for i in range(size)]
        self.rate_rps = rng.gamma(4.0, 0.2 * PODS * POD_RPS / 0.8 / 1.6, size)
        self.arrived = np.zeros(size)
        self.queue = np.zeros(size)
        self.done = np.zeros(size)

    def read(self, chosen: np.ndarray, now_s: float) -> list[tuple[str, Readings]]:
        """Let five seconds pass for the chosen workloads and return what a scrape shows."""
        came = self.rng.poisson(self.rate_rps[chosen] * READ_EVERY_S)
        served = np.minimum(came + self.queue[chosen], PODS * POD_RPS * READ_EVERY_S)
        self.queue[chosen] = np.minimum(self.queue[chosen] + came - served, 500.0)
        self.arrived[chosen] += came
        self.done[chosen] += served
        running = served / READ_EVERY_S * 4.0
        return [self._one(i, run, now_s) for i, run in zip(chosen.tolist(), running.tolist(), strict=True)]

    def _one(self, i: int, running: float, now_s: float) -> tuple[str, Readings]:
        done, waiting = float(self.done[i]) / PODS, float(self.queue[i]) / PODS
        pods = tuple(
            PodReading(
                name=name,
                ready_since_s=0.0,
                waiting=waiting,
                running=running / PODS,
                requests_total=done,
                prompt_tokens_total=done * 800.0,
                generation_tokens_total=done * 200.0,
                kv_cache_usage=min(1.0, running / PODS / 12.0),
            )
            for name in self.pod_names[i]
        )
        gateway = GatewayReading(0.0, float(self.arrived[i]))
        return self.names[i], Readings(now_s, ReplicaReading(PODS, PODS), pods, gateway)


def fitted(rng: np.random.Generator) -> FittedModel:
    """A model of the size a fit has: a line and 40 trees of depth 3."""
    shape, inner = (40, 15), 7
    left = np.tile(np.arange(15, dtype=np.int32), (40, 1))
    right = left.copy()
    left[:, :inner], right[:, :inner] = 2 * np.arange(inner) + 1, 2 * np.arange(inner) + 2
    feature = rng.integers(0, len(NAMES), shape).astype(np.int32)
    trees = Trees(feature, rng.gamma(2.0, 0.5, shape), left, right, rng.normal(0.0, 0.01, shape), 1.0, 3)
    return FittedModel(0.0, 12, rng.normal(0.0, 0.05, len(NAMES)), 0.5, trees, 600)


def filled(fleet: Fleet, rng: np.random.Generator) -> Table:
    """A table with six hours of history and a fitted model per workload."""
    size = len(fleet.names)
    table, params, model = Table.empty(size), Params(warmup_prior_s=120.0, tick_s=READ_EVERY_S), fitted(rng)
    for i, name in enumerate(fleet.names):
        row = table.put(name, params)
        mean = float(fleet.rate_rps[i]) * BIN_S
        table.history.count[row] = rng.poisson(mean, HISTORY_BINS)
        table.history.cover_s[row] = BIN_S
        table.history.need_rps[row] = table.history.count[row] / BIN_S
        table.history.head[row] = HISTORY_BINS - 1
        table.track(row).fit_asked_s = START_S - float(rng.uniform(0.0, REFIT_S))
        engine.install(table, name, model)
    return table


def table_mib(table: Table) -> float:
    """Memory of the table's columns, in MiB; tracks and names come on top."""
    columns = (getattr(group, spec.name) for group in table.groups().values() for spec in fields(group))
    return round(float(sum(column.nbytes for column in columns)) / 2**20, 1)


def measured(
    table: Table, fleet: Fleet, *, changing: int, warm_up: int, steps: int, now_s: float, profile: bool
) -> tuple[dict[str, object], float]:
    """Step `changing` workloads at a time, in turn, and return the figures with the time it ended at (sample time).

    Wall time is what counts; processor time stands beside it, for machines that others use too.
    """
    size = len(fleet.names)
    spent: list[float] = []
    busy: list[float] = []
    fits, profiler = 0, cProfile.Profile()
    gc.collect()
    for turn in range(warm_up + steps):
        now_s += READ_EVERY_S * changing / size
        first = turn * changing % size
        batch = fleet.read((first + np.arange(changing)) % size, now_s)
        if profile and turn >= warm_up:
            profiler.enable()
        begin, cpu_begin = time.perf_counter(), time.process_time()
        result = engine.step(table, batch)
        took, cpu_took = time.perf_counter() - begin, time.process_time() - cpu_begin
        profiler.disable()
        if turn >= warm_up:
            spent.append(took)
            busy.append(cpu_took)
            fits += len(result.fits)
    figures: dict[str, object] = {
        "changing": changing,
        "changing_ratio": changing / size,
        "steps": steps,
        "warm_up_steps": warm_up,
        **quantiles(1e3 * np.asarray(spent)),
        "cpu": quantiles(1e3 * np.asarray(busy)),
        "us_per_workload": round(1e6 * float(np.mean(spent)) / changing, 1),
        "fit_requests": fits,
    }
    if profile:
        figures["hot_spots"] = hot_spots(profiler, steps)
    return figures, now_s


def quantiles(took_ms: F64) -> dict[str, float]:
    """Median, 99th percentile, largest and mean, in milliseconds."""
    p50, p99 = np.quantile(took_ms, [0.5, 0.99])
    named = {"p50_ms": p50, "p99_ms": p99, "max_ms": took_ms.max(), "mean_ms": took_ms.mean()}
    return {name: round(float(value), 2) for name, value in named.items()}


def hot_spots(profiler: cProfile.Profile, steps: int) -> list[dict[str, object]]:
    """The functions with the most time of their own, per step; the profiler slows small functions most."""
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]  # typeshed lacks it
    ranked = sorted(stats.items(), key=lambda item: -item[1][2])[:18]
    return [
        {
            "function": f"{'/'.join(file.split('/')[-2:])}:{line} {name}",
            "calls_per_step": round(count / steps, 1),
            "own_ms_per_step": round(1e3 * own / steps, 3),
            "total_ms_per_step": round(1e3 * total / steps, 3),
        }
        for (file, line, name), (_, count, own, total, _) in ranked
    ]


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench core_step", description=__doc__)
    parser.add_argument("--workloads", type=int, default=10_000)
    parser.add_argument("--changing", type=float, default=0.01, help="share of workloads with new readings per step")
    parser.add_argument("--steps", type=int, default=400, help="measured steps with few changing")
    parser.add_argument("--all-steps", type=int, default=20, help="measured steps with all changing; 0 leaves them out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="list the functions that take the time (slows the run)")
    given = parser.parse_args(arguments)
    rng = np.random.default_rng(given.seed)
    fleet = Fleet(given.workloads, rng)
    table = filled(fleet, rng)
    few = max(1, round(given.changing * given.workloads))
    turns = -(-given.workloads // few)
    figures, now_s = measured(
        table, fleet, changing=few, warm_up=2 * turns, steps=given.steps, now_s=START_S, profile=given.profile
    )
    results = [figures]
    if given.all_steps:
        figures, _ = measured(
            table, fleet, changing=given.workloads, warm_up=2, steps=given.all_steps, now_s=now_s, profile=given.profile
        )
        results.append(figures)
    report = {
        "bench": "core_step",
        "command": command("core_step", arguments),
        "seed": given.seed,
        "machine": machine(),
        "workloads": given.workloads,
        "pods_per_workload": PODS,
        "table_mib": table_mib(table),
        "peak_rss_mib": peak_rss_mib(),
        "target_p99_ms": TARGET_P99_MS,
        "results": results,
    }
    print(json.dumps(report, indent=2))
    return 0
