"""A run as JSON, and the numbers its page draws: what was measured, what was predicted, and how far apart they are.

Enters: a course and a prediction. Leaves: a record of plain values. It says nothing that is not in them.
"""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from autoscaler.adapters.engines.polling import phase_of
from autoscaler.core.params import BIN_S
from loadtests.bench.machine import machine
from loadtests.run.course import Course
from loadtests.run.fidelity import Fidelity, compared, with_turned
from loadtests.run.measured import Figures, FloatArray, figures, gpu_hours
from loadtests.run.pages import INTERVAL_S
from loadtests.run.predicted import Instants, Prediction, predicted
from loadtests.run.scenario import Scaling, Scenario
from loadtests.run.story import Moment, Shedding, Starts, moments, shedding, starts
from loadtests.run.verdict import GOAL_RATIO, Cause, WhatIf, causes, late, recommended, what_ifs
from loadtests.traffic.report import record as traffic_record

SCOPE: Final = "control loop, not GPU"
LABELS: Final = {
    Scaling.DIRECT: "Headroom", Scaling.KEDA: "Headroom through KEDA", Scaling.KEDA_QUEUE: "KEDA and HPA on the queue",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """A run and all that is said of it."""

    scenario: Scenario
    name: str
    course: Course
    measured: Figures
    prediction: Prediction | None
    """None where the simulator does not have what scales."""
    fidelity: tuple[Fidelity, ...]
    """Empty for a run that was cut."""
    causes: Counter[Cause]
    """Seconds in which late requests waited, by what they waited for."""
    moments: tuple[Moment, ...]
    shedding: Shedding
    starts: Starts
    what_ifs: tuple[WhatIf, ...] = ()
    """Where too many were late: what the simulator says would have helped; see `advised`."""
    number: int = 0
    """Which of several runs of the scenario, from 1; 0 where it is the only one."""

    @property
    def label(self) -> str:
        """What scales, in words, and which of several runs it is."""
        return LABELS[self.scenario.scaling] + (f", run {self.number}" if self.number else "")

    @property
    def recommended(self) -> WhatIf | None:
        """What would have done with the fewest GPU-hours; None where nothing was asked for or nothing does."""
        return recommended(self.what_ifs)

    @property
    def cut(self) -> bool:
        """Whether the run ended before its load did."""
        return self.course.run.ended != "done"


def document(
    scenario: Scenario, path: Path, course: Course, prediction: Prediction | None, number: int = 0
) -> Document:
    """Judge a course; `number` says which of several it is."""
    measured = judged(scenario, course)
    whole = course.run.ended == "done"
    fidelity = compared(measured, prediction) if whole and prediction is not None else ()
    due_s = course.run.schedule.due_s
    ttft_s = _ttft_s(due_s, course)
    return Document(
        scenario, path.name, course, measured, prediction, fidelity, causes(scenario, course, ttft_s),
        moments(scenario, course, due_s[late(scenario, course, ttft_s)]), shedding(scenario, course),
        starts(scenario, course), number=number,
    )  # fmt: skip


def advised(document: Document, folder: Path) -> Document:
    """The document with what would have helped, where the simulator has what scales and too many were late."""
    few = document.prediction is not None and document.measured.attainment_ratio < GOAL_RATIO
    if not few:
        return document
    return replace(document, what_ifs=tuple(what_ifs(document.scenario, folder, document.starts.most_at_once)))


def reread(document: Document, folder: Path) -> Document:
    """The document with what the simulator says where it reads pages, and begins, when this run did, where the two are
    compared."""
    instants = Instants(tuple(turns_s(document.course)), began_s(document.course))
    if not (document.fidelity and instants.turns_s):
        return document
    again = predicted(document.scenario, folder, instants=instants).figures
    return replace(document, fidelity=with_turned(document.fidelity, again))


def judged(scenario: Scenario, course: Course) -> Figures:
    """The figures of a course. Of one that was cut those requests count that were due so long before that they would
    have been late by then; where there are none, nothing is known of them."""
    objective_s, whole_s = float(scenario.policy.ttft), float(scenario.duration)
    until_s = whole_s if course.run.ended == "done" else course.end_s - course.start_s
    schedule = course.run.schedule
    ttft_s = _ttft_s(schedule.due_s, course)
    known = schedule.due_s < (np.inf if course.run.ended == "done" else until_s - objective_s)
    onset_s = scenario.onset_s
    if course.run.ended != "done":
        onset_s = _recovered(schedule.due_s[known], ttft_s[known], objective_s, onset_s)
    warming_s, held_s = _held(course, min(whole_s, until_s))
    busy_s = max((sample.busy_s for sample in course.samples if sample.at_s <= whole_s), default=0.0)
    desired = [sample.desired for sample in course.samples if sample.at_s < whole_s]
    return figures(
        due_s=schedule.due_s[known], ttft_s=ttft_s[known], objective_s=objective_s, onset_s=onset_s,
        hours=gpu_hours(warming_s, held_s, busy_s, scenario.engine.gpus), desired=np.array(desired, dtype=np.int64),
    )  # fmt: skip


def foretold_as_json(scenario: Scenario, name: str, prediction: Prediction) -> dict[str, object]:
    """The record of a prediction alone; `name` is the scenario's file. Spans are the least and most of its runs."""
    return {
        "loadtest": "prediction",
        "scope": SCOPE,
        "scenario": _scenario(scenario, name),
        "predicted": prediction.figures.as_json(),
        "spans": {"gpu_hours": prediction.hours, "attainment_ratio": prediction.attainment,
                  "recovery_s": None if prediction.figures.recovery_s is None else prediction.recovery_s},
    }  # fmt: skip


def _scenario(scenario: Scenario, name: str) -> dict[str, object]:
    return {"file": name, **msgspec.to_builtins(scenario, enc_hook=float)}


def as_json(document: Document) -> dict[str, object]:
    """The whole record."""
    course = document.course
    return {
        "loadtest": "run",
        "scope": SCOPE,
        "scenario": _scenario(document.scenario, document.name),
        "machine": machine(),
        "ended": course.run.ended,
        "measured": document.measured.as_json(),
        "predicted": None if document.prediction is None else document.prediction.figures.as_json(),
        "fidelity": [row.as_json() for row in document.fidelity],
        "late_seconds_by_cause": {cause.name.lower(): count for cause, count in document.causes.most_common()},
        "moments": [{"at_s": round(each.at_s, 2), "what": each.what} for each in document.moments],
        "shedding": asdict(document.shedding),
        "starts": asdict(document.starts),
        "what_if": [
            {"change": each.change, "recommended": each is document.recommended,
             "kept_gpu_hours": each.kept_gpu_hours, **each.figures.as_json()}
            for each in document.what_ifs
        ],
        "scaler": scaler_use(course),
        "harness": {"cpu_s": round(course.samples[-1].harness_cpu_s, 2) if course.samples else None},
        "traffic": traffic_record(course.run, course.tally),
        "samples": [asdict(sample) for sample in course.samples],
        "pods": [
            {"name": life.name, **{key: _from_start(getattr(life, key), course.start_s)
             for key in ("begun_s", "ready_s", "gone_s", "ended_s")},
             "warm": life.warm, "turn_s": turn_s(life.uid, course.start_s)}
            for life in course.lives
        ],
        "decisions": [{**line, "at_s": round(line["now_s"] - course.began_at_s, 2)} for line in course.decisions],
        "began_s": began_s(course),
        "notes": course.notes,
    }  # fmt: skip


def scaler_use(course: Course) -> dict[str, float | None]:
    """Cores and memory of what scales, its children among it, while the load lasted."""
    if not course.samples:
        return {"cores": None, "most_rss_mib": None}
    last = course.samples[-1]
    most = max(sample.scaler_rss_bytes for sample in course.samples)
    cores = max(sample.scaler_cpu_s for sample in course.samples) / max(last.at_s, 1.0)
    return {"cores": round(cores, 3), "most_rss_mib": round(most / 2**20, 1)}


def turn_s(uid: str, start_s: float) -> float | None:
    """How long after each second of the load the controller reads the page of the pod with this uid: what `--turns` of
    a prediction takes. None for a pod whose uid is not known."""
    return round((phase_of(uid) * INTERVAL_S - start_s) % INTERVAL_S, 3) if uid else None


def began_s(course: Course) -> float:
    """How long after a whole `BIN_S` of the controller's clock the load began: what `--began` of a prediction takes."""
    return round(course.began_at_s % BIN_S, 3) % BIN_S


def turns_s(course: Course) -> list[float]:
    """`turn_s` of the pods that served when the load began, in the order in which they became ready."""
    first = [life for life in course.lives if life.ready_s is not None and life.ready_s < course.start_s]
    found = [turn_s(life.uid, course.start_s) for life in sorted(first, key=lambda life: life.ready_s or 0.0)]
    return [each for each in found if each is not None]


def _ttft_s(due_s: FloatArray, course: Course) -> FloatArray:
    """Seconds to the first token of each request of the schedule; NaN where none came or the request failed."""
    found = np.full(due_s.size, np.nan)
    for row in course.requests:
        if row.ttft_s is not None and not row.failure:
            found[row.number] = row.ttft_s
    return found


def _recovered(due_s: FloatArray, ttft_s: FloatArray, objective_s: float, onset_s: float | None) -> float | None:
    """The onset where what is known of a run that was cut tells a recovery: it reaches beyond it, and ends in time."""
    if onset_s is None or not due_s.size or float(due_s[-1]) < onset_s or not ttft_s[-1] <= objective_s:
        return None
    return onset_s


def _held(course: Course, until_s: float) -> tuple[float, float]:
    """Replica-seconds before readiness and from it on, within the load's first `until_s` seconds."""
    first_s, last_s = course.start_s, course.start_s + until_s

    def within(from_s: float, to_s: float) -> float:
        return max(0.0, min(to_s, last_s) - max(from_s, first_s))

    warming_s = held_s = 0.0
    for life in course.lives:
        ended_s = last_s if life.ended_s is None else life.ended_s
        ready_s = ended_s if life.ready_s is None else life.ready_s
        warming_s += within(life.begun_s, ready_s)
        held_s += within(ready_s, ended_s)
    return warming_s, held_s


def _from_start(instant_s: float | None, start_s: float) -> float | None:
    return None if instant_s is None else round(instant_s - start_s, 2)
