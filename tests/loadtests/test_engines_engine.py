"""An engine on virtual time: tokens come when the profile says, later when it is slow, not at all when it is wedged."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from autoscaler.runtime.clock import WallClock
from loadtests.engines.engine import Engine, Fault, Stream
from loadtests.engines.profile import Curve, Speed

pytestmark = pytest.mark.looptime(noop_cycles=1)

SPEED = Speed("s", Curve(((1, 0.1),)), Curve(((1, 0.05),)), 8, 16_000)


@asynccontextmanager
async def running() -> AsyncIterator[Engine]:
    engine = Engine(SPEED, WallClock())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(engine.run())
        yield engine
        task.cancel()


async def instants(stream: Stream) -> list[float]:
    """When each token came."""
    found: list[float] = []
    while count := await stream.more():
        found += [round(asyncio.get_running_loop().time(), 6)] * count
    return found


async def test_tokens_come_when_the_profile_says() -> None:
    async with running() as engine:
        assert await instants(engine.submit(10, 4)) == [0.1, 0.15, 0.2, 0.25]
        assert (engine.book.finished, engine.book.prompt_tokens, engine.book.generation_tokens) == (1, 10, 4)
        assert engine.book.ttft_s.sum == pytest.approx(0.1)
        assert engine.book.e2e_s.sum == pytest.approx(0.25)


async def test_a_request_that_comes_in_the_middle_of_a_step_waits_for_its_end() -> None:
    async with running() as engine:
        first = engine.submit(10, 40)
        await asyncio.sleep(0.26)  # the step that ends at 0.30 is on its way
        assert (await instants(engine.submit(10, 1))) == [pytest.approx(0.4)]
        assert engine.book.queue_s.sum == pytest.approx(0.04)
        engine.cancel(first)
        assert engine.book.aborted == 1


async def test_a_slow_engine_takes_as_many_times_as_long_until_it_is_healed() -> None:
    async with running() as engine:
        engine.strike(Fault.SLOW, 4.0)
        assert await instants(engine.submit(10, 2)) == [0.4, 0.6]
        engine.strike(None)
        assert await instants(engine.submit(10, 2)) == [0.7, 0.75]


async def test_a_wedged_engine_queues_what_comes_and_goes_on_when_healed() -> None:
    async with running() as engine:
        engine.strike(Fault.WEDGE)
        stream = engine.submit(10, 1)
        await asyncio.sleep(30.0)
        assert (len(engine.batch.queue), stream.pending) == (1, 0)
        engine.strike(None)
        assert await instants(stream) == [30.1]
        assert engine.book.queue_s.sum == pytest.approx(30.0)


async def test_an_engine_that_is_lost_ends_its_streams_and_begins_anew() -> None:
    async with running() as engine:
        stream = engine.submit(10, 100)
        await asyncio.sleep(0.5)
        engine.lose()
        assert len(await instants(stream)) == 9
        assert stream.lost
        assert (engine.book.generation_tokens, len(engine.batch.running)) == (0, 0)
        assert await instants(engine.submit(10, 1)) == [pytest.approx(0.65, abs=0.06)]
