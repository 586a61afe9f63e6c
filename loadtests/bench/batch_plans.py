"""Single decisions of the batch core: a verdict that a gang can have no room, victims for thousands, one placement.

Infeasible: 500 nodes of 8 GPUs. All GPUs in use, and seven of eight on every node, for a gang of 10 pods of 8; and a
gang larger than the cluster. Victims: 4,000 gangs of one GPU hold the same 500 nodes by borrowing; 4,000 others come
within their guarantee, and every one gets its victim. Placement: on 2,500 nodes, three quarters of them begun, gangs of
4 pods of 8 GPUs in one rack, of 16 pods of 8 and of 64 pods of one GPU anywhere, each taken and given back.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.gangs import Form, Gang, PodSet, Topology
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.params import BatchParams, QueueSpec, Quota, Shape
from autoscaler.core.batch.placement import Ask
from autoscaler.core.batch.room import Room
from loadtests.bench.core_step import quantiles
from loadtests.bench.machine import command, machine, peak_rss_mib

H100 = "h100"
UNITS, PER_RACK = 8, 20
TARGET = {"infeasible_p99_ms": 20.0, "victims_4000_s": 2.0, "placement_2500_nodes_ms": 5.0}


def cluster(nodes: int) -> tuple[NodeSeen, ...]:
    """Nodes of 8 GPUs in racks of 20."""
    return tuple(NodeSeen(f"n{at}", H100, UNITS, (f"r{at // PER_RACK}", f"i{at // 4}")) for at in range(nodes))


def room_of(nodes: int, max_admissions: int = 500) -> tuple[Room, Cycles]:
    """Two queues: one that is guaranteed everything, one that borrows."""
    quotas = {H100: Quota(nodes * UNITS)}
    queues = (QueueSpec("owner", quotas=quotas, grace_s=0.0), QueueSpec("borrower"))
    room = Room(BatchParams((Shape(H100),), queues, max_admissions=max_admissions))
    room.see(cluster(nodes), (), 0.0)
    return room, Cycles(room)


def form(pods: int, units: int, required: str | None = None) -> Form:
    """A form of one pod set."""
    return Form((PodSet(pods, units, H100),), Topology(required))


def timed(work: Callable[[], object], repeats: int) -> list[float]:
    """Milliseconds of each run."""
    out = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        out.append(1e3 * (time.perf_counter() - begin))
    return out


def filled(nodes: int, used: int = UNITS) -> tuple[Room, Cycles]:
    """A cluster of whose GPUs, on every node, some run gangs of one GPU that borrow."""
    room, cycles = room_of(nodes, max_admissions=nodes * UNITS)
    if used < UNITS:
        room.see(cluster(nodes), [PodSeen(f"n{at}", H100, used) for at in range(nodes)], 0.0)
        return room, cycles
    for at in range(nodes * UNITS):
        room.submit(Gang(f"b{at}", "borrower", form(1, 1), 0.0), 0.0)
    cycles.cycle(0.0)
    assert len(room.runs.all) == nodes * UNITS
    return room, cycles


def infeasible(repeats: int) -> dict[str, object]:
    """From a gang's arrival in a full cluster to its verdict, in a cycle of its own."""
    out: dict[str, object] = {}
    for name, pods, used in (("no room now", 10, 8), ("in pieces", 10, 7), ("larger than the cluster", 501, 8)):
        room, cycles = filled(500, used)
        took = []
        for at in range(repeats):
            gang = Gang(f"x{at}", "borrower", form(pods, 8), 10.0)
            begin = time.perf_counter()
            room.submit(gang, 10.0)
            cycles.cycle(10.0)
            verdict = cycles.why(room.backlog.waiting[gang.name])
            took.append(1e3 * (time.perf_counter() - begin))
            assert gang.name not in room.runs.all
            room.cancel(gang.name, 10.0)
        out[name] = {**quantiles(np.asarray(took)), "verdict": verdict.reason.value}
    return out


def victims_of_all() -> dict[str, object]:
    """Victims for 4,000 gangs, in one cycle without bound."""
    room, cycles = filled(500)
    for at in range(4000):
        room.submit(Gang(f"o{at}", "owner", form(1, 1), 20.0), 20.0)
    done, took = 0, []
    while done < 4000:
        begin = time.perf_counter()
        cycle = cycles.cycle(30.0)
        took.append(time.perf_counter() - begin)
        done += len(cycle.evicted)
        assert cycle.evicted
    return {
        "victims": done,
        "cycles": len(took),
        "total_s": round(sum(took), 3),
        "each_ms": round(1e3 * sum(took) / done, 3),
        "faults": room.contradictions(),
    }


def placements(repeats: int, seed: int) -> dict[str, object]:
    """One placement in a large cluster, taken and given back."""
    room, _ = room_of(2500)
    rng = np.random.default_rng(seed)
    used = rng.permutation(2500)[:1875]
    for node in used.tolist():
        room.ledger.estate.set_free(node, int(rng.integers(0, 8)))
    out: dict[str, object] = {}
    forms = {"4 x 8 in a rack": form(4, 8, "rack"), "64 x 1 anywhere": form(64, 1), "16 x 8 anywhere": form(16, 8)}
    for name, wanted in forms.items():
        out[name] = quantiles(np.asarray(timed(partial(_once, room, room.placer.ask(wanted)), repeats)))
    return out


def _once(room: Room, ask: Ask) -> None:
    spots = room.placer.take(ask)
    assert spots is not None
    room.placer.give(spots, ask)


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench batch_plans", description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    gc.collect()
    gc.freeze()
    report = {
        "bench": "batch_plans",
        "command": command("batch_plans", arguments),
        "seed": given.seed,
        "machine": machine(),
        "target": TARGET,
        "reference": "KAI on 500 nodes, its own run: verdict 249.5 s, 4,000 GPUs reclaimed in 694 s, binds included; "
        "Kueue's placement on 2,500 nodes 23 ms",
        "infeasible": infeasible(given.repeats),
        "victims": victims_of_all(),
        "placement": placements(given.repeats, given.seed),
        "peak_rss_mib": peak_rss_mib(),
    }
    print(json.dumps(report, indent=2))
    return 0
