"""A proxy between the controller and the API server that harms what passes, as networks and gateways do.

It speaks plain HTTP on loopback to the controller and TLS to the server, passes watches on as they come, and can cut
everything, answer nothing, or answer in the server's place by rule.
"""

import asyncio
import re
import socket
import ssl
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from yarl import URL

from tests.cluster.plane import Plane
from tests.cluster.processes import free_port

HOP: Final = frozenset({"host", "connection", "transfer-encoding", "content-length", "content-encoding"})

ACCEPTING: Final = 4
"""Turns of the loop until a connection that was accepted at the last moment has its handler, and is seen to have it."""


@dataclass(slots=True)
class Rule:
    """What happens to requests of `method` whose path and query match `pattern`, at most `times`."""

    method: str
    pattern: str
    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    line: bytes = b""
    """With status 0: this line is put into the stream before what the server sends."""
    cut_after_bytes: int = -1
    """With status 0: the answer is cut after so many bytes."""
    query: dict[str, str] = field(default_factory=dict)
    """With status 0: what the server is asked instead of what the controller asks."""
    held: asyncio.Event | None = None
    """With status 0: nothing is passed on before it is set; `Proxy.release` sets it."""
    silent: bool = False
    """With status 0: the answer begins, and nothing that the server sends is passed on."""
    times: int = 1_000_000
    asked_s: list[tuple[str, float]] = field(default_factory=list)
    """The path of each request that it met, and when."""

    @property
    def hits(self) -> int:
        """How many requests it met."""
        return len(self.asked_s)

    def gaps_s(self) -> list[float]:
        """Seconds between requests for the same path."""
        times: dict[str, list[float]] = {}
        for path, at_s in self.asked_s:
            times.setdefault(path, []).append(at_s)
        return [later - earlier for some in times.values() for earlier, later in pairwise(some)]


class Proxy:
    """The proxy in a thread of its own; a context manager."""

    def __init__(self, plane: Plane) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.rules: list[Rule] = []
        self._plane = plane
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._serve, name="proxy")
        self._up = threading.Event()
        self._ended = asyncio.Event()
        self._passing = asyncio.Event()
        self._passing.set()
        self._site: web.SockSite | None = None
        self._listening: socket.socket
        self._runner: web.AppRunner | None = None

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        self._run(self._cut())

    def hang(self) -> None:
        """Accept and answer nothing, and let nothing through that is under way."""
        self._loop.call_soon_threadsafe(self._passing.clear)

    def release(self, rule: Rule) -> None:
        """Pass on what a rule holds."""
        assert rule.held is not None
        self._loop.call_soon_threadsafe(rule.held.set)

    def mend(self) -> None:
        """Let everything pass again."""
        self._loop.call_soon_threadsafe(self._passing.set)
        self._run(self._mend())

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _serve(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._main())

    async def _main(self) -> None:
        trust = ssl.create_default_context(cafile=str(self._plane.folder / "apiserver/apiserver.crt"))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(), trust_env=False
        ) as session:
            self._session = session
            app = web.Application(client_max_size=2**26)
            app.router.add_route("*", "/{path:.*}", self._pass)
            self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await self._runner.setup()
            await self._mend()
            self._up.set()
            await self._ended.wait()
            await self._cut()
            await self._runner.cleanup()

    async def _mend(self) -> None:
        assert self._runner is not None
        if self._site is None:
            self._listening = socket.create_server(("127.0.0.1", self.port))
            self._site = web.SockSite(self._runner, self._listening)
            await self._site.start()

    async def _cut(self) -> None:
        assert self._runner is not None
        assert self._runner.server is not None
        if self._site is not None:
            # A server that is closed leaves what it has accepted in this turn open for the garbage collector to find.
            self._loop.remove_reader(self._listening)
        for _ in range(ACCEPTING):
            for handler in self._runner.server.connections:  # idle ones too: a client would send its next request there
                if isinstance(handler.transport, asyncio.Transport):
                    handler.transport.abort()
            await asyncio.sleep(0)
        if self._site is not None:
            await self._site.stop()
            self._site = None

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        await self._passing.wait()
        rule = self._rule(request)
        if rule is not None and rule.status:
            return web.Response(status=rule.status, body=rule.body, headers=rule.headers)
        response = web.StreamResponse()
        try:
            await self._forward(request, rule, response)
        except ConnectionError:
            if not response.prepared:
                raise
            if isinstance(request.transport, asyncio.Transport):  # one side hung up in the middle: so does this one
                request.transport.abort()
        return response

    def _rule(self, request: web.Request) -> Rule | None:
        for rule in self.rules:
            if rule.method == request.method and re.search(rule.pattern, request.path_qs) and rule.hits < rule.times:
                rule.asked_s.append((request.path, time.monotonic()))
                return rule
        return None

    async def _forward(self, request: web.Request, rule: Rule | None, response: web.StreamResponse) -> None:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        if rule is not None and rule.held is not None:
            await rule.held.wait()
        url = URL(self._plane.url + request.raw_path, encoded=True)
        if rule is not None and rule.query:
            url = url.update_query(rule.query)
        async with self._session.request(
            request.method, url, headers=headers, data=await request.read() or None, allow_redirects=False
        ) as answer:
            response.set_status(answer.status)
            response.headers.update({name: value for name, value in answer.headers.items() if name.lower() not in HOP})
            await response.prepare(request)
            if rule is not None and rule.line:
                await response.write(rule.line + b"\n")
            left = rule.cut_after_bytes if rule is not None else -1
            async for chunk in answer.content.iter_any():
                await self._passing.wait()
                if rule is not None and rule.silent:
                    continue
                if 0 <= left < len(chunk):
                    await response.write(chunk[:left])
                    assert isinstance(request.transport, asyncio.Transport)
                    request.transport.abort()
                    break
                left -= len(chunk) if left >= 0 else 0
                await response.write(chunk)
