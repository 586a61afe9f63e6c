"""The server around the calls: health, reflection, limits, and a stop in good order."""

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from autoscaler.adapters.keda.answers import Served
from autoscaler.adapters.keda.polls import SAME_POLL_S
from autoscaler.adapters.keda.server import KEEPALIVE_S, KEEPALIVE_TIMEOUT_S, SERVICE
from autoscaler.errors import InputError
from autoscaler.settings.keda import Keda
from tests.keda.book import CHAT, NOT_LEADING, SYNCING, Book, calling, query, ref, serving

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold in real time."""
    for _ in range(int(seconds / 0.01)):
        if holds():
            return True
        await asyncio.sleep(0.01)
    return False


async def test_health_says_serving_only_while_numbers_are_given() -> None:
    book = Book(is_ready=False)
    async with serving(book) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watched = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        assert (await watched.read()).status == NOT_SERVING
        book.is_ready = True
        assert (await watched.read()).status == SERVING
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == SERVING
        book.is_ready = False
        assert (await watched.read()).status == NOT_SERVING


@pytest.mark.parametrize("address", ["127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])])
async def test_unless_told_otherwise_it_listens_on_every_address_of_the_pod(address: str) -> None:
    async with serving(Book(), host=Keda().host) as port, grpc.aio.insecure_channel(f"{address}:{port}") as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == SERVING


@pytest.mark.parametrize("service", ["", SERVICE])
async def test_health_is_told_by_name(service: str) -> None:
    async with serving(Book()) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        assert (await health.Check(health_pb2.HealthCheckRequest(service=service))).status == SERVING
        with pytest.raises(grpc.aio.AioRpcError, match="'nobody' is not served here") as refused:
            await health.Check(health_pb2.HealthCheckRequest(service="nobody"))
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        watched = health.Watch(health_pb2.HealthCheckRequest(service="nobody"))
        assert (await watched.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


async def test_whoever_watches_health_or_reflects_leaves_room_for_kedas_calls() -> None:
    """Their streams count against the server's calls, of which there are twice 514 here."""
    book = Book({CHAT: Served(1, 1)})
    own = (("grpc.use_local_subchannel_pool", 1),)
    async with serving(book, most_streams=2) as port, calling(port) as client:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own) as channel:
            health, mirror = health_pb2_grpc.HealthStub(channel), reflection_pb2_grpc.ServerReflectionStub(channel)
            watches = [health.Watch(health_pb2.HealthCheckRequest()) for _ in range(400)]
            mirrors = [mirror.ServerReflectionInfo() for _ in range(400)]
            question = reflection_pb2.ServerReflectionRequest(list_services="")
            for stream in mirrors:
                with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):  # refused already
                    await stream.write(question)
            codes = [await ended(stream) for stream in (*watches, *mirrors)]
            assert (codes[:400].count(None), codes[400:].count(None)) == (64, 64)
            # The others are refused; where that overtakes the question, the transport says so in words of its own.
            assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes[:400]
            for _ in range(10):
                assert (await client.IsActive(ref(), timeout=2)).result
        assert (await client.IsActive(ref(), timeout=2)).result


async def test_a_caller_that_never_sends_what_it_asks_leaves_room_for_kedas_calls() -> None:
    """A call counts from its first bytes: 514 of these are one connection's worth, and 600 are tried."""
    book = Book({CHAT: Served(1, 1)})
    own = (("grpc.use_local_subchannel_pool", 1),)
    async with (
        serving(book, most_streams=2) as port,
        calling(port) as client,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own) as channel,
    ):
        begin: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(f"/{SERVICE}/GetMetrics")
        begun = [begin() for _ in range(600)]
        await asyncio.sleep(1.0)  # nothing tells that the server has taken them
        for _ in range(10):
            assert (await client.IsActive(ref(), timeout=20)).result
        for call in begun:
            call.cancel()


@pytest.mark.parametrize("size", [25_000, 70_000], ids=["25 kB", "70 kB"])
async def test_headers_that_are_too_long_are_refused_and_nobody_else_notices(size: int) -> None:
    book = Book({CHAT: Served(1, 1)})
    async with serving(book) as port, calling(port) as rude, calling(port) as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rude.IsActive(ref(), metadata=(("x-noise", "x" * size),), timeout=30)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await client.IsActive(ref())).result
    assert book.asked == 1


async def ended(stream: Any) -> grpc.StatusCode | None:
    """How a stream has been ended; None where it gives a message instead."""
    try:
        return None if await stream.read() is not grpc.aio.EOF else await stream.code()
    except grpc.aio.AioRpcError as error:
        return error.code()


async def test_reflection_names_the_service() -> None:
    async with serving(Book()) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = [a async for a in stub.ServerReflectionInfo(iter([question]))]
    assert SERVICE in {service.name for service in answer.list_services_response.service}
    assert SERVICE == "externalscaler.ExternalScaler"


async def test_every_number_that_hpa_is_told_is_noted_and_a_refusal_is_none() -> None:
    book = Book({CHAT: Served(5, 5, 37)})
    async with serving(book) as port, calling(port) as client:
        await client.GetMetrics(query())
        await client.GetMetrics(query("headroom-demand", {"value": "demand", "perReplica": "8"}))
        await client.IsActive(ref())
        book.put(SYNCING)
        await asyncio.sleep(SAME_POLL_S)
        with suppress(grpc.aio.AioRpcError):
            await client.GetMetrics(query())
    assert book.numbers == [5, 37]


async def test_a_value_that_is_held_is_flagged_with_its_age() -> None:
    """Edge case 4, kedacore/keda#8173 and #2665: what feeds us hangs; the last good word is told at once."""
    book = Book({CHAT: Served(5, 5, age_s=42.0, held=True)})
    async with serving(book) as port, calling(port) as client:
        begun_s = time.monotonic()
        call = client.GetMetrics(query())
        (found,) = (await call).metricValues
        assert time.monotonic() - begun_s < 1.0
        assert found.metricValueFloat == 5
        trailing = dict(await call.trailing_metadata())
    assert (trailing["headroom-held"], trailing["headroom-age-seconds"]) == ("true", "42.0")
    assert book.counts.held == 1


@pytest.mark.parametrize("name", ["headroom-replicas", "s0-headroom-replicas", "s12-headroom-replicas"])
async def test_a_metric_keeps_the_name_it_was_asked_by(name: str) -> None:
    async with serving(Book({CHAT: Served(5, 5)})) as port, calling(port) as client:
        (found,) = (await client.GetMetrics(query(name))).metricValues
    assert found.metricName == name


@pytest.mark.parametrize(
    "name", ["", "cpu", "headroom-demand", "s0-s0-headroom-replicas", "s-headroom-replicas", "x" * 9000]
)
async def test_a_metric_that_is_not_ours_is_refused_by_name(name: str) -> None:
    async with serving(Book({CHAT: Served(5, 5)})) as port, calling(port) as client:
        with pytest.raises(grpc.aio.AioRpcError, match="is not served; the trigger's is headroom-replicas") as refused:
            await client.GetMetrics(query(name))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("key", [("", ""), ("prod", ""), ("", "chat")], ids=str)
async def test_a_call_that_names_nobody_is_refused(key: tuple[str, str]) -> None:
    async with serving(Book()) as port, calling(port) as client:
        for call in (client.IsActive, client.GetMetricSpec):
            with pytest.raises(grpc.aio.AioRpcError, match="the call names no ScaledObject") as refused:
                await call(ref(key=key))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("size", [70_000, 10_000_000], ids=["70 kB", "10 MB"])
async def test_metadata_that_is_too_long_is_refused_unread_and_nobody_else_notices(size: int) -> None:
    book = Book({CHAT: Served(5, 5)})
    unlimited = (("grpc.max_send_message_length", -1),)
    async with serving(book) as port, calling(port, unlimited) as rude, calling(port) as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rude.GetMetrics(query(metadata={"value": "x" * size}))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await client.IsActive(ref())).result
    assert book.asked == 1


async def test_a_trigger_that_is_not_there_costs_others_nothing() -> None:
    book = Book({CHAT: Served(5, 5)})
    async with serving(book) as port, calling(port) as client:
        answers = await asyncio.gather(
            *(client.IsActive(ref(key=("prod", f"nobody-{n}"))) for n in range(50)),
            client.IsActive(ref()),
            return_exceptions=True,
        )
    assert [type(answer).__name__ for answer in answers] == ["AioRpcError"] * 50 + ["IsActiveResponse"]


async def test_one_stream_too_many_is_refused_and_calls_still_find_room() -> None:
    book = Book({CHAT: Served(5, 5)})
    async with serving(book, most_streams=2) as port, calling(port) as client:
        streams = [client.StreamIsActive(ref()), client.StreamMetricSpec(ref())]
        for stream in streams:
            await stream.read()
        with pytest.raises(grpc.aio.AioRpcError, match="2 streams are open") as refused:
            await client.StreamIsActive(ref()).read()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await client.IsActive(ref())).result
        streams[0].cancel()
        assert await within(5.0, lambda: book.counts.streams == 1)
        assert (await client.StreamIsActive(ref()).read()).result


async def test_a_caller_that_never_reads_its_stream_has_one_message_waiting_and_costs_nobody_else() -> None:
    book = Book({CHAT: Served(1, 1)})
    # Its transport takes what fits into its window by itself: 1 KiB, some 150 messages.
    small = (("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0))
    async with serving(book) as port, calling(port, small) as deaf, calling(port) as client:
        silent = deaf.StreamIsActive(ref())
        heard = client.StreamIsActive(ref())
        assert (await heard.read()).result
        for count in range(1001):
            book.say(count % 2)
            assert (await heard.read()).result is bool(count % 2)
        assert book.counts.pushed < 1002 + 400
        assert (await client.IsActive(ref())).result is False
        # What changed meanwhile is not told one by one; the last word is.
        words = []
        with suppress(TimeoutError):
            while True:
                words.append((await asyncio.wait_for(silent.read(), 0.5)).result)
        assert len(words) < 400
        assert words[-1] is False


@pytest.mark.slow
async def test_a_caller_that_vanished_is_noticed_by_keepalive() -> None:
    """Its node is gone: nothing says so, and nothing is answered. KEDA sends no keepalive of its own."""
    book = Book({CHAT: Served(1, 1)})
    async with serving(book) as port:
        with cut_off(port) as (between, cut), suppress(grpc.aio.AioRpcError):
            async with calling(between) as client:
                stream = client.StreamIsActive(ref())
                assert (await stream.read()).result
                cut.set()
                assert book.counts.streams == 1
                assert await within(KEEPALIVE_S + KEEPALIVE_TIMEOUT_S + 10.0, lambda: book.counts.streams == 0)


@contextmanager
def cut_off(port: int) -> Iterator[tuple[int, threading.Event]]:
    """A way to `port` on which nothing passes any more once the event is set, and nothing is closed."""
    cut, ended = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as door:

        def forward() -> None:
            here, _ = door.accept()
            there = socket.create_connection(("127.0.0.1", port))
            with here, there:
                while not ended.is_set():
                    ready, _, _ = select.select([] if cut.is_set() else [here, there], [], [], 0.05)
                    for end in ready:
                        (there if end is here else here).sendall(end.recv(65536))

        forwarding = threading.Thread(target=forward)
        forwarding.start()
        try:
            yield door.getsockname()[1], cut
        finally:
            ended.set()
            forwarding.join()


async def test_the_activity_that_changes_is_pushed_within_a_second() -> None:
    """Edge case 18's last step; what comes before it is the decision."""
    book = Book({CHAT: Served(0, 0)})
    async with serving(book) as port, calling(port) as client:
        stream = client.StreamIsActive(ref())
        assert not (await stream.read()).result
        begun_s = time.monotonic()
        book.say(3, standing=0)
        assert (await stream.read()).result
    assert time.monotonic() - begun_s < 1.0


async def test_specs_are_never_an_empty_list() -> None:
    """Edge case 3, kedacore/keda#8115: KEDA keeps what it is sent, and would keep an empty list too."""
    async with serving(Book()) as port, calling(port) as client:
        for metadata in ({}, {"value": "demand", "perReplica": "3"}, {"nonsense": "1"}):
            assert len((await client.GetMetricSpec(ref(metadata))).metricSpecs) == 1
            assert len((await client.StreamMetricSpec(ref(metadata)).read()).metricSpecs) == 1


async def test_a_server_that_is_started_again_tells_the_same_spec_in_less_than_two_seconds() -> None:
    """Edge case 2, kedacore/keda#8056: while GetMetricSpec cannot be reached KEDA counts no failure and falls back to
    nothing.
    """
    specs = []
    begun_s = time.monotonic()
    for _ in range(2):
        async with serving(Book({CHAT: SYNCING})) as port, calling(port) as client:
            specs.append(await client.GetMetricSpec(ref({"value": "demand", "perReplica": "8"})))
    assert time.monotonic() - begun_s < 2.0
    assert specs[0] == specs[1]


async def test_stopping_ends_streams_in_good_order_and_health_first() -> None:
    book = Book({CHAT: Served(1, 1)})
    async with AsyncExitStack() as stack:
        async with serving(book) as port:
            client = await stack.enter_async_context(calling(port))
            streams = [client.StreamIsActive(ref()), client.StreamMetricSpec(ref())]
            for stream in streams:
                await stream.read()
        for stream in streams:
            assert await stream.read() is grpc.aio.EOF
            assert await stream.code() is grpc.StatusCode.OK
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.IsActive(ref(), timeout=2)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_port_that_another_server_of_ours_has_is_not_shared_with_it() -> None:
    async with serving(Book()) as port:
        with pytest.raises(InputError, match=rf"keda\.port {port} on 127\.0\.0\.1: .*; set another keda\.port"):
            async with serving(Book(), port=port):
                pass


@pytest.mark.parametrize(
    ("most", "crowd"),
    [
        pytest.param(20, 200, id="200 at a limit of 20"),
        pytest.param(1024, 10_000, id="10,000 at the limit there is", marks=pytest.mark.slow),
    ],
)
async def test_a_crowd_of_connections_is_turned_away_and_nobody_else_notices(most: int, crowd: int) -> None:
    book = Book({CHAT: Served(1, 1)})
    async with serving(book, most_connections=most) as port, calling(port) as client:
        assert (await client.IsActive(ref())).result
        before_kb = resident_kb()
        with ExitStack() as stack:
            knocking = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(crowd)]
            for knock in knocking:
                knock.setblocking(False)
            assert (await client.IsActive(ref())).result
            await asyncio.sleep(0.5)
            turned_away = sum(is_closed(knock) for knock in knocking)
        assert turned_away >= crowd - most
        assert resident_kb() - before_kb < 64 * 1024
        assert (await client.IsActive(ref())).result


def is_closed(knock: socket.socket) -> bool:
    """Whether the other side hung up; a server that lets us in says so first, in some bytes."""
    try:
        return knock.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def resident_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def test_a_replica_that_does_not_lead_gives_the_spec_and_nothing_else() -> None:
    async with serving(Book({CHAT: NOT_LEADING}, is_ready=False)) as port, calling(port) as client:
        assert (await client.GetMetricSpec(ref())).metricSpecs[0].metricName == "headroom-replicas"
        for call in (client.GetMetrics(query()), client.IsActive(ref())):
            with pytest.raises(grpc.aio.AioRpcError, match="headroom-1 leads"):
                await call
