"""The page over HTTP: one document, one stream of events, nothing to change. `serving` is the demonstration's server.

The host name of a request is checked, so that a foreign page cannot read the stream by pointing its own name at this
machine; the content security policy admits only the page's own inlined script and style.
"""

import asyncio
import errno
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

from autoscaler.adapters.web.assets import page
from autoscaler.adapters.web.crowd import Crowd
from autoscaler.adapters.web.hosts import Hosts
from autoscaler.adapters.web.hub import Hub, Standing
from autoscaler.adapters.web.reader import Reader
from autoscaler.errors import InputError

LOOPBACK = "127.0.0.1"

BEAT_S = 5.0
"""A quiet stream says that it is alive this often, so that a page can tell a pause from a lost connection."""

IDLE_S = 20.0
"""A connection on which nothing was asked for so long is closed; the library's own hour lets a crowd that says nothing
grow to what memory holds, at 9 kB each."""

RETRY_MS = 1000
MAX_READERS = 64
MAX_OF_ADDRESS = 16
"""Pages of one address; those of people behind one proxy are among them."""

DEAF_S = 15.0
"""A page for which `PIECE_BYTES` wait, and that does not take them within this time, is given up."""

PIECE_BYTES = 64 << 10
"""The first sight of 5,000 workloads is 3 MB, which a slow line takes a while for."""

MAX_SHOWN = 12
"""Workloads that one page may ask for whole."""


@dataclass(frozen=True, slots=True)
class _Source:
    """What the page is drawn from."""

    hub: Hub
    standing: Callable[[], Standing] | None
    lasts_s: float | None
    pages: Counter[str]
    """Open pages by address."""


_MACHINE = Hosts()
_SOURCE = web.AppKey("source", _Source)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def policy(nonce: str) -> str:
    """The content security policy: inlined script and style under this nonce, the stream of this server, no more."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def application(hub: Hub) -> web.Application:
    """The read-only application in front of a hub: `/`, `/events` and `/healthz`, GET and HEAD only."""
    app = web.Application(middlewares=[_own_host])
    app.on_response_prepare.append(harden)
    add_page(app, hub)
    app.router.add_get("/healthz", _health)
    return app


def add_page(
    app: web.Application, hub: Hub, standing: Callable[[], Standing] | None = None, lasts_s: float | None = None
) -> None:
    """Let `app` serve the page of a hub; who may ask is for its middlewares to say.

    `standing` is asked, whenever a page is told something and at every beat, what the replica is; without it the hub
    says what it was told. A stream is ended after `lasts_s` seconds, None for never, and pages then ask for another.
    """
    app[_SOURCE] = _Source(hub, standing, lasts_s, Counter())
    app.router.add_get("/", _page)
    app.router.add_get("/events", _events, allow_head=False)


@asynccontextmanager
async def serving(hub: Hub, port: int | None = None) -> AsyncIterator[str]:
    """Serve the hub for the length of the block and yield the page's URL; without a port a free one is taken.

    Raises InputError when the port cannot be had. On leaving, readers are told that the stream has ended.
    """
    listener = _listen(port)
    async with running(application(hub), listener):
        try:
            yield f"http://{LOOPBACK}:{listener.getsockname()[1]}/"
        finally:
            hub.end("The controller has stopped.")
            hub.close()


@asynccontextmanager
async def running(
    app: web.Application, listener: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Let `app` answer on a listening socket for the length of the block; both are closed when it ends."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=IDLE_S)
    server: asyncio.Server | None = None
    try:
        await runner.setup()
        speaks = runner.server
        assert speaks is not None, "it was set up"
        handshake_s = IDLE_S if tls is not None else None
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Crowd(speaks), sock=listener, ssl=tls, ssl_handshake_timeout=handshake_s)
        yield
    finally:
        async with AsyncExitStack() as closing:  # each ends though the one before is cancelled
            closing.callback(listener.close)
            closing.push_async_callback(runner.cleanup)
            if server is not None:
                closing.callback(server.close)
                await _take_in(listener)


async def _take_in(listener: socket.socket) -> None:
    """Accept no more, and let begin what was accepted: asyncio drops it, still open, once its server is closed."""
    loop = asyncio.get_running_loop()
    loop.remove_reader(listener)
    begun = asyncio.Event()
    loop.call_soon(begun.set)  # one turn makes their transports; by the next, when we go on, they know them
    await begun.wait()


def _listen(port: int | None) -> socket.socket:
    if port is not None and not 1 <= port <= 65535:
        raise InputError(f"--port {port}: a port is a number from 1 to 65535; leave --port out to take a free one")
    try:
        return socket.create_server((LOOPBACK, port or 0))
    except OSError as error:
        raise InputError(
            f"--port {port}: {why_not(error)}; give another port, or leave --port out to take a free one"
        ) from error


def why_not(error: OSError) -> str:
    """Why a program could not listen, in words."""
    causes = {
        errno.EADDRINUSE: "another program listens there",
        errno.EACCES: "this user may not listen there (ports below 1024 are the administrator's)",
        errno.EADDRNOTAVAIL: "this machine has no such address",
    }
    return causes.get(error.errno or 0, str(error))


@web.middleware
async def _own_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    if not _MACHINE.named(request.host):
        raise web.HTTPForbidden(text=f"this page answers to http://{LOOPBACK} and http://localhost only\n")
    return await handler(request)


async def harden(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers that keep an answer from being kept, framed, guessed at or read by other sites."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")


async def _page(_request: web.Request) -> web.Response:
    nonce = secrets.token_urlsafe(16)
    headers = {"Content-Security-Policy": policy(nonce)}
    return web.Response(text=page(nonce), content_type="text/html", charset="utf-8", headers=headers)


async def _health(request: web.Request) -> web.Response:
    hub = request.app[_SOURCE].hub
    return web.json_response({"status": "ok", "workloads": hub.frames, "readers": hub.readers})


async def _events(request: web.Request) -> web.StreamResponse:
    source = request.app[_SOURCE]
    hub = source.hub
    if hub.readers >= MAX_READERS:
        raise web.HTTPServiceUnavailable(text="too many pages are open; close one\n", headers={"Retry-After": "10"})
    address = request.remote or ""
    if source.pages[address] >= MAX_OF_ADDRESS:
        words = f"{MAX_OF_ADDRESS} pages are open from {address}, and one address has no more; close one\n"
        raise web.HTTPServiceUnavailable(text=words, headers={"Retry-After": "10"})
    source.pages[address] += 1
    try:
        return await _stream(request, source)
    finally:
        source.pages[address] -= 1
        if not source.pages[address]:
            del source.pages[address]


async def _stream(request: web.Request, source: _Source) -> web.StreamResponse:
    hub = source.hub
    shown = request.query.getall("show", None)
    focus = None if shown is None else frozenset(shown[:MAX_SHOWN])
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
    )
    await response.prepare(request)
    try:
        await _write(request, response, b"retry: %d\n\n" % RETRY_MS)
        with hub.reader(focus) as reader:
            async with asyncio.timeout(source.lasts_s):
                await _tell(request, reader, source, response)
    except (ConnectionError, TimeoutError):
        pass  # the page was closed, or asks anew; its reader is gone with the block above
    return response


async def _tell(request: web.Request, reader: Reader, source: _Source, response: web.StreamResponse) -> None:
    hub = source.hub
    while True:
        if source.standing is not None:
            hub.stand(source.standing())
        try:
            async with asyncio.timeout(BEAT_S):
                message = await reader.message(hub)
        except TimeoutError:
            message = b"event: beat\ndata: {}\n\n"
        if message is None:
            return
        await _write(request, response, message)


async def _write(request: web.Request, response: web.StreamResponse, message: bytes) -> None:
    """Say something to a page. Raises ConnectionError, having hung up, where it does not take it (`DEAF_S`)."""
    for begin in range(0, len(message), PIECE_BYTES):
        try:
            async with asyncio.timeout(DEAF_S) as scope:
                await response.write(message[begin : begin + PIECE_BYTES])
        except TimeoutError:
            if scope.expired() and request.transport is not None:
                request.transport.abort()
                raise ConnectionResetError("a page takes nothing") from None
            raise
