"""The newest of every workload and what was counted on the way, for pages, metrics and people who ask.

Enters: steps, acts and notes as the live driver records them. Leaves: frames, rows and explanations, from memory and at
once. It keeps the last decision and a few changes of every workload and no readings; it knows no clock and no reader.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

import msgspec

from autoscaler.core.types import Decision, Readings, Verdict
from autoscaler.core.view import View
from autoscaler.record.audit import audit_line, read_lines
from autoscaler.record.estimate import Estimate
from autoscaler.record.explain import clock, line, page
from autoscaler.record.hpa import hpa_lines
from autoscaler.record.status import About, ActRecord
from autoscaler.record.stream import Aim, WorkloadFrame, workload_frame
from autoscaler.record.tally import Tally

CHANGES: Final = 8
"""Changes kept per workload: 10 kB of lines, and what a person reads before asking for the files."""


class Step(Protocol):
    """What the board reads of a step."""

    @property
    def decision(self) -> Decision:
        """What was decided."""
        ...

    @property
    def readings(self) -> Readings:
        """From what."""
        ...

    @property
    def view(self) -> View:
        """The core's figures after it."""
        ...


class Act(Protocol):
    """What the board reads of an act; the driver's own has more."""

    @property
    def workload(self) -> str:
        """Whose count was to be changed."""
        ...

    @property
    def now_s(self) -> float:
        """When it was done, or left."""
        ...

    @property
    def decided_s(self) -> float:
        """The instant of the decision's readings."""
        ...

    @property
    def seen_replicas(self) -> int:
        """The count that the decision saw."""
        ...

    @property
    def replicas(self) -> int:
        """The count that was decided."""
        ...

    @property
    def outcome(self) -> Enum:
        """What became of it: the name is the code, the value says it in words."""
        ...

    @property
    def message(self) -> str | None:
        """What a port said when it failed."""
        ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a workload stands where it stands. `decision` and `changes` (oldest first) are audit lines."""

    workload: str
    now_s: float
    text: str
    about: About | None = None
    act: ActRecord | None = None
    decision: msgspec.Raw | None = None
    changes: tuple[msgspec.Raw, ...] = ()


@dataclass(slots=True)
class _Row:
    frame: WorkloadFrame
    decision: Decision
    act: ActRecord | None = None
    changes: deque[bytes] = field(default_factory=lambda: deque(maxlen=CHANGES))
    """Audit lines, which take half of the memory of decisions."""


class Board:
    """All workloads that were stepped and not forgotten."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._rows: dict[str, _Row] = {}

    def stepped(self, step: Step, aim: Aim, now_s: float, shadow: Estimate | None = None) -> WorkloadFrame:
        """Take a step that was made at `now_s`, and what would have been saved by then; return its frame."""
        decision = step.decision
        frame = workload_frame(step.view, decision, step.readings, aim, shadow)
        row = self._rows.get(decision.workload)
        last = None if row is None else row.decision
        if row is None:
            row = self._rows[decision.workload] = _Row(frame, decision)
        row.frame, row.decision = frame, decision
        if decision.verdict is Verdict.SCALE and (last is None or _move(decision) != _move(last)):
            row.changes.append(audit_line(decision))
        self.tally.decided(decision.workload, decision.verdict.value, decision.reason.name, now_s - decision.now_s)
        return frame

    def acted(self, act: Act) -> None:
        """Take what became of a decision."""
        applied = act.outcome.name == "APPLIED"
        self.tally.acted(act.workload, act.outcome.name, act.now_s - act.decided_s if applied else None)
        if act.workload in self._rows:
            self._rows[act.workload].act = ActRecord(
                act.now_s, act.seen_replicas, act.replicas, act.outcome.name, str(act.outcome.value), act.message
            )

    def noted(self, event: Enum) -> None:
        """Take a note of the journal."""
        self.tally.noted(event.name)

    def forget(self, workload: str) -> None:
        """Drop a workload that is no longer scaled; an unknown one is no error."""
        self._rows.pop(workload, None)
        self.tally.forget(workload)

    def frames(self) -> Mapping[str, WorkloadFrame]:
        """The newest frame of every workload, as they stand now."""
        return {name: row.frame for name, row in self._rows.items()}

    def step_age_s(self, now_s: float) -> float | None:
        """Seconds since the newest readings that anything was decided from; None while nothing was."""
        return min((max(0.0, now_s - row.frame.now_s) for row in self._rows.values()), default=None)

    def frame(self, workload: str) -> WorkloadFrame | None:
        """The newest frame, None before the first step."""
        row = self._rows.get(workload)
        return None if row is None else row.frame

    def act(self, workload: str) -> ActRecord | None:
        """What was done last."""
        row = self._rows.get(workload)
        return None if row is None else row.act

    def explanation(self, workload: str, about: About | None, now_s: float) -> Explanation:
        """Why the workload stands where it stands, at `now_s`."""
        row = self._rows.get(workload)
        if row is None:
            text = "\n".join([f"{workload}: nothing was decided yet", *_standing(about, None)])
            return Explanation(workload, now_s, text, about)
        told = [page(row.decision), *_standing(about, row.act)]
        if row.changes:
            told += ["  recent changes:", *(f"    {line(change)}" for change in read_lines(row.changes, "changes"))]
        return Explanation(
            workload,
            now_s,
            "\n".join(told),
            about,
            row.act,
            msgspec.Raw(audit_line(row.decision)),
            tuple(msgspec.Raw(change) for change in row.changes),
        )


def _move(decision: Decision) -> tuple[int, int, str]:
    """What makes two decisions the same to a person: one that is not acted upon comes again at every step."""
    return decision.seen_replicas, decision.replicas, decision.reason.name


def _standing(about: About | None, act: ActRecord | None) -> list[str]:
    """Mode, what was done last, and what is wrong, a line each."""
    lines: list[str] = []
    if about is not None:
        asked = f"{about.kind}, by {about.way}{f' {about.policy}' if about.policy else ''}"
        until = "" if about.mode_until_s is None else f" until {clock(about.mode_until_s)}"
        lines.append(f"  mode: {about.mode_words}{until} ({asked})")
    if act is not None:
        said = "" if act.message is None else f": {act.message}"
        lines.append(f"  last act: {clock(act.now_s)} {act.seen_replicas}→{act.replicas}: {act.words}{said}")
    if about is not None:
        lines += [f"  obstacle: {about.obstacle}"] if about.obstacle else []
        lines += [f"  problem: {problem.words}" for problem in about.problems]
        lines += [f"  {c.type}={c.status}: {c.reason}: {c.message}" for c in about.conditions]
        lines += [f"  remark: {remark}" for remark in about.remarks]
        lines += [] if about.hpa is None else hpa_lines(about.hpa)
    return lines
