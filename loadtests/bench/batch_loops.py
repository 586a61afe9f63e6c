"""Random steps through the batch core in search of a preemption loop: gangs that evict each other for ever.

Each story is a room of its own: 6 nodes of 8 GPUs in two racks, two teams of three queues with drawn weights,
guarantees, leases and graces. Gangs of drawn forms and priorities come, end, are deleted and save, and nodes are
cordoned, in bursts; then 60 s pass again and again and nothing happens. A loop is a set of gangs that run, or that
others leave for, which comes back in such a quiet stretch after an eviction; or an instant at which cycles find no end.
Every step ends with cycles until nothing is done.
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.gangs import Form, Gang, PodSet, Topology
from autoscaler.core.batch.params import BatchParams, Order, QueueSpec, Quota, Shape
from autoscaler.core.batch.room import Room
from loadtests.bench.machine import command, machine, peak_rss_mib

H100 = "h100"
SIZES = ((1, 1), (2, 1), (1, 4), (4, 2), (1, 8), (2, 8), (3, 4), (5, 1), (1, 3))
LEAVES = ("l0", "l1", "l2", "r0", "r1", "r2")
NODES = tuple(NodeSeen(f"n{at}", H100, 8, (f"r{at // 3}", f"i{at}")) for at in range(6))
STORY_STEPS = 1000
QUIET_STEPS = 15
MOST_CYCLES = 200


def tree_of(rng: np.random.Generator) -> BatchParams:
    """Two teams of three queues."""
    queues = [QueueSpec("l", weight=float(rng.integers(1, 4))), QueueSpec("r")]
    for name in LEAVES:
        quotas = {H100: Quota(int(rng.integers(0, 9)), lendable=int(rng.integers(0, 9)) if rng.random() < 0.3 else 8)}
        queues.append(
            QueueSpec(
                name, name[0], float(rng.integers(1, 4)), quotas, Order.STRICT if rng.random() < 0.2 else Order.FAIR,
                float(rng.choice([0.0, 60.0, 600.0])), float(rng.choice([0.0, 120.0])),
            )
        )  # fmt: skip
    return BatchParams((Shape(H100),), tuple(queues), reserve_after_s=float(rng.choice([0.0, 30.0])))


@dataclass
class Story:
    """One room, and what came of it."""

    rng: np.random.Generator
    now_s: float = 0.0
    steps: int = 0
    evictions: int = 0
    admissions: int = 0
    loops: list[str] = field(default_factory=list)
    evicted: Counter[str] = field(default_factory=Counter)
    leaving: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.room = Room(tree_of(self.rng))
        self.room.see(NODES, (), 0.0)
        self.cycles = Cycles(self.room)
        self._number = 0

    def run(self, steps: int) -> None:
        """Bursts of events and quiet stretches, so many steps in all."""
        while self.steps < steps:
            for _ in range(int(self.rng.integers(1, 12))):
                self._event()
                self._step(float(self.rng.integers(0, 30)))
            seen: set[frozenset[str]] = set()
            for _ in range(QUIET_STEPS):
                before = self.evictions
                self._step(60.0)
                stay = {name for name, run in self.room.runs.all.items() if run.leaving_s is None}
                holding = frozenset(stay | set(self.room.kept_for))
                if self.evictions > before and holding in seen:
                    self.loops.append(f"the same {len(holding)} gangs hold GPUs again at {self.now_s:g} s")
                seen.add(holding)

    def _step(self, passes_s: float) -> None:
        """Time passes, who was asked to leave has left, and cycles run until nothing is done."""
        self.steps += 1
        self.now_s += passes_s
        for name in [name for name, at_s in self.leaving.items() if at_s <= self.now_s]:
            del self.leaving[name]
            self.room.left(name, self.now_s)
        for _ in range(MOST_CYCLES):
            done = self.cycles.cycle(self.now_s)
            self.admissions += len(done.admitted)
            self.evictions += len(done.evicted)
            for each in done.evicted:
                self.evicted[each.gang] += 1
                self.leaving[each.gang] = self.now_s + self.room.runs.all[each.gang].gang.notice_s
            if not (done.admitted or done.evicted or done.more):
                return
        self.loops.append(f"no rest at {self.now_s:g} s")

    def _event(self) -> None:
        """Something happens."""
        room, rng, what = self.room, self.rng, self.rng.random()
        running = [name for name, run in room.runs.all.items() if run.leaving_s is None]
        if what < 0.5 and len(room.backlog.waiting) < 40:
            room.submit(self._gang(), self.now_s)
        elif what < 0.75 and running:
            room.finish(running[int(rng.integers(len(running)))], self.now_s)
        elif what < 0.85 and room.backlog.waiting:
            waiting = list(room.backlog.waiting)
            room.cancel(waiting[int(rng.integers(len(waiting)))], self.now_s)
        elif what < 0.95 and running:
            room.checkpointed(running[int(rng.integers(len(running)))], self.now_s)
        else:
            cordoned = int(rng.integers(12))
            nodes = [replace(node, cordoned=at == cordoned) for at, node in enumerate(NODES)]
            for each in room.see(nodes, (), self.now_s):
                self.leaving.setdefault(each.gang, self.now_s)

    def _gang(self) -> Gang:
        rng = self.rng
        pods, units = SIZES[int(rng.integers(len(SIZES)))]
        required = "rack" if rng.random() < 0.15 and pods * units <= 24 else None
        self._number += 1
        return Gang(
            f"g{self._number}", str(rng.choice(LEAVES)), Form((PodSet(pods, units, H100),), Topology(required)),
            self.now_s, -1 - int(rng.integers(3)), expected_s=float(rng.integers(20, 9000)),
            notice_s=float(rng.integers(0, 40)), restart_s=float(rng.integers(0, 60)),
        )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; 1 where a loop or a fault was found."""
    parser = argparse.ArgumentParser(prog="bench batch_loops", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.steps < 1 or given.seed < 0:
        parser.error(f"--steps {given.steps}, --seed {given.seed}: give 1 step or more, and a seed from 0 on")
    begin, steps, seed = time.process_time(), 0, given.seed
    totals: Counter[str] = Counter()
    loops: list[str] = []
    most = 0
    while steps < given.steps:
        story = Story(np.random.default_rng(seed))
        story.run(min(STORY_STEPS, given.steps - steps))
        found = [*story.loops, *story.room.contradictions()]
        loops += [f"seed {seed}: {each}" for each in found]
        steps += story.steps
        totals.update(stories=1, evictions=story.evictions, admissions=story.admissions)
        most = max([most, *story.evicted.values()])
        seed += 1
    report = {
        "bench": "batch_loops",
        "command": command("batch_loops", arguments),
        "seed": given.seed,
        "machine": machine(),
        "steps": steps,
        **totals,
        "most_evictions_of_a_gang": most,
        "loops": loops,
        "processor_s": round(time.process_time() - begin, 1),
        "peak_rss_mib": peak_rss_mib(),
    }
    print(json.dumps(report, indent=2))
    return 1 if loops else 0
