"""Another replica over HTTP: its bytes, or a fault, within a time and a size."""

import asyncio
import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from autoscaler.adapters.web import peer
from autoscaler.adapters.web.peer import peers
from autoscaler.ports import Fault, PortError


async def _answer(request: web.Request) -> web.StreamResponse:
    kind = request.path.strip("/")
    if kind == "moved":
        raise web.HTTPFound("/api/snapshot")
    if kind == "refused":
        return web.json_response({"error": "this replica does not lead"}, status=503)
    if kind == "hangs":
        await asyncio.sleep(60.0)
    if kind == "huge":
        return web.Response(body=b"x" * 5000)
    return web.Response(body=b"\x00learnt")


async def told(path: str, timeout_s: float = 5.0) -> bytes:
    app = web.Application()
    app.router.add_get("/{tail:.*}", _answer)
    async with TestServer(app, shutdown_timeout=0.0) as server, peers(timeout_s) as others:
        return await others.get(f"127.0.0.1:{server.port}", path)


async def test_the_bytes_of_an_answer_come_as_they_are() -> None:
    assert await told("/api/snapshot") == b"\x00learnt"


@pytest.mark.parametrize(
    ("path", "fault", "words"),
    [
        ("/moved", Fault.UNAVAILABLE, "/moved: 302"),
        ("/refused", Fault.UNAVAILABLE, "/refused: 503"),
        ("/hangs", Fault.TIMEOUT, "/hangs: no answer"),
        ("/huge", Fault.INVALID, "more than 4000 bytes"),
    ],
)
async def test_anything_else_is_a_fault(path: str, fault: Fault, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "MOST_BYTES", 4000)
    with pytest.raises(PortError, match=words) as caught:
        await told(path, 0.2 if path == "/hangs" else 5.0)
    assert caught.value.fault is fault


@pytest.mark.parametrize("address", ["127.0.0.1:{closed}", "not an address", "", "127.0.0.1:99999"])
async def test_an_address_where_nobody_is_is_a_fault(address: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    async with peers(2.0) as others:
        with pytest.raises(PortError) as caught:
            await others.get(address.format(closed=closed), "/api/snapshot")
    assert caught.value.fault is Fault.UNAVAILABLE
