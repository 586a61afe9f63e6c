"""One request over a real socket: what a service may do to it, and what is then said."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import numpy as np
import pytest

from loadtests.traffic import stream
from loadtests.traffic.sender import Ask
from loadtests.traffic.stream import Asking, Endpoint
from loadtests.traffic.tally import Failure, Reply
from loadtests.traffic.target import Target
from tests.loadtests.servers import PORT, STREAM, chunk, engine_server, event, fresh_address, raw_server

END = b"data: [DONE]\n\n"
LAST = chunk(b"")


@asynccontextmanager
async def endpoint(base: str, api: str = "completions") -> AsyncIterator[Endpoint]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield Endpoint(Asking(Target(base, api), "m"), session, np.random.default_rng(0))


async def replied(base: str, api: str = "completions", tokens: int = 5) -> Reply:
    reply = Reply()
    async with endpoint(base, api) as made:
        await made.send(Ask(0, 30, tokens, 0), reply)
        assert made.events == reply.events
    return reply


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_an_engine_servers_stream_is_read_to_its_end(api: str) -> None:
    async with engine_server() as server:
        reply = await replied(f"http://{server.address}:{PORT}", api)
    assert (reply.failure, reply.events, reply.prompt_tokens, reply.output_tokens) == (None, 5, 30, 5)
    assert reply.first_s is not None
    assert reply.last_s is not None
    assert reply.end_s is not None
    assert reply.first_s <= reply.last_s <= reply.end_s


async def pieces_of(*pieces: bytes) -> Reply:
    """The reply to a stream that comes in these pieces, as the service's socket sends them."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.002)

    async with raw_server(answer) as base:
        return await replied(base)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("size", [7, 50, 10_000])
async def test_events_cut_anywhere_and_lines_ended_either_way_are_read_alike(size: int, line_end: bytes) -> None:
    body = event("a") + event("") + b": a comment\n\n" + event("b") + event("c") + END
    whole = STREAM + chunk(body.replace(b"\n", line_end)) + LAST
    reply = await pieces_of(*(whole[at : at + size] for at in range(0, len(whole), size)))
    assert (reply.failure, reply.events, reply.output_tokens) == (None, 3, None)


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nno  room\n"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n"
ERROR = b'data: {"error": {"message": "out of memory"}}\n\n'


@pytest.mark.parametrize(
    ("answer", "failure", "words"),
    [
        (b"", Failure.CLOSED, "Server disconnected"),
        (STREAM + chunk(event("a")), Failure.CLOSED, r"\(1 events had come\)"),
        (STREAM + chunk(event("a")) + LAST, Failure.CLOSED, r"ended without \[DONE\] after 1 events"),
        (STREAM + chunk(END) + LAST, Failure.GARBLED, "without a token"),
        (STREAM + chunk(b"data: {nonsense\n\n") + LAST, Failure.GARBLED, "nonsense"),
        (STREAM + chunk(event("a") + ERROR) + LAST, Failure.GARBLED, "out of memory"),
        (STREAM + chunk(b"x" * 2**20) + chunk(b"xx"), Failure.GARBLED, "an event longer than 1048576 bytes"),
        (PLAIN, Failure.GARBLED, "application/json instead of text/event-stream"),
        (BUSY, Failure.STATUS, "HTTP 503: no room"),
        (MOVED, Failure.STATUS, "HTTP 302"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", Failure.GARBLED, "Bad"),
    ],
    ids=["hangs up", "hangs up in the stream", "no end", "no token", "no JSON", "an error", "no event", "no stream",
         "busy", "a redirect", "another protocol"],
)  # fmt: skip
async def test_a_service_that_misbehaves_is_told_of_in_its_own_words(
    answer: bytes, failure: Failure, words: str
) -> None:
    reply = await pieces_of(answer)
    assert reply.failure is failure, reply.detail
    assert reply.status == ({"HTTP 503: no room": 503, "HTTP 302": 302}.get(words))
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(reply.detail)


async def test_nobody_there_is_unreachable() -> None:
    reply = await replied(f"http://{fresh_address()}:{PORT}")
    assert reply.failure is Failure.UNREACHABLE
    assert "Cannot connect" in reply.detail


async def test_a_service_that_says_done_and_stays_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LEAVE_S", 0.05)

    async def stay(writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + chunk(event("a") + END))
        await asyncio.sleep(0.5)

    async with raw_server(stay) as base:
        reply = await replied(base)
    assert (reply.failure, reply.events) == (None, 1)
    assert reply.end_s == pytest.approx(reply.last_s, abs=0.3)


async def test_a_service_that_says_done_and_hangs_up_is_done() -> None:
    """It ends no stream by its last chunk; all that was asked for had come."""

    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + chunk(event("a") + END))
        await writer.drain()
        await asyncio.sleep(0.1)

    async with raw_server(hang_up) as base:
        reply = await replied(base)
    assert (reply.failure, reply.events, reply.detail) == (None, 1, "")


async def test_no_two_prompts_begin_alike() -> None:
    async with endpoint("http://127.0.0.1:1") as made:
        bodies = {made._body(Ask(number, 16, 5, 3)) for number in range(200)}
    assert len(bodies) == 200
    assert all(b'"user":"tenant-3"' in body and b'"ignore_eos":true' in body for body in bodies)
