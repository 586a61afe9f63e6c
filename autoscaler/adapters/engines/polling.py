"""When each target is asked: spread evenly over the interval, seldom when it keeps failing or costs too much to read,
one question at a time.

A target's place in the interval is a hash of its uid, so that a thousand pods are a thousand small pieces of work and
not one large one, and so that two controllers ask at the same moments. This room knows nothing of what a page says.
"""

import asyncio
import math
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from autoscaler.adapters.engines.fetch import Trouble
from autoscaler.adapters.engines.targets import Place
from autoscaler.core.doubling import doubled
from autoscaler.ports import Clock

PATIENCE = 3
"""Failures in a row before a target is asked less often."""

BACKOFF_MAX_S = 5.0
"""A failing target is asked at least this often: that is a tick of a decision, so that one that is back counts in the
next. A refused connection costs less than a page."""

AT_ONCE = 16
"""Questions begun in one turn of the event loop, some 3 ms. After a moment without processor time hundreds are due."""

SLICE_S = 0.005
"""Between two such slices: a second's worth of a thousand targets is begun within a third of one."""

COSTLY_S = 0.03
"""A page that takes longer to read is costly. An engine's takes 1 ms; one of the largest size that consists of labels
takes 0.25 s, and every second of it would leave room for three others."""

SHARE = 0.1
"""Of the event loop's time that one costly target may take, by being asked less often."""

TOGETHER = 0.3
"""The same of all costly targets: whoever runs a hundred of them slows down his own."""

APART_MAX_S = 60.0

EARLY_RATIO = 0.05
"""Of the interval: a timer that fires this much too soon does not earn its target a second question."""


class Asked(Protocol):
    """What can be asked for a page."""

    @property
    def uid(self) -> str:
        """Tells it from all others, ever."""
        ...

    @property
    def pod(self) -> str:
        """What people call it."""
        ...

    @property
    def place(self) -> Place:
        """Where its page is."""
        ...


T = TypeVar("T", bound=Asked)

Get = Callable[[Place], Awaitable[bytes | Trouble]]
"""Gets one page; never raises but for cancellation, and ends by itself."""


@dataclass(slots=True)
class Lane(Generic[T]):
    """One target's turn: when it is asked next. Instants are on the clock's monotonic time."""

    target: T
    phase: float
    """Its place in the interval, 0..1."""
    failures: int = 0
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    took_s: float = 0.0
    """What its newest page took to read."""
    cost_s: float = 0.0
    """The same of the cheaper one of its two newest: in one of them the machine may have been at something else."""

    def next_s(self, now_s: float, interval_s: float, apart_s: float = 0.0) -> float:
        """The first turn after now and not before `apart_s`; the back-off skips turns and keeps the place."""
        backoff = doubled(1.0, max(0, self.failures - PATIENCE), max(1.0, BACKOFF_MAX_S / interval_s))
        turns_on = max(math.floor(backoff), math.ceil(apart_s / interval_s))
        due_s = now_s + interval_s * (turns_on - 1 + EARLY_RATIO)
        turns = math.floor(due_s / interval_s - self.phase) + 1
        return (turns + self.phase) * interval_s


def phase_of(uid: str) -> float:
    """The place of a uid in the interval, 0..1, the same in every process."""
    return zlib.crc32(uid.encode()) / 2**32


class Poller(Generic[T]):
    """Asks targets until cancelled and hands every answer to `absorb`, which must not raise and must not wait."""

    def __init__(self, clock: Clock, interval_s: float, absorb: Callable[[T, bytes | Trouble], bool]) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._absorb = absorb
        """Returns whether the page was of use; one that was not counts as a failure."""
        self._lanes: dict[str, Lane[T]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._get: Get | None = None
        self._costly: set[str] = set()
        self._begun = 0
        """Questions begun in this turn of the event loop, those that wait for their slice included."""

    @property
    def targets(self) -> int:
        """How many are asked."""
        return len(self._lanes)

    def put(self, target: T) -> None:
        """Ask this target from its next turn on; one whose address or readiness changed is asked anew at once."""
        lane = self._lanes.get(target.uid)
        if lane is None:
            lane = self._lanes[target.uid] = Lane(target, phase_of(target.uid))
            self._start(lane)
        elif lane.target != target:
            lane.target, lane.failures = target, 0
            lane.bell.set()

    def drop(self, uid: str) -> None:
        """Ask this target no more; an answer on its way is thrown away."""
        lane = self._lanes.pop(uid, None)
        self._costly.discard(uid)
        if lane is not None and lane.task is not None:
            lane.task.cancel()

    async def run(self, get: Get) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group, self._get = group, get
            try:
                for lane in self._lanes.values():
                    self._start(lane)
                await asyncio.Event().wait()
            finally:
                self._group = self._get = None

    def _start(self, lane: Lane[T]) -> None:
        if self._group is not None and self._get is not None:
            lane.task = self._group.create_task(self._ask(lane, self._get), name=f"scrape {lane.target.pod}")

    async def _ask(self, lane: Lane[T], get: Get) -> None:
        while True:
            now_s = self._clock.monotonic()
            await self._clock.sleep_until(lane.next_s(now_s, self._interval_s, self._apart_s(lane)), lane.bell)
            await self._place()
            lane.bell.clear()
            target = lane.target
            answer = await get(target.place)
            if lane.target is not target:
                continue  # its address changed meanwhile: this is another pod's answer
            began_s = self._clock.monotonic()
            useful = self._absorb(target, answer)
            self._spent(lane, self._clock.monotonic() - began_s)
            lane.failures = 0 if useful else lane.failures + 1

    def _spent(self, lane: Lane[T], took_s: float) -> None:
        """Note what reading a target's page took."""
        lane.cost_s, lane.took_s = min(lane.took_s, took_s), took_s
        if lane.cost_s > COSTLY_S and self._lanes.get(lane.target.uid) is lane:
            self._costly.add(lane.target.uid)
        else:
            self._costly.discard(lane.target.uid)

    def _apart_s(self, lane: Lane[T]) -> float:
        """How far apart a target's turns are kept for what its page costs."""
        if lane.target.uid not in self._costly:
            return 0.0
        return min(lane.cost_s / min(SHARE, TOGETHER / len(self._costly)), APART_MAX_S)

    async def _place(self) -> None:
        """Wait for a place among those that begin together."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._begun += 1
        if (slices := (self._begun - 1) // AT_ONCE) > 0:
            await self._clock.sleep_until(self._clock.monotonic() + slices * SLICE_S)

    def _next_turn(self) -> None:
        self._begun = 0
