"""Waits grow under full jitter and honour what the server asks; the bucket holds its rate and returns unused places."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.kube.limiter import TokenBucket
from autoscaler.adapters.kube.retry import Backoff, BackoffBounds
from autoscaler.runtime.clock import ScaledClock

BOUNDS = BackoffBounds()


def backoff(seed: int = 1) -> Backoff:
    return Backoff(np.random.default_rng(seed), BOUNDS)


@given(seed=st.integers(0, 2**32), failures=st.integers(1, 20))
def test_every_wait_is_between_the_floor_and_a_bound_that_doubles_to_half_a_minute(seed: int, failures: int) -> None:
    waits = backoff(seed)
    drawn = [waits.next_s() for _ in range(failures)]
    for nth, wait_s in enumerate(drawn):
        assert 0.2 <= wait_s <= min(0.2 * 2 ** (nth + 1), 30.0)


def test_callers_that_failed_together_do_not_come_back_together() -> None:
    twentieth = []
    for seed in range(50):
        waits = backoff(seed)
        twentieth.append([waits.next_s() for _ in range(20)][-1])
    assert np.std(twentieth) > 5.0


@pytest.mark.parametrize(("asked_s", "least_s", "most_s"), [(5.0, 5.2, 5.4), (3600.0, 60.2, 60.4), (None, 0.2, 0.4)])
def test_what_the_server_asks_for_comes_on_top_up_to_a_minute(asked_s, least_s, most_s) -> None:
    assert least_s <= backoff().next_s(asked_s) <= most_s


def test_after_a_success_waits_begin_at_the_floor_again() -> None:
    waits = backoff()
    for _ in range(20):
        waits.next_s()
    waits.reset()
    assert waits.next_s() <= 0.4


@pytest.mark.looptime(noop_cycles=1)
async def test_a_bucket_lets_its_burst_through_at_once_and_then_its_rate() -> None:
    clock = ScaledClock()
    bucket, sent_s = TokenBucket(clock, qps=10.0, burst=5), []
    for _ in range(25):
        await bucket.take()
        sent_s.append(clock.now())
    assert sent_s[4] == 0.0
    assert sent_s[5:] == pytest.approx([0.1 * n for n in range(1, 21)])
    await clock.sleep_until(100.0)
    for _ in range(5):
        await bucket.take()
    assert clock.now() == 100.0


@pytest.mark.looptime(noop_cycles=1)
async def test_requests_that_give_up_waiting_do_not_slow_those_that_follow() -> None:
    clock = ScaledClock()
    bucket = TokenBucket(clock, qps=1.0, burst=1)
    await bucket.take()
    for _ in range(20):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await bucket.take()
    await bucket.take()
    assert clock.now() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(("qps", "burst"), [(0.0, 1), (-1.0, 1), (float("nan"), 1), (1.0, 0)])
def test_a_rate_that_is_none_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="qps must be positive"):
        TokenBucket(ScaledClock.__new__(ScaledClock), qps, burst)
