"""What happened in a run, in order, and in what state: the rise, the orders, the first late request, recovery.

Enters: a scenario, its course, who was late. Leaves: `Moment`s, what was signalled to gateways, and what was kept warm.
It reads them off what was recorded; it draws no conclusion and simulates nothing.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from loadtests.run.course import Course
from loadtests.run.measured import FloatArray
from loadtests.run.scenario import Scenario
from loadtests.run.watched import Sample

OVERLOADED: Final = "overloaded"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened, seconds from the start of the load."""

    at_s: float
    what: str
    state: Sample
    """The first second sampled from then on, or the last there is."""


@dataclass(frozen=True, slots=True)
class Shedding:
    """What gateways were told while the load lasted."""

    told: bool
    """Whether what scales has a word for them at all."""
    overloaded_s: int
    """Seconds in which they were told that demand does not fit."""
    unknown_s: int
    """Seconds in which nothing was known, or nobody answered."""
    of_s: int
    from_s: float | None = None
    """The first and the last such second; None where there was none."""
    to_s: float | None = None
    most_ratio: float = 0.0
    """The largest share of the load beyond what was served."""
    most_deficit: int = 0
    """Replicas short of demand, at most."""


@dataclass(frozen=True, slots=True)
class Starts:
    """What it took to start replicas while the load lasted."""

    took_s: tuple[float, ...]
    """From the pod to readiness, of those that became ready and found no warm slot, the shortest first."""
    most_at_once: int
    """As many were starting in one second, at most."""
    ready_at_onset: int | None
    """Replicas that served when the load began to rise; None without such an instant."""
    warm_took_s: tuple[float, ...] = ()
    """As `took_s`, of those that found a warm slot."""
    slots_idle_s: float = 0.0
    """For how long warm slots stood until they were taken, together; up to the end where nobody took them."""


def moments(scenario: Scenario, course: Course, late_due_s: FloatArray) -> tuple[Moment, ...]:
    """All of it, the earliest first; `late_due_s` of shape (N,), ascending."""
    if not course.samples:
        return ()
    end_s = min(float(scenario.duration), course.end_s - course.start_s)
    found: list[tuple[float, str]] = []
    if scenario.onset_s is not None:
        ramp_s = scenario.shape.ramp_s
        found.append((scenario.onset_s, "the load begins to rise" if ramp_s else "the load rises"))
        if ramp_s:
            found.append((scenario.onset_s + ramp_s, "the load has risen"))
    found += [
        (line["now_s"] - course.began_at_s, f"{line['seen_replicas']} → {line['replicas']} asked for: {line['reason']}")
        for line in course.decisions
        if line["verdict"] == "SCALE"
    ]
    found += [
        (after.at_s, f"{after.ready} replicas serve, not {before.ready}")
        for before, after in pairwise(course.samples)
        if after.ready != before.ready
    ]
    if late_due_s.size:
        found.append((float(late_due_s[0]), "the first late request is due"))
        found.append((float(late_due_s[-1]), "the last late request is due"))
    told = shedding(scenario, course)
    if told.from_s is not None and told.to_s is not None:
        found.append((told.from_s, "gateways are told that demand does not fit"))
        found.append((told.to_s, "gateways are told so for the last time"))
    within = sorted((at_s, what) for at_s, what in found if 0.0 <= at_s <= end_s)
    return tuple(Moment(at_s, what, _state(course.samples, at_s)) for at_s, what in within)


def shedding(scenario: Scenario, course: Course) -> Shedding:
    """What gateways were told, second by second."""
    samples = [sample for sample in course.samples if sample.at_s <= scenario.duration]
    signals = [(sample.at_s, sample.signal) for sample in samples if sample.signal is not None]
    over = [(at_s, signal) for at_s, signal in signals if signal.state == OVERLOADED]
    unknown_s = sum(signal.state == UNKNOWN for _, signal in signals)
    if not over:
        return Shedding(bool(signals), 0, unknown_s, len(samples))
    return Shedding(
        True, len(over), unknown_s, len(samples), over[0][0], over[-1][0],
        max(signal.shed_ratio or 0.0 for _, signal in over), max(signal.deficit_replicas or 0 for _, signal in over),
    )  # fmt: skip


def starts(scenario: Scenario, course: Course) -> Starts:
    """What starts took, and how many there were at once."""
    took_s = sorted(
        (life.ready_s - life.begun_s, life.warm)
        for life in course.lives
        if life.begun_s >= course.start_s and life.ready_s is not None
    )
    onset_s = scenario.onset_s
    taken_s = [life.begun_s for life in course.lives if life.warm]
    until_s = [*taken_s, *[course.end_s] * (scenario.engine.warm_slots - len(taken_s))]
    return Starts(
        tuple(each_s for each_s, warm in took_s if not warm),
        max((sample.starting for sample in course.samples), default=0),
        None if onset_s is None or not course.samples else _state(course.samples, onset_s).ready,
        tuple(each_s for each_s, warm in took_s if warm),
        sum(min(each_s, course.end_s) - course.start_s for each_s in until_s),
    )  # fmt: skip


def _state(samples: list[Sample], at_s: float) -> Sample:
    return next((sample for sample in samples if sample.at_s >= at_s), samples[-1])
