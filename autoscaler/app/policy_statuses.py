"""The statuses of ScalingPolicies: what each says, and when it has to be written.

Enters: claims, rejections, what the board knows of a workload. Leaves: a status per policy, when something that people
or tools act upon changed, not when a figure moved: a thousand policies are stepped two hundred times a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from autoscaler.api.claims import Claim, Doubt, Rejection
from autoscaler.api.modes import Mode
from autoscaler.api.schema import custom_resource
from autoscaler.api.status import Condition as PolicyCondition
from autoscaler.api.status import Overload, ScalingPolicyStatus, Truth, Warmup
from autoscaler.app.standing import conditions, rejected
from autoscaler.ports import Clock
from autoscaler.record.board import Board
from autoscaler.record.status import Condition, Problem
from autoscaler.record.stream import WorkloadFrame


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

    def gpus(self, claim: Claim) -> int | None:
        """GPUs that one replica holds; None where neither the policy nor the target says."""
        ...

    def doubt(self, claim: Claim) -> Doubt | None:
        """What of a claim may have changed unseen; None while what was read is believed."""
        ...

    def podless(self, claim: Claim) -> Problem | None:
        """Why no pod of the target is found, where its kind is the reason."""
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

    policy: str
    generation: int
    desired: int | None
    ready: int | None
    reason: str | None
    mode: Mode | None
    conditions: tuple[tuple[str, str, str], ...]
    deficit: int


class PolicyStatuses:
    """Keeps the statuses of all policies."""

    def __init__(self, *, statuses: Statuses, board: Board, knowledge: Knowledge, clock: Clock) -> None:
        self._statuses = statuses
        self._board = board
        self._knowledge = knowledge
        self._clock = clock
        self._gists: dict[str, _Gist] = {}
        self._written: dict[str, set[tuple[str, str]]] = {}
        """Workload -> namespace and name of the policies that were given a status for it."""

    def clear(self, workload: str) -> None:
        """Forget policies of a workload that are gone: one that is made anew under the name has no status yet."""
        written = self._written.pop(workload, set())
        left = {policy for policy in written if self._knowledge.policy_status(*policy) is not None}
        for policy in written - left:
            self._statuses.forget(*policy)
        if left:
            self._written[workload] = left
        if self._knowledge.claim(workload) is None:
            self._gists.pop(workload, None)

    def tell(self, workload: str, claim: Claim, scaled_s: float | None) -> None:
        """Write the status of the policy that claims a workload, if it must not wait; `scaled_s` is when it was scaled
        last."""
        if claim.policy is None:
            return
        frame, act = self._board.frame(workload), self._board.act(workload)
        mode = self._knowledge.mode(claim)
        told = conditions(
            claim, mode, self._knowledge.frozen, frame, act, doubt=self._knowledge.doubt(claim),
            podless=self._knowledge.podless(claim),
        )  # fmt: skip
        overload = frame.overload if frame is not None else None
        gist = _Gist(
            claim.policy,
            claim.generation,
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
            workload,
            claim.ref.namespace,
            claim.policy,
            ScalingPolicyStatus(
                observed_generation=claim.generation,
                mode=mode,
                desired_replicas=gist.desired,
                ready_replicas=gist.ready,
                reason=gist.reason,
                text=None if frame is None else frame.decision.text,
                last_scale_time_s=scaled_s,
                warmup=_warmup(frame),
                overload=None if overload is None else Overload(
                    deficit_replicas=overload.deficit_replicas, admissible_rps=overload.admissible_rps,
                    shed_ratio=overload.shed_ratio, retry_after_s=overload.retry_after_s,
                    expires_at_s=overload.expires_s,
                ),
                conditions=self._policy_conditions(told, claim.generation),
            ),
        )  # fmt: skip

    def reject(self, workload: str, rejection: Rejection) -> None:
        """Write the status of a policy that asks for a workload in vain."""
        if rejection.policy:
            self._write(
                workload,
                rejection.namespace,
                rejection.name,
                ScalingPolicyStatus(
                    observed_generation=rejection.generation,
                    conditions=self._policy_conditions(rejected(rejection), rejection.generation),
                ),
            )

    def _write(self, workload: str, namespace: str, name: str, status: ScalingPolicyStatus) -> None:
        seen = self._knowledge.policy_status(namespace, name)
        if seen is not None:
            self._written.setdefault(workload, set()).add((namespace, name))
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


def _warmup(frame: WorkloadFrame | None) -> Warmup | None:
    if frame is None or frame.warmup_samples == 0:
        return None
    return Warmup(p50_s=frame.warmup_p50_s, p90_s=frame.warmup_p90_s, samples=frame.warmup_samples)
