"""Shadow mode in the live controller: steps of workloads that are watched and not acted upon, and estimates.

Enters: what the driver recorded and in which mode. Leaves: running estimates, kept in the cluster every minute, so that
a restart or a hand-over loses a minute of them. While Headroom acts on a workload its sums rest: there is nothing to
compare with.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog

from autoscaler.api.modes import Mode
from autoscaler.app.guard import Guard
from autoscaler.app.stores import KEEP_EVERY_S, Saver
from autoscaler.core import engine
from autoscaler.core.state import Table
from autoscaler.hindsight.ledger import Ledger
from autoscaler.hindsight.shadow import Look, Shadow
from autoscaler.ports import Clock, PortError, StateStore
from autoscaler.record.estimate import Estimate
from autoscaler.runtime.records import Stepped

WATCHED: Final = frozenset({Mode.SHADOW, Mode.PAUSED})
"""Modes in which somebody else has the replicas."""

LOG: Final = structlog.get_logger("headroom")


@dataclass(frozen=True, slots=True)
class Watched:
    """A step, the mode it was made in, and the GPUs of a replica, None where that is not known."""

    step: Stepped
    mode: Mode
    gpus_per_replica: int | None


class Shadowing:
    """Estimates of what would have been saved. `table` is the driver's own; it is read, never written."""

    def __init__(
        self, *, table: Table, store: StateStore, clock: Clock, leading: Callable[[], bool], guard: Guard
    ) -> None:
        self._table = table
        self._shadow = Shadow(Table.empty())
        self._store = store
        self._clock = clock
        self._leading = leading
        self._guard = guard
        self._saver = Saver(store, "estimates of shadow mode not kept")

    def take(self, steps: Iterable[Watched]) -> None:
        """Count steps in their order; each workload's first ones together, then its second ones, and so on."""
        waiting = list(steps)
        while waiting:
            turn: dict[str, Watched] = {}
            later: list[Watched] = []
            for each in waiting:
                name = each.step.decision.workload
                if name in turn:
                    later.append(each)
                else:
                    turn[name] = each
            self._turn(turn)
            waiting = later

    def estimate(self, workload: str) -> Estimate | None:
        """What can be said of a workload now; None while somebody acts on it for us."""
        return self._shadow.estimate(workload)

    def told(self, workload: str) -> Estimate | None:
        """The same without its hours, which nobody reads eight times a second."""
        estimate = self._shadow.estimate(workload)
        return None if estimate is None else replace(estimate, hours=())

    def forget(self, workload: str) -> None:
        """Drop a workload that is no longer scaled."""
        self._shadow.forget(workload)

    async def run(self) -> None:
        """Keep every minute, until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + KEEP_EVERY_S)
            if self._leading():
                await self.keep()

    async def keep(self) -> None:
        """Save the sums of what is still scaled, as far as the store lets this replica."""
        ledgers = self._shadow.ledgers().items()
        await self._saver.save({name: sums.pack() for name, sums in ledgers if name in self._table.rows})

    async def restore(self) -> None:
        """Take up what was kept. Call it before the first step."""
        try:
            saved: Mapping[str, Any] = await self._store.load()
        except PortError as error:
            LOG.warning("estimates of shadow mode not restored", why=str(error))
            return
        for name, packed in saved.items():
            try:
                self._shadow.resume(name, Ledger.unpack(packed))
            except ValueError as error:
                LOG.warning("an estimate of shadow mode not restored", workload=name, why=str(error))

    def _turn(self, turn: Mapping[str, Watched]) -> None:
        looks: list[Look] = []
        for name, each in turn.items():
            if each.mode not in WATCHED:
                self._shadow.rest(name)
            elif name in self._table.rows:
                looks.append(Look(name, each.step.readings, each.step.params, each.gpus_per_replica))
        self._decide(looks)

    def _decide(self, looks: Sequence[Look]) -> None:
        """All at once; where that raises, each by itself, so that the bug of one is its own."""
        if not looks or self._guard.run("shadow mode", partial(self._all, looks)) or len(looks) == 1:
            return
        for look in looks:
            if not self._guard.run(look.workload, partial(self._all, [look])):
                self._shadow.rest(look.workload)

    def _all(self, looks: Sequence[Look]) -> None:
        batch = self._shadow.before(self._table, looks)
        if batch:
            self._shadow.after(engine.advance(self._shadow.twins, batch).counts)
