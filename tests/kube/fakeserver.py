"""An API server over raw sockets: honest by default, and able to break every promise in a given way.

Honest: lists in pages from one snapshot, watches from a version with bookmarks and an end, 410 for a version it has
forgotten, 404 for what it does not serve. Dishonest: `script` holds answers to the next requests, `always` one to all,
`frozen` stops it as SIGSTOP would, `cut` and `raw` act on the watches that are open.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PODS = "/api/v1/pods"

Sender = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """What came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def watches(self) -> bool:
        return "watch" in self.query


Handler = Callable[[Request, "Connection"], Awaitable[None]]


class HangupError(Exception):
    """Raised by a handler to end the connection, in whatever state it is."""


@dataclass(eq=False)
class Connection:
    """One client connection; nothing is sent while the server is frozen."""

    writer: asyncio.StreamWriter
    running: asyncio.Event
    task: asyncio.Task[Any]

    async def send(self, content: bytes) -> None:
        await self.running.wait()
        self.writer.write(content)
        await self.writer.drain()

    async def head(self, status: int, **headers: object) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, content: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(content), content))

    async def answer(self, status: int, body: bytes, **headers: object) -> None:
        await self.head(status, Content_Length=len(body), **({"Content_Type": "application/json"} | headers))
        await self.send(body)

    def abort(self) -> None:
        self.writer.transport.abort()
        self.task.cancel()


def answer(status: int, body: object, **headers: object) -> Handler:
    """Answers with `body` (bytes, or JSON)."""

    async def handle(request: Request, connection: Connection) -> None:
        await connection.answer(status, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)

    return handle


def status(code: int, reason: str, message: str, **headers: object) -> Handler:
    """Refuses in the way of Kubernetes."""
    return answer(code, status_object(code, reason, message), **headers)


def status_object(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}


def half(content: bytes, announced: int | None = None) -> Handler:
    """Sends the beginning of an answer and hangs up."""

    async def handle(request: Request, connection: Connection) -> None:
        await connection.head(200, Content_Length=announced or 2 * len(content))
        await connection.send(content)
        raise HangupError

    return handle


def lines(*chunks: bytes, then: str = "end") -> Handler:
    """A stream of `chunks`, after which it does what `then` says: end, cut or hang."""

    async def handle(request: Request, connection: Connection) -> None:
        await connection.head(200, Transfer_Encoding="chunked")
        for chunk in chunks:
            await connection.chunk(chunk)
        if then == "cut":
            raise HangupError
        if then == "hang":
            await hang(request, connection)
        await connection.send(b"0\r\n\r\n")

    return handle


async def hang(request: Request, connection: Connection) -> None:
    """Takes the request and never says a word more."""
    await asyncio.Event().wait()


async def hang_up(request: Request, connection: Connection) -> None:
    """Closes the connection instead of answering."""
    raise HangupError


@dataclass
class _Open:
    """A watch that is open."""

    path: str
    connection: Connection
    queue: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)


class FakeServer:
    """`async with FakeServer() as server`; its URL is `server.url`."""

    def __init__(self, *, gone_as_status: bool = False) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.script: deque[Handler] = deque()
        self.always: Handler | None = None
        self.objects: dict[str, dict[str, dict[str, Any]]] = {PODS: {}}
        self.ends_watches = False
        """Every watch ends once it has told what it knows."""
        self._gone_as_status = gone_as_status
        self._version = 10
        self._oldest = 10
        self._log: list[tuple[int, str, bytes]] = []
        self._snapshots: dict[str, tuple[int, list[bytes]]] = {}
        self._watches: list[_Open] = []
        self._connections: set[Connection] = set()
        self._running = asyncio.Event()
        self._running.set()

    async def __aenter__(self) -> "FakeServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        tasks = [connection.task for connection in self._connections]
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What the world does.

    def put(self, name: str, *, path: str = PODS, uid: str | None = None, **parts: Any) -> dict[str, Any]:
        """Create or change ``prod/name``; a `uid` that differs makes it another object under the same name."""
        held = self.objects[path].get(f"prod/{name}")
        if held is not None and uid is not None and held["metadata"]["uid"] != uid:
            self.delete(name, path=path)
            held = None
        self._version += 1
        own_uid = uid or (held["metadata"]["uid"] if held else f"uid-{self._version}")
        metadata = {"name": name, "namespace": "prod", "uid": own_uid, "resourceVersion": str(self._version)}
        made = {"metadata": metadata | parts.pop("metadata", {}), **parts}
        self.objects[path][f"prod/{name}"] = made
        self._tell(path, "MODIFIED" if held else "ADDED", made)
        return made

    def delete(self, name: str, *, path: str = PODS) -> None:
        gone = self.objects[path].pop(f"prod/{name}")
        self._version += 1
        self._tell(path, "DELETED", gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self._version)}})

    def forget(self) -> None:
        """Compact: every version so far, and every page token, is too old from now on."""
        self._version += 1
        self._oldest = self._version
        self._log.clear()
        self._snapshots.clear()

    def bookmark(self, path: str = PODS) -> None:
        self._send(path, _event("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}}))

    # What it does to its clients.

    def raw(self, content: bytes, path: str = PODS) -> None:
        """Send `content` to every open watch."""
        self._send(path, content)

    def expire(self, path: str = PODS) -> None:
        """Tell every open watch that its version is gone."""
        self._send(path, _event("ERROR", status_object(410, "Expired", "too old resource version")))

    def cut(self) -> None:
        """Reset every connection."""
        for connection in self._connections:
            connection.abort()

    def end_watches(self) -> None:
        for watch in self._watches:
            watch.queue.put_nowait(None)

    @property
    def frozen(self) -> bool:
        return not self._running.is_set()

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        if frozen:
            self._running.clear()
        else:
            self._running.set()

    def count(self, *, watches: bool) -> int:
        """Requests of that kind so far."""
        return sum(request.watches is watches for request in self.requests)

    # Sockets.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = Connection(writer, self._running, task)
        self._connections.add(connection)
        with suppress(asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError, HangupError):
            while True:
                request = await _read(reader)
                await self._running.wait()
                self.requests.append(request)
                handler = self.script.popleft() if self.script else self.always or self.honest
                await handler(request, connection)
        self._connections.discard(connection)
        writer.close()

    async def honest(self, request: Request, connection: Connection) -> None:
        """Answers as an API server does."""
        if request.path not in self.objects:
            await status(404, "NotFound", "the server could not find the requested resource")(request, connection)
        elif request.watches:
            await self._watch(request, connection)
        else:
            await self._list(request, connection)

    async def _list(self, request: Request, connection: Connection) -> None:
        token, limit = request.query.get("continue", ""), int(request.query.get("limit", "0"))
        if token:
            name, _, begun = token.partition(":")
            if name not in self._snapshots:
                await status(410, "Expired", "the provided continue parameter is too old")(request, connection)
                return
            version, items = self._snapshots[name]
            begin = int(begun)
        else:
            name, begin, version = f"s{len(self.requests)}", 0, self._version
            items = [json.dumps(self.objects[request.path][key]).encode() for key in sorted(self.objects[request.path])]
            self._snapshots[name] = version, items
        end = begin + limit if limit else len(items)
        metadata = {"resourceVersion": str(version)} | ({"continue": f"{name}:{end}"} if end < len(items) else {})
        shown = b",".join(items[begin:end])
        await connection.answer(200, b'{"metadata":%s,"items":[%s]}' % (json.dumps(metadata).encode(), shown))

    async def _watch(self, request: Request, connection: Connection) -> None:
        since = int(request.query["resourceVersion"])
        if since < self._oldest and self._gone_as_status:
            await status(410, "Expired", f"too old resource version: {since}")(request, connection)
            return
        await connection.head(200, Transfer_Encoding="chunked", Content_Type="application/json")
        if since < self._oldest:
            gone = status_object(410, "Expired", f"too old resource version: {since}")
            await connection.chunk(_event("ERROR", gone))
            await connection.send(b"0\r\n\r\n")
            return
        watch = _Open(request.path, connection)
        for version, path, event in self._log:
            if version > since and path == request.path:
                watch.queue.put_nowait(event)
        if self.ends_watches:
            watch.queue.put_nowait(None)
        self._watches.append(watch)
        try:
            while (content := await watch.queue.get()) is not None:
                await connection.chunk(content)
            await connection.send(b"0\r\n\r\n")
        finally:
            self._watches.remove(watch)

    def _tell(self, path: str, kind: str, thing: dict[str, Any]) -> None:
        event = _event(kind, thing)
        self._log.append((self._version, path, event))
        self._send(path, event)

    def _send(self, path: str, content: bytes) -> None:
        for watch in self._watches:
            if watch.path == path:
                watch.queue.put_nowait(content)


def _event(kind: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    return Request(method, url.path, dict(parse_qsl(url.query)), headers, body)
