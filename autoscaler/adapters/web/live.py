"""The HTTP server of the live controller: metrics, health, answers for people and gateways, and the page.

Enters: callables that answer from memory. Leaves: a read-only server, GET and HEAD only, on the pod's address. With a
`Door` who asks must show a token of the cluster; without one whoever reaches that address may read everything, and a
network policy is what limits that. No answer may be read by a foreign web page, nor by one that points its own name at
this address: `hosts` says which names are ours. Only the two probes, which tell nothing, answer to any name, and to
anybody.
"""

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from autoscaler.adapters.web.asked import Asked, RefusedError
from autoscaler.adapters.web.batch import BatchAnswers, GangAnswer
from autoscaler.adapters.web.door import Door
from autoscaler.adapters.web.hosts import Hosts
from autoscaler.adapters.web.hub import Hub, Standing
from autoscaler.adapters.web.metrics import exposition
from autoscaler.adapters.web.server import add_page, harden, running, why_not
from autoscaler.adapters.web.tls import Greeting
from autoscaler.adapters.web.together import Together
from autoscaler.errors import InputError
from autoscaler.ports import Clock
from autoscaler.record.batch import BatchBook
from autoscaler.record.board import Board
from autoscaler.record.metrics import Process, families
from autoscaler.record.pool_status import PoolStatus
from autoscaler.record.status import About, Rejected

STUCK_S = 900.0
"""A leader that has decided nothing at all for so long is stuck: the longest tick is five minutes. One that looked and
could read nothing is not: another would read no more, and would begin anew."""

EVERYWHERE = "::"

LOOK_AGAIN_S = 600.0
"""A stream of events is begun anew so often where who reads it must be somebody: a right that is gone ends it."""

_CHALLENGES = ('Bearer realm="headroom"', 'Basic realm="headroom", charset="UTF-8"')
"""A header each: Chromium reads one scheme in one header, and asks nobody for a password where that is not Basic."""

_PROBES = frozenset({"/healthz", "/readyz"})
_SERVED = (
    "/, /metrics, /healthz, /readyz, /api/status, /api/explain/NAMESPACE/NAME, /api/past, /api/pools, /api/pools/NAME, "
    "/api/batch, /api/batch/queues/NAME, /api/batch/gangs/KIND/NAMESPACE/NAME, /api/batch/gangs/KIND/NAME, "
    "/api/overload, /api/overload/NAMESPACE/NAME and /api/snapshot"
)

Answer = Callable[[web.Request], object]


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """What the server asks of the process. Everything answers at once and from memory, in the event loop's thread."""

    clock: Clock
    board: Board
    process: Callable[[], Process]
    workloads: Callable[[], Mapping[str, About]]
    """All that are to be scaled, decided on or not; asked for by name, so that it may be put together when it is."""
    not_ready: Callable[[], tuple[str, ...]]
    """Why the replica cannot do its part yet or any more, in words; empty when it can."""
    snapshot: Callable[[], bytes | None]
    """What a follower keeps to take over; None while this replica does not lead."""
    rejected: Callable[[], Sequence[Rejected]]
    """Who asks to be scaled in vain."""
    past: Callable[[], Sequence[object]] = tuple
    """What shadow mode counted, a value per workload that writes itself as JSON."""
    pools: Callable[[], Sequence[PoolStatus]] = tuple
    """The warm pools, in the order of their names."""
    batch: BatchBook | None = None
    """Batch work; None where it is not admitted."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the server listens, under which names, with which certificate, and who is let in."""

    host: str
    port: int
    hosts: Hosts
    greeting: Greeting | None = None
    """None: plain HTTP."""
    door: Door | None = None
    """None: whoever asks."""


def live_application(facts: LiveFacts, hub: Hub, hosts: Hosts, door: Door | None = None) -> web.Application:
    """The application: the page, `/metrics`, `/healthz`, `/readyz` and `/api/…`."""
    app = web.Application(middlewares=[_in_json, _own_name(hosts), *([] if door is None else [_admitted(door)])])
    app.on_response_prepare.append(harden)
    add_page(app, hub, lambda: _standing(facts.process()), lasts_s=None if door is None else LOOK_AGAIN_S)
    asked = Asked(
        clock=facts.clock,
        board=facts.board,
        process=facts.process,
        workloads=facts.workloads,
        not_ready=facts.not_ready,
        rejected=facts.rejected,
        pools=facts.pools,
    )
    batch = BatchAnswers(facts.batch)
    app.router.add_get("/metrics", _metrics(facts))
    app.router.add_get("/healthz", _health(facts))
    app.router.add_get("/readyz", _ready(facts))
    app.router.add_get("/api/snapshot", _snapshot(facts))
    answers: dict[str, Answer] = {
        "/api/status": lambda request: asked.status(request.query),
        "/api/explain/{namespace}/{name}": lambda request: asked.explain(_workload(request)),
        "/api/past": lambda _: asked.of_leader(facts.past),
        "/api/pools": lambda _: asked.of_leader(facts.pools),
        "/api/pools/{name}": lambda request: asked.of_leader(lambda: _pool(facts, request.match_info["name"])),
        "/api/batch": lambda _: asked.of_leader(batch.lines),
        "/api/batch/queues/{name}": lambda request: asked.of_leader(lambda: batch.queue(request.match_info["name"])),
        "/api/batch/gangs/{kind}/{name}": lambda request: asked.of_leader(lambda: _gang(batch, request)),
        "/api/batch/gangs/{kind}/{namespace}/{name}": lambda request: asked.of_leader(lambda: _gang(batch, request)),
        "/api/overload": lambda request: asked.overloads(request.query),
        "/api/overload/{namespace}/{name}": lambda request: asked.overload(_workload(request)),
    }
    for path, answer in answers.items():
        app.router.add_get(path, _json(answer))
    return app


@asynccontextmanager
async def serving_live(facts: LiveFacts, hub: Hub, place: Place) -> AsyncIterator[int]:
    """Serve at `place` for the length of the block and yield the port, which is a free one for port 0.

    Raises InputError when it cannot be had. On leaving, pages are told that the controller has stopped.
    """
    host, port = place.host, place.port
    try:
        listener = _listener(host, port)
    except OSError as error:
        raise InputError(f"http.port {port} on {host}: {why_not(error)}; set another http.port or http.host") from error
    context = None if place.greeting is None else place.greeting.context
    async with running(live_application(facts, hub, place.hosts, place.door), listener, context):
        try:
            yield int(listener.getsockname()[1])
        finally:
            hub.end("The controller has stopped.")
            hub.close()


def _listener(host: str, port: int) -> socket.socket:
    """A socket at the address; ``::`` is every address of both families, or of IPv4 where there is no IPv6."""
    both = host == EVERYWHERE and socket.has_dualstack_ipv6()
    if host == EVERYWHERE and not both:
        host = "0.0.0.0"  # noqa: S104 - as wide as was asked for
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, dualstack_ipv6=both)


@web.middleware
async def _in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Say what is wrong as JSON: an unknown path, another method, a question that cannot be answered."""
    try:
        return await handler(request)
    except RefusedError as refused:
        response = _said(refused.status, refused.content)
        if refused.status == 401:
            for challenge in _CHALLENGES:
                response.headers.add("WWW-Authenticate", challenge)
        return response
    except web.HTTPMethodNotAllowed as error:
        response = _said(405, {"error": f"{error.method[:20]}: this server is read-only; use GET", "status": 405})
        response.headers["Allow"] = "GET, HEAD"
        return response
    except web.HTTPNotFound:
        return _said(404, {"error": f"{request.path[:200]}: not served; served are {_SERVED}", "status": 404})
    except web.HTTPException as error:
        return _said(error.status, {"error": (error.text or error.reason).strip(), "status": error.status})


def _own_name(hosts: Hosts) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in _PROBES and not hosts.admits(request.headers):
            raise web.HTTPMisdirectedRequest(
                text=f"{request.host[:200]} is no name of this server: ask by address, by its Service's name or "
                "through kubectl port-forward, or add the name to http.allowed_hosts in the settings"
            )
        return await handler(request)

    return check


def _admitted(door: Door) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in _PROBES:
            await door.admit(request.headers, request.path, request.remote or "")
        return await handler(request)

    return check


def _standing(process: Process) -> Standing:
    return Standing(process.leading is not False, process.holder, bool(process.frozen))


def _said(status: int, content: object) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(content), content_type="application/json")


def _json(answer: Answer) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return _said(200, answer(request))

    return handle


def _workload(request: web.Request) -> str:
    return f"{request.match_info['namespace']}/{request.match_info['name']}"


def _pool(facts: LiveFacts, name: str) -> PoolStatus:
    """One warm pool. Raises RefusedError where there is none of that name."""
    found = next((pool for pool in facts.pools() if pool.pool == name), None)
    if found is None:
        listed = "`headroom status` (/api/pools) lists those that are"
        raise RefusedError(404, f"{name[:100]} is no WarmPool that is kept; {listed}")
    return found


def _gang(batch: BatchAnswers, request: web.Request) -> GangAnswer:
    given = request.match_info
    return batch.gang(given["kind"], given.get("namespace"), given["name"])


def _metrics(facts: LiveFacts) -> Handler:
    """The page of metrics. It takes a third of a second of a thousand workloads, so that a crowd shares it."""
    together = Together[tuple[bytes, str]]()

    async def written(accept: str, *, zipped: bool) -> tuple[bytes, str]:
        # Frames and counts are frozen here; writing them takes long enough to be done beside the loop.
        frames, counts = facts.board.frames(), facts.board.tally.counts()
        told = None if facts.batch is None else facts.batch.told()
        made = families(frames, counts, facts.process(), facts.clock.now(), facts.pools(), batch=told)

        def write() -> tuple[bytes, str]:
            page, content_type = exposition(made, accept)
            return gzip.compress(page, 1) if zipped else page, content_type

        return await asyncio.to_thread(write)

    async def handle(request: web.Request) -> web.Response:
        accept, zipped = request.headers.get("Accept", ""), "gzip" in request.headers.get("Accept-Encoding", "")
        page, content_type = await together.get((accept, zipped), partial(written, accept, zipped=zipped))
        headers = {"Content-Type": content_type, "Vary": "Accept-Encoding"}
        return web.Response(body=page, headers=headers | ({"Content-Encoding": "gzip"} if zipped else {}))

    return handle


def _health(facts: LiveFacts) -> Handler:
    async def handle(_request: web.Request) -> web.Response:
        age_s, process = facts.board.step_age_s(facts.clock.now()), facts.process()
        idle = process.leading is True and age_s is not None and age_s > STUCK_S
        is_stuck = idle and process.blind_age_s > STUCK_S
        status = "stuck" if is_stuck else "nothing can be read" if idle else "ok"
        return _said(503 if is_stuck else 200, {"status": status, "step_age_s": age_s})

    return handle


def _ready(facts: LiveFacts) -> Handler:
    async def handle(_request: web.Request) -> web.Response:
        why = facts.not_ready()
        return _said(503 if why else 200, {"status": "not ready" if why else "ok", "why": why})

    return handle


def _snapshot(facts: LiveFacts) -> Handler:
    async def handle(_request: web.Request) -> web.Response:
        snapshot = facts.snapshot()
        if snapshot is None:
            raise RefusedError.not_leading(facts.process())
        return web.Response(body=snapshot, content_type="application/octet-stream")

    return handle
