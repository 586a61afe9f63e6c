"""What the simulator says of a scenario: the product's own core on simulated replicas that are given the same requests.

Enters: a scenario. Leaves: its figures and its timeline. The requests, the engine's profile, the warm-up and the policy
are the scenario's; nothing measured enters. At which instants pages are read is chance, and while nothing is known of a
replica's capacity it decides when a queue is first seen to stand. So is how long after a whole ten seconds, by which
arrivals are counted, the load begins, and which replica has the fewest requests when one comes: a millisecond decides
it, and whom the next hundred meet. So the same requests are simulated with other instants and requests sent a little
late each time; the middle of each figure is the prediction, and how far the others lie is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from autoscaler.core.params import BIN_S, KnownEvent, Params, Slo
from autoscaler.core.types import Decision, Readings
from autoscaler.runtime.triggers import Assumed, contradiction
from autoscaler.sim.plant import Plant, PlantSpec
from autoscaler.sim.recorded import RecordedPolicy
from autoscaler.sim.serving.profile import Profile, read_profile
from autoscaler.sim.serving.requests import RequestServing
from autoscaler.sim.traffic import Traffic, bin_counts
from autoscaler.sim.warmup import Warmup
from loadtests.engines.profile import STEP_TOKENS
from loadtests.run.measured import Figures, figures, gpu_hours, middle
from loadtests.run.pages import INTERVAL_S, ByPages, Pages
from loadtests.run.scenario import Engine, Make, Scenario

STEP_S = 0.01
"""Events of the control plane and pages are as fine as this. Whoever comes while an engine computes a step of 0.1 to
0.3 s waits for its end, and whether a page shows them is a matter of its instant: at a tenth of a second one of wave's
recorded runs got a queue a second early, and so an order less."""

TAIL_S = 60.0
"""Simulated after the last request was due, so that late ones get their token; its GPU-hours are not counted."""

START_S: Final = 0.12
"""What a control plane adds to a start, from the order to readiness: the middle of 31 starts of seven runs on a machine
without other work (one in ten 0.08 s or less, one in ten 0.17 s or more). At load averages of 13 to 36 it was 0.4 s.
Without it a replica whose warm-up is whole ticks would be ready in the very instant of a tick."""

LATE_S: Final = 0.001
"""By which requests are sent late in the mean: 0.86 to 0.99 ms in thirteen runs on a machine without other work; one in
a hundred was 2.3 to 3.8 ms late."""

AFTER_S: Final = 0.4
"""The load begins so long after the controller's first decision: 0.34 to 0.69 s in eighteen runs, fourteen of them at
load averages below three. In fourteen others, at 14 to 36, it was 3 to 9 s."""

RUNS: Final = range(20)
"""Numbers of a prediction's simulated runs."""

_MINUTE_S = 60.0
IntArray = npt.NDArray[np.int64]


Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Instants:
    """What a run leaves to chance; what is not given is drawn for each simulated run."""

    turns_s: tuple[float, ...] = ()
    """How long after each second of the load the pages of the first pods are read."""
    began_s: float | None = None
    """How long after a whole `BIN_S` of the controller's clock the load begins."""


BY_CHANCE: Final = Instants()


@dataclass(frozen=True, slots=True)
class Prediction:
    """One simulated run, or what many of them say together."""

    figures: Figures
    ready: IntArray
    """Replicas at each second, shape (seconds,)."""
    hours: Span = (0.0, 0.0)
    """The fewest and the most GPU-hours of all runs."""
    attainment: Span = (0.0, 0.0)
    recovery_s: Span = (0.0, 0.0)


def predicted(
    scenario: Scenario, folder: Path, numbers: Sequence[int] = RUNS, events: tuple[KnownEvent, ...] = (),
    instants: Instants = BY_CHANCE,
) -> Prediction:  # fmt: skip
    """The middle of what the runs of these numbers say of each figure, and the replicas of the run that lies nearest to
    all; `folder` is the scenario's. `events` are known to the policy, in seconds from the start of the load."""
    found = [_simulated(scenario, folder, number, events, instants) for number in numbers]
    each = np.array([_judged(one.figures) for one in found])
    least, most = each.min(axis=0), each.max(axis=0)
    apart = np.abs(each - np.median(each, axis=0)) / np.maximum(most - least, 1e-9)
    spans = [(float(low), float(high)) for low, high in zip(least, most, strict=True)]
    whole = Prediction(middle([one.figures for one in found]), found[int(apart.sum(axis=1).argmin())].ready)
    return replace(whole, hours=spans[0], attainment=spans[1], recovery_s=spans[2])


def _judged(figures: Figures) -> tuple[float, float, float]:
    return figures.gpu_hours.total, figures.attainment_ratio, figures.recovery_s or 0.0


def _simulated(
    scenario: Scenario, folder: Path, number: int, events: tuple[KnownEvent, ...] = (), instants: Instants = BY_CHANCE
) -> Prediction:
    """The run of this number, which seeds its chances."""
    schedule, policy = scenario.schedule(), scenario.policy
    rng = np.random.default_rng((scenario.seed, number))
    late_s = rng.exponential(LATE_S, schedule.due_s.size)
    sent_s = schedule.due_s + late_s + AFTER_S
    order = np.argsort(sent_s, kind="stable")
    whole_s = float(scenario.duration) + AFTER_S
    began_s = instants.began_s
    if began_s is None:
        began_s = BIN_S * float(np.random.default_rng((scenario.seed, number, 1)).random())
    origin_s = (began_s - AFTER_S) % BIN_S
    counts = bin_counts(sent_s[order], whole_s + TAIL_S, STEP_S)
    traffic = Traffic(
        name=scenario.title, step_s=STEP_S, arrivals=counts, source="scenario", seed=scenario.seed,
        arrival_s=sent_s[order], prompt_tokens=schedule.prompt_tokens[order].astype(np.float64),
        output_tokens=schedule.output_tokens[order].astype(np.float64),
    )  # fmt: skip
    profile = simulated_profile(scenario, folder)
    # The plant opens with what its capacity makes of the first minute; the requests themselves say what a replica does.
    first_rps = float(counts[: round(_MINUTE_S / STEP_S)].sum()) / _MINUTE_S
    spec = PlantSpec(
        capacity_rps=max(first_rps, 1e-6) / policy.replicas,
        warmup=_Starts.of(scenario.engine),
        max_replicas=policy.max_replicas,
        seed=scenario.seed,
    )
    params = Params(
        min_replicas=policy.min_replicas,
        max_replicas=policy.max_replicas,
        slo=Slo(ttft_s=float(policy.ttft)),
        events=tuple(
            replace(event, from_s=event.from_s + AFTER_S + origin_s, to_s=event.to_s + AFTER_S + origin_s)
            for event in events
        ),
    )
    serving = RequestServing(profile, traffic, routing="pods", seed=scenario.seed)
    core = RecordedPolicy(params, STEP_S, contradicts=_contradicts)
    pages = ByPages(core, Pages(rng, [(turn_s + AFTER_S) % INTERVAL_S for turn_s in instants.turns_s]), origin_s)
    plant = Plant(spec, traffic, serving)
    while not plant.done:
        if pages.wakes(plant.now_s, plant.counts):
            plant.order(pages.decide(plant.readings(plant.now_s)))
        plant.advance()
    line, times = plant.timeline(), serving.times()
    kept = slice(round(AFTER_S / STEP_S), round(whole_s / STEP_S))
    hours = gpu_hours(
        float(line.warming[kept].sum()) * STEP_S,
        float((line.ready[kept] + line.draining[kept]).sum()) * STEP_S,
        float(line.busy[kept].sum()),
        scenario.engine.gpus,
    )
    found = figures(
        due_s=schedule.due_s[order], ttft_s=times.ttft_s + late_s[order], objective_s=float(policy.ttft),
        onset_s=scenario.onset_s, hours=hours, desired=line.desired[kept],
    )  # fmt: skip
    return Prediction(found, line.ready[kept][:: round(1.0 / STEP_S)])


@dataclass(frozen=True, slots=True)
class _Starts(Warmup):
    """A run's starts in the order in which they get a node: the first find the warm slots."""

    warm_s: float = 0.0
    slots: list[None] = field(default_factory=list)
    """One for each slot that is left."""

    @classmethod
    def of(cls, engine: Engine) -> "_Starts":
        # Order and readiness are each put off to the next step, by half of one in the middle.
        added_s = START_S - STEP_S
        return cls(
            engine.warm_up_s + added_s, warm_s=engine.last_s + added_s, slots=[None] * engine.warm_slots
        )  # fmt: skip

    @property
    def constant(self) -> bool:
        return not self.slots

    def draw(self, rng: np.random.Generator) -> float:
        if not self.slots:
            return self.median_s
        self.slots.pop()
        return self.warm_s


def simulated_profile(scenario: Scenario, folder: Path) -> Profile:
    """The engine as the simulator has it: prompts share the tokens of a step. Where they are computed beside decoding,
    our servers save a lone decode; Dynamo's engine adds the two times, and its page counts who is in prefill among
    those that wait."""
    speed = scenario.speed(folder)
    model, gpu, tp = (scenario.engine.only or "//").rsplit("/", 2)  # a model's own name may have a slash
    profile = read_profile(
        scenario.profile(folder), model=model or None, gpu_model=gpu or None, tp=int(tp) if tp else None,
        max_num_seqs=speed.slots, kv_tokens=speed.kv_tokens, chunk_tokens=STEP_TOKENS,
    )  # fmt: skip
    # With more slots than a step has tokens, not even all that decode would share it.
    profile = replace(profile, prompts_share=speed.slots <= STEP_TOKENS)
    if scenario.engine.make is Make.DYNAMO:
        return replace(profile, prefill_waits=True, page_by_step=True)
    return replace(profile, shared_s=profile.tpot_s(1))


def _contradicts(decision: Decision, then: Readings, now: Readings) -> bool:
    return contradiction(Assumed(decision, then), now) is not None
