"""A server that is to stop: it says so first, and answers what is on its way."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from autoscaler.adapters.keda.answers import Served
from autoscaler.adapters.keda.others import Health
from autoscaler.adapters.keda.server import SERVICE
from autoscaler.runtime.clock import WallClock
from tests.keda.book import CHAT, Book, query, serving

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def test_health_says_that_numbers_end_before_the_server_does() -> None:
    """A leader that hands over ends its streams and still serves for a while."""
    book = Book()
    async with serving(book) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watched = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        assert (await watched.read()).status == SERVING
        book.bells.close()
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == NOT_SERVING
        assert (await watched.read()).status == NOT_SERVING
        assert await watched.read() is grpc.aio.EOF
        assert await watched.code() is grpc.StatusCode.OK


async def test_a_server_that_stops_while_a_status_is_written_still_says_so() -> None:
    """Who reads a status may act on it before the write of it has ended."""
    book = Book()
    told: list[int] = []

    class Stream:
        async def write(self, answer: health_pb2.HealthCheckResponse) -> None:
            told.append(answer.status)
            book.bells.close()

    health = Health(SERVICE, book, book.bells, WallClock())
    await health.Watch(health_pb2.HealthCheckRequest(service=SERVICE), Stream())  # type: ignore[arg-type]  # all it asks
    assert told == [SERVING, NOT_SERVING]


async def test_a_call_on_its_way_is_answered_though_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.adapters.keda.server.STOP_S", 30.0)  # the call is slow, and so may be the machine
    port, stopping = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def serve() -> None:
        async with serving(Book({CHAT: Served(4, 4)})) as found:
            port.set_result(found)
            await stopping.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(serve())
        async with grpc.aio.insecure_channel(f"127.0.0.1:{await port}") as channel:
            method: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(f"/{SERVICE}/GetMetrics")
            call = method()
            await call.wait_for_connection()
            # A connection is read in order: who answers what was sent behind the call has taken the call.
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            stopping.set()
            await asyncio.sleep(0.3)
            await call.write(query().SerializeToString())
            await call.done_writing()
            assert b"headroom-replicas" in await call
