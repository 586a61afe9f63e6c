"""A backlog of 50,000 gangs in 1,000 queues drained in waves, with fair share and victims: admissions a second.

10 cohorts of 100 queues, each guaranteed 20 GPUs and free to borrow, on 2,500 nodes of 8 GPUs in racks of 20. Three
classes of gang, small, medium and large (1, 5 and 20 pods of one GPU) at the ratio 35 : 10 : 5, priorities growing with
size. First half of the queues fill the cluster by borrowing; then the other half arrives and takes back what it is
guaranteed. After each cycle that can do no more, the half of what runs that has run longest ends, and who was asked to
leave leaves. Only cycles and their events are timed; nothing is written. The collector of garbage is set as in the
controller.
"""

import argparse
import gc
import json
import time
from dataclasses import dataclass, field

import numpy as np

from autoscaler.app.garbage import MIDDLE, NEVER, YOUNG
from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.gangs import Form, Gang, PodSet
from autoscaler.core.batch.params import BatchParams, QueueSpec, Quota, Shape
from autoscaler.core.batch.room import Room
from loadtests.bench.core_step import quantiles
from loadtests.bench.machine import command, machine, peak_rss_mib

H100 = "h100"
CLASSES = ((35, 1, -300), (10, 5, -200), (5, 20, -100))
"""(of each fifty, pods, priority)."""
NODES, PER_RACK, UNITS = 2500, 20, 8
GUARANTEED = 20
TARGET = {"admissions_per_s": 20_000.0, "cycle_p99_ms": 50.0}


def cluster() -> tuple[NodeSeen, ...]:
    """2,500 nodes of 8 GPUs in racks of 20."""
    return tuple(
        NodeSeen(f"n{at}", H100, UNITS, (f"r{at // PER_RACK}", f"i{at // 4}")) for at in range(NODES)
    )  # fmt: skip


def params_of(cohorts: int, queues: int) -> BatchParams:
    """The tree."""
    quota = {H100: Quota(GUARANTEED)}
    return BatchParams(
        (Shape(H100),),
        (
            *(QueueSpec(f"c{at}") for at in range(cohorts)),
            *(QueueSpec(f"q{at}", f"c{at % cohorts}", quotas=quota, grace_s=0.0) for at in range(cohorts * queues)),
        ),
    )


def gangs_of(queue: int, number: int, rng: np.random.Generator) -> list[Gang]:
    """The gangs of one queue, in an order that the seed draws."""
    sizes = [(pods, priority) for count, pods, priority in CLASSES for _ in range(count * number // 50)]
    order = rng.permutation(len(sizes)).tolist()
    return [
        Gang(f"q{queue}-{at}", f"q{queue}", Form((PodSet(sizes[which][0], 1, H100),)), float(at), sizes[which][1])
        for at, which in enumerate(order)
    ]


@dataclass
class Drain:
    """A room that is drained, and how long its cycles took."""

    room: Room
    now_s: float = 1000.0
    cycles_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    """The same in processor time: real-time priority is stopped for 50 ms of each second by Linux's defaults, and other
    processes stop everybody else."""
    events_s: float = 0.0
    admitted: int = 0
    evicted: int = 0
    search_cycles: int = 0

    def __post_init__(self) -> None:
        self.cycles = Cycles(self.room)
        self.leaving: list[str] = []

    def settle(self) -> None:
        """Cycles until nothing more can be done at this instant."""
        while True:
            begin, busy = time.perf_counter(), time.process_time()
            done = self.cycles.cycle(self.now_s)
            self.cycles_s.append(time.perf_counter() - begin)
            self.busy_s.append(time.process_time() - busy)
            self.admitted += len(done.admitted)
            self.evicted += len(done.evicted)
            self.search_cycles += bool(done.evicted)
            self.leaving += [each.gang for each in done.evicted]
            if not done.more and not done.evicted and not done.admitted:
                return

    def pass_on(self, share: float) -> None:
        """Time passes: who was asked to leave has left, and the oldest of what runs has ended."""
        begin = time.perf_counter()
        self.now_s += 30.0
        for name in self.leaving:
            self.room.left(name, self.now_s)
        self.leaving = []
        running = [run.name for run in self.room.runs.all.values() if run.leaving_s is None]
        for name in running[: round(len(running) * share)]:
            self.room.finish(name, self.now_s)
        self.events_s += time.perf_counter() - begin


def drain(cohorts: int, queues: int, number: int, seed: int) -> dict[str, object]:
    """Drain the backlog once."""
    rng = np.random.default_rng(seed)
    room = Room(params_of(cohorts, queues))
    room.see(cluster(), (), 0.0)
    total = cohorts * queues
    gangs = {queue: gangs_of(queue, number, rng) for queue in range(total)}
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)
    run = Drain(room)
    submit_s = 0.0
    for half in (range(0, total, 2), range(1, total, 2)):
        begin = time.perf_counter()
        for queue in half:
            for gang in gangs[queue]:
                room.submit(gang, run.now_s)
        submit_s += time.perf_counter() - begin
        run.settle()
        run.pass_on(0.0)
        run.settle()
    while room.backlog.waiting or room.kept_for:
        run.pass_on(0.5)
        run.settle()
    faults = room.contradictions()
    spent_s = sum(run.cycles_s) + run.events_s
    return {
        "gangs": sum(len(each) for each in gangs.values()),
        "admissions": run.admitted,
        "evictions": run.evicted,
        "cycles": len(run.cycles_s),
        "cycles_with_victims": run.search_cycles,
        "admissions_per_s": round(run.admitted / sum(run.cycles_s)),
        "admissions_per_cpu_s": round(run.admitted / sum(run.busy_s)),
        "admissions_per_s_with_events": round(run.admitted / spent_s),
        "cycle": quantiles(1e3 * np.asarray(run.cycles_s)),
        "cycle_cpu": quantiles(1e3 * np.asarray(run.busy_s)),
        "events_s": round(run.events_s, 3),
        "submit_s": round(submit_s, 3),
        "faults": faults,
    }


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench batch_drain", description=__doc__)
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--queues", type=int, default=100, help="in each cohort")
    parser.add_argument("--gangs", type=int, default=50, help="in each queue")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    rows = [drain(given.cohorts, given.queues, given.gangs, given.seed + at) for at in range(given.repeats)]
    middle = sorted(rows, key=lambda row: float(str(row["admissions_per_s"])))[len(rows) // 2]
    report = {
        "bench": "batch_drain",
        "command": command("batch_drain", arguments),
        "seed": given.seed,
        "machine": machine(),
        "peak_rss_mib": peak_rss_mib(),
        "target": TARGET,
        "reference": "Kueue's core, same shapes, writes stubbed, two cores: 1,270-3,900 admissions/s, p99 0.4-1.7 s",
        "middle": middle,
        "rows": rows,
    }
    print(json.dumps(report, indent=2))
    return 0
