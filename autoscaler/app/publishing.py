"""Tells the cluster and whoever watches what was decided: frames, statuses of policies, events on targets.

Enters: entries of the driver's record, claims. Leaves: frames on the board and the page, events on change and refusal
only, lines of the log, and word to the statuses of policies that something may have changed.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, Literal, Protocol

from autoscaler.adapters.web.hub import Hub
from autoscaler.api.claims import Claim, Rejection, TargetRef
from autoscaler.app.guard import Guard
from autoscaler.app.log import LogLines
from autoscaler.app.policy_statuses import Knowledge, PolicyStatuses, Statuses
from autoscaler.app.shadowing import Shadowing, Watched
from autoscaler.ports import Clock
from autoscaler.record.board import Board
from autoscaler.record.stream import Aim, Frame, WorkloadFrame
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.clock import breathe
from autoscaler.runtime.lanes import SLICE
from autoscaler.runtime.records import Entry, Feed, Note, Stepped

TOLD: Final = frozenset({Outcome.REFUSED, Outcome.UNKNOWN})
"""What became of a decision, besides applying it, that is worth an event."""


class Events(Protocol):
    """Where events go; it aggregates them."""

    def note(
        self, ref: TargetRef, kind_type: Literal["Normal", "Warning"], reason: str, message: str, *, aside: bool = False
    ) -> None:
        """Tell something about an object; `aside` where it can wait for all else."""
        ...


class Publisher:
    """Takes entries and tells them on."""

    def __init__(
        self,
        *,
        board: Board,
        hub: Hub,
        statuses: Statuses,
        events: Events,
        knowledge: Knowledge,
        clock: Clock,
        guard: Guard,
        shadowing: Shadowing,
    ) -> None:
        self._board = board
        self._shadowing = shadowing
        self._hub = hub
        self._policies = PolicyStatuses(statuses=statuses, board=board, knowledge=knowledge, clock=clock)
        self._events = events
        self._knowledge = knowledge
        self._clock = clock
        self._guard = guard
        self._scaled_s: dict[str, float] = {}
        self._lines = LogLines(clock)

    async def run(self, feed: Feed) -> None:
        """Tell what comes on the feed until it ends."""
        async for entry in feed:
            entries, frames = [entry], dict[str, WorkloadFrame]()
            while len(entries) < SLICE and (more := feed.take()) is not None:
                entries.append(more)
            self._guard.run("shadow mode", partial(self._watch, entries))
            for each in entries:
                self._guard.run("an entry", partial(self._tell, each, frames))
            self._guard.run("the log", self._lines.look)
            if frames:
                self._hub.publish(Frame(self._clock.now(), 1.0, tuple(frames.values())))
            if len(entries) == SLICE:
                await breathe(self._clock)

    def on_claim(self, workload: str) -> None:
        """A claim, or who asks in vain, changed."""
        self._policies.clear(workload)
        claim = self._knowledge.claim(workload)
        if claim is None:
            self._board.forget(workload)
            self._hub.forget(workload)
            self._shadowing.forget(workload)
            self._scaled_s.pop(workload, None)
            self._lines.forget(workload)
        elif self._knowledge.leading:
            self._policies.tell(workload, claim, self._scaled_s.get(workload))
        if self._knowledge.leading:
            for rejection in self._knowledge.rejections(workload):
                self._reject(rejection)
                self._policies.reject(workload, rejection)

    def begin(self, workloads: list[str]) -> None:
        """Tell what was known before this process led."""
        for workload in workloads:
            self.on_claim(workload)

    def _watch(self, entries: Iterable[Entry]) -> None:
        """Let shadow mode count the steps among them."""
        steps = [entry for entry in entries if isinstance(entry, Stepped)]
        claims = [(step, self._knowledge.claim(step.decision.workload)) for step in steps]
        self._shadowing.take(
            Watched(step, self._knowledge.mode(claim), self._knowledge.gpus(claim))
            for step, claim in claims
            if claim is not None
        )

    def _tell(self, entry: Entry, frames: dict[str, WorkloadFrame]) -> None:
        if isinstance(entry, Note):
            self._board.noted(entry.event)
            self._lines.note(entry)
            return
        if isinstance(entry, Act):
            self._board.acted(entry)
            self._lines.act(entry, self._said(entry))
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
            before = self._board.frame(workload)
            frame = self._board.stepped(entry, aim, self._clock.now(), self._shadowing.told(workload))
            frames[workload] = frame
            self._drift(claim, before, frame)
        self._policies.tell(workload, claim, self._scaled_s.get(workload))

    def _event(self, act: Act) -> None:
        claim = self._knowledge.claim(act.workload)
        if claim is None:
            return
        if act.outcome is Outcome.APPLIED:
            self._scaled_s[act.workload] = act.now_s
            self._events.note(
                claim.ref, "Normal", "ScaledOut" if act.replicas > act.seen_replicas else "ScaledIn", self._said(act)
            )
        elif act.outcome in TOLD:
            said = f"{act.seen_replicas}→{act.replicas}: {act.outcome.value}: {act.message or 'no word why'}"
            self._events.note(claim.ref, "Warning", "ScalingFailed", said)

    def _said(self, act: Act) -> str:
        """The decision that was acted upon, in words."""
        frame = self._board.frame(act.workload)
        return frame.decision.text if frame is not None else f"{act.seen_replicas}→{act.replicas}"

    def _drift(self, claim: Claim, before: WorkloadFrame | None, frame: WorkloadFrame) -> None:
        """Tell when a forecast has begun to be worse than chance explains, and when it has ended."""
        was = None if before is None or before.quality is None else before.quality.drift
        quality = frame.quality
        if quality is None or quality.drift == was:
            return
        if quality.drift is not None:
            self._events.note(claim.ref, "Warning", "ForecastDrifted", quality.text)
        else:
            self._events.note(claim.ref, "Normal", "ForecastRecovered", quality.text)

    def _reject(self, rejection: Rejection) -> None:
        group, _, version = rejection.api_version.rpartition("/")
        ref = TargetRef(group, version, "", rejection.kind, rejection.namespace, rejection.name, rejection.uid)
        # Anybody may ask in vain by the thousand, and above all while a leader begins: those that are served go first.
        self._events.note(ref, "Warning", rejection.reject.value, rejection.message, aside=True)


def _slack_s(claim: Claim) -> float:
    slo = claim.spec.slo
    return next(value for value in (slo.wait_s, slo.ttft_s, slo.tpot_s) if value is not None)
