"""A server that answers as Prometheus does, or as the test says."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = dict[str, Any] | str | Callable[[web.Request], Awaitable[web.StreamResponse]]


def success(*series: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(series)}, **more}


@dataclass
class FakePrometheus:
    """What it answers, with which status, and what it was asked."""

    answer: Answer = field(default_factory=success)
    status: int = 200
    url: str = ""
    asked: list[tuple[web.BaseRequest, dict[str, str]]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        form = {**request.query, **(await request.post())}
        self.asked.append((request, {name: str(value) for name, value in form.items()}))
        if callable(self.answer):
            return await self.answer(request)
        text = self.answer if isinstance(self.answer, str) else json.dumps(self.answer)
        return web.Response(text=text, status=self.status, content_type="application/json")


@contextlib.asynccontextmanager
async def prometheus() -> AsyncIterator[FakePrometheus]:
    fake = FakePrometheus()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", fake.handle)
    async with TestServer(app) as server:
        fake.url = str(server.make_url("/")).rstrip("/")
        yield fake
