"""What one address may hold of the HTTP port, and what becomes of pages that take nothing, over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector

from autoscaler.adapters.web import server
from autoscaler.adapters.web.crowd import MOST_OF_ADDRESS
from autoscaler.adapters.web.hub import Hub
from autoscaler.adapters.web.server import MAX_OF_ADDRESS, application, running
from autoscaler.record.stream import Result, Results
from tests.kube.clients import until

ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def listening(hub: Hub) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    async with running(application(hub), listener):
        yield listener.getsockname()[1]


async def connected(port: int, address: str) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))


async def told(streams: Streams) -> bytes:
    """The status line that a connection's question gets; empty where it was ended."""
    reader, writer = streams
    with suppress(ConnectionError):
        writer.write(ASK)
        return await reader.readline()
    return b""


async def test_a_crowd_of_one_address_loses_those_that_were_quiet_longest_and_nobody_else_is_concerned() -> None:
    async with listening(Hub()) as port:
        other = await connected(port, "127.0.0.3")
        crowd = [await connected(port, "127.0.0.2") for _ in range(MOST_OF_ADDRESS)]
        assert await told(crowd[0]) == b"HTTP/1.1 200 OK\r\n", "all of them are there, and this one spoke last"
        late = [await connected(port, "127.0.0.2") for _ in range(20)]
        for streams in late:
            assert await told(streams) == b"HTTP/1.1 200 OK\r\n", "whoever comes is let in"
        ended = [reader.at_eof() or reader.exception() is not None for reader, _ in crowd]
        await until(lambda: sum(r.at_eof() or r.exception() is not None for r, _ in crowd) == 20)
        assert ended[0] is False
        assert await told(other) == b"HTTP/1.1 200 OK\r\n"
        for _, writer in (other, *crowd, *late):
            writer.close()


async def test_one_address_opens_no_more_than_its_share_of_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BEAT_S", 0.05)
    hub = Hub()
    async with listening(hub) as port, AsyncExitStack() as stack:

        def session(address: str) -> ClientSession:
            return ClientSession(f"http://127.0.0.1:{port}", connector=TCPConnector(local_addr=(address, 0), limit=0))

        crowd, other = [await stack.enter_async_context(session(f"127.0.0.{n}")) for n in (2, 3)]
        pages = [await crowd.get("/events") for _ in range(MAX_OF_ADDRESS)]
        assert {page.status for page in pages} == {200}
        refused = await crowd.get("/events")
        assert refused.status == 503
        assert "16 pages are open from 127.0.0.2" in await refused.text()
        pages.append(await other.get("/events"))
        assert pages[-1].status == 200
        pages[0].close()
        await until(lambda: hub.readers == MAX_OF_ADDRESS)
        pages.append(await crowd.get("/events"))
        assert pages[-1].status == 200
        for page in pages:
            page.close()


def table(words: str) -> Results:
    return Results("demo/chat", 3600.0, 0.99, (Result("ours", "headroom", "defaults", 1.0, 1.0, 1.0, 1.0, 1.0),), words)


async def test_a_page_that_takes_nothing_is_hung_up_on_and_its_place_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "DEAF_S", 0.2)
    hub = Hub(interval_s=0.01)
    async with listening(hub) as port:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        deaf.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: hub.readers == 1)
        words: Any = "x" * 1_000_000
        for _ in range(8):
            hub.publish_results(table(words))
            await asyncio.sleep(0)
        await until(lambda: hub.readers == 0, 5.0)
        deaf.close()


async def test_a_page_behind_a_slow_line_takes_a_large_message_in_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "DEAF_S", 0.3)
    hub = Hub(interval_s=0.01)
    hub.publish_results(table("x" * 12_000_000))
    async with listening(hub) as port:
        reader, writer = await connected(port, "127.0.0.2")
        writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        taken, begun_s = 0, asyncio.get_running_loop().time()
        while taken < 12_000_000:
            taken += len(await reader.readexactly(200_000))
            await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - begun_s > 2 * server.DEAF_S
        assert hub.readers == 1
        writer.close()


@pytest.mark.parametrize("turns", range(6))
async def test_whoever_connects_while_the_server_stops_is_hung_up_on(turns: int) -> None:
    """A browser connects ahead of what it asks. At some turn of the loop it is accepted and not yet spoken to."""
    with socket.socket() as client:
        async with listening(Hub()) as port:
            client.connect(("127.0.0.1", port))
            for _ in range(turns):
                await asyncio.sleep(0)
        client.setblocking(False)
        async with asyncio.timeout(5):
            with suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


@pytest.mark.parametrize("turns", range(4))
async def test_a_server_that_is_cancelled_twice_listens_no_more_all_the_same(turns: int) -> None:
    """Who waits for the end of a server loses patience and cancels it again while it stops."""
    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with listening(Hub()) as port:
            ports.set_result(port)
            await asyncio.sleep(60.0)

    task = asyncio.create_task(serve())
    port = await ports
    task.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    with pytest.raises(ConnectionRefusedError):
        await connected(port, "127.0.0.2")
