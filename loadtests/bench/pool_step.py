"""How long one look of the core at a large warm pool takes: steady, in a burst, in an outage, and at its first look.

2,000 nodes with 8 GPUs' worth of slots in all 5,000, two weeks of demand behind them, four tiers in three zones. The
world is made anew for every look, outside of the measured time, as an adapter would hand it over.
"""

import argparse
import gc
import json
import time
from dataclasses import replace

import numpy as np

from autoscaler.core.pool.history import BIN_S, KEEP_BINS, DemandHistory
from autoscaler.core.pool.params import CapacityType, Domain, PoolParams, PoolTier, SlotForm
from autoscaler.core.pool.reconcile import reconcile
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.world import (
    ClaimSeen,
    ModelDemand,
    NodePoolSeen,
    NodeSeen,
    Sign,
    SlotSeen,
    Trouble,
    World,
)
from loadtests.bench.core_step import quantiles
from loadtests.bench.machine import command, machine, peak_rss_mib

START_S = 1_000_000_000.0
TARGET_P99_MS = 100.0
ZONES = ("a", "b", "c")
MODELS = 20
PAUSE_S = 0.02
"""Between two looks. Without it a run at real-time priority (`chrt -r`) would be stopped by Linux for 50 ms of every
second, and a look would be said to take them."""


def params_of(slots: int) -> PoolParams:
    """A pool of four tiers that may hold a tenth more than there is."""
    tiers = tuple(
        PoolTier(f"t{at}", f"np-{at}", f"sku-{at}", list(CapacityType)[at % 3], ZONES, max_gpus=10 * slots)
        for at in range(4)
    )
    return PoolParams(
        "pool", tiers, tuple(f"m{at}" for at in range(MODELS)), "c", SlotForm(), min_slots=slots,
        max_slots=slots + slots // 10, zone_minima=tuple((zone, slots // 20) for zone in ZONES), spot_ratio=0.5,
        choose=True,
    )  # fmt: skip


class Estate:
    """Nodes, claims and slots; `world` hands out new objects for a time, with a share of the slots gone or failing."""

    def __init__(self, nodes: int, slots: int, rng: np.random.Generator) -> None:
        self.nodes, self.slots, self.rng = nodes, slots, rng

    def world(self, now_s: float, *, replicas: float, missing: int, waiting: int, cold: int, out: bool) -> World:
        """The world at a time: `missing` slots were taken, `cold` are under way, `waiting` replicas wait."""
        there = self.slots - missing
        return World(
            slots=tuple(self._slot(at, now_s, is_cold=at < cold) for at in range(there)),
            nodes=tuple(self._node(at, now_s) for at in range(self.nodes)),
            claims=tuple(self._claim(at, now_s) for at in range(self.nodes)),
            node_pools=tuple(NodePoolSeen(f"np-{at}", True, used_gpus=2000.0, drifted_budget=0) for at in range(4)),
            demand=tuple(self._demand(at, replicas, waiting) for at in range(MODELS)),
            troubles=tuple(self._trouble(at, now_s) for at in range(40)) if out else (),
        )

    def _slot(self, at: int, now_s: float, *, is_cold: bool) -> SlotSeen:
        age_s = 3000.0 + at % 997
        name, tier, node = f"pool-{at}", f"t{at % self.nodes % 4}", f"n{at % self.nodes}"
        if is_cold:
            return SlotSeen(name, f"u{at}", tier, now_s - 60.0, "c", deadline_s=now_s + 9000.0)
        created_s = now_s - age_s
        return SlotSeen(
            name, f"u{at}", tier, created_s, "c", node=node, scheduled_s=created_s + 200.0,
            images_s=created_s + 300.0, weights_s=created_s + 400.0, ready_s=created_s + 401.0,
            deadline_s=now_s + 9000.0 - at % 997,
        )  # fmt: skip

    def _node(self, at: int, now_s: float) -> NodeSeen:
        return NodeSeen(
            f"n{at}", f"np-{at % 4}", f"sku-{at % 4}", ZONES[at % 3], list(CapacityType)[at % 4 % 3], now_s - 9e4,
            claim=f"c{at}", units=8, free_units=1 if at % 10 == 0 else 0, gpu_ready_s=now_s - 8e4,
            drifted=at % 50 == 0, foreign_pods=at % 3,
        )  # fmt: skip

    def _claim(self, at: int, now_s: float) -> ClaimSeen:
        domain = Domain(f"sku-{at % 4}", ZONES[at % 3], list(CapacityType)[at % 4 % 3])
        began_s = now_s - 9e4
        return ClaimSeen(f"c{at}", f"uc{at}", f"np-{at % 4}", began_s, domain, began_s, began_s, began_s, f"n{at}", 8)

    def _demand(self, at: int, replicas: float, waiting: int) -> ModelDemand:
        noise = float(self.rng.integers(0, 3))
        return ModelDemand(f"ns/m{at}", f"m{at}", replicas / MODELS + noise, waiting // MODELS, replicas / MODELS + 2.0)

    def _trouble(self, at: int, now_s: float) -> Trouble:
        domain = Domain(f"sku-{at % 4}", ZONES[at % 3], list(CapacityType)[at % 4 % 3])
        return Trouble(Sign.INSUFFICIENT, f"lost-{at}-{int(now_s // 60)}", now_s - 1.0, domain)


def remembered(rng: np.random.Generator) -> PoolState:
    """Two weeks of demand with a daily rhythm."""
    minutes = np.arange(KEEP_BINS)
    levels = np.round(2000.0 + 800.0 * np.sin(2 * np.pi * minutes / 1440.0) + rng.normal(0.0, 40.0, KEEP_BINS))
    return PoolState(DemandHistory(int(START_S // BIN_S), levels, levels + 5.0, 2000.0, 2000.0))


SCENES: dict[str, dict[str, int | bool]] = {
    "steady": {"missing": 0, "waiting": 0, "cold": 0, "out": False},
    "burst": {"missing": 400, "waiting": 200, "cold": 100, "out": False},
    "outage": {"missing": 800, "waiting": 100, "cold": 500, "out": True},
    "nothing is warm": {"missing": 0, "waiting": 0, "cold": 5000, "out": False},
}


def measured(scene: dict[str, int | bool], estate: Estate, params: PoolParams, looks: int) -> dict[str, object]:
    """Look at a scene again and again, every 5 s, and return the figures.

    Wall time is what counts; processor time stands beside it, for machines that others use too.
    """
    state, now_s = remembered(estate.rng), START_S
    spent: list[float] = []
    busy: list[float] = []
    intents, first_s = 0, 0.0
    for look in range(looks + 3):
        now_s += 5.0
        replicas = 2000.0 + 5.0 * (look % 7)
        out = bool(scene["out"])
        world = estate.world(
            now_s, replicas=replicas, missing=int(scene["missing"]), waiting=int(scene["waiting"]),
            cold=min(int(scene["cold"]), estate.slots), out=out,
        )  # fmt: skip
        gc.collect()
        time.sleep(PAUSE_S)
        begin, cpu_begin = time.perf_counter(), time.process_time()
        done = reconcile(params, world, state, now_s)
        took, cpu_took = time.perf_counter() - begin, time.process_time() - cpu_begin
        # The world does not carry out what was ordered: each look meets the same scene.
        state = replace(done.state, ordered={}, dropped={})
        if look == 0:
            first_s = took
        if look >= 3:
            spent.append(took)
            busy.append(cpu_took)
            intents += len(done.intents)
    figures = {
        "looks": looks,
        "first_look_ms": round(1e3 * first_s, 2),
        **quantiles(1e3 * np.asarray(spent)),
        "cpu": quantiles(1e3 * np.asarray(busy)),
    }
    return {**figures, "intents_per_look": round(intents / looks, 1)}


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench pool_step", description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--slots", type=int, default=5000)
    parser.add_argument("--looks", type=int, default=100, help="measured looks of each scene")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    estate = Estate(given.nodes, given.slots, np.random.default_rng(given.seed))
    params = params_of(given.slots)
    results = {name: measured(scene, estate, params, given.looks) for name, scene in SCENES.items()}
    report = {
        "bench": "pool_step",
        "command": command("pool_step", arguments),
        "seed": given.seed,
        "machine": machine(),
        "nodes": given.nodes,
        "slots": given.slots,
        "history_bins": KEEP_BINS,
        "peak_rss_mib": peak_rss_mib(),
        "target_p99_ms": TARGET_P99_MS,
        "results": results,
    }
    print(json.dumps(report, indent=2))
    return 0
