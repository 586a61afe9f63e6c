"""How late the live driver's event loop turns while many workloads are stepped: all at once at first, then steadily.

A probe sleeps 2 ms again and again and notes how much longer it took: that is what a scrape, a watch or a KEDA call
would have waited. Quantiles are over time, not over probes, of which a stall has only one; beside them stands the time
the process itself computed meanwhile, for machines that others use too. Readings are answered from
memory and nothing is fitted, so that what is measured is the driver and the core. The first steps fall due in one
instant; what follows is the steady run, with one checkpoint of everything in it when it is longer than a minute.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import numpy as np

from autoscaler.app import garbage
from autoscaler.core.columns import F64
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.params import Params
from autoscaler.core.types import GatewayReading, PodReading, ReplicaReading
from autoscaler.ports import Clock, Fault, MetricSample, Patch, PortError, ReplicaSample
from autoscaler.runtime import loop, steps
from autoscaler.runtime.clock import WallClock
from autoscaler.runtime.lanes import SLICE
from autoscaler.runtime.records import Stepped
from autoscaler.runtime.supervisor import Ports, Runtime
from autoscaler.runtime.target import Target
from loadtests.bench.core_step import POD_RPS, PODS
from loadtests.bench.machine import command, machine, peak_rss_mib, rss_mib

PROBE_S = 0.002

LOOKS = 10
"""At the process's memory over the run: what grows without end shows."""


class Memory:
    """Every port of the driver, answered at once: steady loads of 1 to 7 requests/s, four pods each, nothing kept."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.start_s = clock.now()

    async def read(self, workload: str) -> MetricSample:
        """A page of the workload's pods and gateway now."""
        now_s = self.clock.now()
        served = (1.0 + hash(workload) % 64 / 10.0) * (now_s - self.start_s)
        pods = tuple(
            PodReading(f"{workload}-{k}", self.start_s, 0.0, 0.0, 2.0, served / PODS, served * 200, served * 50, 0.2)
            for k in range(PODS)
        )
        return MetricSample(now_s, pods, GatewayReading(0.0, served))

    async def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
        """Nothing is written."""
        return Patch.REFUSED

    async def changes(self) -> AsyncIterator[str]:
        """Nothing is pushed."""
        await asyncio.Event().wait()
        yield ""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Forget the lines."""

    async def load(self) -> Mapping[str, dict[str, Any]]:
        """Nothing was kept."""
        return {}

    async def save(self, checkpoints: Mapping[str, dict[str, Any]]) -> None:
        """Forget the checkpoints."""

    async def fit(self, request: FitRequest) -> FittedModel:
        """Refuse."""
        raise PortError(Fault.INVALID, "nothing is fitted here")


class Replicas:
    """``/scale`` of workloads that always have their four replicas."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    async def read(self, workload: str) -> ReplicaSample:
        """Four, all ready."""
        return ReplicaSample(self.clock.now(), ReplicaReading(PODS, PODS))

    async def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
        """Nothing is written."""
        return Patch.REFUSED


Lag = tuple[float, float, float]
"""When a probe woke, how late that was, and how long the process computed meanwhile; the latter in milliseconds."""


async def probe(lags: list[Lag]) -> None:
    """Note the lateness of short sleeps until cancelled."""
    while True:
        begin_s, busy_s = time.perf_counter(), time.process_time()
        await asyncio.sleep(PROBE_S)
        end_s = time.perf_counter()
        lags.append((end_s, 1e3 * max(0.0, end_s - begin_s - PROBE_S), 1e3 * (time.process_time() - busy_s)))


async def measured(workloads: int, seconds: float, tick_s: float) -> dict[str, object]:
    """Run the driver for `seconds` and return the figures of its first steps and of what followed."""
    clock = WallClock()
    memory = Memory(clock)
    runtime = Runtime(Ports(clock, memory, Replicas(clock), memory, memory, memory, memory, memory))
    params = Params(tick_s=tick_s, min_replicas=1, max_replicas=PODS)
    for i in range(workloads):
        runtime.put(Target(f"team-{i % 97}/service-{i}", params))
    lags: list[Lag] = []
    stop, first, stepped_s = asyncio.Event(), set[str](), [0.0]
    begin_s, cpu_s = time.perf_counter(), time.process_time()

    async def listen() -> None:
        with runtime.recorder.feed(10 * workloads) as feed:
            async for entry in feed:
                if isinstance(entry, Stepped):
                    stepped_s.append(time.perf_counter() - begin_s)
                    first.add(entry.decision.workload)
                    if len(first) < workloads:
                        stepped_s[0] = stepped_s[-1]

    held_mib: list[float] = []
    async with garbage.rarely(clock), asyncio.TaskGroup() as group:
        watching = group.create_task(probe(lags))
        group.create_task(listen())
        running = group.create_task(runtime.run(stop))
        for _ in range(LOOKS):
            await asyncio.sleep(seconds / LOOKS)
            held_mib.append(round(rss_mib(), 1))
        watching.cancel()
        spent_s, steps = time.process_time() - cpu_s, len(stepped_s) - 1
        stop.set()
        await running
    early = [lag for lag in lags if lag[0] - begin_s <= stepped_s[0] + 0.1]
    late = [lag for lag in lags if lag[0] - begin_s > tick_s]
    return {
        "all_stepped_once_s": round(stepped_s[0], 3),
        "first_steps_lag": over_time(early),
        "steady_lag": over_time(late),
        "steps": steps,
        "cpu_ratio": round(spent_s / seconds, 3),
        "rss_mib": held_mib,
    }


def over_time(lags: list[Lag]) -> dict[str, object]:
    """Median, 99th percentile and largest lateness, each probe weighted by how long it took, and the same of `cpu`."""
    return ranked(np.array([lag[1] for lag in lags])) | {"cpu": ranked(np.array([lag[2] for lag in lags]))}


def ranked(lags_ms: F64) -> dict[str, object]:
    """The three figures of one kind of lateness, in milliseconds."""
    ordered = np.sort(lags_ms)
    passed = np.cumsum(ordered + 1e3 * PROBE_S)
    p50, p99 = (ordered[np.searchsorted(passed, share * passed[-1])] for share in (0.5, 0.99))
    return {"p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2), "max_ms": round(float(ordered[-1]), 2)}


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench loop_lag", description=__doc__)
    parser.add_argument("--workloads", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--tick", type=float, default=5.0, help="seconds between two steps of a workload")
    parser.add_argument(
        "--slice",
        type=int,
        default=SLICE,
        help="most looks taken up in one turn of the event loop",
    )
    given = parser.parse_args(arguments)
    loop.SLICE = steps.SLICE = given.slice  # type: ignore[attr-defined]  # their own name for what lanes define
    figures = asyncio.run(measured(given.workloads, given.seconds, given.tick))
    report = {
        "bench": "loop_lag",
        "command": command("loop_lag", arguments),
        "machine": machine(),
        "workloads": given.workloads,
        "pods_per_workload": PODS,
        "replica_rps": POD_RPS,
        "slice": given.slice,
        **figures,
        "peak_rss_mib": peak_rss_mib(),
    }
    print(json.dumps(report, indent=2))
    return 0
