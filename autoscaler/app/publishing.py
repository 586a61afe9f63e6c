"""Tells the cluster and whoever watches what was decided: frames, statuses of policies, events on targets.

Enters: entries of the driver's record, claims. Leaves: frames on the board and the page, a status per ScalingPolicy,
events on change and refusal only. A status is written when something that people act upon changed, not when a figure
moved: a thousand policies are stepped two hundred times a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from autoscaler.adapters.web.hub import Hub
from autoscaler.api.claims import Claim, Rejection, TargetRef
from autoscaler.api.modes import Mode
from autoscaler.api.schema import custom_resource
from autoscaler.api.status import Condition as PolicyCondition
from autoscaler.api.status import Overload, ScalingPolicyStatus, Truth, Warmup
from autoscaler.app.standing import conditions, rejected
from autoscaler.ports import Clock
from autoscaler.record.board import Board
from autoscaler.record.status import Condition
from autoscaler.record.stream import Aim, Frame, WorkloadFrame
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.records import Entry, Feed, Note, Stepped

TOLD: Final = frozenset({Outcome.REFUSED, Outcome.UNKNOWN})
"""What became of a decision, besides applying it, that is worth an event."""


class Statuses(Protocol):
    """Where statuses of policies go; it writes the latest, and not too often."""

    def put(
        self, namespace: str, name: str, status: Mapping[str, Any], *, seen: Mapping[str, Any] | None = None
    ) -> None:
        """Write this status of a ScalingPolicy soon; `seen` is what the object showed last."""
        ...

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        ...


class Events(Protocol):
    """Where events go; it aggregates them."""

    def note(self, ref: TargetRef, kind_type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Tell something about an object."""
        ...


class Knowledge(Protocol):
    """What is known of claims besides their figures."""

    def claim(self, workload: str) -> Claim | None:
        """The claim in force."""
        ...

    def rejections(self, workload: str) -> tuple[Rejection, ...]:
        """Who asks for the workload in vain."""
        ...

    def mode(self, claim: Claim) -> Mode:
        """The mode in force."""
        ...

    def policy_status(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The status that a ScalingPolicy shows; None where it is not followed."""
        ...

    @property
    def frozen(self) -> str | None:
        """Why nothing is acted upon, None while it is."""
        ...

    @property
    def leading(self) -> bool:
        """Whether this process may speak for the controller."""
        ...


@dataclass(frozen=True, slots=True)
class _Gist:
    """What a status must not lag behind."""

    desired: int | None
    ready: int | None
    reason: str | None
    mode: Mode | None
    conditions: tuple[tuple[str, str, str], ...]
    deficit: int


class Publisher:
    """Takes entries and tells them on."""

    def __init__(
        self, *, board: Board, hub: Hub, statuses: Statuses, events: Events, knowledge: Knowledge, clock: Clock
    ) -> None:
        self._board = board
        self._hub = hub
        self._statuses = statuses
        self._events = events
        self._knowledge = knowledge
        self._clock = clock
        self._gists: dict[str, _Gist] = {}
        self._scaled_s: dict[str, float] = {}

    async def run(self, feed: Feed) -> None:
        """Tell what comes on the feed until it ends."""
        async for entry in feed:
            frames: dict[str, WorkloadFrame] = {}
            self._tell(entry, frames)
            while (more := feed.take()) is not None:
                self._tell(more, frames)
            if frames:
                self._hub.publish(Frame(self._clock.now(), 1.0, tuple(frames.values())))

    def on_claim(self, workload: str) -> None:
        """A claim, or who asks in vain, changed."""
        claim = self._knowledge.claim(workload)
        if claim is None:
            self._board.forget(workload)
            self._hub.forget(workload)
            self._gists.pop(workload, None)
            self._scaled_s.pop(workload, None)
        elif self._knowledge.leading:
            self._status(workload, claim)
        if self._knowledge.leading:
            for rejection in self._knowledge.rejections(workload):
                self._reject(rejection)

    def begin(self, workloads: list[str]) -> None:
        """Tell what was known before this process led."""
        for workload in workloads:
            self.on_claim(workload)

    def _tell(self, entry: Entry, frames: dict[str, WorkloadFrame]) -> None:
        if isinstance(entry, Note):
            self._board.noted(entry.event)
            return
        if isinstance(entry, Act):
            self._board.acted(entry)
            self._event(entry)
        workload = entry.decision.workload if isinstance(entry, Stepped) else entry.workload
        claim = self._knowledge.claim(workload)
        if claim is None:
            return
        if isinstance(entry, Stepped):
            spec = claim.spec
            mode = self._knowledge.mode(claim)
            aim = Aim(
                _slack_s(claim), spec.min_replicas, spec.max_replicas, spec.tick_s, mode.value, spec.gpus_per_replica
            )
            frames[workload] = self._board.stepped(entry, aim, self._clock.now())
        self._status(workload, claim)

    def _event(self, act: Act) -> None:
        claim = self._knowledge.claim(act.workload)
        if claim is None:
            return
        if act.outcome is Outcome.APPLIED:
            self._scaled_s[act.workload] = act.now_s
            frame = self._board.frame(act.workload)
            said = frame.decision.text if frame is not None else f"{act.seen_replicas}→{act.replicas}"
            self._events.note(
                claim.ref, "Normal", "ScaledOut" if act.replicas > act.seen_replicas else "ScaledIn", said
            )
        elif act.outcome in TOLD:
            said = f"{act.seen_replicas}→{act.replicas}: {act.outcome.value}: {act.message or 'no word why'}"
            self._events.note(claim.ref, "Warning", "ScalingFailed", said)

    def _status(self, workload: str, claim: Claim) -> None:
        if claim.policy is None:
            return
        frame, act = self._board.frame(workload), self._board.act(workload)
        mode = self._knowledge.mode(claim)
        told = conditions(claim, mode, self._knowledge.frozen, frame, act)
        overload = frame.overload if frame is not None else None
        gist = _Gist(
            None if frame is None else frame.desired,
            None if frame is None else frame.ready,
            None if frame is None else frame.decision.reason,
            mode,
            tuple((c.type, c.status, c.reason) for c in told),
            0 if overload is None else overload.deficit_replicas,
        )
        if self._gists.get(workload) == gist:
            return
        self._gists[workload] = gist
        self._write(
            claim.ref.namespace,
            claim.policy,
            ScalingPolicyStatus(
                observed_generation=claim.generation,
                mode=mode,
                desired_replicas=gist.desired,
                ready_replicas=gist.ready,
                reason=gist.reason,
                text=None if frame is None else frame.decision.text,
                last_scale_time_s=self._scaled_s.get(workload),
                warmup=_warmup(frame),
                overload=None if overload is None else Overload(
                    deficit_replicas=overload.deficit_replicas, admissible_rps=overload.admissible_rps,
                    shed_ratio=overload.shed_ratio, retry_after_s=overload.retry_after_s,
                    expires_at_s=overload.expires_s,
                ),
                conditions=self._policy_conditions(told, claim.generation),
            ),
        )  # fmt: skip

    def _reject(self, rejection: Rejection) -> None:
        group, _, version = rejection.api_version.rpartition("/")
        ref = TargetRef(group, version, "", rejection.kind, rejection.namespace, rejection.name, rejection.uid)
        self._events.note(ref, "Warning", rejection.reject.value, rejection.message)
        if rejection.policy:
            self._write(
                rejection.namespace,
                rejection.name,
                ScalingPolicyStatus(
                    observed_generation=rejection.generation,
                    conditions=self._policy_conditions(rejected(rejection), rejection.generation),
                ),
            )

    def _write(self, namespace: str, name: str, status: ScalingPolicyStatus) -> None:
        seen = self._knowledge.policy_status(namespace, name)
        if seen is None:
            self._statuses.forget(namespace, name)
        else:
            self._statuses.put(namespace, name, custom_resource(status), seen=seen)

    def _policy_conditions(self, told: tuple[Condition, ...], generation: int) -> tuple[PolicyCondition, ...]:
        now_s = self._clock.now()
        return tuple(
            PolicyCondition(
                type=c.type, status=Truth(c.status), observed_generation=generation, last_transition_time_s=now_s,
                reason=c.reason, message=c.message,
            )
            for c in told
        )  # fmt: skip


def _slack_s(claim: Claim) -> float:
    slo = claim.spec.slo
    return next(value for value in (slo.wait_s, slo.ttft_s, slo.tpot_s) if value is not None)


def _warmup(frame: WorkloadFrame | None) -> Warmup | None:
    if frame is None or frame.warmup_samples == 0:
        return None
    return Warmup(p50_s=frame.warmup_p50_s, p90_s=frame.warmup_p90_s, samples=frame.warmup_samples)
