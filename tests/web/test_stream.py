"""Frames say what the core saw, and never show a figure of a signal that is gone."""

import json
from dataclasses import replace

import numpy as np
import pytest

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.reasons import Reason
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Step, Verdict
from autoscaler.core.view import view
from autoscaler.record.stream import Aim, Frame, WorkloadFrame, needed, workload_frame
from autoscaler.sim.plant import Plant, PlantSpec
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup
from tests.web.builders import frame, workload

OUTAGE_S = (300.0, 420.0)


@pytest.fixture(scope="module")
def ready() -> dict[float, int]:
    """What the cluster itself holds at the instant of each frame."""
    return {}


@pytest.fixture(scope="module")
def frames(ready: dict[float, int]) -> dict[float, WorkloadFrame]:
    """Frames of ten minutes of steady load that triples at 120 s, with the metrics cut for two minutes."""
    arrivals = np.where(np.arange(600) < 120, 2.0, 6.0)
    traffic = Traffic(name="steps", step_s=1.0, arrivals=arrivals, source="made by hand")
    plant = Plant(PlantSpec(capacity_rps=1.0, warmup=Warmup(60.0), outages=(OUTAGE_S,)), traffic)
    table, aim, made = Table.empty(1), Aim(slo_wait_s=10.0, min_replicas=1, max_replicas=40, tick_s=5.0), {}
    table.put("sim/steps", Params(max_replicas=40))
    while not plant.done:
        if plant.now_s % 5.0 == 0.0:
            readings = plant.readings(plant.now_s)
            decision = engine.step(table, [("sim/steps", readings)]).decisions[0]
            plant.order(decision.replicas)
            seen = view(table, "sim/steps")
            assert seen is not None
            ready[plant.now_s] = readings.replicas.ready
            made[plant.now_s] = workload_frame(seen, decision, readings, aim)
        plant.advance()
    return made


def test_a_frame_tells_load_capacity_queue_and_the_warm_ups_under_way(frames: dict[float, WorkloadFrame]) -> None:
    made = frames[160.0]
    assert made.load_rps == pytest.approx(6.0, rel=0.2)
    assert made.queue
    assert made.queue > 50
    assert made.replica_rps is not None
    assert made.capacity_rps == pytest.approx(made.replica_rps * made.ready)
    assert made.capacity_rps
    assert made.wait_s == pytest.approx(made.queue / made.capacity_rps)
    assert made.starting
    assert all(0 <= start.age_s <= 60.0 for start in made.starting)
    assert made.desired >= made.ready + len(made.starting)


def test_a_decision_is_told_in_the_words_of_explain_with_every_step(frames: dict[float, WorkloadFrame]) -> None:
    decision = next(made.decision for made in frames.values() if made.decision.after > made.decision.before)
    assert decision.verdict == "SCALE"
    assert decision.text.startswith(f"{decision.before}→{decision.after}: ")
    assert [step.before for step in decision.trace[1:]] == [step.after for step in decision.trace[:-1]]
    assert ("requests waiting" in dict(decision.trace[0].facts)) or ("present load" in dict(decision.trace[0].facts))


def test_a_signal_is_held_then_unknown_and_takes_its_figures_with_it(
    frames: dict[float, WorkloadFrame], ready: dict[float, int]
) -> None:
    held, gone, back = frames[310.0], frames[400.0], frames[430.0]
    assert {s.state for s in held.signals if s.signal in {"arrivals", "queue"}} == {"held"}
    assert {(s.state, s.age_s) for s in gone.signals if s.signal == "arrivals"} == {("unknown", 105.0)}
    figures = (gone.load_rps, gone.queue, gone.wait_s, gone.late_ratio, gone.needs, gone.forecast_rps, gone.median_rps)
    assert figures == (None,) * 7
    assert gone.ready == ready[400.0], "the API server still answers"
    assert back.load_rps is not None


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((Step("demand", 3, 9, Reason.DEMAND_NOW), Step("bound", 9, 5, Reason.MAX)), 9),
        ((Step("demand", 3, 9, Reason.FORECAST), Step("gate", 9, 4, Reason.NOISE)), 4),
        ((Step("demand", 3, 3, Reason.NO_SIGNAL),), None),
        ((Step("demand", 3, 3, Reason.QUEUE_WATCHED),), None),
        ((Step("observe", 3, 3, Reason.OUTDATED),), None),
    ],
    ids=[
        "bounds do not lower the need",
        "noise is no need",
        "no signal, no need",
        "a queue that asks for no more",
        "an old reading tells no need",
    ],
)
def test_the_need_is_what_demand_asks_for(steps: tuple[Step, ...], expected: int | None) -> None:
    made = Decision("a/b", 0.0, 3, steps[-1].after, Verdict.HOLD, steps[-1].reason, steps, 5.0)
    assert needed(made) == expected


def test_json_carries_every_field_by_its_name_and_nothing_that_json_does_not_know() -> None:
    text = frame(7.0, replace(workload(7.0), load_rps=float("nan"), wait_s=None)).to_json()
    assert "\n" not in text
    record = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert set(record) == set(Frame.__dataclass_fields__)
    assert set(record["workloads"][0]) == set(WorkloadFrame.__dataclass_fields__)
    assert (record["workloads"][0]["load_rps"], record["workloads"][0]["wait_s"]) == (None, None)
    assert record["workloads"][0]["starting"] == [{"name": "chat-5", "age_s": 31.0, "unschedulable": False}]
