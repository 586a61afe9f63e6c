"""An API server and a controller for commands that ask them, over real sockets, in a thread with a loop of its own.

The API server keeps objects by path, merges patches, reviews rights, and proxies to the controller, whose server is the
product's own. Commands run their own loop, so neither can share the test's.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from autoscaler.adapters.web.door import Door
from autoscaler.adapters.web.hosts import INTRODUCTION, Hosts
from autoscaler.adapters.web.live import live_application
from tests.web.test_live import Controller

OWN = "headroom-system"
POD = "headroom-6c9d8b5f4-x2x7q"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/headroom"
POLICIES = "/apis/headroom.dev/v1alpha1/namespaces/prod/scalingpolicies"
CHAT = "/apis/apps/v1/namespaces/prod/deployments/chat"
CODE = "/apis/apps/v1/namespaces/prod/statefulsets/code"
FREEZE = f"/api/v1/namespaces/{OWN}/configmaps/headroom-freeze"


@dataclass
class Plane:
    """Both servers. What the test changes is read at the next request."""

    controller: Controller
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    """Rights that reviews deny, as "verb resource"."""
    forbidden: set[str] = field(default_factory=set)
    """Beginnings of "METHOD path" that are answered 403."""
    date_s: Callable[[], float | None] = lambda: None
    """What the API server takes for the time; None: the machine's."""
    reviews: list[dict[str, Any]] = field(default_factory=list)
    written: list[tuple[str, str, Any]] = field(default_factory=list)
    proxied: list[str] = field(default_factory=list)
    introduced: list[str | None] = field(default_factory=list)
    """What those who were proxied showed of themselves; the API server's own credential is not passed on."""
    url: str = ""
    api_url: str = ""
    kubeconfig: Path = Path()

    def options(self) -> list[str]:
        return ["--kubeconfig", str(self.kubeconfig)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path, method = request.path, request.method
        if any(f"{method} {path}".startswith(start) for start in self.forbidden):
            return self._status(403, f"{method} {path} is forbidden", "Forbidden")
        if "/proxy/" in path:
            return await self._proxy(request)
        if path.endswith("accessreviews"):
            return self._review(await request.json())
        if method == "POST" and path.endswith("/token"):
            self.written.append((method, path, await request.json()))
            return web.json_response({"kind": "TokenRequest", "status": {"token": "a.reader.s"}}, status=201)
        if method in {"PATCH", "POST"}:
            return self._write(path, method, await request.json())
        if path == POLICIES:
            items = [one for key, one in self.objects.items() if key.startswith(f"{POLICIES}/")]
            return web.json_response({"items": items})
        found = self.objects.get(path)
        if found is None:
            return self._status(404, f"{path} not found", "NotFound")
        date_s = self.date_s()
        headers = {} if date_s is None else {"Date": formatdate(date_s, usegmt=True)}
        return web.json_response(found, headers=headers)

    def _status(self, code: int, message: str, reason: str) -> web.Response:
        return web.json_response(
            {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}, status=code
        )

    async def _proxy(self, request: web.Request) -> web.Response:
        self.proxied.append(request.path)
        tail = request.path_qs.split("/proxy", 1)[1]
        self.introduced.append(request.headers.get(INTRODUCTION))
        headers = {INTRODUCTION: request.headers[INTRODUCTION]} if INTRODUCTION in request.headers else {}
        async with ClientSession() as session, session.get(self.url.rstrip("/") + tail, headers=headers) as answer:
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

    def _review(self, review: dict[str, Any]) -> web.Response:
        self.reviews.append(review)
        asked = review["spec"]["resourceAttributes"]
        resource = "/".join(part for part in (asked["resource"], asked["subresource"]) if part)
        words = f"{asked['verb']} {resource}"
        denied = {words, f"{words} in {asked.get('namespace')}"} & self.denied
        return web.json_response({"status": {"allowed": not denied}}, status=201)

    def _write(self, path: str, method: str, content: dict[str, Any]) -> web.Response:
        self.written.append((method, path, content))
        if method == "POST":
            self.objects[f"{path}/{content['metadata']['name']}"] = content
            return web.json_response(content, status=201)
        if path not in self.objects:
            return self._status(404, f"{path} not found", "NotFound")
        version = content.get("metadata", {}).get("resourceVersion")
        if version is not None and version != self.objects[path]["metadata"].get("resourceVersion"):
            return self._status(409, "the object has been modified", "Conflict")
        self.objects[path] = merged(self.objects[path], content)
        return web.json_response(self.objects[path])


def merged(old: Any, new: Any) -> Any:
    """RFC 7386: null removes, an object merges, everything else replaces."""
    if not isinstance(new, dict):
        return new
    base = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), value)
    return base


def named(name: str, **annotations: str) -> dict[str, Any]:
    """An object with annotations of ours: `mode_until` is ``headroom.dev/mode-until``."""
    ours = {f"headroom.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "resourceVersion": "7", "annotations": ours}}


def policy(name: str, target: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": "7"}, "spec": {"targetRef": {"name": target}, **spec}}


@contextmanager
def plane(folder: Path, controller: Controller, door: Door | None = None) -> Iterator[Plane]:
    """Both servers at work; the lease is held by a pod whose port the proxy does not look at."""
    made = Plane(controller)
    made.objects["/version"] = {"gitVersion": "v1.36.2"}
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", made.handle)
        live = live_application(controller.facts(), controller.hub, Hosts("headroom-system"), door)
        async with TestServer(app) as api, TestServer(live) as answering:
            made.api_url, made.url = str(api.make_url("/")).rstrip("/"), str(answering.make_url("/"))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        made.kubeconfig = folder / "kubeconfig"
        made.kubeconfig.write_text(json.dumps(config(made.api_url)))
        yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def config(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {"token": "secret"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }  # fmt: skip


def lease(holder: str | None = f"{POD}_1f2e", renewed: str | None = None) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "headroom",
            "resourceVersion": "3",
            "annotations": {"headroom.dev/address": "10.0.0.7:8080"},
        },
        "spec": {"holderIdentity": holder, "leaseTransitions": 2, "renewTime": renewed},
    }
