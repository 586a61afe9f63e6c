"""The recorded inputs through the same core again, and where its decisions differ from the recorded ones.

Enters: entries of a recording. Leaves: decisions, each compared with the recorded line byte for byte. A difference
without other settings is a fault, of the record or of this build: it is named, with what the record lacks before it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.core import engine, state
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.params import Feature, Params
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Readings, ReplicaReading
from autoscaler.errors import InputError
from autoscaler.hindsight.overlay import Compiled
from autoscaler.hindsight.recording import Begun, Fitted, Looked
from autoscaler.record.audit import audit_line

Fit = Callable[[FitRequest], FittedModel]

MOST_DIFFERENT: Final = 10
"""Differences told in full."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that came out otherwise."""

    where: str
    now_s: float
    workload: str
    recorded: bytes
    again: bytes


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
    unbegun: set[str] = field(default_factory=set)
    """Workloads whose beginning is not in the record: their first decisions rest on what is not known."""
    _compiled: Compiled = field(default_factory=Compiled)
    _supplied: set[str] = field(default_factory=set)
    """Workloads whose models are in the record."""

    def begin(self, begun: Begun) -> None:
        """Give a workload the memory that the record says it had. Raises InputError where that cannot be used."""
        start, table = begun.start, self.table
        (self._supplied.add if start.models else self._supplied.discard)(start.workload)
        if start.workload in table.rows:
            table.remove(start.workload)
        row = table.put(start.workload, Params())
        if start.checkpoint is not None:
            try:
                state.restore(table, start.workload, start.checkpoint)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise InputError(f"{begun.where}: checkpoint: {type(error).__name__}: {error}") from error
        if start.fit_asked_s is not None:
            table.track(row).fit_asked_s = start.fit_asked_s

    def fitted(self, fitted: Fitted) -> None:
        """Hand over a model where the record says that the workload got it; one of an unknown workload is let go."""
        self._supplied.add(fitted.workload)
        if fitted.workload in self.table.rows:
            engine.install(self.table, fitted.workload, fitted.model)

    def readings(self, looked: Looked) -> Readings:
        """The readings of a look, its policy put in force. Raises InputError for a line that is not whole."""
        line = looked.line
        if line.policy_json is None or line.replicas.desired is None or line.replicas.ready is None:
            raise InputError(f"{looked.where}: no policy or no replicas; give lines of an audit file")
        params = self._compiled.params(line.policy_json)
        if not self.learned:
            params = unfitted(params)
        if line.workload not in self.table.rows:
            self.unbegun.add(line.workload)
        if line.workload not in self.table.rows or self.params(line.workload) != params:
            self.table.put(line.workload, params)
        replicas = ReplicaReading(line.replicas.desired, line.replicas.ready, line.replicas.starting or ())
        return Readings(float(line.now_s), replicas, line.pods, line.gateway, line.latency, line.limits)

    def params(self, workload: str) -> Params:
        """The parameters in force."""
        return self.table.track(self.table.rows[workload]).params

    def step(self, turn: Sequence[tuple[Looked, Readings]]) -> None:
        """Decide again, on one look at each of some workloads, and compare."""
        result = engine.step(self.table, [(looked.workload, readings) for looked, readings in turn])
        self.made(result.fits)
        for (looked, _), decision in zip(turn, result.decisions, strict=True):
            self.conclude(looked, decision)

    def made(self, asked: Iterable[FitRequest]) -> None:
        """Have models made that were asked for and are not in the record."""
        for request in asked:
            if request.workload not in self._supplied:
                engine.install(self.table, request.workload, self.fit(request))

    def conclude(self, looked: Looked, decision: Decision) -> None:
        """Compare a decision with the recorded one."""
        self.steps += 1
        if looked.said is None:
            return
        self.compared += 1
        again = audit_line(decision)
        if again != looked.decision:
            self.different += 1
            if len(self.differences) < MOST_DIFFERENT:
                self.differences.append(
                    Difference(looked.where, decision.now_s, decision.workload, looked.decision, again)
                )
