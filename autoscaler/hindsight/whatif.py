"""Recorded inputs under other settings: what is decided on the same readings, and what would have come of it.

Enters: entries of a recording and settings that replace its own. Leaves, per workload: the decisions that differ where
both see what was read, and two worlds in which the same arrivals meet the replicas of either setting, with the bill and
the late requests of both. The worlds share arrivals, capacity and warm-up with what happened; how far they can be
believed is the model's error on what happened, which stands first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.core import engine
from autoscaler.core.advanced import Advanced
from autoscaler.core.params import Params
from autoscaler.core.types import Readings
from autoscaler.hindsight.knowledge import lend
from autoscaler.hindsight.ledger import Ledger, Three
from autoscaler.hindsight.overlay import Compiled, Overlay
from autoscaler.hindsight.recording import Begun, Fitted, Looked, Marked
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

    def follow(self, later: "Told") -> None:
        """Add what is told of the time right after."""
        self.decisions += later.decisions
        self.differ += later.differ
        self.first = self.first or later.first
        self.reasons += later.reasons
        self.timeline.follow(later.timeline)


@dataclass(slots=True)
class Tally:
    """What was told and counted of one workload over some time."""

    told: Told = field(default_factory=Told)
    as_is: Ledger = field(default_factory=Ledger)
    other: Ledger = field(default_factory=Ledger)

    def follow(self, later: "Tally") -> None:
        """Add the time right after, by the rules by which it would have been counted in one."""
        if self.as_is.measured and later.as_is.least:
            later.told.timeline = Timeline()
        self.as_is, self.other = self.as_is.followed_by(later.as_is), self.other.followed_by(later.other)
        if self.as_is is later.as_is:
            self.told.timeline = Timeline()
        self.told.follow(later.told)


class WhatIf:
    """A replay with other settings beside one with the recorded ones, all in the rows of one table."""

    def __init__(self, rerun: Rerun, overlay: Overlay, *, recorded: bool = True) -> None:
        """`recorded` says that there are decisions to compare with on the same readings."""
        self.told: dict[str, Told] = {}
        self.rerun = rerun
        self._recorded = recorded
        self.overlay = overlay
        self._compiled = Compiled(overlay)
        self._as_is = Shadow(rerun.table, AS_IS, whole=True)
        self._other = Shadow(rerun.table, OTHER, whole=True, beside=self._as_is)
        self._rows: dict[str, str] = {}
        """The row that was last stepped of a workload with several."""
        self._given: dict[str, Params] = {}
        """The other settings that each row's decisions on the same readings were made with last."""
        self.uncounted: set[str] = set()
        """Rows whose decisions are not laid beside the recorded ones: another row's are."""
        self.believed: set[str] = set()
        """Rows whose recorded decisions need not be made again, as soon as what was remembered is not asked for any
        more: under one policy, with their models in the record, from a memory on."""
        self._taken: set[str] = set()
        """Those of them whose recorded decisions are taken from the record."""

    def begin(self, begun: Begun | Marked, row: str | None = None) -> None:
        """Give the row of the other settings the memory that the record says the workload had."""
        name = row or begun.workload
        self.rerun.begin(begun, name)
        self.rerun.begin(begun, name + _OPEN)
        self.rerun.table.put(name + _OPEN, unfitted(Params()))
        self._given.pop(name, None)
        self._taken.discard(name)

    def fitted(self, fitted: Fitted, row: str | None = None) -> None:
        """Hand over a model where the record says that the workload got it."""
        name = row or fitted.workload
        self.rerun.fitted(fitted, name)
        if name + _OPEN in self.rerun.table.rows:
            engine.install(self.rerun.table, name + _OPEN, fitted.model)

    def takes(self, row: str) -> bool:
        """Whether a row's recorded decisions are taken from the record: what was remembered of it is not followed."""
        return row in self._taken

    def params(self, policy_json: bytes | None) -> Params:
        """The other settings in the place of a recorded policy. Raises SettingError where they cannot be."""
        assert policy_json is not None
        return self._compiled.params(policy_json)

    def step(self, turn: Sequence[tuple[Looked, Readings]]) -> None:
        """Decide on one look at each of some workloads: as recorded, otherwise, and in both worlds."""
        self.step_rows([(looked.workload, looked, readings) for looked, readings in turn])

    def step_rows(self, turn: Sequence[tuple[str, Looked, Readings]]) -> None:
        """The same in rows by name, of which a workload may have several."""
        table = self.rerun.table
        first: list[Look] = []
        second: list[Look] = []
        for name, looked, readings in turn:
            learned_in = name + _OPEN if self._take(name, looked) else None
            first.append(Look(name, readings, self.rerun.params(name), learned_in=learned_in))
            second.append(Look(name, readings, self.params(looked.line.policy_json), learned_in=learned_in))
        as_is, other = self._as_is.before(table, first), self._other.before(table, second)
        beside = self._beside(second)
        again = [(look.workload, look.readings) for look in first if look.workload not in self._taken]
        made = engine.advance(table, [*again, *beside, *as_is, *other], self.rerun.supplied, self._as_is.told)
        self.rerun.made(made.fits)
        worlds = made.counts[len(again) + len(beside) :]
        self._as_is.after(worlds[: len(as_is)])
        self._other.after(worlds[len(as_is) :])
        replicas = {count.workload: count.replicas for count in made.counts[: len(again) + len(beside)]}
        for name, looked, readings in turn:
            if name not in self.uncounted:
                if name in replicas:
                    self.rerun.conclude(looked, made.decision(name))
                else:
                    self.rerun.believe(looked)
            told = self.told.setdefault(name, Told())
            self._lay_beside(told, name, looked, made, replicas)
            self._note(told, name, readings)

    def _take(self, name: str, looked: Looked) -> bool:
        """Whether a recorded decision is taken from the record: what is learned, the other settings' row learns too.

        Not before both worlds run: they begin with what was remembered as recorded.
        """
        known = self._as_is.known(name) if name in self.believed and name not in self._taken else None
        if known is not None and not known.least and self._other.known(name) is not None:
            alike = self.rerun.params(name).warmup_prior_s == self.params(looked.line.policy_json).warmup_prior_s
            if alike or known.warmup_samples > 0:
                self._taken.add(name)
        return name in self._taken

    def _beside(self, looks: Sequence[Look]) -> list[tuple[str, Readings]]:
        """The other settings on the same readings, where there are decisions to compare with."""
        if not self._recorded:
            return []
        table, learned = self.rerun.table, list[tuple[str, str]]()
        for look in looks:
            name = look.workload
            if self._given.get(name) is not look.params:
                self._given[name] = look.params
                table.put(name + _OPEN, unfitted(look.params))
            if name not in self._taken and table.track(table.rows[name]).lead50_s is not None:
                learned.append((name + _OPEN, name))
        lend(table, table, learned)
        return [(look.workload + _OPEN, look.readings) for look in looks]

    def _lay_beside(self, told: Told, name: str, looked: Looked, made: Advanced, replicas: Mapping[str, int]) -> None:
        """Count a decision on the same readings, with the reasons where another count came of it."""
        open_, said = name + _OPEN, looked.said
        recorded = replicas.get(name, None if said is None else said.replicas)
        if open_ not in replicas or recorded is None:
            return
        told.decisions += 1
        if recorded == replicas[open_]:
            return
        told.differ += 1
        other_reason = made.decision(open_).reason.name
        reason = made.decision(name).reason.name if name in replicas or said is None else said.reason
        told.reasons[reason, other_reason] += 1
        if told.first is None:
            line = looked.line
            told.first = Turned(
                float(line.now_s), line.replicas.desired or 0, recorded, replicas[open_], reason, other_reason
            )

    def estimates(self, workload: str) -> tuple[Estimate, Estimate] | None:
        """The accounts of both worlds, as recorded and otherwise; None where no world could run.

        What happened, and how far the model can be believed, stands in the first alone.
        """
        row = self._rows.get(workload, workload)
        first, second = self._as_is.estimate(row), self._other.estimate(row)
        if first is None or second is None:
            return None
        return replace(first, workload=workload), replace(second, workload=workload)

    def warmup_s(self, workload: str) -> float | None:
        """The warm-up in both worlds at the end; None where it was never known."""
        return self._other.warmup_s(self._rows.get(workload, workload))

    def max_replicas(self, workload: str) -> int:
        """The higher of the two maxima that were last in force."""
        table, name = self.rerun.table, self._rows.get(workload, workload)
        rows = (table.rows.get(name + suffix) for suffix in ("", _OPEN, AS_IS, OTHER))
        return max(table.track(row).params.max_replicas for row in rows if row is not None)

    def take(self, row: str) -> Tally:
        """What was told and counted of a row so far; both begin anew."""
        told = self.told.pop(row) if row in self.told else Told()
        return Tally(told, self._as_is.take(row), self._other.take(row))

    def sums(self, row: str) -> tuple[Three, Three]:
        """The sums of a row so far, as recorded and otherwise."""
        return self._as_is.sums(row), self._other.sums(row)

    def waiting(self, row: str) -> tuple[float, float]:
        """Requests that wait in a row's worlds, as recorded and otherwise; NaN where none runs."""
        return self._as_is.waiting(row), self._other.waiting(row)

    def give(self, workload: str, row: str, tally: Tally) -> None:
        """Let `tally` be what was told and counted of a workload; how it stands, its last row tells."""
        self.told.pop(row, None)
        self.told[workload] = tally.told
        self._rows[workload] = row
        self._as_is.give(row, tally.as_is)
        self._other.give(row, tally.other)

    def forget(self, row: str) -> None:
        """Let a row go, with the worlds beside it."""
        table = self.rerun.table
        for name in (row, row + _OPEN):
            if name in table.rows:
                table.remove(name)
        for shadow in (self._as_is, self._other):
            shadow.forget(row)
        self.told.pop(row, None)
        self._given.pop(row, None)
        for rows in (self.uncounted, self.believed, self._taken):
            rows.discard(row)

    def _note(self, told: Told, name: str, readings: Readings) -> None:
        as_is, other = self._as_is.ours(name), self._other.ours(name)
        span, since_s = self._as_is.span(name), self._as_is.since_s(name)
        if told.timeline.at_s and told.timeline.at_s[0] < since_s:
            told.timeline = Timeline()
        if as_is is not None and other is not None and span is not None:
            told.timeline.note(readings.now_s, span, readings.replicas, as_is, other)
