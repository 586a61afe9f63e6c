"""The run loop: one policy against one plant, over the whole of a traffic.

Enters: traffic, the plant's spec and a policy. Leaves: a Run, which holds what was held and how long everything waited;
`score` judges it. The policy is asked at multiples of its own tick and sees readings only. Nothing is random here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.errors import InputError
from autoscaler.sim.plant import Plant, PlantSpec, Timeline
from autoscaler.sim.policy import Forecasting, Policy
from autoscaler.sim.serving import ServingModel, Waits
from autoscaler.sim.traffic import Traffic

_CLOCK_TOLERANCE_S = 1e-6


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run of one policy."""

    policy: str
    traffic: Traffic
    spec: PlantSpec
    timeline: Timeline
    waits: Waits
    coverage: float | None
    """Share of the policy's upper forecasts that held, 0..1; None where it publishes none."""

    @property
    def duration_s(self) -> float:
        """Simulated length in seconds."""
        return self.timeline.ready.size * self.timeline.step_s


def run(
    traffic: Traffic,
    spec: PlantSpec,
    policy: Policy,
    *,
    serving: ServingModel | None = None,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Simulate `policy` over `traffic`; `progress` gets the simulated second at each of its ticks.

    A decision made at an instant sees everything up to it and acts from the step that starts there. `serving` must be
    fresh; without it the fluid model serves. Raises InputError for a tick that is not positive.
    """
    tick_s = policy.tick_s
    if not tick_s > 0:
        raise InputError(f"policy {policy.name}: tick_s is {tick_s}; it must be positive")
    plant = Plant(spec, traffic, serving)
    ticks = 0
    while not plant.done:
        if plant.now_s + _CLOCK_TOLERANCE_S >= ticks * tick_s:
            plant.order(policy.decide(plant.readings(plant.now_s)))
            # A tick shorter than the plant's step is asked once per step.
            ticks = int((plant.now_s + _CLOCK_TOLERANCE_S) // tick_s) + 1
            if progress is not None:
                progress(plant.now_s)
        plant.advance()
    coverage = policy.coverage if isinstance(policy, Forecasting) else None
    return Run(policy.name, traffic, spec, plant.timeline(), plant.serving.waits(plant.now_s), coverage)
