"""What crowds can take of the server: calls on a connection, calls in all, and connections, each with its bound.

A call counts from its first bytes, so that one that is begun and never says what it asks takes room. Of both there are
514 on a connection here, and 1,028 in all.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager

import grpc
import pytest

from autoscaler.adapters.keda import server
from autoscaler.adapters.keda.answers import Served
from autoscaler.adapters.keda.server import CALLERS, CALLS, SERVICE
from tests.keda.book import CHAT, Book, calling, ref, serving

MOST_STREAMS = 2
ON_ONE = MOST_STREAMS + CALLS
IN_ALL = CALLERS * ON_ONE
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])

Begun = grpc.aio.StreamUnaryCall[bytes, bytes]


@asynccontextmanager
async def beginning(port: int, calls: int) -> AsyncIterator[list[Begun]]:
    """So many calls of one connection, of which none says what it asks."""
    own = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own) as channel:
        method: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(f"/{SERVICE}/GetMetrics")
        begun = [method() for _ in range(calls)]
        yield begun
        for call in begun:
            call.cancel()


async def test_no_connection_begins_more_calls_than_are_its_own() -> None:
    """Else this one would take all that there are."""
    async with (
        serving(Book({CHAT: Served(1, 1)}), most_streams=MOST_STREAMS) as port,
        calling(port) as client,
        beginning(port, IN_ALL + 100) as begun,
    ):
        await asyncio.sleep(1.0)  # nothing tells that the server has taken them
        for _ in range(10):
            assert (await client.IsActive(ref(), timeout=20)).result
        assert not any(call.done() for call in begun)


async def test_no_crowd_begins_more_calls_than_there_are() -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(Book({CHAT: Served(1, 1)}), most_streams=MOST_STREAMS))
        crowd = [await stack.enter_async_context(beginning(port, ON_ONE)) for _ in range(CALLERS + 1)]
        calls = [call for begun in crowd for call in begun]
        for _ in range(200):
            await asyncio.sleep(0.05)
            if sum(call.done() for call in calls) >= len(calls) - IN_ALL:
                break
        await asyncio.sleep(0.2)  # for one more, which there must not be
        refused = [call for call in calls if call.done()]
        assert len(refused) == len(calls) - IN_ALL
        # Where a refusal overtakes the rest of a call's beginning, the transport says so in words of its own.
        assert grpc.StatusCode.RESOURCE_EXHAUSTED in {await call.code() for call in refused}


@contextmanager
def knocking(port: int, crowd: int, words: bytes) -> Iterator[None]:
    """So many connections that say so much and no more."""
    with ExitStack() as stack:
        for _ in range(crowd):
            knock = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            knock.sendall(words)
        yield


@pytest.mark.parametrize(
    ("words", "handshake_s", "keepalive_s"),
    [
        pytest.param(b"", 0.5, 600.0, id="say nothing"),
        pytest.param(PREFACE, 0.5, 600.0, id="begin to greet"),
        pytest.param(PREFACE + SETTINGS, 600.0, 0.5, id="greet"),
    ],
)
async def test_a_crowd_of_connections_keeps_a_new_caller_out_for_no_longer_than_its_bound(
    words: bytes, handshake_s: float, keepalive_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_S", handshake_s)
    monkeypatch.setattr(server, "KEEPALIVE_S", keepalive_s)
    monkeypatch.setattr(server, "KEEPALIVE_TIMEOUT_S", keepalive_s)
    async with serving(Book({CHAT: Served(1, 1)}), most_connections=20) as port, calling(port) as old:
        assert (await old.IsActive(ref())).result
        with knocking(port, 60, words):
            begun_s = time.monotonic()
            async with calling(port, (("grpc.initial_reconnect_backoff_ms", 100),)) as new:
                assert (await new.IsActive(ref(), wait_for_ready=True, timeout=30)).result
            assert time.monotonic() - begun_s > 0.2, "it was let in at once: the crowd kept nobody out"
            assert (await old.IsActive(ref())).result


def test_a_crowd_that_only_greets_is_gone_before_kedas_next_poll() -> None:
    """KEDA polls every 30 s by default."""
    assert server.HANDSHAKE_S <= 5.0
    assert server.KEEPALIVE_S + server.KEEPALIVE_TIMEOUT_S <= 20.0
