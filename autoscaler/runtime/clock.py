"""The clocks: the machine's own, and one that runs at another speed for an embedded cluster.

Both sleep on the event loop's time, so that a loop with virtual time makes either one virtual.
"""

import asyncio
import time

from autoscaler.ports import Clock


class WallClock:
    """The machine's time: `now` in seconds since 1970 (UTC), durations in the event loop's monotonic seconds."""

    def now(self) -> float:
        """Seconds since 1970; jumps when the machine's time is set."""
        return time.time()

    def monotonic(self) -> float:
        """The event loop's seconds."""
        return asyncio.get_running_loop().time()

    async def sleep_until(self, monotonic_s: float, wake: asyncio.Event | None = None) -> None:
        """Return at `monotonic_s`, or as soon as `wake` is set."""
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


async def breathe(clock: Clock) -> None:
    """Let everything else that is ready have its turn of the event loop."""
    await clock.sleep_until(clock.monotonic())


async def _sleep(loop_s: float, wake: asyncio.Event | None) -> None:
    if wake is None:
        await asyncio.sleep(max(0.0, loop_s))
        return
    try:
        async with asyncio.timeout(max(0.0, loop_s)):
            await wake.wait()
    except TimeoutError:
        return
