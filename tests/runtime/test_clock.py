"""The clocks sleep on the loop's time, so virtual time makes them virtual."""

import asyncio
import threading
import time

import pytest

from autoscaler.runtime.clock import SLEW_RATIO, ScaledClock, WallClock

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


@pytest.mark.parametrize("set_by_s", [300.0, -300.0, 0.5, -86_400.0])
def test_a_clock_that_is_set_is_followed_slowly_and_without_a_jump(
    monkeypatch: pytest.MonkeyPatch, set_by_s: float
) -> None:
    machine = {"wall_s": 1.8e9, "passed_s": 5000.0}
    monkeypatch.setattr(time, "time", lambda: machine["wall_s"])
    monkeypatch.setattr(time, "clock_gettime", lambda _: machine["passed_s"])
    clock = WallClock()

    def after(seconds: float) -> float:
        machine["wall_s"] += seconds
        machine["passed_s"] += seconds
        return clock.now()

    before_s = after(10.0)
    assert before_s == 1.8e9 + 10.0
    machine["wall_s"] += set_by_s
    assert clock.now() == before_s, "no time has passed"
    one_s = after(1.0) - before_s
    assert 1.0 - SLEW_RATIO - 1e-6 <= one_s <= 1.0 + SLEW_RATIO + 1e-6
    assert one_s != pytest.approx(1.0, abs=1e-6)
    assert clock.off_s() == pytest.approx(set_by_s, abs=2 * SLEW_RATIO)
    for _ in range(1000):
        after(abs(set_by_s) / SLEW_RATIO / 900.0)
    assert clock.now() == pytest.approx(machine["wall_s"], abs=1e-3)
    assert clock.off_s() == pytest.approx(0.0, abs=1e-3)


async def test_durations_count_the_time_in_which_the_machine_was_suspended_and_no_jitter_of_its_clocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = {"s": 7200.0}
    clocks = {time.CLOCK_MONOTONIC: lambda: 5000.0, time.CLOCK_BOOTTIME: lambda: 5000.0 + ahead["s"]}
    monkeypatch.setattr(time, "clock_gettime", lambda which: clocks[which]())
    clock = WallClock()
    began_s = clock.monotonic()
    await asyncio.sleep(3.0)
    ahead["s"] += 0.004
    assert clock.monotonic() == pytest.approx(began_s + 3.0, abs=1e-6)
    ahead["s"] -= 0.008
    assert clock.monotonic() == pytest.approx(began_s + 3.0, abs=1e-6), "it never goes back"
    ahead["s"] += 3600.0
    assert clock.monotonic() == pytest.approx(began_s + 3603.0, abs=0.01)
    ahead["s"] += 60.0
    assert clock.monotonic() == pytest.approx(began_s + 3663.0, abs=0.01)
    await clock.sleep_until(clock.monotonic() + 2.0)
    assert clock.monotonic() == pytest.approx(began_s + 3665.0, abs=0.01)


def test_a_thread_that_asks_while_another_one_is_asking_is_told_no_earlier_time_than_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without order two threads put the clock back by 41 ms, and off by a second in four."""
    read, told, others = time.clock_gettime, list[float](), list[threading.Thread]()
    clock = WallClock()

    def ask() -> None:
        told.append(clock.now())

    def overtaken(which: int) -> float:
        found = read(which)
        if not others:
            others.append(threading.Thread(target=ask))
            others[0].start()
            others[0].join(0.1)
        return found

    monkeypatch.setattr(time, "clock_gettime", overtaken)
    ask()
    others[0].join()
    assert len(told) == 2
    assert told == sorted(told)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
async def test_a_speed_that_is_not_positive_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        ScaledClock(speed)
