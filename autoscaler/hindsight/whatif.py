"""Recorded inputs under other settings: what is decided on the same readings, and what would have come of it.

Enters: entries of a recording and settings that replace its own. Leaves, per workload: the decisions that differ where
both see what was read, and two worlds in which the same arrivals meet the replicas of either setting, with the bill and
the late requests of both. The worlds share arrivals, capacity and warm-up with what happened; how far they can be
believed is the model's error on what happened, which stands first.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.types import Decision, Readings
from autoscaler.hindsight.knowledge import lend
from autoscaler.hindsight.overlay import Compiled, Overlay
from autoscaler.hindsight.recording import Begun, Looked, Marked
from autoscaler.hindsight.rerun import Rerun, unfitted
from autoscaler.hindsight.shadow import Look, Shadow
from autoscaler.hindsight.timeline import Timeline
from autoscaler.record.estimate import Estimate

AS_IS: Final = " as recorded"
OTHER: Final = " otherwise"
_OPEN: Final = " on the same readings"


@dataclass(frozen=True, slots=True)
class Turned:
    """A decision that other settings change, on the same readings."""

    now_s: float
    seen_replicas: int
    replicas: int
    other_replicas: int
    reason: str
    other_reason: str


@dataclass(slots=True)
class Told:
    """What is told of one workload."""

    decisions: int = 0
    differ: int = 0
    first: Turned | None = None
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often one reason took the place of another where the counts differ."""
    timeline: Timeline = field(default_factory=Timeline)


class WhatIf:
    """A replay with other settings beside one with the recorded ones, all in the rows of one table."""

    def __init__(self, rerun: Rerun, overlay: Overlay, *, recorded: bool = True) -> None:
        """`recorded` says that there are decisions to compare with on the same readings."""
        self.told: dict[str, Told] = {}
        self._rerun = rerun
        self._recorded = recorded
        self._compiled = Compiled(overlay)
        self._as_is = Shadow(rerun.table, AS_IS)
        self._other = Shadow(rerun.table, OTHER)

    def begin(self, begun: Begun | Marked) -> None:
        """Give the row of the other settings the memory that the record says the workload had."""
        self._rerun.begin(begun)
        self._rerun.begin(begun, begun.workload + _OPEN)
        table = self._rerun.table
        table.put(begun.workload + _OPEN, unfitted(Params()))

    def step(self, turn: Sequence[tuple[Looked, Readings]]) -> None:
        """Decide on one look at each of some workloads: as recorded, otherwise, and in both worlds."""
        table = self._rerun.table
        first: list[Look] = []
        second: list[Look] = []
        for looked, readings in turn:
            name = looked.workload
            assert looked.line.policy_json is not None
            first.append(Look(name, readings, self._rerun.params(name)))
            second.append(Look(name, readings, self._compiled.params(looked.line.policy_json)))
        worlds = (*self._as_is.before(table, first), *self._other.before(table, second))
        beside = [pair for look in second for pair in self._beside(look)]
        recorded = [(look.workload, look.readings) for look in first]
        result = engine.step(table, [*recorded, *beside, *worlds], self._rerun.supplied)
        self._rerun.made(result.fits)
        ours = result.decisions[len(recorded) + len(beside) :]
        self._as_is.after([d for d in ours if d.workload.endswith(AS_IS)])
        self._other.after([d for d in ours if d.workload.endswith(OTHER)])
        decided = {d.workload: d for d in result.decisions}
        for looked, readings in turn:
            name = looked.workload
            self._rerun.conclude(looked, decided[name])
            told = self.told.setdefault(name, Told())
            if name + _OPEN in decided:
                _compare(told, decided[name], decided[name + _OPEN])
            self._note(told, name, readings)

    def _beside(self, look: Look) -> list[tuple[str, Readings]]:
        """The other settings on the same readings, where there are decisions to compare with."""
        if not self._recorded:
            return []
        name, table = look.workload, self._rerun.table
        table.put(name + _OPEN, unfitted(look.params))
        if table.track(table.rows[name]).seen is not None:
            lend(table, name + _OPEN, table, name)
        return [(name + _OPEN, look.readings)]

    def estimates(self, workload: str) -> tuple[Estimate, Estimate] | None:
        """The accounts of both worlds, as recorded and otherwise; None where no world could run."""
        first, second = self._as_is.estimate(workload), self._other.estimate(workload)
        return None if first is None or second is None else (first, second)

    def warmup_s(self, workload: str) -> float | None:
        """The warm-up in both worlds at the end; None where it was never known."""
        return self._other.warmup_s(workload)

    def max_replicas(self, workload: str) -> int:
        """The higher of the two maxima that were last in force."""
        table = self._rerun.table
        rows = (table.rows.get(workload + suffix) for suffix in ("", _OPEN, AS_IS, OTHER))
        return max(table.track(row).params.max_replicas for row in rows if row is not None)

    def _note(self, told: Told, name: str, readings: Readings) -> None:
        as_is, other = self._as_is.ours(name), self._other.ours(name)
        span, since_s = self._as_is.span(name), self._as_is.since_s(name)
        if told.timeline.at_s and told.timeline.at_s[0] < since_s:
            told.timeline = Timeline()
        if as_is is not None and other is not None and span is not None:
            told.timeline.note(readings.now_s, span, readings.replicas, as_is, other)


def _compare(told: Told, recorded: Decision, otherwise: Decision) -> None:
    told.decisions += 1
    if recorded.replicas == otherwise.replicas:
        return
    told.differ += 1
    told.reasons[recorded.reason.name, otherwise.reason.name] += 1
    if told.first is None:
        told.first = Turned(
            recorded.now_s, recorded.seen_replicas, recorded.replicas, otherwise.replicas, recorded.reason.name,
            otherwise.reason.name,
        )  # fmt: skip
