"""One workload's answers, all of them: the four questions, the seven inputs, what was wasted, what is unknown.

Enters: a history and what the person gave. Leaves: a `WorkloadStudy`. Nothing is printed, rounded or put into words
here. The random draws behind intervals come from one seed, so that the same record gives the same study.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.preflight import given as facts
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why, Window
from autoscaler.preflight.bands import Bands, bands, dispersion
from autoscaler.preflight.bursts import REACTIVE, STANDING, Bursts, bursts
from autoscaler.preflight.chart import Chart, chart
from autoscaler.preflight.episodes import reactive_capacity
from autoscaler.preflight.given import Given, whole_window
from autoscaler.preflight.history import Hole, Missing, Spread, Track, WorkloadHistory
from autoscaler.preflight.offered import Demand, arriving, in_flight
from autoscaler.preflight.provision import Provision, provision
from autoscaler.preflight.residency import Residency, residency
from autoscaler.preflight.spreads import answer
from autoscaler.preflight.waiting import Waiting, waiting

SEED: Final = 0


@dataclass(frozen=True, slots=True)
class WorkloadStudy:
    """The answers about one workload; `leading` is the unit of the demand that bursts and waits were measured on."""

    workload: str
    window: Window
    step_s: float
    facts: Mapping[str, str]
    cold_start: Answer
    slots: Answer
    gpus: float | CannotTell
    concurrency: Bands | CannotTell
    rate: Bands | CannotTell
    bursts: Bursts | CannotTell
    dispersion: Answer
    residency: Residency
    waiting: Waiting
    durations: tuple[Answer, Answer, Answer]
    """p50, p90 and p99 of the time from arrival to the last token."""
    provision: Provision
    missing: Mapping[str, Missing]
    holes: Mapping[str, tuple[Hole, ...]]
    leading: str | CannotTell
    chart: Chart | None


@dataclass(frozen=True, slots=True)
class Demands:
    """The series that a study was made from, which it does not keep."""

    in_flight: Demand | CannotTell
    arriving: Demand | CannotTell


def study(history: WorkloadHistory, given: Given) -> tuple[WorkloadStudy, Demands]:
    """Everything that one history tells, and the demands that a sum over workloads is made of."""
    stream = np.random.default_rng(SEED)
    cold_start, slots = facts.cold_start(history, given), facts.slots(history, given)
    flying, coming = in_flight(history), arriving(history)
    leading = flying if isinstance(flying, Demand) else coming
    capacity = _provisioned(history, slots) if isinstance(flying, Demand) else None
    gpus = facts.gpus_per_replica(history, given)
    window = whole_window(history)
    durations = [
        answer(history.duration, level, window, what="request durations", needed="how long requests take")
        for level in (0.5, 0.9, 0.99)
    ]
    answers = WorkloadStudy(
        workload=history.workload,
        window=window,
        step_s=history.step_s,
        facts=history.facts,
        cold_start=cold_start,
        slots=slots,
        gpus=gpus,
        concurrency=_bands(flying, history.step_s, cold_start, stream),
        rate=_bands(coming, history.step_s, cold_start, stream),
        bursts=_bursts(leading, capacity, history.step_s, cold_start),
        dispersion=_dispersion(coming, history.step_s, cold_start),
        residency=residency(history, slots),
        waiting=waiting(history, leading),
        durations=(durations[0], durations[1], durations[2]),
        provision=provision(
            history, flying, slots=slots, cold_start=cold_start, gpus=gpus, price=facts.price(history, given)
        ),
        missing=_missing(history),
        holes=_holes(history),
        leading=leading.unit if isinstance(leading, Demand) else leading,
        chart=_chart(leading, capacity, history),
    )
    return answers, Demands(flying, coming)


def _chart(leading: Demand | CannotTell, capacity: F64 | None, history: WorkloadHistory) -> Chart | None:
    if isinstance(leading, CannotTell):
        return None
    return chart(leading.values, capacity, unit=leading.unit, start_s=history.start_s, step_s=history.step_s)


def _provisioned(history: WorkloadHistory, slots: Answer) -> F64 | None:
    """Requests in flight that the replicas of each step could carry; None where one of the two is not known."""
    if isinstance(slots, CannotTell) or isinstance(history.replicas, Missing):
        return None
    return history.replicas.values * slots.value


def _bands(
    demand: Demand | CannotTell, step_s: float, cold_start: Answer, stream: np.random.Generator
) -> Bands | CannotTell:
    if isinstance(demand, CannotTell):
        return demand
    if isinstance(cold_start, CannotTell):
        return cold_start
    return bands(demand, step_s=step_s, cold_start_s=cold_start.value, stream=stream)


def _bursts(
    demand: Demand | CannotTell, capacity: F64 | None, step_s: float, cold_start: Answer
) -> Bursts | CannotTell:
    if isinstance(demand, CannotTell):
        return demand
    if isinstance(cold_start, CannotTell):
        return cold_start
    lead_s = cold_start.value
    stood: int | None = None
    if capacity is not None:
        found = bursts(demand, capacity, level=STANDING, step_s=step_s, cold_start_s=lead_s)
        stood = int(found.episodes.began_s.size)
        if found.survival is not None:
            return replace(found, above_stood=stood)
    # Capacity that is hardly ever exceeded says nothing about surges, only about what they cost to be ready for.
    held = reactive_capacity(demand, step_s, lead_s)
    return replace(bursts(demand, held, level=REACTIVE, step_s=step_s, cold_start_s=lead_s), above_stood=stood)


def _dispersion(coming: Demand | CannotTell, step_s: float, cold_start: Answer) -> Answer:
    if isinstance(coming, CannotTell):
        return coming
    if isinstance(cold_start, CannotTell):
        return cold_start
    return dispersion(coming, step_s=step_s, scale_s=cold_start.value)


def _missing(history: WorkloadHistory) -> dict[str, Missing]:
    found = {field.name: getattr(history, field.name) for field in fields(history)}
    return {name: value for name, value in found.items() if isinstance(value, Missing)}


def _holes(history: WorkloadHistory) -> dict[str, tuple[Hole, ...]]:
    found = {field.name: getattr(history, field.name) for field in fields(history)}
    return {name: value.holes for name, value in found.items() if isinstance(value, Track | Spread) and value.holes}


def recommended_replicas(level: Answer, slots: Answer, *, factor: float = 1.0) -> Answer:
    """Replicas that carry `factor` times a level of requests in flight, rounded up; why not where either is unknown."""
    if isinstance(level, CannotTell):
        return level
    if isinstance(slots, CannotTell):
        return slots
    if slots.value <= 0:
        return CannotTell(Why.NO_CAPACITY, "a replica was seen to carry nothing", "--slots N")

    def replicas(value: float | None) -> float | None:
        return None if value is None else max(0.0, float(np.ceil(factor * value / slots.value - 1e-9)))

    how = f"{level.how}, over {slots.value:g} requests per replica ({slots.how})"
    value = replicas(level.value)
    assert value is not None
    return Measured(
        value, "replicas", level.window, level.count, level.counted, how, replicas(level.low), replicas(level.high)
    )
