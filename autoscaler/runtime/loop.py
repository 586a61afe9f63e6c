"""Looks at a workload when something about it is new, at most every 200 ms, and otherwise when it is due.

Enters: targets, changes from the watch, readings from the gatherer. Leaves: readings that a step is due for, because
they contradict what the last decision assumed or because its time has come. A workload that waits for its sources
delays no other, and one that raises stops no other. A crowd is looked at in slices.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.state import Table
from autoscaler.ports import Clock, PortError, Watch
from autoscaler.runtime.acts import Acts, track
from autoscaler.runtime.actuator import Actuator
from autoscaler.runtime.agenda import EARLY_S, Agenda
from autoscaler.runtime.budgets import Shares
from autoscaler.runtime.clock import breathe
from autoscaler.runtime.gather import Gathered, Gatherer
from autoscaler.runtime.isolation import Bug, Shield
from autoscaler.runtime.lanes import NEVER_S, SLICE, Lane
from autoscaler.runtime.records import Event, Recorder
from autoscaler.runtime.steps import Arrival, Steps
from autoscaler.runtime.target import Target
from autoscaler.runtime.triggers import Cause, contradiction

WATCH_RETRY_S = 1.0
"""Between two attempts to watch; meanwhile workloads are stepped when due."""


class Loop:
    """Owns the lanes; its `watch` and `schedule`, and its `steps`, run as tasks of one group until cancelled."""

    def __init__(
        self,
        *,
        table: Table,
        clock: Clock,
        gatherer: Gatherer,
        actuator: Actuator,
        recorder: Recorder,
        shield: Shield,
        shares: Shares,
        restore: Callable[[str], None],
        ask_fit: Callable[[FitRequest], None],
    ) -> None:
        self.table = table
        self.looking: set[asyncio.Task[None]] = set()
        """Looks on their way, for whoever stops them."""
        self.acts = Acts(
            actuator=actuator,
            recorder=recorder,
            shield=shield,
            shares=shares,
            clock=clock,
            is_there=lambda name: name in self._lanes,
            wake=self.wake,
            again=self._again,
        )
        self.blind_s = NEVER_S
        """When a look ended last with nothing to decide on: its target could not be read, and never was."""
        self.read_s = NEVER_S
        """When a look ended last that a decision may follow."""
        self._agenda = Agenda()
        self._lanes: dict[str, Lane] = {}
        self.steps = Steps(
            table=table,
            lanes=self._lanes,
            agenda=self._agenda,
            clock=clock,
            recorder=recorder,
            shield=shield,
            shares=shares,
            acts=self.acts,
            ask_fit=ask_fit,
        )
        self._clock = clock
        self._gatherer = gatherer
        self._actuator = actuator
        self._recorder = recorder
        self._shield = shield
        self._restore = restore

    def put(self, target: Target) -> None:
        """Add a workload, or change its policy, limits or mode; either way it is stepped at once.

        The seconds a start is reckoned to take contradict no decision: its next step goes by them.
        """
        self.table.put(target.name, target.in_force)
        lane = self._lanes.get(target.name)
        if lane is None:
            now_s = self._clock.monotonic()
            self._lanes[target.name] = Lane(target, due_s=now_s)
            self._agenda.plan(target.name, now_s)
        else:
            edited = lane.target != replace(target, prior_s=lane.target.prior_s)
            lane.target = target  # words of a limit may differ where nothing else does
            if edited:
                self.wake(target.name, Cause.EDITED)

    def remove(self, name: str) -> None:
        """Forget a workload. A patch on its way is finished. Raises KeyError for an unknown name."""
        del self._lanes[name]
        self._agenda.drop(name)
        self._actuator.forget(name)
        self.table.remove(name)

    def wake(self, name: str, cause: Cause | None = None) -> None:
        """Look at a workload as soon as the gap allows; step it if its readings say so, or for `cause` in any case."""
        lane = self._lanes.get(name)
        if lane is None:
            return
        lane.forced = lane.forced or cause
        if lane.looking:
            lane.again = True
        else:
            self._agenda.plan(name, lane.earliest_s(self._clock.monotonic()))

    def thaw(self) -> None:
        """Step those whose last decision was not acted upon because everything was frozen."""
        for lane in self._lanes.values():
            if lane.frozen:
                lane.frozen = False
                self.wake(lane.target.name, Cause.UNFROZEN)

    async def watch(self, watch: Watch) -> None:
        """Wake workloads as changes are pushed; a broken stream is noted and opened again."""
        while True:
            try:
                async for name in watch.changes():
                    self.wake(name)
            except PortError as error:
                self._recorder.note(Event.WATCH_BROKEN, str(error))
            await self._clock.sleep_until(self._clock.monotonic() + WATCH_RETRY_S)

    def _again(self, lane: Lane, at_s: float) -> None:
        """Have a workload be due by an instant, unless it is sooner, or there no more; not while it is left alone."""
        at_s = max(at_s, lane.broken_until_s)
        if self._lanes.get(lane.target.name) is lane and at_s < lane.due_s:
            lane.due_s = at_s
            if not lane.looking:
                self._agenda.plan(lane.target.name, at_s)

    async def schedule(self, group: asyncio.TaskGroup) -> None:
        """Start a look at every workload whose instant has come."""
        while True:
            now_s = self._clock.monotonic()
            names = self._agenda.take(now_s, SLICE)
            for name in names:
                self._begin(self._lanes[name], now_s, group)
            if len(names) == SLICE:
                await breathe(self._clock)
                continue
            self._agenda.bell.clear()
            await self._clock.sleep_until(self._agenda.next_s(now_s), self._agenda.bell)

    def _begin(self, lane: Lane, now_s: float, group: asyncio.TaskGroup) -> None:
        name = lane.target.name
        if lane.looked_s == NEVER_S:
            self._restore(name)
        lane.looking, lane.again, lane.looked_s = True, False, now_s
        # What comes up while the readings are gathered needs readings of its own.
        forced, lane.forced = lane.forced, None
        track(self.looking, group.create_task(self._look(lane, forced), name=f"look {name}"))

    async def _look(self, lane: Lane, forced: Cause | None) -> None:
        target = lane.target
        reads_back = self._actuator.unknown(target.name)
        gathered = await self._shield.wait(self._gatherer.look(target, lane.known))
        if self._lanes.get(target.name) is not lane:
            return
        lane.looking = False
        if isinstance(gathered, Bug):
            self.steps.quarantine(lane, gathered)
            return
        self._note_faults(lane, gathered)
        if reads_back and gathered.target_readable:
            self._actuator.read_back(target.name)
        if not reads_back and not target.told:  # what KEDA is told it sets in its own time, and as far as it may
            self._note_edit(lane, gathered)
        if gathered.readings is not None:
            self.read_s = self._clock.monotonic()
        cause = self._cause(lane, gathered, forced)
        if cause is not None:
            self.steps.arrive(Arrival(lane, gathered, cause))
        elif gathered.readings is None:
            self.blind_s = self._clock.monotonic()
            self._agenda.plan(target.name, self._clock.monotonic() + target.params.tick_s)
        else:
            self._agenda.plan(target.name, lane.due_s)
        if lane.again:
            self.wake(target.name)

    def _cause(self, lane: Lane, gathered: Gathered, forced: Cause | None) -> Cause | None:
        if gathered.readings is None:
            lane.forced = lane.forced or forced
            return None
        if forced is not None:
            return forced
        if lane.assumed is None or self._clock.monotonic() >= lane.due_s - EARLY_S:
            return Cause.DUE
        return contradiction(lane.assumed, gathered.readings)

    def _note_edit(self, lane: Lane, gathered: Gathered) -> None:
        """Note a count that is neither the one last seen nor one that was decided: somebody else's."""
        before, assumed, readings = lane.known.replicas, lane.assumed, gathered.readings
        if before is None or assumed is None or readings is None or not gathered.target_readable:
            return
        last, after = before.desired, readings.replicas.desired
        if lane.applied is not None and lane.looked_s >= lane.applied[0]:
            # The first look since our own patch: what was patched is what may have been edited, or put back.
            last, lane.applied = lane.applied[1], None
        if after in {last, assumed.decision.replicas, lane.ordered}:
            return
        if lane.edits.note(self._clock.monotonic(), last, after):
            message = f"somebody else set {last}→{after}; not worked against for {lane.edits.hold_s:g} s"
            self._recorder.note(Event.COUNT_EDITED, message, lane.target.name)

    def _note_faults(self, lane: Lane, gathered: Gathered) -> None:
        """Note a source once when it is lost and once when it is back."""
        now = {m.source: m.fault for m in gathered.missing}
        for missing in gathered.missing:
            if missing.source not in lane.faults:
                message = f"{missing.source} {missing.fault.value}: {missing.message}"
                self._recorder.note(Event.SOURCE_LOST, message, lane.target.name)
        for source in sorted(lane.faults.keys() - now.keys()):
            self._recorder.note(Event.SOURCE_BACK, source, lane.target.name)
        lane.faults = now
