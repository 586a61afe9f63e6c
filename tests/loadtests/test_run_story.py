"""What happened in a run, what gateways were told meanwhile, and what is recommended after it."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from loadtests.run.charts import content
from loadtests.run.course import Course
from loadtests.run.document import Document, document
from loadtests.run.measured import Figures, gpu_hours
from loadtests.run.page import page
from loadtests.run.reading import read_scenario
from loadtests.run.scalers import Signal
from loadtests.run.scenario import Scaling, Scenario, Seconds
from loadtests.run.verdict import Cause, Remedy, WhatIf, _smallest, recommended
from loadtests.run.words import recommendation, shedding_text, state_texts, warm_text
from tests.loadtests.test_run_document import DOUBLING, course

OVER = Signal("overloaded", 0.4, 3, 6.0, 18.0)
FITS = Signal("fits", 0.0, 0)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return read_scenario(DOUBLING)


def told(scenario: Scenario, *, over: tuple[float, float], unknown_until_s: float = 0.0) -> Course:
    """The run of two replicas that became four, whose gateways were told so within `over`."""
    made = course(scenario, late_s=(50.0, 70.0))
    for number, sample in enumerate(made.samples):
        signal = OVER if over[0] <= sample.at_s < over[1] else FITS
        given = Signal("unknown") if sample.at_s < unknown_until_s else signal
        made.samples[number] = replace(sample, signal=given)
    return made


def judged(scenario: Scenario, made: Course) -> Document:
    return document(scenario, DOUBLING, made, None)


def test_what_happened_stands_in_order_beside_the_state_then(scenario: Scenario) -> None:
    ramp = msgspec.structs.replace(scenario, traffic=msgspec.structs.replace(scenario.traffic, ramp=Seconds(15)))
    found = judged(ramp, told(ramp, over=(50.0, 70.0))).moments
    assert [(round(each.at_s), each.what) for each in found] == [
        (40, "2 → 4 asked for: BACKLOG"),
        (45, "the load begins to rise"),
        (50, "gateways are told that demand does not fit"),
        (50, "the first late request is due"),
        (60, "4 replicas serve, not 2"),
        (60, "the load has risen"),
        (69, "gateways are told so for the last time"),
        (70, "the last late request is due"),
    ]
    assert state_texts(found[0].state) == ["4", "2", "2", "0", "0", "20", "50 %", "0 %"]
    assert state_texts(found[2].state) == ["4", "2", "2", "0", "30", "20", "50 %", "40 %"]


def test_what_gateways_were_told_is_told_with_the_seconds_in_which_nothing_was_known(scenario: Scenario) -> None:
    found = judged(scenario, told(scenario, over=(50.0, 70.0), unknown_until_s=33.0))
    assert shedding_text(found) == (
        "signalled in 20 of 151 s, from 50 to 69 s: at most 40 % of the load to shed, at most 3 replicas short; "
        "unknown in 33 s; no gateway takes part, so everything was sent all the same"
    )
    shed = content(found)["shed"]
    assert isinstance(shed, dict)
    assert (shed["percent"][49], shed["percent"][50], shed["retry_after_s"][50]) == (None, 40.0, 18.0)
    assert len(shed["unknown"]) == 33
    assert 'data-plot="shed"' in page([found], "")


def test_what_was_not_signalled_is_said_to_be_so(scenario: Scenario) -> None:
    fits = judged(scenario, told(scenario, over=(0.0, 0.0), unknown_until_s=10.0))
    assert shedding_text(fits) == "not signalled: demand fitted in 141 of 151 s; unknown in 10 s"
    queue = msgspec.structs.replace(scenario, scaling=Scaling.KEDA_QUEUE)
    silent = judged(queue, course(queue, late_s=(50.0, 70.0)))
    assert shedding_text(silent) == "not signalled: KEDA and HPA on the queue has no word for gateways"
    assert content(silent)["shed"] is None
    assert 'data-plot="shed"' not in page([silent], "")


def test_every_decision_stands_on_the_charts_time_with_its_reason(scenario: Scenario) -> None:
    marks = content(judged(scenario, told(scenario, over=(0.0, 0.0))))["decisions"]
    assert marks == [
        {"at_s": 5.0, "strong": False, "text": "2 → 2, BACKLOG: 2 → 2 <b>because</b> 12 wait"},
        {"at_s": 40.0, "strong": True, "text": "2 → 4, BACKLOG: 2 → 4 <b>because</b> 12 wait"},
    ]


def test_what_starts_took_is_told_where_nothing_was_kept_warm(scenario: Scenario) -> None:
    found = judged(scenario, told(scenario, over=(0.0, 0.0)))
    assert warm_text(found) == (
        "none was kept; 2 replicas served when the load rose; 2 starts took 20.0 to 20.0 s "
        "from the pod to readiness (the scenario: 20 s)"
    )


def test_what_warm_slots_were_for_is_told_beside_what_they_cost(scenario: Scenario) -> None:
    """Three slots; one start of two finds one, 40 s in, and is ready 5 s later. Two stand idle for all 150 s."""
    slots = msgspec.structs.replace(scenario, engine=msgspec.structs.replace(scenario.engine, warm_slots=3))
    made = told(slots, over=(0.0, 0.0))
    first = next(life for life in made.lives if life.begun_s >= made.start_s)
    first.warm, first.ready_s = True, first.begun_s + 5.0
    found = judged(slots, made)
    assert found.starts.slots_idle_s == pytest.approx(40 + 2 * 150)
    assert warm_text(found) == (
        "3 slots were kept, idle for 0.094 GPU-hours until they were taken; 2 replicas served when the load rose; 1 "
        "start on a warm slot took 5.0 to 5.0 s from the pod to readiness (the scenario: 5 s); 1 start took 20.0 to "
        "20.0 s from the pod to readiness (the scenario: 20 s)"
    )
    assert "20 s (weights 15 s, graphs 5 s); 5 s on each of 3 warm slots" in page([found], "")


def what_if(remedy: Remedy | None, in_time: float, hours: float, kept: float = 0.0) -> WhatIf:
    count = np.array([3])
    figures = Figures(100, in_time, 0.0, {}, gpu_hours(0.0, hours * 3600.0, 0.0, 1), int(count[0]), int(count[0]))
    return WhatIf(remedy.value if remedy else "as it was", figures, remedy, kept)


POOL = what_if(Remedy.POOL, 1.0, 0.2, kept=0.2)
FLOOR = what_if(Remedy.FLOOR, 0.995, 0.3)
FORECAST = what_if(Remedy.FORECAST, 0.99, 0.25)
SHORT = what_if(Remedy.FORECAST, 0.9, 0.1)
AS_IT_WAS = what_if(None, 1.0, 0.1)


@pytest.mark.parametrize(
    ("given", "cause", "expected"),
    [
        ((AS_IT_WAS, POOL, FLOOR, FORECAST), Cause.WARM_UP, [
            "a forecast, the cheapest of these that reaches 99 % in time", "where the rise cannot be foreseen: a floor",
        ]),
        ((AS_IT_WAS, POOL, FLOOR, SHORT), Cause.WARM_UP, ["a floor, the cheapest of these that reaches 99 % in time"]),
        ((AS_IT_WAS, SHORT), Cause.MAXIMUM, ["none of these reaches 99 % in time; raise max-replicas, or shed"]),
        ((AS_IT_WAS, POOL), Cause.SILENT, [
            "look at the engine and at what is before it: late requests mostly did not wait for a replica",
            "a warm pool, the cheapest of these that reaches 99 % in time",
        ]),
        ((), Cause.WARM_UP, []),
    ],
    ids=["a forecast", "what is kept warm costs too", "nothing does", "more GPUs do not cure it", "not asked"],
)  # fmt: skip
def test_the_cheapest_that_would_have_done_is_recommended(
    scenario: Scenario, given: tuple[WhatIf, ...], cause: Cause, expected: list[str]
) -> None:
    found = judged(scenario, told(scenario, over=(0.0, 0.0)))
    found.causes.clear()
    found.causes[cause] = 3
    assert recommendation(replace(found, what_ifs=given)) == expected


@pytest.mark.parametrize(
    ("enough", "found", "tried"),
    [(4, 4, [6, 3, 4]), (6, 6, [6, 3, 4, 5]), (9, 6, [6])],
    ids=["some", "only the most", "not even the most, so that no other is tried"],
)
def test_the_smallest_count_that_reaches_the_goal_is_found(enough: int, found: int, tried: list[int]) -> None:
    asked: list[int] = []

    def simulated(count: int) -> Figures:
        asked.append(count)
        return what_if(None, 1.0 if count >= enough else 0.5, 0.1).figures

    assert _smallest(simulated, 3, 6)[0] == found
    assert asked == tried


def test_nothing_is_recommended_of_what_changes_nothing() -> None:
    assert recommended([AS_IT_WAS]) is None


def test_the_drill_doubles_along_its_ramp_and_says_what_it_stands_for() -> None:
    drill = Path(DOUBLING.parent / "drill.yaml")
    scenario = read_scenario(drill)
    shape = scenario.shape
    assert (shape.to, shape.ramp_s) == (2 * shape.rate, 15.0)
    assert "scaled to 15 s" in scenario.about
    assert shape.rates(np.array([10.0, 17.5, 25.0])).tolist() == [7.5, 11.25, 15.0]
