"""Puts the live driver together, keeps its tasks under one roof, and stops them in order.

Shutdown, every stage bounded: stop deciding; let patches on their way finish, then cancel them (they are recorded as
unknown); stop fitting; write out the record; write the checkpoint. A task that ends or fails by itself is a broken
invariant: everything is stopped, checkpoint and record are still written, and the error goes to the caller. Only then
may lines that were being written at that moment be written twice.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from autoscaler.core.scale.sharing import Budgets
from autoscaler.core.state import Table
from autoscaler.ports import Clock, MetricSource, ModelFitter, RecordSink, ScaleClient, StateStore, Watch
from autoscaler.runtime.actuator import Actuator
from autoscaler.runtime.budgets import Shares
from autoscaler.runtime.checkpoints import Checkpoints
from autoscaler.runtime.gather import Gatherer
from autoscaler.runtime.isolation import Bug
from autoscaler.runtime.loop import Loop
from autoscaler.runtime.records import Event, Recorder
from autoscaler.runtime.refit import Refit
from autoscaler.runtime.target import Target

T = TypeVar("T")

READ_S: Final = 330.0
"""A workload that can be read is looked at within the longest tick, of five minutes."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""A task to be: begun inside the task, so that one cancelled before its first turn leaves nothing unawaited."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything outside that the live driver talks to."""

    clock: Clock
    metrics: MetricSource
    scale: ScaleClient
    watch: Watch
    audit: RecordSink
    journal: RecordSink
    store: StateStore
    fitter: ModelFitter


@dataclass(frozen=True, slots=True)
class Bounds:
    """The longest each thing may take, in real seconds."""

    gather_s: float = 2.0
    """Less than half the default tick: a hanging source costs one step its metrics, not its turn."""
    patch_s: float = 5.0
    fit_s: float = 300.0
    load_s: float = 15.0
    """For the checkpoints of the last run: to begin without them costs a day of what was learnt. Half of the time that
    a pod has to end."""
    store_s: float = 5.0
    acting_s: float = 5.0
    """For patches on their way when the driver stops."""
    flush_s: float = 5.0


class Catching:
    """The shield around one workload's work: the only place that takes any exception there is.

    What passes through it concerns one workload, and its bug must not stop the thousand others.
    """

    def run(self, work: Callable[[], T]) -> T | Bug:
        """What `work` returns, or the bug it raised."""
        try:
            return work()
        except Exception as error:
            return Bug.of(error)

    async def wait(self, work: Awaitable[T]) -> T | Bug:
        """What `work` comes to, or the bug it raised; a cancellation passes."""
        try:
            return await work
        except Exception as error:
            return Bug.of(error)


class Runtime:
    """The live driver. Make it, `put` targets at any time, and `run` it once.

    `may_write` says whether this process may write at this very moment: it leads, and its lease has not run out.
    `budgets` bound the GPUs that all targets hold together.
    """

    def __init__(
        self,
        ports: Ports,
        bounds: Bounds | None = None,
        *,
        may_write: Callable[[], bool] = lambda: True,
        budgets: Budgets | None = None,
    ) -> None:
        self._bounds = bounds if bounds is not None else Bounds()
        self._ports = ports
        clock, limit = ports.clock, self._bounds
        self.table = Table.empty()
        self.recorder = Recorder(audit=ports.audit, journal=ports.journal, clock=clock)
        self._checkpoints = Checkpoints(
            table=self.table,
            store=ports.store,
            clock=clock,
            recorder=self.recorder,
            load_s=limit.load_s,
            timeout_s=limit.store_s,
        )
        self._refit = Refit(
            table=self.table, fitter=ports.fitter, clock=clock, recorder=self.recorder, timeout_s=limit.fit_s
        )
        self._shares = Shares(budgets=budgets or Budgets(), table=self.table, clock=clock, put=self._limit)
        self._actuator = Actuator(ports.scale, clock, limit.patch_s, may_write=may_write, admits=self._shares.admits)
        self._loop = Loop(
            table=self.table,
            clock=clock,
            gatherer=Gatherer(ports.metrics, ports.scale, clock, limit.gather_s),
            actuator=self._actuator,
            recorder=self.recorder,
            shield=Catching(),
            shares=self._shares,
            restore=self._restore,
            ask_fit=self._refit.ask,
        )
        self._targets: dict[str, Target] = {}
        self._running = False

    def put(self, target: Target) -> None:
        """Add a workload or change it; it is stepped at once, or as soon as `run` starts."""
        self._targets[target.name] = target
        if self._running:
            self._loop.put(self._shares.limited(target))

    def remove(self, name: str) -> None:
        """Forget a workload. Raises KeyError for an unknown name."""
        del self._targets[name]
        self._shares.remove(name)
        if self._running:
            self._loop.remove(name)

    def freeze(self, on: bool, why: str) -> None:
        """Touch no target while `on`, whatever its mode; decisions are made and recorded. `why` is for people."""
        was, self._actuator.frozen = self._actuator.frozen, why if on else None
        if on and was != why:
            self.recorder.note(Event.FROZEN, why)
        elif not on and was is not None:
            self.recorder.note(Event.UNFROZEN, why)
            self._loop.thaw()

    def foreign(self, gpus: Mapping[str, int]) -> None:
        """Take how many GPUs the pods of no target hold, per namespace: the budgets are left with the rest to grow."""
        self._shares.foreign(gpus)

    async def snapshot(self) -> dict[str, dict[str, Any]]:
        """The checkpoint of every workload, for a follower; each row is as it is when its turn comes."""
        return await self._checkpoints.snapshot()

    def restore_from(self, checkpoints: Mapping[str, dict[str, Any]]) -> None:
        """Begin with these; the store's own are used where they are newer. Call it before `run`."""
        self._checkpoints.adopt(checkpoints)

    @property
    def blind_age_s(self) -> float:
        """Since a workload was looked at of which nothing could be read; infinite where that never was.

        And where another was read within `READ_S`: what was read and is not decided on is no blindness.
        """
        now_s = self._ports.clock.monotonic()
        return math.inf if now_s - self._loop.read_s <= READ_S else now_s - self._loop.blind_s

    async def recalled(self) -> frozenset[str]:
        """The workloads that the last leader decided on until its end, as far as its checkpoints are there."""
        await self._checkpoints.load()
        return self._checkpoints.latest()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set or a task fails; then shut down in order. Errors come as an ExceptionGroup."""
        await self._checkpoints.load()
        self._running = True
        for target in self._targets.values():
            self._loop.put(self._shares.limited(target))
        try:
            async with asyncio.TaskGroup() as group:
                await self._supervise(group, stop)
        finally:
            saved = await self._checkpoints.save()
            left = self.recorder.audit.waiting + self.recorder.journal.waiting
            message = f"checkpoint {'saved' if saved else 'not saved'}, {left} lines not written before it"
            self.recorder.note(Event.STOPPED, message)
            for writer in (self.recorder.audit, self.recorder.journal):
                await _bounded(writer.flush(), self._bounds.flush_s)
            self.recorder.end_feeds()

    def _limit(self, target: Target) -> None:
        """Put a target whose share of the budgets changed."""
        self._loop.put(target)

    def _restore(self, name: str) -> None:
        """What a workload is given before its first look."""
        saved = self._checkpoints.restore(name)
        self._refit.spread(name)
        self.recorder.started(name, saved, self.table.track(self.table.rows[name]).fit_asked_s)

    async def _supervise(self, group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        loop, recorder = self._loop, self.recorder
        deciding = _start(
            group,
            {
                "watch": lambda: loop.watch(self._ports.watch),
                "schedule": lambda: loop.schedule(group),
                "step": lambda: loop.steps.run(group),
                "checkpoint": self._checkpoints.run,
                "share": self._shares.run,
            },
        )
        fitting = _start(group, {"refit": self._refit.run})
        writing = [
            group.create_task(recorder.audit.run(), name="audit"),
            group.create_task(recorder.journal.run(), name="journal"),
        ]
        await stop.wait()
        await _cancel([*deciding, *loop.looking])
        recorder.note(Event.STOPPING, f"{len(loop.acts.tasks)} patches on their way")
        await _settle(loop.acts.tasks, self._bounds.acting_s)
        await _cancel(fitting)
        recorder.close_writers()
        await _settle(writing, self._bounds.flush_s)


def _start(group: asyncio.TaskGroup, works: dict[str, Work]) -> list[asyncio.Task[None]]:
    return [group.create_task(_eternal(name, work), name=name) for name, work in works.items()]


async def _eternal(name: str, work: Work) -> None:
    """Run what must not end by itself."""
    await work()
    raise RuntimeError(f"the task {name!r} ended by itself")


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel and wait; an error of theirs is their group's to report."""
    listed = [task for task in tasks if not task.done()]
    for task in listed:
        task.cancel()
    if listed:
        await asyncio.wait(listed)


async def _settle(tasks: Iterable[asyncio.Task[None]], grace_s: float) -> None:
    """Wait for tasks to end by themselves, at most `grace_s`, then cancel those that are left."""
    listed = list(tasks)
    if listed:
        await asyncio.wait(listed, timeout=grace_s)
    await _cancel(listed)


async def _bounded(work: Coroutine[Any, Any, bool], limit_s: float) -> bool:
    """Whether `work` came to a good end within `limit_s`."""
    try:
        async with asyncio.timeout(limit_s):
            return await work
    except TimeoutError:
        return False
