"""Acts on decisions: checks that one is still valid, patches with the replica count it saw, and says what became of it.

A conflict supersedes the decision and is never repeated: the next step decides anew. After an outcome that nobody knows
(no answer, cancelled on the way) nothing more is patched on that target until a later look has read it back.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from autoscaler.core.types import Decision, Limits, Verdict
from autoscaler.ports import Clock, Fault, Patch, PortError, RefusedError, ScaleClient
from autoscaler.runtime.target import Target

VALID_TICKS = 2.0
"""A decision is acted upon until its successor is one tick overdue."""


class Outcome(Enum):
    """What became of a decision to change the count."""

    APPLIED = "applied"
    SUPERSEDED = "superseded"
    """The target had another count than the decision saw."""
    REFUSED = "refused"
    UNKNOWN = "unknown"
    SHADOWED = "not acted upon in this mode"
    FROZEN = "not acted upon while everything is frozen"
    EDITED = "left as somebody else set it"
    NOT_LEADING = "not acted upon by one that does not lead"
    LIMITED = "more than its limits allow by now"
    TOLD = "told to KEDA, which acts"
    EXPIRED = "too old to act upon"
    UNREADABLE = "the target could not be read"
    BLOCKED = "an earlier patch of unknown outcome was not read back yet"
    BUSY = "an earlier patch is on its way"


OF_PATCH = {
    Patch.APPLIED: Outcome.APPLIED,
    Patch.CONFLICT: Outcome.SUPERSEDED,
    Patch.REFUSED: Outcome.REFUSED,
    Patch.UNKNOWN: Outcome.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Act:
    """What was done about one decision, at `now_s` of the clock; `message` is what a port said when it failed."""

    workload: str
    now_s: float
    decided_s: float
    seen_replicas: int
    replicas: int
    outcome: Outcome
    message: str | None = None


PASSING: Final = frozenset({Fault.UNAVAILABLE, Fault.TIMEOUT, Fault.OUTDATED})
"""A refusal for such a fault may be over in a second. A right that lacks, a count that is not allowed and a no without
a word are not, as far as anybody can tell."""


class Actuator:
    """Patches targets, one patch at a time for each. `timeout_s` is real time.

    `may_write` says whether this process may write at this very moment, to anything; `admits` whether the GPU budgets
    have a place for a decision.
    """

    def __init__(
        self,
        scale: ScaleClient,
        clock: Clock,
        timeout_s: float,
        *,
        may_write: Callable[[], bool],
        admits: Callable[[Decision], bool],
    ) -> None:
        self.frozen: str | None = None
        """Why nothing may be touched, or None."""
        self._scale = scale
        self._clock = clock
        self._timeout_s = timeout_s
        self._may_write = may_write
        self._admits = admits
        self._refused_for_now: set[str] = set()
        self._busy: set[str] = set()
        self._unknown: set[str] = set()

    def unknown(self, workload: str) -> bool:
        """Whether nobody knows what became of the target's last patch."""
        return workload in self._unknown

    def read_back(self, workload: str) -> None:
        """Note that the target was read by a look that began after its patch had become unknown."""
        self._unknown.discard(workload)

    def refused_for_now(self, workload: str) -> bool:
        """Whether the patch that ended just now was refused for a fault that may be over soon; it is told once."""
        told = workload in self._refused_for_now
        self._refused_for_now.discard(workload)
        return told

    def forget(self, workload: str) -> None:
        """The workload is gone: should it come back, it is read before anything is decided on it."""
        self._unknown.discard(workload)

    def objection(self, target: Target, decision: Decision, target_readable: bool) -> Outcome | None:
        """Why `decision` must not be acted upon now, or None."""
        valid_s = VALID_TICKS * (decision.next_due_s - decision.now_s)
        if not target.mode.allows(decision.seen_replicas, decision.replicas):
            return Outcome.SHADOWED
        if self.frozen is not None:
            return Outcome.FROZEN
        if not self._may_write():
            return Outcome.NOT_LEADING
        if not self._admits(decision) or _beyond(target.limits, decision):
            return Outcome.LIMITED
        if target.told:
            return Outcome.TOLD
        if not target_readable:
            return Outcome.UNREADABLE
        if target.name in self._busy:
            return Outcome.BUSY
        if target.name in self._unknown:
            return Outcome.BLOCKED
        return Outcome.EXPIRED if self._clock.now() > decision.now_s + valid_s else None

    async def act(self, decision: Decision) -> Act:
        """Patch what `objection` let pass. Cancelled on the way, it blocks the target and stays cancelled."""
        assert decision.verdict is Verdict.SCALE
        name = decision.workload
        self._busy.add(name)
        self._refused_for_now.discard(name)
        outcome, message = Outcome.UNKNOWN, None
        try:
            async with asyncio.timeout(self._timeout_s):
                patch = await self._scale.patch(name, decision.seen_replicas, decision.replicas)
            outcome = OF_PATCH[patch]
        except TimeoutError:
            message = f"no answer within {self._timeout_s:g} s"
        except RefusedError as error:
            outcome, message = Outcome.REFUSED, str(error)
            if error.fault in PASSING:
                self._refused_for_now.add(name)
        except PortError as error:
            message = str(error)
        finally:
            self._busy.discard(name)
            if outcome is Outcome.UNKNOWN:
                self._unknown.add(name)
        return self.report(decision, outcome, message)

    def report(self, decision: Decision, outcome: Outcome, message: str | None = None) -> Act:
        """The record of `outcome` for `decision`, now."""
        return Act(
            decision.workload,
            self._clock.now(),
            decision.now_s,
            decision.seen_replicas,
            decision.replicas,
            outcome,
            message,
        )


def _beyond(limits: Limits, decision: Decision) -> bool:
    """Whether a decision grows beyond limits that were lowered after its readings."""
    hard = [limit for limit in (limits.quota_replicas, limits.budget_replicas) if limit is not None]
    return decision.replicas > decision.seen_replicas and any(decision.replicas > limit for limit in hard)
