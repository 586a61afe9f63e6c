"""Audit files of a simulated quarter of an hour, recorded as the live controller records."""

from functools import cache
from pathlib import Path

import numpy as np

from autoscaler.core.params import Params
from autoscaler.core.recall import remember
from autoscaler.record.audit import step_lines
from autoscaler.record.memories import Models, memory_line
from autoscaler.record.starts import start_line
from autoscaler.sim.headroom import WORKLOAD, HeadroomPolicy
from autoscaler.sim.plant import Plant, PlantSpec
from autoscaler.sim.recorded import RecordedPolicy
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup

PARAMS = Params(max_replicas=40, warmup_prior_s=60.0, tick_s=10.0)


@cache
def lines(length_s: int = 1000, active: bool = True, seed: int = 1) -> tuple[bytes, ...]:
    """A beginning, then inputs and decisions in turn: 6 requests/s that triple for five minutes from second 300 on.

    Not active: a human keeps four replicas of two requests/s, and Headroom only decides.
    """
    rates = np.full(length_s, 6.0)
    rates[300:600] = 18.0
    counts = np.random.default_rng(seed).poisson(rates).astype(np.float64)
    plant = Plant(PlantSpec(2.0, Warmup(60.0)), Traffic("burst", 1.0, counts, "test"))
    policy = RecordedPolicy(PARAMS, 1.0)
    while not plant.done:
        replicas = policy.decide(plant.readings(plant.now_s))
        plant.order(replicas if active else 4)
        plant.advance()
    return (start_line(WORKLOAD, 0.0, None, float("-inf")), *policy.lines)


@cache
def marked(every_s: int = 200, seed: int = 1) -> tuple[bytes, ...]:
    """The same quarter of an hour with all that is remembered after every 200 seconds, as the live controller does."""
    rates = np.full(1000, 6.0)
    rates[300:600] = 18.0
    counts = np.random.default_rng(seed).poisson(rates).astype(np.float64)
    plant = Plant(PlantSpec(2.0, Warmup(60.0)), Traffic("burst", 1.0, counts, "test"))
    policy = HeadroomPolicy(PARAMS)
    kept = [start_line(WORKLOAD, 0.0, None, float("-inf"), models=True)]
    while not plant.done:
        if plant.now_s % PARAMS.tick_s == 0:
            seen = plant.readings(plant.now_s)
            plant.order(policy.decide(seen))
            assert policy.last is not None
            kept += step_lines(policy.last, PARAMS, seen)
            if plant.now_s and plant.now_s % every_s == 0:
                kept.append(memory_line(WORKLOAD, plant.now_s, remember(policy.table, WORKLOAD), Models()))
        plant.advance()
    return tuple(kept)


def write(path: Path, given: tuple[bytes, ...] | list[bytes]) -> Path:
    """An audit file of these lines."""
    path.write_bytes(b"".join(line + b"\n" for line in given))
    return path
