"""When targets are asked, on virtual time and without sockets."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.adapters.engines.fetch import Trouble
from autoscaler.adapters.engines.polling import Lane, Poller, phase_of
from autoscaler.adapters.engines.targets import Place, ScrapeTarget
from autoscaler.ports import Fault
from autoscaler.runtime.clock import ScaledClock

pytestmark = pytest.mark.looptime(noop_cycles=1)

REFUSED = Trouble(Fault.UNAVAILABLE, "connection refused")


def pod(number: int, port: int = 8000) -> ScrapeTarget:
    return ScrapeTarget("team/chat", f"pod-{number}", f"uid-{number}", f"10.0.{number // 250}.{number % 250}", port)


class World:
    """Answers questions after a delay, and remembers when they came."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self.clock = ScaledClock()
        self.asked: list[tuple[float, str]] = []
        self.absorbed: list[tuple[str, bytes | Trouble]] = []
        self.answers: dict[str, bytes | Trouble] = {}
        self.takes_s = 0.01
        self.poller: Poller[ScrapeTarget] = Poller(self.clock, interval_s, self.absorb)

    async def get(self, place: Place) -> bytes | Trouble:
        self.asked.append((self.clock.now(), place.ip))
        await asyncio.sleep(self.takes_s)
        return self.answers.get(place.ip, b"page")

    def absorb(self, target: ScrapeTarget, answer: bytes | Trouble) -> bool:
        self.absorbed.append((target.pod, answer))
        return isinstance(answer, bytes)

    def times(self, ip: str) -> list[float]:
        return [at_s for at_s, asked in self.asked if asked == ip]

    async def until(self, at_s: float) -> None:
        await self.clock.sleep_until(at_s)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.poller.run(self.get))
            yield
            task.cancel()


async def test_a_thousand_pods_are_asked_once_a_second_each_and_never_in_a_burst() -> None:
    world = World()
    for number in range(1000):
        world.poller.put(pod(number))
    async with world.running():
        await world.until(4.0)
    counts = Counter(ip for at_s, ip in world.asked if 1.0 <= at_s < 3.0)
    assert set(counts.values()) == {2}
    assert len(counts) == 1000
    hundredths = Counter(int(at_s * 100) for at_s, _ in world.asked if 1.0 <= at_s < 3.0)
    assert max(hundredths.values()) <= 25, "10 on average"


async def test_hundreds_that_are_due_in_one_turn_are_asked_few_at_a_time_and_soon() -> None:
    """As after a second without processor time: asked together, their answers would come together, and hold all up."""
    world = World()
    for number in range(400):
        world.poller.put(pod(number))
    async with world.running():
        await world.until(2.5)
        world.asked.clear()
        for number in range(400):
            world.poller.put(pod(number, port=9000))
        await world.until(2.501)
        assert len(world.asked) <= 16 + 1
        await world.until(2.5 + 400 / 16 * 0.005)
        at_once = Counter(at_s for at_s, _ in world.asked)
        assert max(at_once.values()) <= 16
        assert len({ip for _, ip in world.asked}) == 400


@settings(deadline=None)
@given(st.uuids(), st.sampled_from([1.0, 2.0, 5.0]), st.floats(0, 1e6), st.integers(0, 40))
def test_a_turn_is_ahead_at_its_place_in_the_interval_and_never_far(uid, interval_s, now_s, failures) -> None:
    lane = Lane(pod(1), phase_of(str(uid)), failures)
    next_s = lane.next_s(now_s, interval_s)
    assert now_s < next_s <= now_s + max(interval_s, 5.0) + 0.1 * interval_s
    assert (next_s / interval_s) % 1.0 == pytest.approx(lane.phase, abs=1e-6)


async def test_a_target_that_keeps_failing_is_asked_less_but_every_five_seconds() -> None:
    world = World()
    target = pod(1)
    world.answers[target.ip] = REFUSED
    world.poller.put(target)
    async with world.running():
        await world.until(60.0)
        gaps = [round(b - a) for a, b in zip(world.times(target.ip), world.times(target.ip)[1:], strict=False)]
        assert gaps[:6] == [1, 1, 1, 2, 4, 5]
        assert set(gaps[5:]) == {5}
        world.answers.clear()
        await world.until(66.0)
        recovered_s = world.times(target.ip)[-1]
        await world.until(70.0)
    assert len([at_s for at_s in world.times(target.ip) if at_s > recovered_s]) >= 3, "once a second again"


@pytest.mark.parametrize("failures", [1027, 20_000])
def test_a_page_that_fails_for_hours_or_days_is_asked_every_five_seconds_still(failures: int) -> None:
    """One pod with a port that answers nothing ended the questions to all others after an hour and a half."""
    lane = Lane(pod(1), 0.5, failures)
    assert lane.next_s(1000.5, 1.0) == 1005.5


class BusyClock(ScaledClock):
    """Time that also passes while pages are read."""

    spent_s = 0.0

    def now(self) -> float:
        return super().now() + self.spent_s


class Costly(World):
    """Pages that take a while to read: seconds by pod."""

    def __init__(self, cost_s: dict[str, list[float]]) -> None:
        super().__init__()
        self.cost_s = cost_s
        self.clock = self.busy = BusyClock()
        self.poller = Poller(self.clock, 1.0, self.absorb)

    def absorb(self, target: ScrapeTarget, answer: bytes | Trouble) -> bool:
        costs = self.cost_s.get(target.pod, [0.001])
        self.busy.spent_s += costs.pop(0) if len(costs) > 1 else costs[0]
        return super().absorb(target, answer)


@pytest.mark.parametrize("costly", [1, 4, 20])
async def test_pages_that_take_long_to_read_take_three_tenths_of_the_time_at_most(costly: int) -> None:
    """Twenty pods whose pages are a megabyte of labels, 0.25 s each: asked every second, nothing else was done."""
    world = Costly({f"pod-{number}": [0.25] for number in range(costly)})
    for number in range(30):
        world.poller.put(pod(number))
    async with world.running():
        await world.until(60.0)
        world.absorbed.clear()
        await world.until(180.0)
    counts = Counter(name for name, _ in world.absorbed)
    assert sum(counts[f"pod-{number}"] for number in range(costly)) * 0.25 <= (0.1 if costly == 1 else 0.35) * 120.0
    assert min(counts[f"pod-{number}"] for number in range(costly)) >= 2, "it is asked all the same"
    assert min(counts[f"pod-{number}"] for number in range(costly, 30)) >= 85, "nobody else is asked less for it"


async def test_a_page_during_which_the_machine_stood_still_counts_for_nothing() -> None:
    world = Costly({"pod-1": [0.001, 0.9, 0.001]})
    world.poller.put(pod(1))
    async with world.running():
        await world.until(30.0)
    assert len(world.absorbed) >= 27


async def test_a_pod_that_becomes_ready_is_asked_at_once_however_often_it_had_failed() -> None:
    world = World()
    target = pod(1)
    world.answers[target.ip] = REFUSED
    world.poller.put(target)
    async with world.running():
        await world.until(40.02)
        world.answers.clear()
        world.poller.put(ScrapeTarget("team/chat", "pod-1", "uid-1", target.ip, 8000, ready_since_s=40.0))
        await world.until(40.03)
        assert world.times(target.ip)[-1] == pytest.approx(40.02)


async def test_a_slow_target_is_asked_one_question_at_a_time_and_delays_nobody() -> None:
    world = World()
    slow, quick = pod(1), pod(2)

    async def get(place: Place) -> bytes | Trouble:
        world.takes_s = 2.5 if place.ip == slow.ip else 0.01
        return await World.get(world, place)

    world.poller.put(slow)
    world.poller.put(quick)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.poller.run(get))
        await world.until(31.0)
        task.cancel()
    assert len(world.times(quick.ip)) >= 30
    assert len(world.times(slow.ip)) <= 11
    assert min(b - a for a, b in zip(world.times(slow.ip), world.times(slow.ip)[1:], strict=False)) >= 2.5


async def test_an_answer_of_an_address_that_is_no_longer_the_pods_is_thrown_away() -> None:
    world = World()
    world.takes_s = 0.5
    world.answers = {"10.0.0.1": b"somebody else's", "10.0.0.2": b"its own"}
    world.poller.put(ScrapeTarget("team/chat", "pod-1", "uid-1", "10.0.0.1", 8000))
    async with world.running():
        first_s = phase_of("uid-1")
        await world.until(first_s + 0.2)
        world.poller.put(ScrapeTarget("team/chat", "pod-1", "uid-1", "10.0.0.2", 8000))
        await world.until(first_s + 1.2)
    assert world.absorbed == [("pod-1", b"its own")]


async def test_a_dropped_target_is_asked_no_more_and_its_answer_on_the_way_is_thrown_away() -> None:
    world = World()
    world.takes_s = 0.5
    world.poller.put(pod(1))
    async with world.running():
        await world.until(phase_of("uid-1") + 0.2)
        assert len(world.asked) == 1
        world.poller.drop("uid-1")
        world.poller.drop("uid-1")
        await world.until(5.0)
    assert (len(world.asked), world.absorbed, world.poller.targets) == (1, [], 0)


async def test_putting_the_same_target_again_changes_nothing() -> None:
    world = World()
    async with world.running():
        for tenth in range(100):
            await world.until(tenth / 10)
            world.poller.put(pod(1))
    assert len(world.asked) <= 10
