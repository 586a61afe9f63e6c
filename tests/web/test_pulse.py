"""The pulse tells what one turn of the event loop that took too long costs everybody else."""

import asyncio
import time

from autoscaler.adapters.web.pulse import EVERY_S, KEPT, Pulse
from autoscaler.runtime.clock import ScaledClock


class Late:
    """A clock whose sleeps end late, by what the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.late_s: list[float] = []

    def now(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    async def sleep_until(self, monotonic_s: float, wake: asyncio.Event | None = None) -> None:
        if not self.late_s:
            await asyncio.Event().wait()
        self.now_s = monotonic_s + self.late_s.pop(0)


def hog(seconds: float) -> None:
    """A turn during which the loop does not come round."""
    time.sleep(seconds)


async def test_the_worst_of_the_last_half_minute_is_told() -> None:
    clock = Late()
    pulse = Pulse(clock)
    assert pulse.lag_s == 0.0
    clock.late_s = [0.01, 0.4, 0.02]
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pulse.run())
        await asyncio.sleep(0)
        assert round(pulse.lag_s, 9) == 0.4
        running.cancel()


async def test_what_is_longer_ago_is_forgotten() -> None:
    clock = Late()
    pulse = Pulse(clock)
    clock.late_s = [0.4, *[0.01] * KEPT]
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pulse.run())
        await asyncio.sleep(0)
        assert round(pulse.lag_s, 9) == 0.01
        running.cancel()


async def test_a_turn_that_blocks_is_measured_on_the_machines_own_time() -> None:
    pulse = Pulse(ScaledClock())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pulse.run())
        await asyncio.sleep(0)
        hog(EVERY_S + 0.1)
        lasting_s = pulse.lag_s
        await asyncio.sleep(0.01)
        assert 0.09 < lasting_s <= pulse.lag_s < 5.0
        running.cancel()
