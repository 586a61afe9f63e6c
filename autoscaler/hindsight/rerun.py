"""The recorded inputs through the same core again, and where its decisions differ from the recorded ones.

Enters: entries of a recording. Leaves: decisions, each compared with the recorded line byte for byte, and memories,
compared in the same way. A difference without other settings is a fault, of the record or of this build: it is named,
with what the record lacks before it. Of a workload there may be several rows, for stretches that are replayed apart.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.core import checkpoint, engine, recall
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.params import Feature, Params
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Readings, ReplicaReading
from autoscaler.errors import InputError
from autoscaler.hindsight.overlay import Compiled
from autoscaler.hindsight.recording import Begun, Fitted, Looked, Marked
from autoscaler.record import memories
from autoscaler.record.audit import audit_line
from autoscaler.record.explain import clock
from autoscaler.runtime.fit_wire import pack_answer

Fit = Callable[[FitRequest], FittedModel]

MOST_DIFFERENT: Final = 10
"""Differences told in full."""

MOST_PARTS: Final = 3
"""Parts of a memory that are named where it is another."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that came out otherwise."""

    where: str
    now_s: float
    workload: str
    recorded: bytes
    again: bytes


@dataclass(frozen=True, slots=True)
class Counted:
    """What a part of a replay came to."""

    steps: int
    compared: int
    different: int
    differences: tuple[Difference, ...]
    memories: int
    unlike: tuple[str, ...]
    believed: int = 0


def unfitted(params: Params) -> Params:
    """The same parameters for a row that asks for no models."""
    return replace(params, without=params.without | {Feature.LEARNED})


@dataclass(slots=True)
class Rerun:
    """One table for all workloads of a recording. `fit` makes the models that the core asks for."""

    fit: Fit
    table: Table = field(default_factory=Table.empty)
    learned: bool = True
    """Whether models are fitted, as the live controller does."""
    steps: int = 0
    compared: int = 0
    different: int = 0
    differences: list[Difference] = field(default_factory=list)
    memories: int = 0
    """Memories in the record that were compared with what was remembered there."""
    unlike: list[str] = field(default_factory=list)
    """Those that were not the same, in words."""
    believed: int = 0
    """Recorded decisions that were not made again: other settings were tried on their readings."""
    unknown: int = 0
    """Decisions before a workload's first memory whose beginning is not in the record: they are not made again."""
    unbegun: set[str] = field(default_factory=set)
    """Workloads whose beginning is not in the record: their first decisions rest on what is not known."""
    afresh: set[str] = field(default_factory=set)
    """Rows that began with nothing though something may have been remembered."""
    _compiled: Compiled = field(default_factory=Compiled)
    supplied: set[str] = field(default_factory=set)
    """Rows whose models are in the record."""

    def begin(self, begun: Begun | Marked, row: str | None = None) -> None:
        """Give a workload the memory that the record says it had. Raises InputError where that cannot be used."""
        table, name = self.table, row or begun.workload
        if isinstance(begun, Marked):
            self.supplied.add(name)
            _put_marked(table, name, begun)
            return
        start = begun.start
        (self.supplied.add if start.models else self.supplied.discard)(name)
        if name in table.rows:
            table.remove(name)
        number = table.put(name, Params())
        if start.checkpoint is not None:
            try:
                checkpoint.restore(table, name, start.checkpoint)
            except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
                raise InputError(f"{begun.where}: checkpoint: {type(error).__name__}: {error}") from error
        if start.fit_asked_s is not None:
            table.track(number).fit_asked_s = start.fit_asked_s

    def fitted(self, fitted: Fitted, row: str | None = None) -> None:
        """Hand over a model where the record says that the workload got it; one of an unknown workload is let go."""
        name = row or fitted.workload
        self.supplied.add(name)
        if name in self.table.rows:
            engine.install(self.table, name, fitted.model)

    def end(self, marked: Marked, row: str) -> None:
        """Compare what is remembered with what the record says, at the end of a stretch."""
        self.memories += 1
        table = self.table
        ours, number = recall.remember(table, row), table.rows[row]
        models = (table.fitted.get(number), marked.fitted), (table.track(number).coming, marked.coming)
        same = memories.plain(ours) == memories.plain(marked.memory)
        if not same or any(_packed(mine) != _packed(recorded) for mine, recorded in models):
            theirs = marked.memory.columns
            parts = sorted(name for name, kept in ours.columns.items() if theirs.get(name) != kept)
            self.unlike.append(
                f"{marked.where}: {clock(marked.now_s)} {marked.workload}: it is remembered otherwise"
                + (f" ({', '.join(parts[:MOST_PARTS])})" if parts else "")
            )

    def pass_over(self, workload: str, looks: int) -> None:
        """Note looks that cannot be decided on, because what was remembered before them is not known."""
        if looks:
            self.unknown += looks
            self.unbegun.add(workload)

    def counted(self) -> Counted:
        """What this came to."""
        return Counted(
            self.steps, self.compared, self.different, tuple(self.differences), self.memories, tuple(self.unlike),
            self.believed,
        )  # fmt: skip

    def add(self, part: Counted) -> None:
        """Add what a part that was replayed elsewhere came to."""
        self.steps += part.steps
        self.compared += part.compared
        self.different += part.different
        self.memories += part.memories
        self.believed += part.believed
        self.unlike += part.unlike
        self.differences = sorted([*self.differences, *part.differences], key=_instant)[:MOST_DIFFERENT]

    def readings(self, looked: Looked, row: str | None = None) -> Readings:
        """The readings of a look, its policy put in force. Raises InputError for a line that is not whole."""
        line, name = looked.line, row or looked.workload
        counted = line.replicas.desired is not None and line.replicas.ready is not None
        params = self.policy(line.policy_json if counted else None, looked.where)
        if name not in self.table.rows:
            self.unbegun.add(line.workload)
            self.afresh.add(name)
        before = self.params(name) if name in self.table.rows else None
        if before is not params and before != params:  # nearly always the same one, which is soon seen
            self.table.put(name, params)
        seen = line.replicas
        replicas = ReplicaReading(seen.desired or 0, seen.ready or 0, seen.starting or ())
        return Readings(float(line.now_s), replicas, line.pods, line.gateway, line.latency, line.limits)

    def policy(self, policy_json: bytes | None, where: str) -> Params:
        """The parameters that a look brings. Raises InputError for a line that is not whole."""
        if policy_json is None:
            raise InputError(f"{where}: no policy or no replicas; give lines of an audit file")
        params = self._compiled.params(policy_json)
        return params if self.learned else unfitted(params)

    def params(self, row: str) -> Params:
        """The parameters in force."""
        return self.table.track(self.table.rows[row]).params

    def step(self, turn: Sequence[tuple[Looked, Readings]]) -> None:
        """Decide again, on one look at each of some workloads, and compare."""
        self.step_rows([(looked.workload, looked, readings) for looked, readings in turn])

    def step_rows(self, turn: Sequence[tuple[str, Looked, Readings]]) -> None:
        """The same in rows by name, of which a workload may have several."""
        result = engine.step(self.table, [(row, readings) for row, _, readings in turn], self.supplied)
        self.made(result.fits)
        for (_, looked, _), decision in zip(turn, result.decisions, strict=True):
            self.conclude(looked, decision)

    def made(self, asked: Iterable[FitRequest]) -> None:
        """Have models made that were asked for; of those in the record none is."""
        for request in asked:
            engine.install(self.table, request.workload, self.fit(request))

    def believe(self, looked: Looked) -> None:
        """Take the recorded decision as it is."""
        self.steps += 1
        self.believed += looked.said is not None

    def conclude(self, looked: Looked, decision: Decision) -> None:
        """Compare a decision, of whichever row of the workload, with the recorded one."""
        self.steps += 1
        if looked.said is None:
            return
        self.compared += 1
        if decision.workload != looked.workload:
            decision = _called(decision, looked.workload)
        again = audit_line(decision)
        if again != looked.decision:
            self.different += 1
            told = Difference(looked.where, decision.now_s, decision.workload, looked.decision, again)
            # Stretches are replayed side by side: the first in time are told.
            insort(self.differences, told, key=_instant)
            del self.differences[MOST_DIFFERENT:]


def _called(decision: Decision, workload: str) -> Decision:
    """The decision of a row under its workload's name: of a week's all but a few, which `replace` is slow for."""
    d = decision
    return Decision(workload, d.now_s, d.seen_replicas, d.replicas, d.verdict, d.reason, d.trace, d.next_due_s)


def _instant(difference: Difference) -> float:
    return difference.now_s


def _put_marked(table: Table, name: str, marked: Marked) -> None:
    if name in table.rows:
        table.remove(name)
    row = table.put(name, Params())
    recall.recall(table, name, marked.memory)
    table.track(row).coming = marked.coming
    if marked.fitted is not None:
        table.fitted[row] = marked.fitted


def _packed(model: FittedModel | None) -> bytes | None:
    return None if model is None else pack_answer(model)
