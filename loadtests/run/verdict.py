"""Why requests were late, second by second, and what would have helped.

Enters: a course; a scenario for the simulator. Leaves: the seconds in which late requests waited, by what they waited
for, the simulator's figures of the same requests with a warm pool, a floor or a forecast, and the cheapest of them that
would have done. A cause is read off what was sampled: it says what bound at that second, not what a person should have
foreseen.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from autoscaler.core.params import KnownEvent
from loadtests.run.course import Course
from loadtests.run.measured import Figures, FloatArray
from loadtests.run.pages import INTERVAL_S
from loadtests.run.predicted import predicted
from loadtests.run.scenario import Scenario
from loadtests.run.watched import Sample

BoolArray = npt.NDArray[np.bool_]
GOAL_RATIO: Final = 0.99
FULL_RATIO: Final = 0.97
"""A KV cache this full takes no request of usual length."""

RUNS: Final = range(5)
"""Fewer than for a prediction, since many floors are tried."""

AS_IT_WAS: Final = "as it was, by fewer readings than the prediction"
"""Said since the two differ where it matters when pages are read."""


class Cause(Enum):
    """What bound while late requests waited."""

    WARM_UP = "warm-up: replicas were ordered and could not serve yet"
    MAXIMUM = "queue wait at the maximum: all replicas served, and more are not allowed"
    UNORDERED = "queue wait before an order: requests waited and nothing was ordered"
    MEMORY = "memory: requests waited for room in the KV cache"
    COMPUTE = "compute: nobody waited for a slot; prompts and steps took this long"
    SILENT = "not capacity: requests were open and no engine had them, which more GPUs do not cure"


class Remedy(Enum):
    """What could be changed before the next time."""

    POOL = "a warm pool"
    FLOOR = "a floor"
    FORECAST = "a forecast"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The simulator's word on the same requests with one thing changed."""

    change: str
    figures: Figures
    remedy: Remedy | None = None
    """None for no change."""
    kept_gpu_hours: float = 0.0
    """What it takes beside the replicas, at most: warm capacity that is kept all the time."""

    @property
    def cost_gpu_hours(self) -> float:
        """All that it takes."""
        return self.figures.gpu_hours.total + self.kept_gpu_hours


def late(scenario: Scenario, course: Course, ttft_s: FloatArray) -> BoolArray:
    """Who was late, of shape (N,) as `ttft_s`, which is in the order of the schedule; nobody who could not know yet."""
    due_s, objective_s = course.run.schedule.due_s, float(scenario.policy.ttft)
    found: BoolArray = ~(ttft_s <= objective_s) & (due_s < course.end_s - course.start_s - objective_s)
    return found


def causes(scenario: Scenario, course: Course, ttft_s: FloatArray) -> Counter[Cause]:
    """Seconds by cause; empty where nobody was late. `ttft_s` of shape (N,) as the schedule has the requests."""
    due_s, who = course.run.schedule.due_s, late(scenario, course, ttft_s)
    waits = np.where(np.isnan(ttft_s), course.end_s - course.start_s, ttft_s)
    found: Counter[Cause] = Counter()
    for sample in course.samples:
        if bool(np.any(who & (due_s <= sample.at_s) & (sample.at_s < due_s + waits))):
            found[_cause(sample, scenario.policy.max_replicas)] += 1
    return found


def _cause(sample: Sample, most: int) -> Cause:
    if not sample.waiting:
        return Cause.COMPUTE if sample.running else Cause.SILENT
    if sample.kv_used_ratio >= FULL_RATIO:
        return Cause.MEMORY
    if sample.starting:
        return Cause.WARM_UP
    return Cause.MAXIMUM if sample.ready >= most else Cause.UNORDERED


def what_ifs(scenario: Scenario, folder: Path, at_once: int) -> list[WhatIf]:
    """What a warm pool, the smallest floor and the smallest forecast that reach the goal would have brought; simulated.
    The pool has room for `at_once` replicas, as many as were starting at one time."""
    found = [WhatIf(AS_IT_WAS, predicted(scenario, folder, RUNS).figures)]
    if len(scenario.engine.warm_up) > 1:
        found.append(_pool(scenario, folder, at_once))
    found.append(_floor(scenario, folder))
    if scenario.onset_s is not None:
        found.append(_forecast(scenario, folder, scenario.onset_s))
    return found


def _pool(scenario: Scenario, folder: Path, at_once: int) -> WhatIf:
    name, length_s = list(scenario.engine.warm_up.items())[-1]
    engine = msgspec.structs.replace(scenario.engine, warm_up={name: length_s}, warm_slots=0)
    warm = msgspec.structs.replace(scenario, engine=engine)
    kept = at_once * scenario.engine.gpus * float(scenario.duration) / 3600.0
    size = f"{at_once}, as many as were starting at once"
    change = f"a warm pool of {size}: a start is only {name}, {float(length_s):g} s"
    return WhatIf(change, predicted(warm, folder, RUNS).figures, Remedy.POOL, kept)


def _floor(scenario: Scenario, folder: Path) -> WhatIf:
    """The smallest floor that reaches the goal, or the maximum."""
    policy = scenario.policy

    def tried(floor: int) -> Figures:
        raised = msgspec.structs.replace(policy, min_replicas=floor, replicas=max(floor, policy.replicas))
        return predicted(msgspec.structs.replace(scenario, policy=raised), folder, RUNS).figures

    floor, figures = _smallest(tried, policy.min_replicas + 1, policy.max_replicas)
    return WhatIf(f"a floor of {floor} replicas", figures, Remedy.FLOOR)


def _forecast(scenario: Scenario, folder: Path, onset_s: float) -> WhatIf:
    """The smallest count that reaches the goal, asked for so early that it serves at the onset if the load is on by
    then."""
    policy, warm_up_s = scenario.policy, scenario.engine.warm_up_s
    ahead_s = min(warm_up_s + INTERVAL_S, onset_s)
    to_s = float(scenario.duration)

    def tried(floor: int) -> Figures:
        return predicted(scenario, folder, RUNS, (KnownEvent(onset_s - ahead_s, to_s, floor),)).figures

    floor, figures = _smallest(tried, policy.replicas + 1, policy.max_replicas)
    more = f", as early as the run begins; a start takes {warm_up_s:g} s" if ahead_s < warm_up_s else ""
    change = f"a forecast that asks for {floor} replicas {ahead_s:g} s before the rise{more}"
    return WhatIf(change, figures, Remedy.FORECAST)


def _smallest(tried: Callable[[int], Figures], first: int, most: int) -> tuple[int, Figures]:
    """The first count that reaches the goal, or `most`, with its figures; where `most` does not, no other is tried."""
    at_most = tried(most)
    if at_most.attainment_ratio < GOAL_RATIO:
        return most, at_most
    for count in range(first, most):
        figures = tried(count)
        if figures.attainment_ratio >= GOAL_RATIO:
            return count, figures
    return most, at_most


def recommended(what_ifs: Sequence[WhatIf]) -> WhatIf | None:
    """Of the remedies that reach the goal the one that takes the fewest GPU-hours; None where none does."""
    enough = [each for each in what_ifs if each.remedy is not None and each.figures.attainment_ratio >= GOAL_RATIO]
    return min(enough, key=lambda each: each.cost_gpu_hours, default=None)
