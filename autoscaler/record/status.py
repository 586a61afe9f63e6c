"""What whoever asks is told of a workload: frozen values that write themselves as JSON.

Enters: the newest frame of a workload and what is known about it apart from figures. Leaves: a row for tables and an
overload signal for gateways. None means not known; an instant is in seconds of the frames' time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.core.scale.overload import LASTS_TICKS
from autoscaler.record.hpa import HpaPreview
from autoscaler.record.stream import SignalFrame, WorkloadFrame

MOST_NEAR: Final = 3
"""Of those in the same namespace, to whoever asks for one that is not scaled."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as Kubernetes writes them: `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """What cannot be read or done now, and what a person can do about it."""

    words: str
    remedy: str


@dataclass(frozen=True, slots=True)
class About:
    """What a workload's owner asked for, and what stands in its way."""

    kind: str
    """Of the target, such as Deployment."""
    way: str
    """How it was asked for: ScaledObject, ScalingPolicy or annotation."""
    policy: str | None = None
    """The name of the ScaledObject or ScalingPolicy, in the workload's namespace."""
    mode: str = "Active"
    """The mode in force."""
    mode_until_s: float | None = None
    tier: str = "normal"
    engine: str = ""
    conditions: tuple[Condition, ...] = ()
    obstacle: str | None = None
    """Who else scales the target, so that nothing is done."""
    remarks: tuple[str, ...] = ()
    """What a person should know and what stops nothing."""
    found: tuple[str, ...] = ()
    """Names of metrics that the pods' pages have."""
    missing: tuple[str, ...] = ()
    """Names that the engine's profile expects and no page has."""
    problems: tuple[Problem, ...] = ()
    """Why metrics or replicas cannot be read now."""
    hpa: HpaPreview | None = None
    """What the HPA by which KEDA acts makes of the last number; None for other ways in."""
    chosen_mode: str | None = None
    """The mode that was chosen, where what is in force is less: what was chosen may have changed unseen."""

    @property
    def mode_words(self) -> str:
        """The mode as a person reads it: nobody paused what is left alone for not being heard of."""
        return self.mode if self.chosen_mode is None else f"{self.chosen_mode} (now {self.mode})"


@dataclass(frozen=True, slots=True)
class Rejected:
    """An object that asks to be scaled and is not: its kind and name, a code, and what is wrong with it."""

    namespace: str
    kind: str
    name: str
    reason: str
    message: str


def not_scaled(workload: str, rejected: Sequence[Rejected]) -> str:
    """Why a workload is not scaled, as far as somebody of its name, or else of its namespace, asks in vain."""
    namespace, _, name = workload.partition("/")
    near = [one for one in rejected if one.namespace == namespace]
    named = [one for one in near if one.name == name]
    vain = "; ".join(f"{one.kind} {one.name}: {one.reason}: {one.message}" for one in (named or near)[:MOST_NEAR])
    if not vain:
        return f"{workload} is not scaled by Headroom; `headroom status` (/api/status) lists what is"
    where = "" if named else f"; in namespace {namespace} ask in vain"
    return f"{workload} is not scaled by Headroom{where}: {vain}"


@dataclass(frozen=True, slots=True)
class ActRecord:
    """What was done about the last decision to scale. `outcome` is a code, `words` says it, `message` is the port's."""

    now_s: float
    seen_replicas: int
    replicas: int
    outcome: str
    words: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class WorkloadStatus:
    """One row of the status: what a workload needs, has and is getting, and how old that knowledge is."""

    workload: str
    about: About
    act: ActRecord | None = None
    age_s: float | None = None
    """Since the readings of the last decision; None before the first one, and then all figures are None."""
    load_rps: float | None = None
    queue: float | None = None
    wait_s: float | None = None
    slo_wait_s: float | None = None
    needs: int | None = None
    has: int | None = None
    getting: int | None = None
    desired: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    forecast_rps: float | None = None
    budget_burn_ratio: float | None = None
    verdict: str | None = None
    reason: str | None = None
    text: str | None = None
    overload: str = "unknown"
    """overloaded, fits or unknown."""
    signals: tuple[SignalFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class OverloadStatus:
    """What a gateway may let through. Figures hold until `expires_s`; after that, and while `state` is unknown, a
    gateway must go by its own judgement: it never sheds on yesterday's word."""

    workload: str
    state: str
    """overloaded, fits or unknown."""
    now_s: float
    deficit_replicas: int | None = None
    admissible_rps: float | None = None
    """None: all that comes."""
    shed_ratio: float | None = None
    wait_s: float | None = None
    retry_after_s: float | None = None
    expires_s: float | None = None
    expires_in_s: float | None = None
    """The same, counted from the answer: for gateways whose clock differs."""


def workload_status(
    workload: str, about: About, frame: WorkloadFrame | None, act: ActRecord | None, now_s: float
) -> WorkloadStatus:
    """The row of a workload at `now_s`; without a frame it has no figures."""
    if frame is None:
        return WorkloadStatus(workload, about, act)
    return WorkloadStatus(
        workload=workload, about=about, act=act, age_s=now_s - frame.now_s, load_rps=frame.load_rps, queue=frame.queue,
        wait_s=frame.wait_s, slo_wait_s=frame.slo_wait_s, needs=frame.needs, has=frame.ready,
        getting=len(frame.starting), desired=frame.desired, min_replicas=frame.min_replicas,
        max_replicas=frame.max_replicas, forecast_rps=frame.forecast_rps, budget_burn_ratio=frame.budget_burn_ratio,
        verdict=frame.decision.verdict, reason=frame.decision.reason, text=frame.decision.text,
        overload=fit_of(frame), signals=frame.signals,
    )  # fmt: skip


def fit_of(frame: WorkloadFrame) -> str:
    """Whether demand fits: overloaded, fits, or unknown where what it takes to say so is not known."""
    if frame.overload is not None:
        return "overloaded"
    return "unknown" if frame.load_rps is None or frame.queue is None or frame.replica_rps is None else "fits"


def overload_status(workload: str, frame: WorkloadFrame | None, now_s: float) -> OverloadStatus:
    """What a gateway is told of a workload at `now_s`; unknown once the last word has expired."""
    if frame is None:
        return OverloadStatus(workload, "unknown", now_s)
    state, signal = fit_of(frame), frame.overload
    expires_s = frame.now_s + LASTS_TICKS * frame.tick_s if signal is None else signal.expires_s
    if state == "unknown" or now_s >= expires_s:
        return OverloadStatus(workload, "unknown", now_s)
    until = {"expires_s": expires_s, "expires_in_s": expires_s - now_s}
    if signal is None:
        return OverloadStatus(workload, state, now_s, deficit_replicas=0, shed_ratio=0.0, wait_s=frame.wait_s, **until)
    return OverloadStatus(
        workload, state, now_s, deficit_replicas=signal.deficit_replicas, admissible_rps=signal.admissible_rps,
        shed_ratio=signal.shed_ratio, wait_s=signal.wait_s, retry_after_s=signal.retry_after_s, **until,
    )  # fmt: skip
