"""How long `headroom replay` takes: a week of a metrics store under two policies, and an hour of an audit.

The week is one workload with a daily wave, bursts and noise, scaled by a rule as HPA's: replicas for 70 % of what they
carry, every 15 s, five minutes of memory on the way down. It is kept every 30 s, as preflight reads it. The audit is as
the live controller's: a decision every five seconds, its inputs, its models, and every two hours all that is
remembered. `--hours 168` records a week of it, which takes three minutes. All of it is replayed under another objective
too, in stretches side by side, and with `--exact` also in order, which takes as long as the recording did and tells the
error of the stretches. An hour of it is replayed without memories, and half an hour of sixteen such workloads in one
audit.
"""

import argparse
import json
import math
import os
import resource
import tempfile
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path

import numpy as np

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.recall import remember
from autoscaler.core.state import Table
from autoscaler.fitting.fit import fit
from autoscaler.hindsight.comparison import compare
from autoscaler.hindsight.history import Series
from autoscaler.hindsight.overlay import Overlay
from autoscaler.hindsight.recording import Recording
from autoscaler.hindsight.replay import Replayed, replay, replay_history
from autoscaler.record import fits, memories
from autoscaler.record.audit import step_lines
from autoscaler.record.fits import fit_line
from autoscaler.record.memories import Models, memory_line
from autoscaler.record.starts import start_line
from autoscaler.runtime.fit_wire import pack_answer
from autoscaler.runtime.lanes import MEMORY_S
from autoscaler.sim.plant import Plant, PlantSpec
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup
from loadtests.bench.machine import command, machine, peak_rss_mib

STEP_S = 30
HOUR_S = 3600
DAY_S = 86_400
REPLICA_RPS = 2.0
WARMUP_S = 180.0
TARGET_S = 20.0
NAME = "prod/chat"
OTHER = ("slo.wait_s=5",)
WORKLOADS = 16


def traffic(length_s: int, seed: int) -> Traffic:
    """Ten requests/s by day, two by night, a burst of ten minutes some hours, drawn second by second."""
    rng, at_s = np.random.default_rng(seed), np.arange(length_s)
    rate = 6.0 - 4.0 * np.cos(2 * np.pi * at_s / DAY_S)
    for begin in rng.choice(np.arange(0, length_s, HOUR_S), max(1, length_s // HOUR_S // 8), replace=False):
        rate[begin : begin + 600] *= 2.0
    return Traffic("week", 1.0, rng.poisson(rate).astype(np.float64), "bench", seed)


def kept(length_s: int, seed: int) -> Series:
    """What a metrics store holds of it under the rule."""
    load = traffic(length_s, seed)
    plant = Plant(PlantSpec(REPLICA_RPS, Warmup(WARMUP_S)), load)
    wanted: deque[int] = deque(maxlen=20)
    waiting, replicas, running = np.zeros(length_s), np.zeros(length_s), np.zeros(length_s)
    for second in range(length_s):
        if second % 15 == 0:
            rate = float(load.arrivals[max(0, second - 60) : second + 1].mean())
            wanted.append(max(1, math.ceil(rate / (0.7 * REPLICA_RPS))))
            plant.order(max(wanted))
        plant.advance()
        seen = plant.readings(plant.now_s)
        waiting[second], replicas[second] = plant.serving.waiting, seen.replicas.ready
        running[second] = sum(pod.running or 0.0 for pod in seen.pods or ())
    came, queued, served, held = (
        values.reshape(-1, STEP_S).mean(axis=1) for values in (load.arrivals, waiting, running, replicas)
    )
    return Series(NAME, 0.0, float(STEP_S), came, queued, served, held, warmup_s=WARMUP_S)


def audit(folder: Path, length_s: int, seed: int) -> Path:
    """The same controller's record at five seconds a decision, as the live driver writes it."""
    plant = Plant(PlantSpec(REPLICA_RPS, Warmup(WARMUP_S)), traffic(length_s, seed))
    table, params = Table.empty(1), Params(warmup_prior_s=WARMUP_S)
    row = table.put(NAME, params)
    path = folder / "audit-000000000001.jsonl"
    with path.open("wb") as file:
        file.write(start_line(NAME, 0.0, None, float("-inf"), models=True) + b"\n")
        while not plant.done:
            if plant.now_s % params.tick_s == 0:
                seen = plant.readings(plant.now_s)
                result = engine.step(table, [(NAME, seen)])
                (decision,) = result.decisions
                lines = list(step_lines(decision, params, seen))
                if plant.now_s and plant.now_s % MEMORY_S == 0:
                    models = table.fitted.get(row), table.track(row).coming
                    packed = Models(*(None if model is None else pack_answer(model) for model in models))
                    lines.append(memory_line(NAME, plant.now_s, remember(table, NAME), packed))
                for request in result.fits:
                    model = fit(request)
                    engine.install(table, NAME, model)
                    lines.append(fit_line(NAME, plant.now_s, pack_answer(model)))
                file.write(b"".join(line + b"\n" for line in lines))
                plant.order(decision.replicas)
            plant.advance()
    return path


def crowd(folder: Path, one: Path, workloads: int, lines: int) -> Path:
    """The first lines of an audit for each of many workloads, recorded in turns as a controller does."""
    first, *rest = one.read_bytes().splitlines(keepends=True)[: 1 + lines]
    names = [f"prod/workload-{number}".encode() for number in range(workloads)]
    steps = [rest[at : at + 2] for at in range(0, len(rest), 2)]
    together = [first.replace(NAME.encode(), name) for name in names]
    together += [line.replace(NAME.encode(), name) for step in steps for name in names for line in step]
    path = folder / "audit-000000000002.jsonl"
    path.write_bytes(b"".join(together))
    return path


def timed_crowd(path: Path) -> dict[str, object]:
    """Many workloads of one audit, one look at each of them in a step of the core."""
    begun_s = time.process_time()
    done = replay(Recording.of([path]), fit)
    cpu_s = time.process_time() - begun_s
    return {
        "workloads": len(done.workloads),
        "decisions": done.rerun.compared,
        "different": done.rerun.different,
        "cpu_ms_per_decision": round(1000 * cpu_s / done.rerun.compared, 3),
    }


def timed_history(series: Series) -> dict[str, object]:
    """The week under the default policy and under another objective, with the optimum."""
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    done: Replayed = replay_history(
        series, fit, overlay=Overlay.of(OTHER), policy_json=b'{"warmup_prior_s": %g}' % WARMUP_S
    )
    replayed_s = time.perf_counter() - begun_s
    assert done.whatif is not None
    compared = compare(done.whatif, NAME)
    took_s = time.perf_counter() - begun_s
    assert compared.happened is not None
    return {
        "days": series.replicas.size * STEP_S / DAY_S,
        "step_s": STEP_S,
        "looks": done.rerun.steps,
        "seconds": round(took_s, 2),
        "of_it_the_optimum_s": round(took_s - replayed_s, 2),
        "cpu_s": round(time.process_time() - begun_cpu_s, 2),
        "target_s": TARGET_S,
        "model_error_ratio": compared.happened.late_error_ratio,
        "held_hours": {
            "happened": round(compared.happened.observed.held_hours, 1),
            "by_default": None if compared.as_is is None else round(compared.as_is.account.held_hours, 1),
            "optimum": None if compared.optimum is None else round(compared.optimum.held_hours, 1),
        },
    }


def timed(
    path: Path, changes: tuple[str, ...] = (), processes: int = 1, *, exact: bool = False
) -> tuple[Replayed, float, float]:
    """A replay, and its seconds by the clock and of the processor."""
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    done = replay(Recording.of([path]), fit, overlay=Overlay.of(changes), processes=processes, exact=exact)
    return done, time.perf_counter() - begun_s, time.process_time() - begun_cpu_s


def children_cpu_s() -> float:
    """Seconds of the processor that children had which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed_otherwise(path: Path, changes: tuple[str, ...], processes: int, *, exact: bool) -> dict[str, object]:
    """The audit under other settings."""
    before_s = children_cpu_s()
    done, took_s, cpu_s = timed(path, changes, processes, exact=exact)
    assert done.whatif is not None
    told, worlds = done.whatif.told[NAME], done.whatif.estimates(NAME)
    assert worlds is not None
    return {
        "settings": changes,
        "in_order": exact,
        "seconds": round(took_s, 2),
        "processes": 1 if exact else processes,
        "target_s": None if exact else TARGET_S,
        "own_cpu_s": round(cpu_s, 2),
        "children_cpu_s": round(children_cpu_s() - before_s, 2),
        "decisions_compared": done.rerun.compared,
        "decisions_taken_as_recorded": done.rerun.believed,
        "different": done.rerun.different,
        "differ_on_the_same_readings": told.differ,
        "worlds": {
            name: {
                "held_hours": round(world.ours.held_hours, 2),
                "late": round(world.ours.late, 1),
                "starts": world.starts,
            }
            for name, world in zip(("as_is", "other"), worlds, strict=True)
        },
        "requests": worlds[0].requests,
        "agreement": {name: asdict(agreement) for name, agreement in done.agreements.items()},
    }


def timed_audit(hours: float, seed: int, changes: tuple[str, ...], *, exact: bool) -> dict[str, object]:
    """An audit compared byte for byte, with its memories and without; a part of it otherwise; and many workloads."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = audit(folder, int(hours * HOUR_S), seed)
        done, took_s, cpu_s = timed(path)
        processes = os.cpu_count() or 1
        shared, shared_s, _ = timed(path, processes=processes)
        assert shared.rerun.counted() == done.rerun.counted()
        lines = path.read_bytes().splitlines(keepends=True)
        sizes = {
            kind: sum(len(line) for line in lines if line.startswith(prefix))
            for kind, prefix in (("memories", memories.PREFIX), ("models", fits.PREFIX))
        }
        part = folder / "audit-part.jsonl"
        part.write_bytes(b"".join(line for line in lines[:1441] if not line.startswith(memories.PREFIX)))
        alone, _, alone_cpu_s = timed(part)
        other, _, other_cpu_s = timed(part, changes, exact=True)
        orders = (False, True) if exact else (False,)
        otherwise = [timed_otherwise(path, changes, processes, exact=order) for order in orders]
        many = timed_crowd(crowd(folder, part, WORKLOADS, 2 * 360))
        return {
            "hours": hours,
            "decisions": done.rerun.compared,
            "different": done.rerun.different,
            "memories": done.rerun.memories,
            "memories_unlike": len(done.rerun.unlike),
            "seconds": round(shared_s, 2),
            "processes": processes,
            "target_s": TARGET_S,
            "one_process_s": round(took_s, 2),
            "one_process_cpu_s": round(cpu_s, 2),
            "cpu_ms_per_decision": round(1000 * cpu_s / done.rerun.compared, 3),
            "without_memories_cpu_ms_per_decision": round(1000 * alone_cpu_s / alone.rerun.compared, 3),
            "otherwise": otherwise,
            "other_settings_in_order_cpu_ms_per_decision": round(1000 * other_cpu_s / other.rerun.steps, 3),
            "bytes": sum(len(line) for line in lines),
            "bytes_of_memories": sizes["memories"],
            "bytes_of_models": sizes["models"],
            "many": many,
        }


def main(arguments: list[str]) -> int:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(prog="bench replay", description=__doc__)
    parser.add_argument("--days", type=float, default=7.0, help="of the metrics store (default 7)")
    parser.add_argument("--hours", type=float, default=4.0, help="of the audit (default 4)")
    parser.add_argument(
        "--set", action="append", metavar="KEY=VALUE", help="to try on the audit (default slo.wait_s=5)"
    )
    parser.add_argument("--exact", action="store_true", help="try it in order too, which takes minutes")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    series = kept(int(given.days * DAY_S) // STEP_S * STEP_S, given.seed)
    result = {
        "bench": "replay",
        "command": command("replay", arguments),
        "seed": given.seed,
        "machine": machine(),
        "history": timed_history(series),
        "audit": timed_audit(given.hours, given.seed, tuple(given.set or OTHER), exact=given.exact),
        "peak_rss_mib": peak_rss_mib(),
    }
    print(json.dumps(result, indent=2))
    return 0
