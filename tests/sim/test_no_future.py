"""No run uses future information, and no policy that reaches the goal is cheaper than the bound."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.types import Decision, Readings
from autoscaler.fitting.fit import fit
from autoscaler.sim import headroom
from autoscaler.sim.bounds import reference
from autoscaler.sim.contest import OURS, Bounds, make_policy
from autoscaler.sim.entry import enter
from autoscaler.sim.instance import Instance
from autoscaler.sim.policy import Policy
from autoscaler.sim.rivals import RIVALS
from autoscaler.sim.simulate import run
from autoscaler.sim.sweep import GOAL
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.workloads import named_workload
from tests.sim.scenes import make_spec, make_traffic

HINDSIGHT = {"perfect", "static"}
"""Policies that are given the arrivals: one is no product, the other is sized to the day it is judged on."""
FORESIGHTLESS = [name for name in (OURS, *RIVALS) if name not in HINDSIGHT]


@dataclass
class Recorder:
    """A policy that keeps every answer it gave, and its reasons where it has any."""

    policy: Policy
    answers: list[tuple[float, int, Decision | None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def tick_s(self) -> float:
        return self.policy.tick_s

    def decide(self, readings: Readings) -> int:
        replicas = self.policy.decide(readings)
        decision = self.policy.last if isinstance(self.policy, headroom.HeadroomPolicy) else None
        self.answers.append((readings.now_s, replicas, decision))
        return replicas


def noisy_day(hours: float, seed: int, *, step_s: float = 2.0) -> Traffic:
    """A wave with a period of an hour, noise, and bursts of some minutes."""
    rng = np.random.default_rng(seed)
    at_s = np.arange(0.0, hours * 3600.0, step_s)
    burst = np.where(rng.random(at_s.size // 90 + 1) < 0.1, 1.6, 1.0).repeat(90)[: at_s.size]
    rate_rps = (60.0 + 35.0 * np.sin(at_s / 570.0)) * burst
    return make_traffic(rng.poisson(rate_rps * step_s).astype(float).tolist(), step_s=step_s)


def answers(name: str, traffic: Traffic) -> list[tuple[float, int, Decision | None]]:
    """All that the policy said in a run."""
    instance = Instance(traffic, make_spec(warmup_s=120.0), "given")
    recorder = Recorder(make_policy(name, instance, Bounds()))
    run(traffic, instance.spec, recorder)
    return recorder.answers


def told(said: list[tuple[float, int, Decision | None]], until_s: float) -> bytes:
    """What was said up to `until_s`, to the last digit."""
    return repr([answer for answer in said if answer[0] <= until_s]).encode()


def otherwise(traffic: Traffic, from_s: float, change: Callable[[np.ndarray], np.ndarray]) -> Traffic:
    """The traffic with another future from `from_s` on."""
    arrivals = traffic.arrivals.copy()
    first = round(from_s / traffic.step_s)
    arrivals[first:] = change(arrivals[first:])
    return replace(traffic, arrivals=arrivals)


FUTURES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "silence": lambda later: later * 0.0,
    "five times the load": lambda later: later * 5.0,
    "the rest backwards": lambda later: later[::-1],
}


@pytest.mark.parametrize("name", FORESIGHTLESS)
def test_another_future_changes_no_decision_before_it(name: str):
    traffic, until_s = noisy_day(0.3, 11), 800.0
    said = answers(name, traffic)
    for future, change in FUTURES.items():
        other = answers(name, otherwise(traffic, until_s, change))
        assert told(said, until_s) == told(other, until_s), future
        assert other != said or future != "five times the load"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_not_even_fitted_models_see_another_future(monkeypatch: pytest.MonkeyPatch):
    fits: list[float] = []

    def counted(request: FitRequest) -> FittedModel:
        fits.append(request.in_force_at_s)
        return fit(request)

    monkeypatch.setattr(headroom, "fit", counted)
    traffic, until_s = noisy_day(4.0, 12), 3.5 * 3600.0
    said = answers(OURS, traffic)
    assert len([at_s for at_s in fits if at_s < until_s]) >= 2
    other = answers(OURS, otherwise(traffic, until_s, FUTURES["five times the load"]))
    assert told(said, until_s) == told(other, until_s)
    assert other != said


def test_the_proof_catches_a_policy_that_looks_ahead():
    traffic, until_s = noisy_day(0.4, 11), 1000.0
    said, other = answers("perfect", traffic), answers("perfect", otherwise(traffic, until_s, FUTURES["silence"]))
    assert told(said, until_s) != told(other, until_s)


def shortened(name: str, seed: int, from_s: float, to_s: float) -> Traffic:
    return named_workload(name, seed).window(from_s, to_s)


TRAFFICS: dict[str, Callable[[], Traffic]] = {
    "a noisy wave": lambda: noisy_day(0.6, 3, step_s=1.0),
    "a step": lambda: shortened("step-x3", 1, 6600.0, 9000.0),
    "a ramp": lambda: shortened("ramp", 2, 3000.0, 5400.0),
    "spikes": lambda: shortened("spike-train", 3, 0.0, 2400.0),
    "a constant load": lambda: make_traffic([40.0] * 1800),
}


@pytest.mark.parametrize("warmup_s", [45.0, pytest.param(240.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", TRAFFICS)
def test_no_policy_that_reaches_the_goal_is_cheaper_than_the_bound(kind: str, warmup_s: float):
    traffic = TRAFFICS[kind]()
    instance = Instance(traffic, make_spec(capacity_rps=traffic.capacity_rps or 10.0, warmup_s=warmup_s), "given")
    bounds = reference(traffic, instance.spec)
    scores = [enter(name, instance, bounds, Bounds()).score for name in (OURS, *RIVALS)]
    reached = [score for score in scores if score.attainment >= GOAL]
    assert len(reached) >= 2
    for score in reached:
        assert score.ratio_d2 is not None
        assert score.ratio_d2 >= 1.0 - 1e-6, score.policy
