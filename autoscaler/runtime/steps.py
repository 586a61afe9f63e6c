"""Steps the core with the readings that have arrived, and sees to what a decision needs: a record, a date, an act.

Enters: arrivals. Leaves: decisions, handed to the recorder, the budgets and, where they change a count, to the acts.
Workloads that have their readings at the same moment are one batch of the core, a crowd is several with turns of the
event loop between them. One that raises is started afresh and left alone for a while.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Verdict
from autoscaler.core.view import view
from autoscaler.ports import Clock
from autoscaler.runtime.acts import Acts
from autoscaler.runtime.agenda import Agenda
from autoscaler.runtime.budgets import Shares
from autoscaler.runtime.clock import breathe
from autoscaler.runtime.gather import Gathered, Known
from autoscaler.runtime.isolation import Bug, Isolation, Shield
from autoscaler.runtime.lanes import CROWD, MIN_GAP_S, SLICE, Lane, memory_slot, on_grid_s
from autoscaler.runtime.records import Event, Recorder, Stepped
from autoscaler.runtime.triggers import Assumed, Cause

QUARANTINE_S = 60.0
"""A workload that raised is left alone for this long: its bug is likely to be there still, and notes are to be read."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Readings of a workload, and why it is stepped with them."""

    lane: Lane
    gathered: Gathered
    cause: Cause


class Steps:
    """Holds what has arrived; `run` is a task. `lanes` are the workloads there are now."""

    def __init__(
        self,
        *,
        table: Table,
        lanes: Mapping[str, Lane],
        agenda: Agenda,
        clock: Clock,
        recorder: Recorder,
        shield: Shield,
        shares: Shares,
        acts: Acts,
        ask_fit: Callable[[FitRequest], None],
    ) -> None:
        self._table = table
        self._lanes = lanes
        self._agenda = agenda
        self._clock = clock
        self._recorder = recorder
        self._shield = shield
        self._isolation = Isolation(table, shield, clock)
        self._shares = shares
        self._acts = acts
        self._ask_fit = ask_fit
        self._arrived: dict[str, Arrival] = {}
        self._arrival = asyncio.Event()

    def arrive(self, arrival: Arrival) -> None:
        """Have a workload stepped; newer readings take the place of those that still wait, and step for their cause."""
        name = arrival.lane.target.name
        waiting = self._arrived.get(name)
        if waiting is not None and waiting.lane is arrival.lane:
            arrival = replace(arrival, cause=waiting.cause)
        self._arrived[name] = arrival
        self._arrival.set()

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Step the core with whatever has arrived since its last step."""
        while True:
            await self._arrival.wait()
            self._arrival.clear()
            arrived, self._arrived = list(self._arrived.values()), {}
            for start in range(0, len(arrived), SLICE):
                if start:
                    await breathe(self._clock)
                self._step(arrived[start : start + SLICE], group)

    def quarantine(self, lane: Lane, bug: Bug) -> None:
        """Forget what the core knew of a workload that raised, and leave it alone for a while."""
        name, now_s = lane.target.name, self._clock.monotonic()
        self._table.remove(name)
        row = self._table.put(name, lane.target.in_force)
        self._recorder.started(name, None, self._table.track(row).fit_asked_s)
        lane.known, lane.assumed = Known(), None
        lane.due_s = lane.broken_until_s = now_s + QUARANTINE_S
        self._agenda.drop(name)
        self._agenda.plan(name, lane.due_s)
        self._recorder.note(Event.BROKEN, f"{bug.message}; started afresh, tried again in {QUARANTINE_S:g} s", name)

    def _step(self, arrived: list[Arrival], group: asyncio.TaskGroup) -> None:
        now_s = self._clock.monotonic()
        # A workload removed since its look has no row any more; one that raised since then is left alone for a while.
        there = {name: a for a in arrived if self._lanes.get(name := a.lane.target.name) is a.lane}
        batch = {name: a for name, a in there.items() if a.lane.broken_until_s <= now_s}
        for name in there.keys() - batch.keys():
            self._agenda.plan(name, there[name].lane.broken_until_s)
        pairs = [(name, a.gathered.readings) for name, a in batch.items() if a.gathered.readings is not None]
        result = self._isolation.step(pairs)
        for request in result.fits:
            self._ask_fit(request)
        bugs = dict(result.bugs)
        for name, decision in result.decisions.items():
            concluded = self._shield.run(partial(self._conclude, batch[name], decision, group))
            if isinstance(concluded, Bug):
                bugs[name] = concluded
        for name, bug in bugs.items():
            self.quarantine(batch[name].lane, bug)
        if result.unclaimed is not None:
            self._recorder.note(Event.BROKEN, f"{result.unclaimed.message}; a batch of {len(pairs)}, none of it alone")

    def _conclude(self, arrival: Arrival, decision: Decision, group: asyncio.TaskGroup) -> None:
        """Record a decision, plan the workload's next look, and act if something is to be done."""
        lane, readings = arrival.lane, arrival.gathered.readings
        seen = view(self._table, decision.workload)
        assert readings is not None
        assert seen is not None
        stepped = Stepped(decision, readings, seen, arrival.cause, lane.target.in_force)
        self._recorder.put(stepped)
        self._remember(lane, decision)
        self._shares.stepped(stepped)
        lane.assumed = Assumed(decision, readings)
        lane.known = Known(readings.now_s, readings.replicas)
        lane.due_s = self._due_s(lane, decision)
        lane.frozen = False
        self._agenda.plan(decision.workload, lane.due_s)
        if decision.verdict is Verdict.SCALE:
            self._acts.begin(lane, decision, readable=arrival.gathered.target_readable, group=group)
        else:
            lane.refusals = 0

    def _remember(self, lane: Lane, decision: Decision) -> None:
        """Record now and then all that the core remembers; where that fails it is noted, and the decision stands."""
        slot = memory_slot(decision.workload, decision.now_s)
        over, lane.memory_slot = lane.memory_slot not in {None, slot}, slot
        if not over:
            return
        bug = self._shield.run(partial(self._recorder.remembered, self._table, decision))
        if isinstance(bug, Bug):
            self._recorder.note(Event.BROKEN, f"{bug.message}; its memory is not in the audit", decision.workload)

    def _due_s(self, lane: Lane, decision: Decision) -> float:
        now_s, tick_s = self._clock.monotonic(), lane.target.params.tick_s
        if len(self._lanes) >= CROWD:
            return on_grid_s(decision.workload, now_s, tick_s)
        return now_s + min(max(decision.next_due_s - self._clock.now(), MIN_GAP_S), tick_s)
