"""How long preflight takes over the histories of many workloads, and how much memory: no network, no files.

Every workload has all seven signals at every step, with a daily wave, surges of minutes and a hole, and distributions
of waits, durations and cold starts. Making a history is not measured. They are made one at a time, as a source delivers
them, so that the peak of memory is that of the work and of what is kept of it.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autoscaler.preflight.document import document
from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Fact, Gap, Hole, Spread, Track, WorkloadHistory
from autoscaler.preflight.page import page
from autoscaler.preflight.policies import policies
from autoscaler.preflight.warm_pools import warm_pools
from loadtests.bench.machine import command, machine, peak_rss_mib

TARGET_S = 60.0
TARGET_MIB = 1024.0
DAY_S = 86_400.0
SLOTS = 16.0
START_S = 1_760_054_400.0
"""The beginning of a day in 2025."""


@dataclass(slots=True)
class Fleet:
    """Synthetic histories one at a time; `spent_s` and `spent_cpu_s` are what making them took."""

    workloads: int
    steps: int
    step_s: float
    seed: int
    spent_s: float = 0.0
    spent_cpu_s: float = 0.0

    def histories(self) -> Iterator[WorkloadHistory]:
        """Every workload's history, made when it is asked for."""
        for index in range(self.workloads):
            begin, cpu_begin = time.perf_counter(), time.process_time()
            history = self._history(index)
            self.spent_s += time.perf_counter() - begin
            self.spent_cpu_s += time.process_time() - cpu_begin
            yield history

    def _history(self, index: int) -> WorkloadHistory:
        rng = np.random.default_rng([self.seed, index])
        at_s = np.arange(self.steps) * self.step_s
        mean = rng.uniform(3.0, 25.0) * (1.2 + np.sin(2 * np.pi * (at_s / DAY_S + 0.1 * rng.random())))
        for begin in rng.integers(0, self.steps, self.steps // 700).tolist():
            mean[begin : begin + int(rng.integers(1, 20))] += 40.0 * rng.random()
        in_flight = rng.poisson(4.0 * mean).astype(np.float64)
        hours = np.arange(0, self.steps, 120)
        replicas = np.repeat(np.ceil(1.1 * np.add.reduceat(4.0 * mean, hours) / 120 / SLOTS), 120)[: self.steps]
        running = np.minimum(in_flight, replicas * SLOTS)
        hole = slice(self.steps // 3, self.steps // 3 + 200)
        running[hole] = np.nan
        gone = Hole(START_S + hole.start * self.step_s, START_S + hole.stop * self.step_s, Gap.UNREACHABLE, "no answer")
        kv = np.clip(running / np.maximum(replicas, 1.0) / 20.0, 0.0, 1.0)
        edges = np.array([0.1, 0.5, 1.0, 5.0, 10.0, 60.0, np.inf])
        return WorkloadHistory(
            workload=f"team-{index % 17}/service-{index}",
            start_s=START_S,
            step_s=self.step_s,
            steps=self.steps,
            arrivals_per_s=Track(rng.poisson(mean * self.step_s) / self.step_s, "made"),
            running=Track(running, "made", (gone,)),
            waiting=Track(in_flight - running, "made"),
            tokens_per_s=Track(200.0 * mean, "made"),
            replicas=Track(replicas, "made"),
            busy_replicas=Track(np.minimum(replicas, np.ceil(running / 12.0)), "made"),
            kv_usage_ratio=Track(kv, "made"),
            queue_wait=Spread(edges, rng.integers(0, 10_000, 7).astype(np.float64), "made"),
            duration=Spread(edges, rng.integers(0, 10_000, 7).astype(np.float64), "made"),
            cold_start=Spread(np.sort(rng.uniform(60.0, 400.0, 30)), np.ones(30), "made", exact=True),
            gpus_per_replica=float(rng.integers(1, 9)),
            facts={Fact.SHAPE: "h100", Fact.PRIORITY_CLASS: ("serving", "batch")[index % 2]},
        )


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench preflight", description=__doc__)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--days", type=float, default=14.0)
    parser.add_argument("--step", type=float, default=30.0, help="seconds per step")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    steps = round(given.days * DAY_S / given.step)
    fleet = Fleet(given.workloads, steps, given.step, given.seed)
    begin, cpu_begin = time.perf_counter(), time.process_time()
    findings = examine([Source("made", fleet.histories(), given.workloads)], Given(), command="bench preflight")
    studied = time.perf_counter()
    texts = {
        "preflight.html": page(findings),
        "preflight.json": document(findings),
        "policies.yaml": policies(findings.workloads, command="bench preflight"),
        "pools.yaml": warm_pools(findings.warm, command="bench preflight"),
    }
    end, cpu_end = time.perf_counter(), time.process_time()
    report = {
        "bench": "preflight",
        "command": command("preflight", arguments),
        "seed": given.seed,
        "machine": machine(),
        "workloads": given.workloads,
        "steps": steps,
        "points_per_signal": given.workloads * steps,
        "made_s": round(fleet.spent_s, 1),
        "studied_s": round(studied - begin - fleet.spent_s, 1),
        "written_s": round(end - studied, 1),
        "whole_s": round(end - begin - fleet.spent_s, 1),
        "cpu_s": round(cpu_end - cpu_begin - fleet.spent_cpu_s, 1),
        "mib": {name: round(len(text.encode()) / 2**20, 2) for name, text in texts.items()},
        "peak_rss_mib": peak_rss_mib(),
        "target_s": TARGET_S,
        "target_mib": TARGET_MIB,
    }
    print(json.dumps(report, indent=2))
    return 0
