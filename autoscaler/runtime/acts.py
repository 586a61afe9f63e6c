"""Carries decisions out, one task each, and records what became of every one of them.

Enters: a decision, its workload's lane. Leaves: a patch or an objection, an `Act` for the record, and a word to the
loop when the workload must be looked at again: at once where somebody else was first, after a while where the answer
was a no that may pass. What is allowed is asked in the turn in which the patch leaves.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from autoscaler.core.types import Decision
from autoscaler.ports import Clock
from autoscaler.runtime.actuator import Actuator, Outcome
from autoscaler.runtime.budgets import Shares
from autoscaler.runtime.isolation import Bug, Shield
from autoscaler.runtime.lanes import Lane, phase_ratio
from autoscaler.runtime.records import Recorder
from autoscaler.runtime.triggers import Cause

RETRY_S = 1.0
"""After the first refusal in a row. Each further one waits twice as long, up to a tick, so that who is refused for good
costs three more steps and then no more than anybody. By its name each waits up to twice that: a server that refuses a
crowd has not the whole crowd at once again. A first patch of unknown outcome is read back at once, a first conflict
decided anew at once, and one after it waits as a refusal does: a server that answers every patch with an error or a
conflict (a webhook may) has no more of them than one that says no."""

VAIN: Final = frozenset({Outcome.REFUSED, Outcome.UNKNOWN, Outcome.SUPERSEDED})
"""What became of a patch that did nothing, as far as anybody knows."""

AT_ONCE: Final = {Outcome.UNKNOWN: Cause.READ_BACK, Outcome.SUPERSEDED: Cause.SUPERSEDED}
"""Why a workload is stepped at once after the first patch in a row that came to this."""


class Acts:
    """The acts on their way. `is_there` says whether a workload is driven still, `wake` asks for a step of one, for a
    cause; `again` for one by an instant."""

    def __init__(
        self,
        *,
        actuator: Actuator,
        recorder: Recorder,
        shield: Shield,
        shares: Shares,
        clock: Clock,
        is_there: Callable[[str], bool],
        wake: Callable[[str, Cause], None],
        again: Callable[[Lane, float], None],
    ) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._actuator = actuator
        self._recorder = recorder
        self._shield = shield
        self._shares = shares
        self._clock = clock
        self._is_there = is_there
        self._wake = wake
        self._again = again

    def begin(self, lane: Lane, decision: Decision, *, readable: bool, group: asyncio.TaskGroup) -> None:
        """Act on a decision to scale, in a task of `group`; `readable` says whether the target's count is of now."""
        track(self.tasks, group.create_task(self._act(lane, decision, readable), name=f"act {decision.workload}"))

    async def _act(self, lane: Lane, decision: Decision, readable: bool) -> None:
        # From here to the port nothing is awaited: what is allowed now is allowed when the patch leaves.
        objection = self._actuator.objection(lane.target, decision, readable)
        if objection is not None:
            lane.held_back = objection is Outcome.BUSY
            lane.frozen = objection is Outcome.FROZEN
            why = self._actuator.frozen if lane.frozen else None
            self._recorder.put(self._actuator.report(decision, objection, why))
            return
        edited = lane.edits.objection(self._clock.monotonic(), decision.seen_replicas, decision.replicas)
        if edited is not None:
            self._recorder.put(self._actuator.report(decision, Outcome.EDITED, edited))
            return
        lane.ordered = decision.replicas
        self._shares.ordered(decision)
        try:
            act = await self._shield.wait(self._actuator.act(decision))
        except asyncio.CancelledError:
            self._recorder.put(self._actuator.report(decision, Outcome.UNKNOWN, "cancelled on the way"))
            raise
        if isinstance(act, Bug):
            act = self._actuator.report(decision, Outcome.UNKNOWN, act.message)
        soon = self._actuator.refused_for_now(decision.workload)
        if not self._is_there(decision.workload):
            self._actuator.forget(decision.workload)
        self._shares.acted(act)
        self._recorder.put(act)
        if act.outcome is Outcome.APPLIED:
            lane.applied = (self._clock.monotonic(), act.replicas)
        lane.refusals = lane.refusals + 1 if act.outcome in VAIN else 0
        if act.outcome in AT_ONCE and lane.refusals == 1:
            self._wake(decision.workload, AT_ONCE[act.outcome])
        elif lane.held_back:
            self._wake(decision.workload, Cause.SUPERSEDED)
        elif act.outcome in AT_ONCE or soon:
            self._again(lane, self._clock.monotonic() + _patience_s(lane))
        lane.held_back = False


def _patience_s(lane: Lane) -> float:
    """How long a workload whose patch was in vain is left alone."""
    doubled: float = RETRY_S * 2.0 ** min(lane.refusals - 1, 16)
    return min(doubled * (1.0 + phase_ratio(lane.target.name)), lane.target.params.tick_s)


def track(tasks: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
    """Keep `task` in `tasks` while it runs."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
