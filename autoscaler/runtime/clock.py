"""The clocks: the machine's own, steadied, and one that runs at another speed for an embedded cluster.

Both sleep on the event loop's time, so that a loop with virtual time makes either one virtual.
"""

import asyncio
import threading
import time
from typing import Final

from autoscaler.ports import Clock

SLEW_RATIO: Final = 0.02
"""How much faster or slower than monotonic time `WallClock.now` may run to catch up with a machine's clock that was
set: rates measured meanwhile are off by as much, which no decision turns on. Five minutes take four hours."""

SUSPENDED_S: Final = 0.5
"""From here on two clocks that part were suspended between: what lies between their readings is no suspension."""

_PASSING: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class WallClock:
    """The machine's time: `now` in seconds since 1970 (UTC), durations in the event loop's monotonic seconds and those
    in which the machine was suspended, which the loop does not count.

    `now` begins with the machine's clock and goes on with time as it passes, suspension included. Where that clock is
    set, it is followed slowly: windows, ages and holds are measured with `now`, and a clock that is put forward by five
    minutes must not let a hold of two end at once, nor one that is put back make five minutes of samples outdated.
    """

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._now_s = time.time()
        self._passed_s = _passed_s()
        self._begun_s = self._suspended_s = _suspended_s()

    def now(self) -> float:
        """Seconds since 1970; never goes back and never jumps. It may be asked in any thread, and KEDA's asks, too."""
        with self._asking:
            passed_s = _passed_s()
            elapsed_s, self._passed_s = passed_s - self._passed_s, passed_s
            behind_s = time.time() - self._now_s - elapsed_s
            most_s = SLEW_RATIO * elapsed_s
            self._now_s += elapsed_s + min(max(behind_s, -most_s), most_s)
            return self._now_s

    def off_s(self) -> float:
        """How far the machine's clock is ahead of `now`, seconds; below zero where it is behind."""
        now_s = self.now()
        return time.time() - now_s

    def monotonic(self) -> float:
        """The event loop's seconds and the suspended ones: on a machine that was hibernated a lead is over and what was
        heard is old, from the first instruction on."""
        suspended_s = _suspended_s()
        if suspended_s >= self._suspended_s + SUSPENDED_S:
            self._suspended_s = suspended_s
        return asyncio.get_running_loop().time() + (self._suspended_s - self._begun_s)

    async def sleep_until(self, monotonic_s: float, wake: asyncio.Event | None = None) -> None:
        """Return at `monotonic_s`, or as soon as `wake` is set; a sleep goes on for what the loop has left of it where
        the machine is suspended meanwhile."""
        await _sleep(monotonic_s - self.monotonic(), wake)


class ScaledClock:
    """Starts at `origin_s` when it is made and runs `speed` times as fast as the event loop.

    Must be made inside a running loop. Raises ValueError unless `speed` is positive.
    """

    def __init__(self, speed: float = 1.0, origin_s: float = 0.0) -> None:
        if not speed > 0:
            raise ValueError(f"speed is {speed}; it must be positive")
        self.speed = speed
        self._origin_s = origin_s
        self._start_s = asyncio.get_running_loop().time()

    def now(self) -> float:
        """Seconds in the scaled time's origin."""
        return self._origin_s + (asyncio.get_running_loop().time() - self._start_s) * self.speed

    def monotonic(self) -> float:
        """The same as `now`: this time is never set."""
        return self.now()

    async def sleep_until(self, monotonic_s: float, wake: asyncio.Event | None = None) -> None:
        """Return at `monotonic_s` of this clock, or as soon as `wake` is set."""
        await _sleep((monotonic_s - self.now()) / self.speed, wake)


TURNS: Final = 3
"""Turns of the event loop from a timer or a socket that is due to the task that waits for it: the selector's, the
future's, the task's own. With one turn between two slices of work, three slices would stand before each event."""


async def breathe(clock: Clock) -> None:
    """Let everything else that is ready have its turn of the event loop."""
    for _ in range(TURNS):
        await clock.sleep_until(clock.monotonic())


def _passed_s() -> float:
    """Seconds that go on while the machine is suspended, where it can count them (Linux)."""
    return time.clock_gettime(_PASSING)


def _suspended_s() -> float:
    """Seconds for which the machine was suspended since it was started; read in this order, a process that is stopped
    between the two seems to have been suspended for less."""
    return time.clock_gettime(_PASSING) - time.clock_gettime(time.CLOCK_MONOTONIC)


async def _sleep(loop_s: float, wake: asyncio.Event | None) -> None:
    if wake is None:
        await asyncio.sleep(max(0.0, loop_s))
        return
    try:
        async with asyncio.timeout(max(0.0, loop_s)):
            await wake.wait()
    except TimeoutError:
        return
