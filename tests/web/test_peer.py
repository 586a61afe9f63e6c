"""Another replica over HTTP: its bytes, or a fault, within a time and a size."""

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from autoscaler.adapters.web import peer
from autoscaler.adapters.web.peer import address_of, peers
from autoscaler.adapters.web.tls import Tls
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


async def told(path: str, timeout_s: float = 5.0, host: str = "127.0.0.1") -> bytes:
    app = web.Application()
    app.router.add_get("/{tail:.*}", _answer)
    async with TestServer(app, shutdown_timeout=0.0) as server, peers(timeout_s) as others:
        return await others.get(address_of(host, server.port or 0, secure=False), path)


async def test_the_bytes_of_an_answer_come_as_they_are() -> None:
    assert await told("/api/snapshot") == b"\x00learnt"


async def test_a_pods_address_of_ipv6_is_asked_as_one_of_ipv4_is() -> None:
    """The address maps 127.0.0.1: without brackets it is no URL, whoever listens there."""
    assert await told("/api/snapshot", host="::ffff:127.0.0.1") == b"\x00learnt"


@pytest.mark.parametrize(
    ("host", "secure", "address"),
    [
        ("10.0.0.7", False, "10.0.0.7:8080"),
        ("headroom-0", True, "https://headroom-0:8080"),
        ("fd00::7", False, "[fd00::7]:8080"),
        ("fd00::7", True, "https://[fd00::7]:8080"),
        ("[fd00::7]", False, "[fd00::7]:8080"),
    ],
)
def test_the_lease_says_where_a_replica_is_as_a_url_does(host: str, secure: bool, address: str) -> None:
    assert address_of(host, 8080, secure=secure) == address


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


async def test_while_an_upgrade_turns_certificates_on_neither_side_asks_the_other() -> None:
    """No name is looked up and nothing connected to: the one would be told by anybody, the other talk to nobody."""
    secure = address_of("127.0.0.1", 8080, secure=True)
    async with peers(2.0) as old:
        with pytest.raises(PortError, match=rf"GET {secure}/api/snapshot: not asked: it speaks TLS") as caught:
            await old.get(secure, "/api/snapshot")
        assert caught.value.fault is Fault.DENIED
    async with peers(2.0, tls=Tls(Path("tls.crt"), Path("tls.key"))) as new:
        with pytest.raises(PortError, match="not asked: it shows no certificate") as caught:
            await new.get(address_of("127.0.0.1", 8080, secure=False), "/api/snapshot")
        assert caught.value.fault is Fault.DENIED
