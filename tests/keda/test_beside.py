"""The server in its own thread: it answers while the caller's loop is busy, and its end is noticed."""

import asyncio
import sys
import threading
import time
from dataclasses import replace

import grpc
import pytest

from autoscaler.adapters.keda.answers import Served
from autoscaler.adapters.keda.beside import Beside
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.externalscaler_pb2_grpc import ExternalScalerStub
from autoscaler.adapters.keda.server import Listen
from autoscaler.errors import InputError
from autoscaler.runtime.clock import WallClock
from tests.keda.book import CHAT, Book, calling, query, ref, serving

LISTEN = Listen("127.0.0.1", 0, None)


async def test_a_busy_loop_does_not_delay_an_answer() -> None:
    """Edge case 4, kedacore/keda#8173 and #2665: whatever else hangs, an answer comes within a second."""
    beside, took_s = Beside(WallClock(), Counts()), []

    def ask(port: int) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            begun_s = time.monotonic()
            ExternalScalerStub(channel).GetMetrics(query(), timeout=5)
            took_s.append(time.monotonic() - begun_s)

    async with beside.serving(LISTEN, Book({CHAT: Served(3, 3)})) as port:
        asking = threading.Thread(target=ask, args=(port,))
        asking.start()
        time.sleep(1.0)  # noqa: ASYNC251 - nothing else of this loop runs meanwhile
        asking.join()
    assert took_s[0] < 0.8


async def test_threads_take_turns_often_while_it_serves() -> None:
    """A call needs the interpreter three times; a driver that computes would keep it for 5 ms each time."""
    before_s = sys.getswitchinterval()
    async with Beside(WallClock(), Counts()).serving(LISTEN, Book()):
        assert sys.getswitchinterval() <= 0.001
    assert sys.getswitchinterval() == before_s


async def test_news_from_another_thread_is_pushed_and_streams_end_when_they_are_told_to() -> None:
    book, beside = Book({CHAT: Served(0, 0)}), Beside(WallClock(), Counts())
    beside.tell(*CHAT)  # before it serves nobody listens
    async with beside.serving(LISTEN, book) as port, calling(port) as client:
        stream = client.StreamIsActive(ref())
        assert not (await stream.read()).result
        book.answers[CHAT] = Served(2, 0)
        beside.tell(*CHAT)
        beside.tell("prod", "nobody")
        assert (await asyncio.wait_for(stream.read(), 1.5)).result
        beside.end_streams()
        assert await asyncio.wait_for(stream.read(), 1.5) is grpc.aio.EOF


async def test_a_port_that_is_taken_is_told_to_who_asked() -> None:
    async with serving(Book()) as port:
        with pytest.raises(InputError, match=rf"keda\.port {port} on 127\.0\.0\.1"):
            async with Beside(WallClock(), Counts()).serving(Listen("127.0.0.1", port, None), Book()):
                pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_server_that_cannot_begin_for_whatever_reason_is_told_to_who_asked() -> None:
    """Else the controller would wait for it for ever, alive and silent."""
    with pytest.raises(TypeError):
        async with asyncio.timeout(5), Beside(WallClock(), Counts()).serving(replace(LISTEN, host=b"bytes"), Book()):  # type: ignore[arg-type]
            pass
    for thread in threading.enumerate():  # what it raised is reported as it ends, and to the test that runs then
        if thread.name == "keda":
            await asyncio.to_thread(thread.join)


async def test_a_server_that_ends_by_itself_ends_the_block() -> None:
    beside = Beside(WallClock(), Counts())

    async def wait() -> None:
        async with beside.serving(LISTEN, Book()):
            assert beside._loop is not None
            beside._loop.call_soon_threadsafe(beside._stop.set)
            await asyncio.sleep(5)

    with pytest.raises(ExceptionGroup) as ended:
        await wait()
    assert "ended by itself" in str(ended.value.exceptions[0])
    assert "keda" not in {thread.name for thread in threading.enumerate()}
