"""An API server in memory for those who write to it, behind a real socket or on virtual time.

`Apis` keeps objects as kube-apiserver 1.36 does, as far as writers can tell: resourceVersions that move with content
only, 409 for a stale one or a taken name, JSON Patch (RFC 6902) whose failed test is a bare 422, merge patch,
``/scale`` which leaves out a count of zero, ``/status``, preconditions of deletes, limits on ConfigMaps and leases.
`serving` puts it behind HTTP with the product's client; `Direct` is for tests whose time is virtual.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from autoscaler.adapters.kube.answers import Answer, KubeError, refusal
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.api.claims import TargetRef
from autoscaler.ports import Fault
from tests.kube.clients import client

HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
MOST_CONFIG_BYTES = 1024 * 1024
MOST_BODY_BYTES = 3 * 1024 * 1024


class Ill(Enum):
    """What can be wrong with one answer. The LATE ones come after the request was carried out."""

    HTML_500 = auto()
    HTML_200 = auto()
    EMPTY_200 = auto()
    TOO_MANY = auto()
    UNAVAILABLE = auto()
    FORBIDDEN = auto()
    WAITED_408 = auto()
    HANG = auto()
    LATE_HANG = auto()
    CLOSE = auto()
    LATE_CLOSE = auto()

    @property
    def late(self) -> bool:
        return self in {Ill.LATE_HANG, Ill.LATE_CLOSE}


@dataclass(frozen=True)
class Reply:
    """An answer before it is bytes; an `ill` one without status never comes."""

    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    ill: Ill | None = None


class Apis:
    """The server. `ills` befall the next requests in order (None: this one is fine); `asked` is every request."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.ills: list[Ill | None] = []
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.most_replicas = 10_000
        """As a schema of a custom resource bounds them."""
        self.change_scale: int | None = None
        """What admission makes of every count."""
        self.before: Callable[[str, str], None] = _nothing
        """Called with method and path before each request is carried out."""
        self.replies: dict[str, Reply] = {}
        """Method -> what every request of it is answered with, whatever is carried out."""
        self._version = 100

    def put(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        """Make or replace an object as somebody else would."""
        name = path.rsplit("/", 1)[1]
        uid = f"uid-{self._next()}"
        made = {"metadata": {"name": name, "uid": uid} | content.get("metadata", {})} | {
            key: value for key, value in content.items() if key != "metadata"
        }
        made["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = made
        return made

    def edit(self, path: str, **parts: Any) -> None:
        """Replace top-level parts of an object as somebody else would."""
        self.objects[path].update(parts)
        self.objects[path]["metadata"]["resourceVersion"] = self._next()

    def answer(self, method: str, path: str, content_type: str, body: bytes) -> Reply:
        """What the server does with a request and says to it."""
        self.asked.append((method, path))
        self.before(method, path)
        ill = self.ills.pop(0) if self.ills else None
        if ill is not None and not ill.late:
            return _ill(ill)
        try:
            status, content = self._handle(method, path, content_type, body)
        except _NoError as no:
            status, content = no.status, no.content()
        if ill is not None:
            return _ill(ill)
        if method in self.replies:
            return self.replies[method]
        return Reply(status, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _handle(self, method: str, path: str, content_type: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if len(body) > MOST_BODY_BYTES:
            raise _NoError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
        given: Any = json.loads(body) if body else {}
        self.bodies.append(given)
        if method == "POST":
            return self._create(path, given)
        base, _, part = path.rpartition("/")
        if part in {"scale", "status"} and base in self.objects:
            return 200, self._subresource(base, part, method, content_type, given)
        if path not in self.objects:
            raise _NoError(404, "NotFound", f'"{part}" not found')
        if method == "DELETE":
            self._match(given.get("preconditions", {}).get("resourceVersion"), path)
            del self.objects[path]
            return 200, {"kind": "Status", "status": "Success"}
        if method == "GET":
            return 200, self.objects[path]
        new = given if method == "PUT" else patched(self.objects[path], content_type, given)
        return 200, self._store(path, new)

    def _create(self, collection: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        path = f"{collection}/{given['metadata']['name']}"
        if path in self.objects:
            raise _NoError(409, "AlreadyExists", f'"{given["metadata"]["name"]}" already exists')
        _validate(given)
        return 201, self.put(path, given)

    def _store(self, path: str, new: dict[str, Any]) -> dict[str, Any]:
        old = self.objects[path]
        self._match(new["metadata"].get("resourceVersion"), path)
        _validate(new)
        new = deepcopy(new)
        new["metadata"] |= {"uid": old["metadata"]["uid"], "resourceVersion": old["metadata"]["resourceVersion"]}
        if new != old:
            new["metadata"]["resourceVersion"] = self._next()
            self.objects[path] = new
        return new

    def _match(self, version: str | None, path: str) -> None:
        if version and version != self.objects[path]["metadata"]["resourceVersion"]:
            raise _NoError(409, "Conflict", "the object has been modified; apply your changes to the latest version")

    def _subresource(self, path: str, part: str, method: str, content_type: str, given: Any) -> dict[str, Any]:
        owner = self.objects[path]
        if part == "status":
            new = patched(owner, content_type, given)
            return self._store(path, owner | {"status": new.get("status", {})})
        seen = _scale(owner)
        if method == "PATCH":
            new = patched(seen, content_type, given)
            count = new["spec"].get("replicas", 0)
            if not 0 <= count <= self.most_replicas:
                raise _NoError(422, "Invalid", f"spec.replicas: Invalid value: {count}: should be less than or equal")
            count = count if self.change_scale is None else self.change_scale
            self._store(path, owner | {"spec": owner["spec"] | {"replicas": count}})
        return _scale(self.objects[path])


class Direct:
    """The server without a wire: answers at once, or not within the timeout. For tests on virtual time."""

    def __init__(self, apis: Apis) -> None:
        self.apis = apis

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
        admit: Callable[[], bool] = lambda: True,
    ) -> Answer:
        call = f"{method} {path}"
        if not admit():
            refused = KubeError(Fault.DENIED, f"{call}: not sent: it was allowed no more when its turn came")
            refused.sent = False
            raise refused
        reply = self.apis.answer(method, path, content_type, body or b"")
        if reply.ill in {Ill.CLOSE, Ill.LATE_CLOSE}:
            raise KubeError(Fault.UNAVAILABLE, f"{call}: connection reset by peer")
        try:
            async with asyncio.timeout(timeout_s):
                await (asyncio.Event().wait() if reply.ill else asyncio.sleep(0))
        except TimeoutError:
            raise KubeError(Fault.TIMEOUT, f"{call}: no answer within {timeout_s:g} s") from None
        if not 200 <= reply.status < 300:
            raise refusal(call, reply.status, reply.headers, reply.body)
        return Answer(reply.status, reply.body, reply.headers)


@asynccontextmanager
async def serving(apis: Apis) -> AsyncIterator[KubeApi]:
    """The product's client of `apis` behind a real socket."""

    async def handle(request: web.Request) -> web.StreamResponse:
        reply = apis.answer(request.method, request.path, request.content_type, await request.read())
        if reply.ill in {Ill.HANG, Ill.LATE_HANG}:
            await asyncio.sleep(60.0)
        if reply.ill in {Ill.CLOSE, Ill.LATE_CLOSE}:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=reply.status or 500, body=reply.body, headers=reply.headers)

    app = web.Application(client_max_size=2 * MOST_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(app, shutdown_timeout=0.0) as server, client(str(server.make_url("")).rstrip("/")) as api:
        yield api


def patched(document: dict[str, Any], content_type: str, patch: Any) -> dict[str, Any]:
    """A document after a patch; `_NoError` where its test fails or it does not apply."""
    if content_type == "application/merge-patch+json":
        merged = _merged(document, patch)
        assert isinstance(merged, dict)
        return merged
    assert content_type == "application/json-patch+json"
    document = deepcopy(document)
    for operation in patch:
        *parents, last = operation["path"].split("/")[1:]
        place = document
        for parent in parents:
            if parent not in place:
                raise _unprocessable()
            place = place[parent]
        match operation["op"]:
            case "test" if last not in place or place[last] != operation["value"]:
                raise _unprocessable()
            case "replace" if last not in place:
                raise _unprocessable()
            case "add" | "replace":
                place[last] = operation["value"]
            case "test":
                pass
            case other:
                raise AssertionError(other)
    return document


def deployment(name: str = "llama", replicas: int = 3) -> dict[str, Any]:
    """A Deployment as far as scaling goes."""
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": replicas}}


def ref_to(apis: Apis, name: str = "llama", replicas: int = 3) -> TargetRef:
    """A claim on a Deployment that is put on the server for it."""
    path = f"/apis/apps/v1/namespaces/prod/deployments/{name}"
    made = apis.put(path, deployment(name, replicas))
    return TargetRef("apps", "v1", "deployments", "Deployment", "prod", name, made["metadata"]["uid"])


class _NoError(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason

    def content(self) -> dict[str, Any]:
        return {"kind": "Status", "status": "Failure", "message": str(self), "reason": self.reason, "code": self.status}


def _nothing(method: str, path: str) -> None:
    """Nothing happens on the server meanwhile."""


def _unprocessable() -> _NoError:
    return _NoError(422, "Invalid", "the server rejected our request due to an error in our request")


def _ill(ill: Ill) -> Reply:
    html = {"Content-Type": "text/html"}
    match ill:
        case Ill.HTML_500:
            return Reply(500, HTML, html)
        case Ill.HTML_200:
            return Reply(200, HTML, html)
        case Ill.EMPTY_200:
            return Reply(200, b"{}", {"Content-Type": "application/json"})
        case Ill.TOO_MANY:
            return Reply(429, b"Too many requests, please try again later.", {"Retry-After": "3"})
        case Ill.UNAVAILABLE:
            return Reply(503, b"", {})
        case Ill.WAITED_408:
            return Reply(408, HTML, html)
        case Ill.FORBIDDEN:
            content = _NoError(403, "Forbidden", 'User "headroom" cannot do that').content()
            return Reply(403, json.dumps(content).encode(), {})
        case _:
            return Reply(ill=ill)


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    base = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = _merged(base.get(key), value)
    return base


def _scale(owner: dict[str, Any]) -> dict[str, Any]:
    count = owner["spec"].get("replicas", 0)
    return {
        "kind": "Scale",
        "metadata": dict(owner["metadata"]),
        "spec": {"replicas": count} if count else {},
        "status": {"replicas": owner.get("status", {}).get("replicas", 0), "selector": "app=llama"},
    }


def _validate(content: dict[str, Any]) -> None:
    if content.get("kind") == "ConfigMap":
        size = sum(len(key) + len(text.encode()) for key, text in content.get("data", {}).items())
        if size > MOST_CONFIG_BYTES:
            raise _NoError(422, "Invalid", "[]: Too long: may not be more than 1048576 bytes")
    if content.get("kind") == "Lease" and content.get("spec", {}).get("leaseDurationSeconds", 1) <= 0:
        raise _NoError(422, "Invalid", "spec.leaseDurationSeconds: must be greater than 0")
