"""The clocks sleep on the loop's time, so virtual time makes them virtual."""

import asyncio
import time

import pytest

from autoscaler.runtime.clock import ScaledClock, WallClock

pytestmark = pytest.mark.looptime(noop_cycles=1)


@pytest.mark.parametrize("speed", [0.5, 1.0, 60.0])
async def test_a_scaled_clock_starts_at_its_origin_and_runs_at_its_speed(speed: float) -> None:
    clock = ScaledClock(speed, origin_s=1000.0)
    began_s = asyncio.get_running_loop().time()
    assert clock.now() == 1000.0
    await clock.sleep_until(1120.0)
    assert clock.monotonic() == pytest.approx(1120.0, abs=1e-3)
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(120.0 / speed, abs=1e-5)


@pytest.mark.parametrize("make", [WallClock, ScaledClock])
async def test_a_sleep_ends_early_when_it_is_woken_and_at_its_time_when_it_is_not(make: type) -> None:
    clock, bell = make(), asyncio.Event()
    began_s = clock.monotonic()
    asyncio.get_running_loop().call_later(2.0, bell.set)
    await clock.sleep_until(began_s + 5.0, bell)
    assert clock.monotonic() - began_s == pytest.approx(2.0)
    bell.clear()
    await clock.sleep_until(began_s + 5.0, bell)
    assert clock.monotonic() - began_s == pytest.approx(5.0)
    await clock.sleep_until(began_s)
    assert clock.monotonic() - began_s == pytest.approx(5.0)


async def test_the_wall_clock_says_the_machines_time() -> None:
    assert abs(WallClock().now() - time.time()) < 5.0


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
async def test_a_speed_that_is_not_positive_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        ScaledClock(speed)
