"""A step that nobody could foresee, served by a workload whose replicas start on a pool's nodes, or on new ones.

Enters: how many slots are kept warm, how long the stages of a start take, a seed. Leaves: how long requests were late
after the step, beside what the stage clock said of the next start when it came. The core decides how many replicas,
the pool's own look keeps its slots, and the engine of a replica starts once image and weights are on its node. Before
the step demand rises and falls by three eighths, so that starts were seen; the figure is of the whole of it: noticing,
deciding, starting, and clearing the queue.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from autoscaler.core.params import Params
from autoscaler.core.pool.ahead import Lead, Started, lead_ahead
from autoscaler.core.pool.params import CapacityType, PoolParams, PoolTier
from autoscaler.core.types import Readings
from autoscaler.sim.headroom import HeadroomPolicy
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.score import recovery_s
from autoscaler.sim.simulate import run
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warm.demand import IntArray
from autoscaler.sim.warm.headroom import HeadroomPool
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.plant_parts import Stages
from autoscaler.sim.warm.run import TIER
from autoscaler.sim.warmup import Warmup

MODEL: Final = "chat"

LOW_RPS: Final = 8.0
"""What the workload serves before the step: eight replicas of one request a second."""

STEP: Final = 3.0
LOOK_S: Final = 30.0
"""Between two looks at the pool."""


@dataclass(frozen=True, slots=True)
class Engine:
    """From image and weights on the node to the first token: framework, weights to the GPU, graphs; lognormal.

    95 + 195 s in the one published run that tells all stages (kaito-project/kaito#2325).
    """

    median_s: float = 290.0
    spread: float = 0.2

    def draw(self, rng: np.random.Generator) -> float:
        """One start in seconds."""
        return float(self.median_s * np.exp(rng.normal(0.0, self.spread)))


@dataclass(frozen=True, slots=True)
class Course:
    """Demand before the step and after it (s): so many waves, then the step, which stays."""

    waves: int = 3
    half_wave_s: float = 2700.0
    after_s: float = 5400.0

    @property
    def onset_s(self) -> float:
        """When the step comes."""
        return 2 * self.waves * self.half_wave_s

    def traffic(self, seed: int) -> Traffic:
        """Poisson arrivals a second: waves between five and eight requests a second, then three times eight."""
        half = round(self.half_wave_s)
        wave = np.repeat([LOW_RPS * 5.0 / 8.0, LOW_RPS], half)
        rates_rps = np.concatenate([np.tile(wave, self.waves), np.full(round(self.after_s), STEP * LOW_RPS)])
        arrivals = np.random.default_rng(seed).poisson(rates_rps).astype(np.float64)
        name, onsets_s = f"step x{STEP:g} on nodes", (self.onset_s,)
        return Traffic(name, 1.0, arrivals, name, seed=seed, onsets_s=onsets_s, capacity_rps=1.0)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What one step came to."""

    slots: int
    """That were kept warm."""
    warm: int
    """That were warm when the step came."""
    foretold: Lead | None
    """What the stage clock said of the next start then; None where it had seen too little."""
    recovery_s: float
    """From the step until requests wait no longer than they may, for a minute and more."""

    @property
    def ratio(self) -> float | None:
        """The recovery over what nine of ten starts took by the stage clock."""
        return None if self.foretold is None else self.recovery_s / self.foretold.spread.p90_s


class Nodes:
    """Where replicas start: warm slots, nodes that became free, else nodes of their own. It is the plant's demand."""

    models: Final = (MODEL,)

    def __init__(self, plant: Plant, engine: Engine, pool: HeadroomPool | None, replicas: int) -> None:
        self._plant, self._engine, self._pool, self._replicas = plant, engine, pool, replicas
        self._looked_s = -LOOK_S
        self._starts: list[tuple[float, bool, bool, float]] = []
        """Of each start when it ends, whether it found a warm node or had its own, and its whole seconds."""
        plant.start_with(self)

    def at(self, now_s: float) -> IntArray:
        """Replicas that hold a node, those that start included."""
        return np.array([self._replicas])

    def advance(self, now_s: float, replicas: int) -> None:
        """Let time pass, give back what was scaled in, and let the pool look."""
        for _ in range(self._replicas - replicas):
            if self._starts and self._starts[-1][0] > now_s:
                self._starts.pop()  # the youngest start goes first, and tells nothing
        self._replicas = replicas
        self._plant.advance(now_s, self)
        if self._pool is not None and now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._plant.apply(list(self._pool.act(self._plant)))

    def start_s(self, rng: np.random.Generator) -> float:
        """Take a node for one more replica; the seconds until it serves."""
        self._replicas += 1
        now_s = self._plant.now_s
        self._plant.advance(now_s, self)
        found = self._plant.taken[-1]
        whole_s = found.wait_s + self._engine.draw(rng)
        self._starts.append((now_s + whole_s, found.wait_s == 0.0, found.own, whole_s))
        return whole_s

    @property
    def warm(self) -> int:
        """Warm slots at the pool's last look."""
        return 0 if self._pool is None or self._pool.decision is None else self._pool.decision.warm

    def foretold(self) -> Lead | None:
        """What the stage clock says of the next start, of those that have ended."""
        ended = [start for start in self._starts if start[0] <= self._plant.now_s]
        warm_s = tuple(whole_s for _, warm, _, whole_s in ended if warm)
        cold_s = tuple(whole_s for _, _, own, whole_s in ended if own)
        ahead = None if self._pool is None else self._pool.ahead
        slots_s = () if ahead is None else ahead.slots_s
        return lead_ahead(Started(warm_s, cold_s), slots_s, warm=self.warm > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnNodes(Warmup):
    """A warm-up that is not drawn by itself: it takes a node, and what is left to do there is its length."""

    nodes: Nodes

    @property
    def constant(self) -> bool:
        """Each start takes its own time."""
        return False

    def draw(self, rng: np.random.Generator) -> float:
        """The start that is ordered now, in seconds."""
        return self.nodes.start_s(rng)


class Served:
    """The core's policy, whose nodes go with time; it keeps what was foretold when the step came."""

    name: Final = "headroom"

    def __init__(self, policy: HeadroomPolicy, nodes: Nodes, onset_s: float) -> None:
        self._policy, self._nodes, self._onset_s = policy, nodes, onset_s
        self.foretold: Lead | None = None
        self.warm = 0
        self._told = False

    @property
    def tick_s(self) -> float:
        """The policy's own."""
        return self._policy.tick_s

    def decide(self, readings: Readings) -> int:
        """The policy's count."""
        self._nodes.advance(readings.now_s, readings.replicas.desired)
        if not self._told and readings.now_s >= self._onset_s:
            self._told, self.foretold, self.warm = True, self._nodes.foretold(), self._nodes.warm
        return self._policy.decide(readings)


def recovered(
    slots: int,
    seed: int,
    *,
    stages: Stages | None = None,
    engine: Engine | None = None,
    course: Course | None = None,
    max_replicas: int = 100,
) -> Recovery:
    """One step with so many slots kept warm (0: no pool), from one seed."""
    stages, engine, course = stages or Stages(), engine or Engine(), course or Course()
    plant = Plant((TIER,), stages, np.random.default_rng(seed))
    tier = PoolTier(TIER.name, TIER.name, TIER.sku, CapacityType.ON_DEMAND)
    kept = PoolParams("pool", (tier,), (MODEL,), "content", min_slots=slots, max_slots=max(1, slots))
    nodes = Nodes(plant, engine, HeadroomPool(kept) if slots else None, round(LOW_RPS * 5.0 / 8.0))
    node_s = stages.launch_s + stages.register_s + stages.gpu_s + stages.image_s + stages.weights_s
    whole_s = engine.median_s + (0.0 if slots else node_s)
    traffic = course.traffic(seed)
    warmup = OnNodes(whole_s, nodes=nodes)
    spec = PlantSpec(capacity_rps=1.0, warmup=warmup, max_replicas=max_replicas, seed=seed)
    served = Served(HeadroomPolicy(Params(max_replicas=max_replicas)), nodes, course.onset_s)
    done = run(traffic, spec, served)
    late_s = recovery_s(done)
    assert late_s is not None, "the traffic states its onset"
    return Recovery(slots, served.warm, served.foretold, late_s)
