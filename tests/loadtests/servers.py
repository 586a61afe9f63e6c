"""Servers for the load tests' own tests: engine servers of this process, and HTTP servers that misbehave on purpose."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from autoscaler.runtime.clock import WallClock
from loadtests.engines.engine import Engine
from loadtests.engines.profile import Curve, Speed
from loadtests.engines.server import Server, Stages

QUICK = Speed("quick", Curve(((1, 0.002),)), Curve(((1, 0.001),)), 8, 16_000)
"""A first token after 2 ms, another each further one."""

PORT = 8000
_numbers = itertools.count(1)


def fresh_address() -> str:
    """A loopback address that no other test of this machine uses now."""
    number = os.getpid() * 16 + next(_numbers) % 16
    return f"127.{64 + number // 62_500 % 64}.{number // 250 % 250}.{number % 250 + 1}"


@asynccontextmanager
async def engine_server(
    speed: Speed = QUICK, *, pages: str = "vllm", stages: Stages = (), model: str = "m"
) -> AsyncIterator[Server]:
    """A server whose admin port answers; where it has no stages, it is ready."""
    server = Server(fresh_address(), PORT, Engine(speed, WallClock()), model, pages, stages)
    listening = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run(listening))
        await listening.wait()
        if not stages:
            await until_open(server.address, server.port)
        yield server
        task.cancel()


async def until(true: Callable[[], object]) -> None:
    """Return once it is true."""
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is asked has no event of its own
            await asyncio.sleep(0.005)


async def until_open(address: str, port: int) -> None:
    """Return once somebody listens there."""
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection(address, port)
            except ConnectionError:
                await asyncio.sleep(0.005)
            else:
                writer.close()
                await writer.wait_closed()
                return


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_server(answer: Answer) -> AsyncIterator[str]:
    """The URL of a server that reads a request's head and body and leaves the rest to `answer`."""

    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), b":0")
            await reader.readexactly(int(length.split(b":")[1]))
            await answer(writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    address = fresh_address()
    server = await asyncio.start_server(serve, address, PORT)
    try:
        yield f"http://{address}:{PORT}"
    finally:
        server.close()
        await asyncio.wait([task for task in serving if task is not None], timeout=20)
        await server.wait_closed()


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(text: str) -> bytes:
    """One event of a stream of completions."""
    return b'data: {"choices": [{"index": 0, "text": "' + text.encode() + b'", "finish_reason": null}]}\n\n'
