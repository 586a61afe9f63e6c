"""Sending on virtual time: when due, whatever became of those before, and counted from then."""

import asyncio
import time

import numpy as np
import pytest

from autoscaler.runtime.clock import WallClock
from loadtests.traffic.schedule import Schedule
from loadtests.traffic.sender import Ask, Bounds, Send, Sender
from loadtests.traffic.tally import Failure, Reply, Tally, merged

pytestmark = pytest.mark.looptime(noop_cycles=1)

BOUNDS = Bounds(timeout_s=30.0, most_open=1000)


def every(seconds: float, count: int) -> Schedule:
    ones = np.ones(count, dtype=np.int64)
    return Schedule(np.arange(count, dtype=np.float64) * np.float64(seconds), ones * 10, ones * 3, ones * 0)


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def sent(send: Send, schedule: Schedule, bounds: Bounds = BOUNDS) -> Tally:
    tally = Tally()
    await Sender(send, WallClock(), bounds, tally).run(schedule, now_s())
    return tally


class Service:
    """Gives a request its token 10 ms after it comes, and its last of three 20 ms later; stalls when told to."""

    def __init__(self, stall_s: tuple[float, float] = (0.0, 0.0)) -> None:
        self.stall_s = stall_s
        self.asked_s: list[float] = []

    async def send(self, ask: Ask, reply: Reply) -> None:
        self.asked_s.append(now_s())
        begin_s, end_s = self.stall_s
        if begin_s <= now_s() < end_s:
            await asyncio.sleep(end_s - now_s())
        await asyncio.sleep(0.01)
        reply.first_s = now_s()
        await asyncio.sleep(0.02)
        reply.last_s, reply.events = now_s(), 3


async def test_requests_are_sent_when_they_are_due_though_none_before_was_answered() -> None:
    service = Service(stall_s=(0.0, 20.0))
    tally = await sent(service.send, every(0.1, 100))
    assert service.asked_s == pytest.approx([0.1 * number for number in range(100)])
    assert (tally.open_most, tally.completed) == (100, 100)


async def test_latencies_are_those_of_the_service() -> None:
    tally = await sent(Service().send, every(0.1, 100))
    assert tally.ttft_s.quantile(0.5) == pytest.approx(0.01, rel=0.01)
    assert tally.tpot_s.quantile(0.5) == pytest.approx(0.01, rel=0.01)
    assert tally.e2e_s.quantile(1.0) == pytest.approx(0.03, rel=0.01)
    assert (tally.due, tally.sent, tally.completed, tally.failed, tally.cut) == (100, 100, 100, 0, 0)


async def test_a_machines_clock_that_is_set_back_and_forward_changes_no_latency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began_s = time.time()
    monkeypatch.setattr("time.time", lambda: began_s + (-3600.0 if now_s() % 2.0 < 1.0 else 3600.0))
    tally = await sent(Service().send, every(0.1, 100))
    assert (tally.ttft_s.most_s, tally.e2e_s.most_s) == pytest.approx((0.01, 0.03))
    assert (tally.completed, tally.failed) == (100, 0)


async def test_a_service_that_stalls_for_two_seconds_shows_it_in_all_that_were_due_in_the_stall() -> None:
    tally = await sent(Service(stall_s=(3.0, 5.0)).send, every(0.01, 1000))  # a fifth is due in the stall
    assert tally.ttft_s.quantile(0.80) == pytest.approx(0.01, rel=0.01)
    assert tally.ttft_s.quantile(0.90) == pytest.approx(1.01, rel=0.02)
    assert tally.ttft_s.quantile(0.99) == pytest.approx(1.91, rel=0.02)
    assert tally.ttft_s.most_s == pytest.approx(2.01)


class HeldClock(WallClock):
    """As if this process had not run between 1 and 3 s."""

    async def sleep_until(self, monotonic_s: float, wake: asyncio.Event | None = None) -> None:
        await super().sleep_until(3.0 if 1.0 <= monotonic_s < 3.0 else monotonic_s, wake)


async def test_a_sender_that_was_kept_from_sending_counts_from_the_intended_instant_and_tells() -> None:
    tally = Tally()
    await Sender(Service().send, HeldClock(), BOUNDS, tally).run(every(0.01, 500), 0.0)
    assert tally.completed == 500
    assert tally.late_s.most_s == pytest.approx(2.0)
    assert tally.late_s.quantile(0.59) == pytest.approx(0.0, abs=1e-5)
    assert tally.ttft_s.quantile(0.8) == pytest.approx(1.01, rel=0.02)
    assert tally.ttft_s.most_s == pytest.approx(2.01)


async def test_what_is_not_at_its_end_in_time_failed_by_how_far_it_came() -> None:
    async def half(ask: Ask, reply: Reply) -> None:
        if ask.number % 2:
            reply.first_s, reply.events = now_s(), 1
        await asyncio.sleep(1000)

    tally = await sent(half, every(1.0, 4))
    assert tally.failures == {"no_token": 2, "unfinished": 2}
    assert tally.examples["unfinished"] == "not at its end 30 s after it was due (1 events came)"
    assert now_s() == pytest.approx(33.0)


async def test_what_was_answered_whole_in_time_is_no_failure_though_its_connection_stays_open() -> None:
    async def stays(ask: Ask, reply: Reply) -> None:
        await asyncio.sleep(29.5)
        reply.first_s = reply.last_s = reply.end_s = now_s()
        reply.events = 1
        await asyncio.sleep(1000)

    tally = await sent(stays, every(1.0, 2))
    assert (tally.completed, tally.failures) == (2, {})
    assert tally.e2e_s.quantile(1.0) == pytest.approx(29.5, rel=0.005)


async def test_a_failure_is_counted_and_leaves_no_latency() -> None:
    async def refused(ask: Ask, reply: Reply) -> None:
        if ask.number < 3:
            reply.failure, reply.detail = Failure.STATUS, f"HTTP 503 for {ask.number}"
        else:
            await Service().send(ask, reply)

    tally = await sent(refused, every(1.0, 4))
    assert (tally.failures, tally.examples) == ({"status": 3}, {"status": "HTTP 503 for 0"})
    assert (tally.e2e_s.count, tally.error_ratio) == (1, 0.75)
    assert [second.failed for _, second in sorted(tally.seconds.items())] == [1, 1, 1, 0]


async def test_each_status_is_counted_apart_and_told_with_the_first_one_s_words() -> None:
    """A service that sheds two requests and breaks on one: the words of the first alone would hide that."""

    async def refused(ask: Ask, reply: Reply) -> None:
        reply.failure, reply.status = Failure.STATUS, (429, 500, 429)[ask.number]
        reply.detail = f"HTTP {reply.status}: for {ask.number}"

    tally = await sent(refused, every(1.0, 3))
    assert tally.statuses == {429: 2, 500: 1}
    assert tally.example("status") == "2 × HTTP 429, 1 × HTTP 500; the first: HTTP 429: for 0"
    whole = merged([tally, await sent(refused, every(1.0, 2))])
    assert (whole.failures, whole.statuses) == ({"status": 5}, {429: 3, 500: 2})


async def test_more_streams_than_may_be_open_are_not_sent_and_counted_as_failed() -> None:
    tally = await sent(Service(stall_s=(0.0, 20.0)).send, every(0.1, 100), Bounds(30.0, most_open=40))
    assert (tally.sent, tally.failures, tally.open_most) == (40, {"too_many_open": 60}, 40)


@pytest.mark.parametrize("at_s", [0.0, 4.96], ids=["before anything", "in the middle"])
async def test_a_run_that_is_stopped_keeps_what_was_known_and_says_what_was_cut(at_s: float) -> None:
    tally = Tally()
    sender = Sender(Service(stall_s=(4.0, 100.0)).send, WallClock(), BOUNDS, tally)
    asyncio.get_running_loop().call_later(at_s, sender.stop)
    await sender.run(every(0.1, 1000), 0.0)
    assert now_s() == pytest.approx(at_s, abs=0.01)
    assert tally.due == tally.completed + tally.cut
    assert tally.due == (50 if at_s else tally.due)
    assert tally.completed == (40 if at_s else 0)
    assert tally.open_now == 0


async def test_tallies_of_workers_are_one() -> None:
    whole = every(0.1, 100)
    parts = [await sent(Service().send, whole.share(number, 3)) for number in range(3)]
    both = merged(parts)
    assert (both.due, both.completed, both.e2e_s.count) == (100, 100, 100)
    assert sum(second.completed for second in both.seconds.values()) == 100
