"""The same questions about all workloads together: what their sum needs, and what sharing capacity would save.

Enters: studies with their demands, one at a time, in any order. Leaves: a `ClusterStudy`. Demands are added up in GPUs
where every workload can say how many it needs, else in requests in flight, else in requests/s; workloads that cannot be
added are counted and named.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why, Window
from autoscaler.preflight.bands import Bands, bands
from autoscaler.preflight.bursts import REACTIVE, Bursts, bursts
from autoscaler.preflight.chart import Chart, chart
from autoscaler.preflight.episodes import reactive_capacity
from autoscaler.preflight.offered import IN_FLIGHT, RATE, Demand
from autoscaler.preflight.provision import Provision
from autoscaler.preflight.study import SEED, Demands, WorkloadStudy
from autoscaler.preflight.summing import Joint
from autoscaler.preflight.waiting import BATCH, INFERENCE, capacity_for

GPUS = "GPUs"
NOT_NAMED = "not named"


@dataclass(frozen=True, slots=True)
class Pooling:
    """A level of the sum beside the sum of the workloads' own levels; `gain` is 1 - joint / apart."""

    joint: Answer
    apart: Answer
    gain: Answer


@dataclass(frozen=True, slots=True)
class ClusterStudy:
    """The answers about all workloads; the names in `left_out` are not in the sum.

    `work` is the share of the demand per kind of work, empty where demands cannot be added. `longest_wait` is the
    largest p99 queue wait of any workload, `longest_wait_of` whose it is.
    """

    workloads: int
    left_out: tuple[str, ...]
    cold_start: Answer
    unit: str
    bands: Bands | CannotTell
    floor: Pooling
    ceiling: Pooling
    bursts: Bursts | CannotTell
    computing: Answer
    provision: Provision
    work: tuple[tuple[str, float], ...]
    longest_wait: Answer
    longest_wait_of: str
    capacity_for: tuple[tuple[float, float], ...]
    chart: Chart | None


class Cluster:
    """Adds workloads up as they come; `finish` gives the answers."""

    def __init__(self) -> None:
        self._joint = {unit: Joint(unit) for unit in (GPUS, IN_FLIGHT, RATE)}
        self._means: dict[str, dict[str, float]] = {unit: {} for unit in self._joint}
        self._studies: list[WorkloadStudy] = []

    def add(self, study: WorkloadStudy, demands: Demands) -> None:
        """Take in one workload."""
        self._studies.append(study)
        for demand in (demands.in_flight, demands.arriving):
            if isinstance(demand, Demand):
                self._add(study, demand, demand.unit, 1.0)
        factor = gpus_per_request(study)
        if isinstance(demands.in_flight, Demand) and factor is not None:
            self._add(study, demands.in_flight, GPUS, factor)

    def _add(self, study: WorkloadStudy, demand: Demand, unit: str, factor: float) -> None:
        self._joint[unit].add(
            study.workload, demand.values * factor,
            start_s=demand.window.from_s, step_s=study.step_s, per_request=demand.per_request * factor,
        )  # fmt: skip
        self._means[unit][study.workload] = factor * float(np.nanmean(demand.values))

    def finish(self) -> ClusterStudy:
        """The answers about everything that was added, one workload at least."""
        studies = self._studies
        joint = self._chosen()
        demand = joint.demand()
        cold_start = _longest_start(studies)
        levels, seen = _measured(demand, cold_start, joint.step_s)
        added = [study for study in studies if study.workload in set(joint.names)]
        wait, whose = _longest_wait(studies)
        return ClusterStudy(
            workloads=len(studies),
            left_out=tuple(sorted({study.workload for study in studies} - set(joint.names))),
            cold_start=cold_start,
            unit=joint.unit,
            bands=levels,
            floor=_pooled(levels, added, joint.unit, lambda own: own.floor),
            ceiling=_pooled(levels, added, joint.unit, lambda own: own.highest),
            bursts=seen,
            computing=_computing(studies),
            provision=_provision(studies),
            work=_work(studies, self._means[joint.unit]),
            longest_wait=wait,
            longest_wait_of=whose,
            capacity_for=capacity_for(demand.values, joint.step_s) if isinstance(demand, Demand) else (),
            chart=None
            if isinstance(demand, CannotTell)
            else chart(demand.values, None, unit=joint.unit, start_s=demand.window.from_s, step_s=joint.step_s),
        )

    def _chosen(self) -> Joint:
        """The first unit in which all workloads can be added, else the one in which most can."""
        ranked = sorted(self._joint.values(), key=lambda joint: -len(joint.names))
        complete = [joint for joint in self._joint.values() if len(joint.names) == len(self._studies)]
        return complete[0] if complete else ranked[0]


def gpus_per_request(study: WorkloadStudy) -> float | None:
    """GPUs that one request in flight takes up; None where slots or GPUs of a replica are not known."""
    if isinstance(study.gpus, CannotTell) or isinstance(study.slots, CannotTell) or study.slots.value <= 0:
        return None
    return study.gpus / study.slots.value


def _measured(
    demand: Demand | CannotTell, cold_start: Answer, step_s: float
) -> tuple[Bands | CannotTell, Bursts | CannotTell]:
    if isinstance(demand, CannotTell):
        return demand, demand
    if isinstance(cold_start, CannotTell):
        return cold_start, cold_start
    lead_s = cold_start.value
    levels = bands(demand, step_s=step_s, cold_start_s=lead_s, stream=np.random.default_rng(SEED))
    capacity = reactive_capacity(demand, step_s, lead_s)
    return levels, bursts(demand, capacity, level=REACTIVE, step_s=step_s, cold_start_s=lead_s)


def _longest_start(studies: Sequence[WorkloadStudy]) -> Answer:
    """The longest cold start of all workloads: what holds for the sum holds for the slowest."""
    known = [study.cold_start for study in studies if isinstance(study.cold_start, Measured)]
    if known:
        return max(known, key=lambda start: start.value)
    return CannotTell(Why.NO_COLD_START, "no cold start was recorded and none was given", "--cold-start SECONDS")


def _own_bands(study: WorkloadStudy, unit: str) -> tuple[Bands | CannotTell, float | None]:
    """A workload's bands that convert into `unit`, and the factor."""
    if unit == RATE:
        return study.rate, 1.0
    return study.concurrency, gpus_per_request(study) if unit == GPUS else 1.0


def _pooled(
    joint: Bands | CannotTell, studies: Sequence[WorkloadStudy], unit: str, pick: Callable[[Bands], Answer]
) -> Pooling:
    together = joint if isinstance(joint, CannotTell) else pick(joint)
    if isinstance(together, CannotTell):
        return Pooling(together, together, together)
    levels = []
    for study in studies:
        own, factor = _own_bands(study, unit)
        level = own if isinstance(own, CannotTell) else pick(own)
        if isinstance(level, CannotTell) or factor is None:
            text = f"the level of {study.workload} alone is not known"
            refusal = CannotTell(Why.MIXED, text, level.needed if isinstance(level, CannotTell) else "--slots N")
            return Pooling(together, refusal, refusal)
        levels.append(level.value * factor)
    how = f"sum over {len(levels)} workloads of: {together.how}"
    apart = Measured(sum(levels), unit, together.window, len(levels), "workloads", how)
    if apart.value <= 0:
        return Pooling(together, apart, CannotTell(Why.NO_LOAD, "no workload has such a level", "more load"))
    share = 1.0 - together.value / apart.value
    gain = Measured(share, "ratio", together.window, len(levels), "workloads", "1 - level of the sum / sum of levels")
    return Pooling(together, apart, gain)


def _computing(studies: Sequence[WorkloadStudy]) -> Answer:
    """Share of all held replica-time that computed: each workload's share, weighted by the GPU-hours it held."""
    shares = [(study.residency.computing, study.provision.held) for study in studies]
    known = [(s, h) for s, h in shares if isinstance(s, Measured) and isinstance(h, Measured) and h.value > 0]
    if not known:
        refusals = [share for share, _ in shares if isinstance(share, CannotTell)]
        held = [hours for _, hours in shares if isinstance(hours, CannotTell)]
        return (refusals or held or [CannotTell(Why.NO_LOAD, "nothing was held", "replicas")])[0]
    hours = sum(held.value for _, held in known)
    low = sum((s.value if s.low is None else s.low) * h.value for s, h in known) / hours
    high = sum((s.value if s.high is None else s.high) * h.value for s, h in known) / hours
    value = sum(s.value * h.value for s, h in known) / hours
    how = "each workload's computing share, weighted by the GPU-hours it held"
    window = _over([share.window for share, _ in known])
    return Measured(value, "ratio", window, len(known), "workloads", how, low, high, sure=1.0)


def _provision(studies: Sequence[WorkloadStudy]) -> Provision:
    parts = [study.provision for study in studies]
    return Provision(
        held=_added(part.held for part in parts),
        needed=_added(part.needed for part in parts),
        wasted=_added(part.wasted for part in parts),
        short=_added(part.short for part in parts),
        compared=_added(part.compared for part in parts),
        cost=_added(part.cost for part in parts),
    )


def _added(answers: Iterable[Answer]) -> Answer:
    """The sum over the workloads that can tell; `count` says how many do."""
    found = list(answers)
    known = [answer for answer in found if isinstance(answer, Measured)]
    if not known:
        return found[0]
    first = known[0]
    how = f"sum over {len(known)} of {len(found)} workloads of: {first.how}"
    window = _over([part.window for part in known])
    return Measured(sum(part.value for part in known), first.unit, window, len(known), "workloads", how)


def _over(windows: Sequence[Window]) -> Window:
    """From the first begin to the last end; as large a share of it is unknown as of all the windows' time."""
    from_s, until_s = min(each.from_s for each in windows), max(each.until_s for each in windows)
    unknown_ratio = sum(each.unknown_s for each in windows) / sum(each.until_s - each.from_s for each in windows)
    return Window(from_s, until_s, (until_s - from_s) * unknown_ratio)


def _work(studies: Sequence[WorkloadStudy], means: dict[str, float]) -> tuple[tuple[str, float], ...]:
    total = sum(means.values())
    if total <= 0:
        return ()
    shares = {INFERENCE: 0.0, BATCH: 0.0, NOT_NAMED: 0.0}
    for study in studies:
        kind = study.waiting.work if isinstance(study.waiting.work, str) else NOT_NAMED
        shares[kind] += means.get(study.workload, 0.0) / total
    return tuple(shares.items())


def _longest_wait(studies: Sequence[WorkloadStudy]) -> tuple[Answer, str]:
    waits = [(study.waiting.waits[2], study.workload) for study in studies]
    known = [(wait, name) for wait, name in waits if isinstance(wait, Measured)]
    if known:
        return max(known, key=lambda pair: pair[0].value)
    return waits[0][0], ""
