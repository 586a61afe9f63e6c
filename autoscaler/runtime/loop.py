"""Steps a workload when a reading contradicts its last decision, at most every 200 ms, and otherwise when it is due.

Enters: targets, changes from the watch, readings from the gatherer. Leaves: decisions, handed to the recorder and,
where they change a count, to the actuator. Workloads that have their readings at the same moment are one batch of the
core; one that waits for its sources delays no other.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.core import engine
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Verdict
from autoscaler.core.view import view
from autoscaler.ports import Clock, Fault, PortError, Watch
from autoscaler.runtime.actuator import Actuator, Outcome
from autoscaler.runtime.agenda import EARLY_S, Agenda
from autoscaler.runtime.gather import Gathered, Gatherer, Known
from autoscaler.runtime.records import Event, Recorder, Stepped
from autoscaler.runtime.target import Target
from autoscaler.runtime.triggers import Assumed, Cause, contradiction

MIN_GAP_S = 0.2
"""Between two looks at one workload, so that a storm of events costs at most five steps a second."""

WATCH_RETRY_S = 1.0
"""Between two attempts to watch; meanwhile workloads are stepped when due."""


@dataclass(slots=True)
class _Lane:
    """One workload's place in the loop. Instants are on the clock's monotonic time."""

    target: Target
    due_s: float
    looked_s: float = float("-inf")
    looking: bool = False
    again: bool = False
    """A change came while its readings were being gathered."""
    held_back: bool = False
    """A decision was not acted upon because a patch was on its way."""
    forced: Cause | None = None
    known: Known = field(default_factory=Known)
    assumed: Assumed | None = None
    faults: dict[str, Fault] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Arrival:
    lane: _Lane
    gathered: Gathered
    cause: Cause


class Loop:
    """Owns the table and the lanes; its `watch`, `schedule` and `step` run as tasks of one group until cancelled."""

    def __init__(
        self,
        *,
        table: Table,
        clock: Clock,
        gatherer: Gatherer,
        actuator: Actuator,
        recorder: Recorder,
        ask_fit: Callable[[FitRequest], None],
    ) -> None:
        self.table = table
        self.looking: set[asyncio.Task[None]] = set()
        self.acting: set[asyncio.Task[None]] = set()
        """Looks and patches on their way, for whoever stops them."""
        self._clock = clock
        self._gatherer = gatherer
        self._actuator = actuator
        self._recorder = recorder
        self._ask_fit = ask_fit
        self._agenda = Agenda()
        self._lanes: dict[str, _Lane] = {}
        self._arrived: list[_Arrival] = []
        self._arrival = asyncio.Event()

    def put(self, target: Target) -> None:
        """Add a workload, or change its policy, limits or mode; either way it is stepped at once."""
        self.table.put(target.name, target.params)
        lane = self._lanes.get(target.name)
        if lane is None:
            now_s = self._clock.monotonic()
            self._lanes[target.name] = _Lane(target, due_s=now_s)
            self._agenda.plan(target.name, now_s)
        elif lane.target != target:
            lane.target = target
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
            self._agenda.plan(name, max(self._clock.monotonic(), lane.looked_s + MIN_GAP_S))

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
            for name in self._agenda.take(now_s):
                lane = self._lanes[name]
                lane.looking, lane.again, lane.looked_s = True, False, now_s
                # What comes up while the readings are gathered needs readings of its own.
                forced, lane.forced = lane.forced, None
                _track(self.looking, group.create_task(self._look(lane, forced), name=f"look {name}"))
            self._agenda.bell.clear()
            await self._clock.sleep_until(self._agenda.next_s(now_s), self._agenda.bell)

    async def step(self, group: asyncio.TaskGroup) -> None:
        """Step the core with whatever has arrived since its last step."""
        while True:
            await self._arrival.wait()
            self._arrival.clear()
            # A workload removed since its look has no row any more.
            batch = [a for a in self._arrived if self._lanes.get(a.lane.target.name) is a.lane]
            self._arrived = []
            self._step(batch, group)

    async def _look(self, lane: _Lane, forced: Cause | None) -> None:
        target = lane.target
        reads_back = self._actuator.unknown(target.name)
        gathered = await self._gatherer.look(target, lane.known)
        if self._lanes.get(target.name) is not lane:
            return
        lane.looking = False
        self._note_faults(lane, gathered)
        if reads_back and gathered.target_readable:
            self._actuator.read_back(target.name)
        cause = self._cause(lane, gathered, forced)
        if cause is not None:
            self._arrived.append(_Arrival(lane, gathered, cause))
            self._arrival.set()
        elif gathered.readings is None:
            self._agenda.plan(target.name, self._clock.monotonic() + target.params.tick_s)
        else:
            self._agenda.plan(target.name, lane.due_s)
        if lane.again:
            self.wake(target.name)

    def _cause(self, lane: _Lane, gathered: Gathered, forced: Cause | None) -> Cause | None:
        if gathered.readings is None:
            lane.forced = lane.forced or forced
            return None
        if forced is not None:
            return forced
        if lane.assumed is None or self._clock.monotonic() >= lane.due_s - EARLY_S:
            return Cause.DUE
        return contradiction(lane.assumed, gathered.readings)

    def _step(self, batch: list[_Arrival], group: asyncio.TaskGroup) -> None:
        pairs = [(a.lane.target.name, a.gathered.readings) for a in batch if a.gathered.readings is not None]
        result = engine.step(self.table, pairs)
        for request in result.fits:
            self._ask_fit(request)
        for arrival, decision in zip(batch, result.decisions, strict=True):
            self._conclude(arrival, decision, group)

    def _conclude(self, arrival: _Arrival, decision: Decision, group: asyncio.TaskGroup) -> None:
        """Record a decision, plan the workload's next look, and act if something is to be done."""
        lane, readings = arrival.lane, arrival.gathered.readings
        seen = view(self.table, decision.workload)
        assert readings is not None
        assert seen is not None
        lane.assumed = Assumed(decision, readings)
        lane.known = Known(readings.now_s, readings.replicas)
        ahead_s = min(max(decision.next_due_s - self._clock.now(), MIN_GAP_S), lane.target.params.tick_s)
        lane.due_s = self._clock.monotonic() + ahead_s
        self._agenda.plan(decision.workload, lane.due_s)
        self._recorder.put(Stepped(decision, readings, seen, arrival.cause, lane.target.params))
        if decision.verdict is Verdict.HOLD:
            return
        objection = self._actuator.objection(lane.target, decision, arrival.gathered.target_readable)
        if objection is not None:
            lane.held_back = objection is Outcome.BUSY
            self._recorder.put(self._actuator.report(decision, objection))
            return
        _track(self.acting, group.create_task(self._act(lane, decision), name=f"act {decision.workload}"))

    async def _act(self, lane: _Lane, decision: Decision) -> None:
        try:
            act = await self._actuator.act(decision)
        except asyncio.CancelledError:
            self._recorder.put(self._actuator.report(decision, Outcome.UNKNOWN, "cancelled on the way"))
            raise
        self._recorder.put(act)
        if act.outcome is Outcome.UNKNOWN:
            self.wake(decision.workload, Cause.READ_BACK)
        elif act.outcome is Outcome.SUPERSEDED or lane.held_back:
            self.wake(decision.workload, Cause.SUPERSEDED)
        lane.held_back = False

    def _note_faults(self, lane: _Lane, gathered: Gathered) -> None:
        """Note a source once when it is lost and once when it is back."""
        now = {m.source: m.fault for m in gathered.missing}
        for missing in gathered.missing:
            if missing.source not in lane.faults:
                message = f"{missing.source} {missing.fault.value}: {missing.message}"
                self._recorder.note(Event.SOURCE_LOST, message, lane.target.name)
        for source in sorted(lane.faults.keys() - now.keys()):
            self._recorder.note(Event.SOURCE_BACK, source, lane.target.name)
        lane.faults = now


def _track(tasks: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
    """Keep `task` in `tasks` while it runs."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
