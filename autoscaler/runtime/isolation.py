"""Steps a batch of the core so that a bug that one workload provokes stops that workload and no other.

Enters: the batch. Leaves: decisions of those that could be stepped, and a `Bug` for each that raised. A step that
raised may have left columns of the whole batch half done. The batch is then stepped again one by one with the same
readings, and this is what holds for the others: every stage takes a reading's differences against the one before, so
that no arrival, completion or start counts twice; stages behind the fault miss at most that one reading's interval; the
decision is made from the same readings. Where the culprit does not raise again (its differences are gone) nobody is
blamed, and for a while the batch's members are stepped alone, so that the next fault names and harms only its own.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Protocol, TypeVar

from autoscaler.core import engine
from autoscaler.core.engine import StepResult
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Readings
from autoscaler.ports import Clock

T = TypeVar("T")

Pair = tuple[str, Readings]

SUSPECT_S = 60.0
"""How long the members of a batch that raised are stepped alone: a dozen default ticks."""


@dataclass(frozen=True, slots=True)
class Bug:
    """An exception that no contract allows for, as a value."""

    message: str
    """Its type, what it said and where it was raised."""

    @classmethod
    def of(cls, error: Exception) -> "Bug":
        """The bug behind an exception."""
        frames = extract_tb(error.__traceback__)
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name})" if frames else ""
        return cls(f"{type(error).__name__}: {error}{where}")


class Shield(Protocol):
    """Turns any exception into a `Bug`; the supervisor has the only one."""

    def run(self, work: Callable[[], T]) -> T | Bug:
        """What `work` returns, or the bug it raised."""
        ...

    async def wait(self, work: Awaitable[T]) -> T | Bug:
        """What `work` comes to, or the bug it raised; a cancellation passes."""
        ...


@dataclass(slots=True)
class BatchResult:
    """What came of a batch, by workload; one that is in neither map cannot be."""

    decisions: dict[str, Decision] = field(default_factory=dict)
    fits: list[FitRequest] = field(default_factory=list)
    bugs: dict[str, Bug] = field(default_factory=dict)
    unclaimed: Bug | None = None
    """A bug that the batch raised together and no member raised alone."""

    def add(self, result: StepResult) -> None:
        """Take what a step returned."""
        self.decisions |= {decision.workload: decision for decision in result.decisions}
        self.fits += result.fits


class Isolation:
    """Steps batches of one table."""

    def __init__(self, table: Table, shield: Shield, clock: Clock) -> None:
        self._table = table
        self._shield = shield
        self._clock = clock
        self._suspects: dict[str, float] = {}

    def step(self, batch: Sequence[Pair]) -> BatchResult:
        """Step every member of the batch that can be stepped."""
        stepped = BatchResult()
        alone, together = self._divide(batch)
        if together:
            result = self._shield.run(partial(engine.step, self._table, together))
            if not isinstance(result, Bug):
                stepped.add(result)
            elif len(together) == 1:
                stepped.bugs[together[0][0]] = result
            else:
                until_s = self._clock.monotonic() + SUSPECT_S
                self._suspects |= {name: until_s for name, _ in together}
                stepped.unclaimed = result
                alone = [*together, *alone]
        for pair in alone:
            result = self._shield.run(partial(engine.step, self._table, [pair]))
            if isinstance(result, Bug):
                stepped.bugs[pair[0]] = result
            else:
                stepped.add(result)
        if any(name in stepped.bugs for name, _ in together):
            stepped.unclaimed = None
        return stepped

    def _divide(self, batch: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
        """Those under suspicion, and the others."""
        if not self._suspects:
            return [], list(batch)
        now_s = self._clock.monotonic()
        self._suspects = {name: until_s for name, until_s in self._suspects.items() if until_s > now_s}
        alone = [pair for pair in batch if pair[0] in self._suspects]
        return alone, [pair for pair in batch if pair[0] not in self._suspects]
