"""Why requests were late, second by second, and what would have helped.

Enters: a course; a scenario for the simulator. Leaves: the seconds in which late requests waited, by what they waited
for, and the simulator's figures of the same requests with a warm pool or a floor. A cause is read off what was sampled:
it says what bound at that second, not what a person should have foreseen.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from loadtests.run.course import Course
from loadtests.run.measured import Figures, FloatArray
from loadtests.run.predicted import predicted
from loadtests.run.scenario import Scenario
from loadtests.run.watched import Sample

GOAL_RATIO: Final = 0.99
FULL_RATIO: Final = 0.97
"""A KV cache this full takes no request of usual length."""

PHASES: Final = tuple(k / 5 for k in range(5))
"""Fewer than for a prediction, since many floors are tried."""

AS_IT_WAS: Final = "as it was, by fewer readings than the prediction"
"""Said since the two differ where it matters when pages are read."""


class Cause(Enum):
    """What bound while late requests waited."""

    WARM_UP = "warm-up: replicas were ordered and could not serve yet"
    MAXIMUM = "maximum: all replicas served, and more are not allowed"
    UNORDERED = "reaction: requests waited and nothing was ordered"
    MEMORY = "memory: requests waited for room in the KV cache"
    COMPUTE = "compute: nobody waited for a slot; prompts and steps took this long"
    SILENT = "not capacity: requests were open and no engine had them, which more GPUs do not cure"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The simulator's word on the same requests with one thing changed."""

    change: str
    figures: Figures


def causes(scenario: Scenario, course: Course, ttft_s: FloatArray) -> Counter[Cause]:
    """Seconds by cause; empty where nobody was late. `ttft_s` of shape (N,) as the schedule has the requests."""
    due_s, objective_s = course.run.schedule.due_s, float(scenario.policy.ttft)
    end_s = course.end_s - course.start_s
    late = ~(ttft_s <= objective_s) & (due_s < end_s - objective_s)
    waits = np.where(np.isnan(ttft_s), end_s, ttft_s)
    found: Counter[Cause] = Counter()
    for sample in course.samples:
        if bool(np.any(late & (due_s <= sample.at_s) & (sample.at_s < due_s + waits))):
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


def what_ifs(scenario: Scenario, folder: Path) -> list[WhatIf]:
    """What a warm pool, and the smallest floor that reaches the goal, would have brought; simulated."""
    name, length_s = list(scenario.engine.warm_up.items())[-1]
    engine = msgspec.structs.replace(scenario.engine, warm_up={name: length_s})
    warm = msgspec.structs.replace(scenario, engine=engine)
    found = [WhatIf(AS_IT_WAS, predicted(scenario, folder, PHASES).figures)]
    if len(scenario.engine.warm_up) > 1:
        change = f"a warm pool: a start is only its last stage, {name}, {float(length_s):g} s"
        found.append(WhatIf(change, predicted(warm, folder, PHASES).figures))
    policy = scenario.policy
    for floor in range(policy.min_replicas + 1, policy.max_replicas + 1):
        raised = msgspec.structs.replace(policy, min_replicas=floor, replicas=max(floor, policy.replicas))
        figures = predicted(msgspec.structs.replace(scenario, policy=raised), folder, PHASES).figures
        if figures.attainment_ratio >= GOAL_RATIO or floor == policy.max_replicas:
            found.append(WhatIf(f"a floor of {floor} replicas", figures))
            break
    return found
