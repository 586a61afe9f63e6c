"""The record stream: what a person may see of every workload, as frozen values that write themselves as JSON.

Enters: a decision, the readings it was made from and the core's live view of the workload. Leaves: a `WorkloadFrame`;
a `Frame` carries those of the workloads that were stepped at one instant. Pages, terminals and tables draw from frames
and from nothing else. A signal that is unknown takes its numbers with it: a frame never carries a stale figure, and a
held one comes with its age. Nothing here knows who reads the stream.
"""

from dataclasses import dataclass

import msgspec

from autoscaler.core.inputs import BLOCKING
from autoscaler.core.reasons import NEED_UNKNOWN, Reason
from autoscaler.core.scale.overload import Overload
from autoscaler.core.types import Decision, Readings, Step
from autoscaler.core.view import View
from autoscaler.record.catalog import FIGURES, WORDS
from autoscaler.record.estimate import Estimate
from autoscaler.record.explain import duration, figure, sentence, step_sentence
from autoscaler.record.gist import gist
from autoscaler.record.quality import Quality, quality_of

_AGE = "_age_s"


@dataclass(frozen=True, slots=True)
class StartFrame:
    """A replica that was ordered and does not serve yet."""

    name: str
    age_s: float
    unschedulable: bool = False
    """No node has room for it."""


@dataclass(frozen=True, slots=True)
class SignalFrame:
    """One signal: `state` is fresh, held, unknown or absent; `age_s` is None for a signal that never came."""

    signal: str
    state: str
    age_s: float | None
    blocking: bool
    """Nothing shrinks unless it is fresh; the others are absent by nature while nothing is served."""


@dataclass(frozen=True, slots=True)
class StepFrame:
    """One step of a decision: the code for machines, the sentence for people, and the figures behind both."""

    stage: str
    before: int
    after: int
    reason: str
    text: str
    facts: tuple[tuple[str, str], ...]
    """The evidence in the words of `explain`: what it is called, and its value with its unit."""


@dataclass(frozen=True, slots=True)
class DecisionFrame:
    """The last decision. `text` is the whole of it as one sentence, `gist` what a row of a list has room for."""

    now_s: float
    before: int
    after: int
    verdict: str
    reason: str
    text: str
    gist: str
    trace: tuple[StepFrame, ...]


@dataclass(frozen=True, slots=True)
class WorkloadFrame:
    """One workload at one instant. None means not known, which is not zero."""

    workload: str
    now_s: float
    load_rps: float | None
    queue: float | None
    wait_s: float | None
    """What a request that arrives now is expected to wait: the queue over the capacity that serves it."""
    slo_wait_s: float
    desired: int
    ready: int
    starting: tuple[StartFrame, ...]
    needs: int | None
    """Replicas the terms of demand ask for, before any bound; None while arrivals or queue are unknown."""
    min_replicas: int
    max_replicas: int
    replica_rps: float | None
    """Requests/s of one replica at the objective, as learned."""
    replica_limit: str
    """The term that binds `replica_rps`, in words."""
    capacity_rps: float | None
    """What the ready replicas carry at the objective."""
    warmup_p50_s: float
    warmup_p90_s: float
    warmup_samples: int
    """Measured starts behind the two; 0 means that they are a prior."""
    forecast_rps: float | None
    """The upper bound in force for the highest load around `now_s + forecast_ahead_s`."""
    median_rps: float | None
    forecast_ahead_s: float
    forecast_model: str
    switched_off: tuple[str, ...]
    """Forecast models that lost against the last value and have no say now."""
    coverage_ratio: float | None
    level_ratio: float | None
    """The share of the bounds that are meant to hold; `coverage_ratio` is the share that did."""
    budget_burn_ratio: float
    """Lateness spent over lateness allowed: 1 means that the objective's budget is used up."""
    late_ratio: float | None
    """Share of the requests arriving now that will be late."""
    signals: tuple[SignalFrame, ...]
    overload: Overload | None
    decision: DecisionFrame
    mode: str = "Active"
    """What Headroom may do: a decision of a workload that is not Active may stand without being acted upon."""
    gpus_per_replica: int | None = None
    tick_s: float = 5.0
    """The longest time between two steps."""
    quality: Quality | None = None
    """How good its forecast was."""
    shadow: Estimate | None = None
    """What would have been saved, without its hours; None while Headroom acts."""


@dataclass(frozen=True, slots=True)
class Frame:
    """All workloads stepped at one instant; those left out are unchanged. `speed` is data seconds per wall second."""

    now_s: float
    speed: float
    workloads: tuple[WorkloadFrame, ...]

    def to_json(self) -> str:
        """One line of JSON with the field names of this module; what is not finite becomes null."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True, slots=True)
class Result:
    """One policy's whole run on the traffic that was replayed. `kind` is ours, rival, swept or bound."""

    kind: str
    policy: str
    knob: str
    """The setting it ran at, as a person writes it; empty where it has none."""
    attainment_ratio: float | None
    gpu_hours: float
    ratio_d2: float | None
    """GPU-hours over the clairvoyant bound's."""
    direction_changes_per_day: float | None
    starts_per_day: float | None


@dataclass(frozen=True, slots=True)
class Results:
    """The comparison of one workload: us, the peers, the optimum, on the same traffic."""

    workload: str
    duration_s: float
    goal_ratio: float
    """Share of requests in time below which a row's GPU-hours do not compare."""
    rows: tuple[Result, ...]
    note: str
    """What a reader must know to judge the table."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What the workload's owner asks for, as the page states it."""

    slo_wait_s: float
    min_replicas: int
    max_replicas: int
    tick_s: float
    mode: str = "Active"
    gpus_per_replica: int | None = None


def decision_frame(decision: Decision) -> DecisionFrame:
    """The decision as a frame, in the words of `explain`."""
    return DecisionFrame(
        now_s=decision.now_s,
        before=decision.seen_replicas,
        after=decision.replicas,
        verdict=decision.verdict.value,
        reason=decision.reason.name,
        text=sentence(decision),
        gist=gist(decision),
        trace=tuple(_step_frame(step) for step in decision.trace),
    )


def _step_frame(step: Step) -> StepFrame:
    facts = [
        (FIGURES.get(name, name), figure(name, value) or "not known")
        for name, value in step.evidence
        if not name.endswith(_AGE)
    ]
    ages = [(name.removesuffix(_AGE), value) for name, value in step.evidence if name.endswith(_AGE)]
    facts += [(f"{signal.replace('_', ' ')} read", _ago(age)) for signal, age in ages if age != 0]
    return StepFrame(step.stage, step.before, step.after, step.reason.name, step_sentence(step), tuple(facts))


def _word(code: str) -> str:
    return WORDS.get(code, code)


def _ago(age: float | int | str | None) -> str:
    return "never" if age is None or isinstance(age, str) else f"{duration(age)} ago"


def needed(decision: Decision) -> int | None:
    """What demand asked for before the bounds; None where the decision knew no demand."""
    number: int | None = None
    for step in decision.trace:
        if step.reason in NEED_UNKNOWN or step.reason is Reason.OUTDATED:
            return None
        if step.stage != "bound":
            number = step.after
    return number


def workload_frame(
    view: View, decision: Decision, readings: Readings, aim: Aim, shadow: Estimate | None = None
) -> WorkloadFrame:
    """The frame of one workload after a step; figures of an unknown signal are left out."""
    state = {signal: how for signal, how, _ in view.signals}
    blind = {signal for signal in ("arrivals", "queue") if state.get(signal) in {"unknown", "absent"}}
    queue = None if "queue" in blind else view.queue
    capacity_rps = None if view.replica_rps is None else view.replica_rps * view.ready
    wait_s: float | None = None
    if queue is not None and (queue == 0 or capacity_rps):
        wait_s = queue / capacity_rps if queue and capacity_rps else 0.0
    starting = tuple(
        StartFrame(start.name or f"start {index + 1}", readings.now_s - start.since_s, start.unschedulable)
        for index, start in enumerate(readings.replicas.starting)
    )
    return WorkloadFrame(
        workload=decision.workload, now_s=readings.now_s,
        load_rps=None if "arrivals" in blind else view.load_rps, queue=queue, wait_s=wait_s,
        slo_wait_s=aim.slo_wait_s, min_replicas=aim.min_replicas, max_replicas=aim.max_replicas,
        desired=decision.replicas, ready=readings.replicas.ready, starting=starting,
        needs=None if blind else needed(decision),
        replica_rps=view.replica_rps, replica_limit=_word(view.replica_limit), capacity_rps=capacity_rps,
        warmup_p50_s=view.warmup_p50_s, warmup_p90_s=view.warmup_p90_s, warmup_samples=view.warmup_samples,
        forecast_rps=None if "arrivals" in blind else view.forecast_rps,
        median_rps=None if "arrivals" in blind else view.median_rps,
        forecast_ahead_s=view.warmup_p90_s + aim.tick_s, forecast_model=_word(view.forecast_model),
        switched_off=view.switched_off, coverage_ratio=view.coverage_ratio, level_ratio=view.level_ratio,
        budget_burn_ratio=view.budget_burn_ratio, late_ratio=None if "queue" in blind else view.late_ratio,
        signals=tuple(SignalFrame(*row, blocking=row[0] in BLOCKING) for row in view.signals), overload=view.overload,
        decision=decision_frame(decision), mode=aim.mode, gpus_per_replica=aim.gpus_per_replica,
        tick_s=aim.tick_s, quality=quality_of(view, view.warmup_p90_s + aim.tick_s), shadow=shadow,
    )  # fmt: skip
