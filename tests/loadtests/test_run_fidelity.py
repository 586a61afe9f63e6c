"""The simulator and the servers' engine, which share no code, serve the same requests: how far apart are they."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from autoscaler.core.types import Readings
from autoscaler.sim.recorded import RecordedPolicy
from autoscaler.sim.serving import ServingPod
from autoscaler.sim.serving.requests import RequestServing
from autoscaler.sim.traffic import Traffic, bin_counts
from loadtests.engines.batching import Batch, Sequence
from loadtests.run import predicted as predictions
from loadtests.run.predicted import Instants, predicted, simulated_profile
from loadtests.run.reading import read_scenario
from loadtests.traffic.lengths import parse
from tests.conftest import ROOT

FloatArray = npt.NDArray[np.float64]
REQUESTS = 800
SCENARIO = ROOT / "loadtests" / "scenarios" / "doubling.yaml"


def by_the_engine(due_s: FloatArray, prompts: list[int], outputs: list[int]) -> tuple[FloatArray, FloatArray]:
    """Seconds to each first token of one server whose steps follow each other without delay, and to each admission."""
    batch = Batch(read_scenario(SCENARIO).speed(SCENARIO.parent))
    now_s, at, numbers, first_s, admitted_s = 0.0, 0, dict[int, int](), dict[int, float](), dict[int, float]()
    while len(first_s) < len(prompts):
        while at < len(prompts) and due_s[at] <= now_s:
            sequence = Sequence(prompts[at], outputs[at])
            numbers[id(sequence)] = at
            batch.arrive(sequence)
            at += 1
        step = batch.plan()
        if step is None:
            now_s = float(due_s[at])
            continue
        for sequence in step.admitted:
            admitted_s.setdefault(numbers[id(sequence)], now_s)
        now_s += step.duration_s
        for sequence in batch.finish(step):
            first_s.setdefault(numbers[id(sequence)], now_s)
    first, admitted = (np.array([at_s[n] for n in range(len(prompts))]) - due_s for at_s in (first_s, admitted_s))
    return first, admitted


def by_the_simulator(
    due_s: FloatArray, prompts: list[int], outputs: list[int], scenario: Path = SCENARIO
) -> tuple[FloatArray, FloatArray]:
    """The same of one simulated replica."""
    length_s = float(np.ceil(due_s[-1])) + 1.0
    traffic = Traffic(
        name="requests", step_s=1.0, arrivals=bin_counts(due_s, length_s, 1.0), source="drawn", arrival_s=due_s,
        prompt_tokens=np.array(prompts, dtype=np.float64), output_tokens=np.array(outputs, dtype=np.float64),
    )  # fmt: skip
    serving = RequestServing(simulated_profile(read_scenario(scenario), scenario.parent), traffic, routing="pods")
    serving.set_pods(0.0, (ServingPod("one", 0.0),))
    now_s = 0.0
    while now_s < length_s or serving.running or serving.waiting:
        serving.offer(now_s, 1.0, 0.0)
        now_s += 1.0
    times = serving.times()
    return times.ttft_s, times.queue_s


def waited_s(due_s: FloatArray, queue_s: FloatArray) -> float:
    """Seconds in which at least one request waited: what a page shows at one instant in so many."""
    whole_s, until_s = 0.0, 0.0
    for begin_s, end_s in zip(due_s, due_s + queue_s, strict=True):
        whole_s += max(0.0, end_s - max(begin_s, until_s))
        until_s = max(until_s, end_s)
    return whole_s


@pytest.mark.parametrize("rps", [2.0, 3.0, 4.0, 6.0], ids=lambda rps: f"{rps:g}-rps")
def test_first_tokens_and_pages_that_show_a_queue_are_alike_from_idle_to_overload(rps: float) -> None:
    rng = np.random.default_rng(0)
    prompts, outputs = (
        parse("", text).draw(REQUESTS, rng).tolist() for text in ("lognormal:512:0.8", "lognormal:96:0.6")
    )
    due_s = np.cumsum(rng.exponential(1.0, REQUESTS)) / rps
    (engine, engine_queue), (simulator, queue) = (
        serve(due_s, prompts, outputs) for serve in (by_the_engine, by_the_simulator)
    )
    for q in (50, 90, 99):
        assert np.percentile(simulator, q) == pytest.approx(np.percentile(engine, q), rel=0.05, abs=0.03)
    assert waited_s(due_s, queue) == pytest.approx(waited_s(due_s, engine_queue), rel=0.03)


@dataclass
class AsRecorded:
    """Orders as a run had them, at seconds of its load, whatever pages show; and when pages showed how many wait."""

    orders: list[tuple[float, int]]
    shown: dict[float, float] = field(default_factory=dict)
    count: int = 0
    name: str = "recorded"
    tick_s: float = predictions.STEP_S

    @property
    def due_s(self) -> float:
        """By the plant's clock, as `began_s` is `AFTER_S` wherever this is driven."""
        return self.orders[0][0] + predictions.AFTER_S if self.orders else math.inf

    def look(self, readings: Readings, *, due: bool) -> int:
        waiting = sum(pod.waiting or 0.0 for pod in readings.pods or ())
        if waiting:
            self.shown[round(readings.now_s - predictions.AFTER_S, 3)] = waiting
        self.count = self.orders.pop(0)[1] if due else self.count or readings.replicas.desired
        return self.count


@dataclass(frozen=True)
class Run:
    """One on a real control plane and a quiet machine, of 725aea0; of drill-warm on 28 November 2026."""

    scenario: str
    turns_s: tuple[float, ...]
    """When pages were read."""
    orders: tuple[tuple[float, int], ...]
    hours: float
    in_time: float
    """Per cent."""
    points: float = 0.5
    """So far may the simulator be from that."""


RUNS = (
    Run("wave", (0.309,), ((31.31, 2), (41.31, 3), (46.31, 4), (51.31, 5)), 0.1610, 82.29),
    Run("doubling", (0.543, 0.566), ((56.55, 4), (66.55, 6)), 0.1816, 88.02),
    # All three starts found a warm slot.
    Run("drill-warm", (0.898, 0.948), ((20.90, 3), (25.90, 5)), 0.1881, 95.82),
    # Neither batching nor HTTP is ours there.
    Run("shortage-dynamo", (0.652,), ((7.66, 2), (12.66, 3), (17.65, 4), (27.65, 5)), 0.1206, 81.72, points=1.0),
)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.scenario)
def test_a_recorded_run_comes_out_as_it_was_where_what_it_ordered_is_ordered(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The engines, starts and bills of the simulator without the core, whose orders change as it does."""
    monkeypatch.setattr(predictions, "RecordedPolicy", lambda *_, **__: AsRecorded(list(run.orders)))
    path = SCENARIO.with_name(f"{run.scenario}.yaml")
    told = predicted(
        read_scenario(path), path.parent, (0,), instants=Instants(run.turns_s, predictions.AFTER_S)
    ).figures
    assert told.gpu_hours.total == pytest.approx(run.hours, rel=0.02)
    assert 100 * told.attainment_ratio == pytest.approx(run.in_time, abs=run.points)


@dataclass
class Told(RecordedPolicy):
    """The core, keeping what it says of the load."""

    loads: list[tuple[float, float]] = field(default_factory=list)
    orders: list[tuple[float, int]] = field(default_factory=list)

    def look(self, readings: Readings, *, due: bool) -> int:
        before, count = self._last, super().look(readings, due=due)
        if self._last is not None and self._last is not before:
            evidence = dict(self._last[0].trace[0].evidence)
            if "load_rps" in evidence:
                self.loads.append((readings.now_s, float(evidence["load_rps"] or 0.0)))
        if count != readings.replicas.desired:
            self.orders.append((readings.now_s, count))
        return count


def simulated(scenario: str, instants: Instants, monkeypatch: pytest.MonkeyPatch) -> Told:
    """The core after one simulated run."""
    made = list[Told]()

    def core(*given: object, **named: object) -> Told:
        made.append(Told(*given, **named))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(predictions, "RecordedPolicy", core)
    path = SCENARIO.with_name(f"{scenario}.yaml")
    predicted(read_scenario(path), path.parent, (0,), instants=instants)
    return made[0]


def test_one_request_on_each_of_two_pages_orders_nothing_before_the_load_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of 0.54 and 5.54 s show one request each, with nine let in between. It ordered a second replica 20 s before
    the load rose, and the figures of that run were those of a fleet that is ahead."""
    core = simulated("explosion-dynamo", Instants((0.538,), 5.496), monkeypatch)
    first_s = core.orders[0][0] - 5.496
    assert 20.0 < first_s < 27.0


def test_the_load_is_told_by_the_tens_of_the_clock_that_a_recorded_run_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explosion began 7.777 s after a whole ten: arrivals are counted anew at 2.22, 12.22, 22.22 and 32.22 s of it."""
    core = simulated("explosion", Instants((0.227,), 7.777), monkeypatch)
    begun_s = core.loads[0][0]
    told = {round(at_s - begun_s): load for at_s, load in core.loads[:5]}
    # The run's own, of 4efb0cb on 23 November 2026, from 20.23 s on.
    recorded = {0: 2.026, 5: 3.153, 10: 3.153, 15: 4.82, 20: 4.82}
    assert told == pytest.approx(recorded, rel=0.02)


def test_pages_show_who_waits_in_the_second_in_which_a_recorded_run_saw_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In wave those of 24.31 and 25.31 s showed nobody, and that of 26.31 woke the controller. Somebody waits for a
    step to end before 24.25 and before 25.4 s: read at tenths of a second, pages show one of them."""
    run = AsRecorded([(31.31, 2)])
    monkeypatch.setattr(predictions, "RecordedPolicy", lambda *_, **__: run)
    path = SCENARIO.with_name("wave.yaml")
    predicted(read_scenario(path), path.parent, (0,), instants=Instants((0.309,), predictions.AFTER_S))
    assert min(run.shown) == pytest.approx(26.309, abs=0.001)
    monkeypatch.setattr(predictions, "STEP_S", 0.1)
    coarse = AsRecorded([(31.31, 2)])
    monkeypatch.setattr(predictions, "RecordedPolicy", lambda *_, **__: coarse)
    predicted(read_scenario(path), path.parent, (0,), instants=Instants((0.309,), predictions.AFTER_S))
    assert min(coarse.shown) == pytest.approx(25.309, abs=0.001)


def test_dynamos_pages_tell_as_many_as_a_recorded_run_saw_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first start is over: one engine's batches, and its page. On a page that tells of each request from its
    arrival one more waits at 49 s; with one prompt in a step, at every instant but that of 29 s, which is 20 or 21 by
    how late requests are drawn."""
    run = AsRecorded([(24.27, 2), (29.27, 3), (34.27, 4)])
    monkeypatch.setattr(predictions, "RecordedPolicy", lambda *_, **__: run)
    path = SCENARIO.with_name("explosion-dynamo.yaml")
    predicted(read_scenario(path), path.parent, (1,), instants=Instants((0.27,), predictions.AFTER_S))
    # The run's own, of 5f441b6 on 23 November 2026.
    recorded = {24.27: 5.0, 29.27: 21.0, 34.27: 33.0, 39.27: 42.0, 44.27: 53.0, 49.27: 66.0}
    assert {at_s: run.shown[at_s] for at_s in recorded} == recorded
