"""What a pod may send beside its page, against one that never stops sending it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from autoscaler.adapters.engines.bounded import BESIDE_BYTES
from autoscaler.adapters.engines.fetch import Fetcher, Trouble, fetching
from autoscaler.adapters.engines.targets import Place
from autoscaler.ports import Fault
from tests.kube.clients import until

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PAGE = b"vllm:num_requests_running 3\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)


class Liar:
    """Sends `first` to each question, then `more` for as long as anybody takes it."""

    def __init__(self, first: bytes, more: bytes) -> None:
        self.first, self.more = first, more
        self.port = 0
        self.questions = self.ended = 0
        self.tasks: set[asyncio.Task[None] | None] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.current_task())
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.questions += 1
                writer.write(self.first)
                while self.more:
                    writer.write(self.more)
                    await writer.drain()
        self.ended += 1
        writer.close()


@asynccontextmanager
async def lying(first: bytes, more: bytes) -> AsyncIterator[tuple[Liar, Fetcher, Place]]:
    liar = Liar(first, more)
    server = await asyncio.start_server(liar.answer, "127.0.0.1", 0)
    place = Place("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        async with asyncio.timeout(10.0), fetching(timeout_s=3600.0, allow_loopback=True) as fetcher:
            yield liar, fetcher, place
    finally:
        server.close()
        for task in liar.tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in liar.tasks if task is not None), return_exceptions=True)


LIES = {
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
    "interim answers with headers": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" * 500),
    "a chunk's extension": (CHUNKED + b"1;", b"x" * 16_384),
    "chunks with extensions": (CHUNKED, (b"1;" + b"x" * 200 + b"\r\na\r\n") * 100),
    "chunks of a byte": (CHUNKED, b"1\r\na\r\n" * 2_000),
    "blank lines": (b"", b"\r\n" * 8_000),
}


@pytest.mark.parametrize(("first", "more"), LIES.values(), ids=LIES.keys())
async def test_whoever_sends_no_end_of_what_is_no_page_is_cut_off_long_before_the_deadline(
    first: bytes, more: bytes
) -> None:
    async with lying(first, more) as (liar, fetcher, place):
        for _ in range(2):
            answer = await fetcher.get(place)
            assert answer == Trouble(Fault.INVALID, f"more than {BESIDE_BYTES} bytes came that are no page")
        await until(lambda: liar.ended == 2)


async def test_answers_that_nobody_asked_for_end_the_connection_and_cost_no_page() -> None:
    async with lying(WHOLE, WHOLE * 100) as (liar, fetcher, place):
        assert await fetcher.get(place) == PAGE
        await until(lambda: liar.ended == 1)
        assert await fetcher.get(place) == PAGE
        await until(lambda: liar.ended == 2)
        assert liar.questions == 2


async def test_a_page_in_chunks_of_a_line_is_a_page_and_so_is_the_next_on_the_connection() -> None:
    line = b"m" * 99 + b"\n"
    page = b"%x\r\n%s\r\n" % (len(line), line) * 10_000
    async with lying(CHUNKED + page + b"0\r\n\r\n", b"") as (liar, fetcher, place):
        for _ in range(4):
            assert await fetcher.get(place) == line * 10_000, "a megabyte with 60,000 bytes of framing"
        assert (liar.questions, len(liar.tasks)) == (4, 1)
