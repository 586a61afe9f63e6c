"""A fake Prometheus whose every series is a function of time, and faults that strike chosen requests."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from aiohttp.test_utils import TestServer

from autoscaler.adapters.prometheus.archive import Archive
from autoscaler.adapters.prometheus.chunks import Chunks
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.history import remembering
from autoscaler.adapters.prometheus.patience import Patience, Persistence
from autoscaler.runtime.clock import WallClock

Form = Mapping[str, str]
Fault = Callable[[Form], web.Response | Awaitable[web.StreamResponse] | None]
"""What to answer in place of the truth; None: the truth."""

QUICK = Patience(attempts=3, first_wait_s=0.01, longest_wait_s=0.05, gone_s=5.0)


def error(status: int, text: str, **headers: str) -> web.Response:
    body = json.dumps({"status": "error", "errorType": "x", "error": text})
    return web.Response(status=status, text=body, content_type="application/json", headers=headers)


def matrix(*series: tuple[dict[str, str], list[list[Any]]], **more: Any) -> web.Response:
    result = [{"metric": labels, "values": values} for labels, values in series]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}
    return web.Response(text=json.dumps(body), content_type="application/json")


def _points(t_s: np.ndarray, values: np.ndarray) -> list[list[Any]]:
    """The points that there are: NaN stands for none."""
    there = ~np.isnan(values)
    return [[at, repr(value)] for at, value in zip(t_s[there].tolist(), values[there].tolist(), strict=True)]


def instants(form: Form) -> np.ndarray:
    return np.arange(int(form["start"]), int(form["end"]) + 1, int(form["step"]))


@dataclass
class FakePast:
    """Series by a word of the query that asks for them; ``series`` by a word of the selector."""

    ranges: dict[str, Callable[[np.ndarray], list[tuple[dict[str, str], np.ndarray]]]] = field(default_factory=dict)
    series: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    fault: Fault = lambda _form: None
    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        given = await request.post()
        form = {name: " ".join(map(str, given.getall(name))) for name in given}
        form["path"] = request.path
        self.asked.append(form)
        struck = self.fault(form)
        if isinstance(struck, web.Response):
            return struck
        if struck is not None:
            return await struck
        if request.path.endswith("/series"):
            found = [one for word, its in self.series.items() if word in form["match[]"] for one in its]
            return web.json_response({"status": "success", "data": found})
        t_s = instants(form)
        rows = [row for word, its in self.ranges.items() if word in form["query"] for row in its(t_s)]
        return matrix(*((labels, _points(t_s, values)) for labels, values in rows))

    def asked_points(self) -> list[int]:
        """Every instant that was asked for, in order, as often as it was."""
        return sorted(int(at) for form in self.asked if "step" in form for at in instants(form))


@contextlib.asynccontextmanager
async def past() -> AsyncIterator[FakePast]:
    fake = FakePast()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", fake.handle)
    async with TestServer(app) as server:
        fake.url = str(server.make_url("/")).rstrip("/")
        yield fake


@contextlib.asynccontextmanager
async def archive(
    url: str, folder: Path, *, patience: Patience = QUICK, timeout_s: float = 10.0
) -> AsyncIterator[Archive]:
    async with remembering(Endpoint(url), timeout_s=timeout_s) as history:
        yield Archive(history, Chunks(folder), persistence(patience))


def persistence(patience: Patience = QUICK) -> Persistence:
    return Persistence(WallClock(), np.random.default_rng(0), patience)
