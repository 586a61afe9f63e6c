"""The simulator and the servers' engine, which share no code, serve the same requests: how far apart are they."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from autoscaler.sim.serving import ServingPod
from autoscaler.sim.serving.requests import RequestServing
from autoscaler.sim.traffic import Traffic, bin_counts
from loadtests.engines.batching import Batch, Sequence
from loadtests.run import pages
from loadtests.run.predicted import predicted, simulated_profile
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


RECORDED = {
    "wave, read at .309": ("wave", (0.309,), 0.1610, 82.29),
    "doubling, read at .543 and .566": ("doubling", (0.543, 0.566), 0.1816, 88.02),
}
"""Scenario, when pages were read, GPU-hours and per cent in time of whole runs on a real control plane and a quiet
machine, of the core that is simulated."""


@pytest.mark.parametrize(("name", "turns_s", "hours", "in_time"), RECORDED.values(), ids=RECORDED.keys())
def test_a_recorded_run_comes_out_as_it_was_where_its_pages_are_read_when_they_were(
    name: str, turns_s: tuple[float, ...], hours: float, in_time: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wave has 0.134 GPU-hours by what most turns say, and by this one where pages are as fine as a tenth of a second;
    that run had 0.161."""
    monkeypatch.setattr(pages, "RACE_LOST", 0.0)  # in none of them a look missed its page before the last order
    path = SCENARIO.with_name(f"{name}.yaml")
    told = predicted(read_scenario(path), path.parent, (0,), turns_s=turns_s).figures
    assert told.gpu_hours.total == pytest.approx(hours, rel=0.02)
    assert 100 * told.attainment_ratio == pytest.approx(in_time, abs=0.5)
