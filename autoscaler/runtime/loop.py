"""Steps a workload when a reading contradicts its last decision, at most every 200 ms, and otherwise when it is due.

Enters: targets, changes from the watch, readings from the gatherer. Leaves: decisions, handed to the recorder and,
where they change a count, to the actuator. Workloads that have their readings at the same moment are one batch of the
core; one that waits for its sources delays no other, and one that raises stops no other. A crowd is taken in slices.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Verdict
from autoscaler.core.view import view
from autoscaler.ports import Clock, PortError, Watch
from autoscaler.runtime.acts import Acts, track
from autoscaler.runtime.actuator import Actuator
from autoscaler.runtime.agenda import EARLY_S, Agenda
from autoscaler.runtime.budgets import Shares
from autoscaler.runtime.clock import breathe
from autoscaler.runtime.gather import Gathered, Gatherer, Known
from autoscaler.runtime.isolation import Bug, Isolation, Shield
from autoscaler.runtime.lanes import CROWD, MIN_GAP_S, NEVER_S, Lane, on_grid_s
from autoscaler.runtime.records import Event, Recorder, Stepped
from autoscaler.runtime.target import Target
from autoscaler.runtime.triggers import Assumed, Cause, contradiction

SLICE = 16
"""Most looks begun, and most workloads stepped, in one turn of the event loop. Between turns scrapes, watches and
answers have theirs. Of 16 a turn takes some 7 ms; of a thousand it took 160 (`loadtests/bench/loop_lag.py`)."""

QUARANTINE_S = 60.0
"""A workload that raised is left alone for this long: its bug is likely to be there still, and notes are to be read."""

WATCH_RETRY_S = 1.0
"""Between two attempts to watch; meanwhile workloads are stepped when due."""


@dataclass(frozen=True, slots=True)
class _Arrival:
    lane: Lane
    gathered: Gathered
    cause: Cause


class Loop:
    """Owns the lanes; its `watch`, `schedule` and `step` run as tasks of one group until cancelled."""

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
            actuator=actuator, recorder=recorder, shield=shield, shares=shares, clock=clock, wake=self.wake
        )
        self._clock = clock
        self._gatherer = gatherer
        self._actuator = actuator
        self._recorder = recorder
        self._shield = shield
        self._shares = shares
        self._isolation = Isolation(table, shield, clock)
        self._restore = restore
        self._ask_fit = ask_fit
        self._agenda = Agenda()
        self._lanes: dict[str, Lane] = {}
        self._arrived: dict[str, _Arrival] = {}
        self._arrival = asyncio.Event()

    def put(self, target: Target) -> None:
        """Add a workload, or change its policy, limits or mode; either way it is stepped at once."""
        self.table.put(target.name, target.params)
        lane = self._lanes.get(target.name)
        if lane is None:
            now_s = self._clock.monotonic()
            self._lanes[target.name] = Lane(target, due_s=now_s)
            self._agenda.plan(target.name, now_s)
        else:
            edited = lane.target != target
            lane.target = target  # words of a limit may differ where nothing else does
            if edited:
                self.wake(target.name, Cause.EDITED)

    def remove(self, name: str) -> None:
        """Forget a workload. A patch on its way is finished. Raises KeyError for an unknown name."""
        del self._lanes[name]
        self._agenda.drop(name)
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

    async def step(self, group: asyncio.TaskGroup) -> None:
        """Step the core with whatever has arrived since its last step."""
        while True:
            await self._arrival.wait()
            self._arrival.clear()
            arrived, self._arrived = list(self._arrived.values()), {}
            for start in range(0, len(arrived), SLICE):
                if start:
                    await breathe(self._clock)
                self._step(arrived[start : start + SLICE], group)

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
            self._quarantine(lane, gathered)
            return
        self._note_faults(lane, gathered)
        if reads_back and gathered.target_readable:
            self._actuator.read_back(target.name)
        if not reads_back:
            self._note_edit(lane, gathered)
        cause = self._cause(lane, gathered, forced)
        if cause is not None:
            self._arrive(_Arrival(lane, gathered, cause))
        elif gathered.readings is None:
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

    def _arrive(self, arrival: _Arrival) -> None:
        """Have a workload stepped; newer readings take the place of those that still wait, and step for their cause."""
        name = arrival.lane.target.name
        waiting = self._arrived.get(name)
        if waiting is not None and waiting.lane is arrival.lane:
            arrival = replace(arrival, cause=waiting.cause)
        self._arrived[name] = arrival
        self._arrival.set()

    def _step(self, arrived: list[_Arrival], group: asyncio.TaskGroup) -> None:
        now_s = self._clock.monotonic()
        # A workload removed since its look has no row any more; one that raised since then is left alone.
        batch = {
            name: a
            for a in arrived
            if self._lanes.get(name := a.lane.target.name) is a.lane and a.lane.broken_until_s <= now_s
        }
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
            self._quarantine(batch[name].lane, bug)
        if result.unclaimed is not None:
            self._recorder.note(Event.BROKEN, f"{result.unclaimed.message}; a batch of {len(pairs)}, none of it alone")

    def _conclude(self, arrival: _Arrival, decision: Decision, group: asyncio.TaskGroup) -> None:
        """Record a decision, plan the workload's next look, and act if something is to be done."""
        lane, readings = arrival.lane, arrival.gathered.readings
        seen = view(self.table, decision.workload)
        assert readings is not None
        assert seen is not None
        stepped = Stepped(decision, readings, seen, arrival.cause, lane.target.params)
        self._recorder.put(stepped)
        self._shares.stepped(stepped)
        lane.assumed = Assumed(decision, readings)
        lane.known = Known(readings.now_s, readings.replicas)
        lane.due_s = self._due_s(lane, decision)
        lane.frozen = False
        self._agenda.plan(decision.workload, lane.due_s)
        if decision.verdict is Verdict.SCALE:
            self.acts.begin(lane, decision, readable=arrival.gathered.target_readable, group=group)

    def _due_s(self, lane: Lane, decision: Decision) -> float:
        now_s, tick_s = self._clock.monotonic(), lane.target.params.tick_s
        if len(self._lanes) >= CROWD:
            return on_grid_s(decision.workload, now_s, tick_s)
        return now_s + min(max(decision.next_due_s - self._clock.now(), MIN_GAP_S), tick_s)

    def _quarantine(self, lane: Lane, bug: Bug) -> None:
        """Forget what the core knew of a workload that raised, and leave it alone for a while."""
        name, now_s = lane.target.name, self._clock.monotonic()
        self.table.remove(name)
        self.table.put(name, lane.target.params)
        lane.known, lane.assumed = Known(), None
        lane.due_s = lane.broken_until_s = now_s + QUARANTINE_S
        self._agenda.drop(name)
        self._agenda.plan(name, lane.due_s)
        self._recorder.note(Event.BROKEN, f"{bug.message}; started afresh, tried again in {QUARANTINE_S:g} s", name)

    def _note_edit(self, lane: Lane, gathered: Gathered) -> None:
        """Note a count that is neither the one last seen nor one that was decided: somebody else's."""
        before, assumed, readings = lane.known.replicas, lane.assumed, gathered.readings
        if before is None or assumed is None or readings is None or not gathered.target_readable:
            return
        after = readings.replicas.desired
        if after in {before.desired, assumed.decision.replicas, lane.ordered}:
            return
        last = before.desired
        if lane.applied is not None and lane.applied[0] == last:
            last = lane.applied[1]  # nobody has looked since our own patch, which is what was edited
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
