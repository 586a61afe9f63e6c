"""One server's life at one address: warm-up by stages, serving, faults, crash and start anew; and its admin port.

Enters: an address, an engine, the stages of a warm-up, faults by HTTP. Leaves: a listening server, or none while it
warms up or has crashed. The admin port is the next one and answers in every state:

  GET /            the state as JSON
  POST /fault      {"kind": "crash" | "hang" | "wedge" | "slow", "factor": 4, "for_s": 10}; the last two may be left out
  DELETE /fault    heal; what has crashed is started, and warms up again
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from aiohttp import web

from autoscaler.errors import HeadroomError
from loadtests.engines.api import Api
from loadtests.engines.engine import Engine, Fault

SLOW_FACTOR = 4.0
BACKLOG = 1024

Stages = tuple[tuple[str, float], ...]
"""Name and seconds of each."""


class ListenError(HeadroomError):
    """An address cannot be had; the message names it and says why."""


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    kind: Fault
    factor: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = SLOW_FACTOR
    for_s: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None


@dataclass(slots=True)
class Server:
    """An engine with an address. `run` is its life."""

    address: str
    port: int
    engine: Engine
    model: str
    pages: str
    stages: Stages = ()
    fault: Fault | None = None
    stage: str | None = None
    """The stage it warms up in; None once it is warm."""
    starts: int = 0
    stale_s: float = 0.0
    """How old may be what it tells of its requests."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _struck: int = 0

    @property
    def ready(self) -> bool:
        """Whether the engine takes requests."""
        return self.stage is None and not self.crashed

    @property
    def up(self) -> bool:
        """Whether it has begun to live, and takes requests."""
        return self.ready and self.starts > 0

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self.engine.batch.queue)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self.engine.batch.running)

    @property
    def kv_used_ratio(self) -> float:
        """Share of the KV cache in use."""
        return self.engine.batch.used_ratio

    @property
    def busy_s(self) -> float:
        """In which a step ran, since its start."""
        return self.engine.book.busy_s

    @property
    def crashed(self) -> bool:
        """Whether it listens to nobody until it is healed."""
        return self.fault is Fault.CRASH

    async def admitted(self) -> None:
        """Return once the server does not hang."""
        while self.fault is Fault.HANG:
            await self._changed.wait()

    async def run(self, listening: asyncio.Event | None = None) -> None:
        """Live until cancelled. `listening` is set when the admin port answers."""
        async with asyncio.TaskGroup() as group:
            admin = await self._served(self._admin(group), self.port + 1)
            try:
                if listening is not None:
                    listening.set()
                group.create_task(self.engine.run(), name=f"engine {self.address}")
                while True:
                    await self._live()
                    while self.crashed:
                        await self._changed.wait()
            finally:
                await admin.cleanup()

    async def _live(self) -> None:
        """From a start to the crash. SGLang listens in its last stage, unwell; vLLM listens when it is warm."""
        self.starts += 1
        silent, unwell = (self.stages[:-1], self.stages[-1:]) if self.pages == "sglang" else (self.stages, ())
        await self._warm(silent)
        if self.crashed:
            return
        runner = await self._served(Api(self.engine, self, model=self.model, pages=self.pages).application(), self.port)
        try:
            await self._warm(unwell)
            self.stage = None
            while not self.crashed:
                await self._changed.wait()
        finally:
            assert runner.server is not None
            for site in list(runner.sites):
                await site.stop()
            for connection in runner.server.connections:
                if connection.transport is not None:
                    assert isinstance(connection.transport, asyncio.Transport)
                    connection.transport.abort()
            self.engine.lose()
            self.stage = self.stages[0][0] if self.stages else None
            await runner.cleanup()

    async def _warm(self, stages: Stages) -> None:
        clock = self.engine.clock
        for name, seconds in stages:
            self.stage = name
            end_s = clock.monotonic() + seconds
            while not self.crashed and clock.monotonic() < end_s:
                await clock.sleep_until(end_s, self._changed)

    async def _served(self, app: web.Application, port: int) -> web.AppRunner:
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.address, port, backlog=BACKLOG, reuse_address=True).start()
        except OSError as error:
            await runner.cleanup()
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            raise ListenError(f"cannot listen on {self.address}:{port} ({why})") from error
        return runner

    def strike(self, fault: Fault | None, factor: float = SLOW_FACTOR) -> None:
        """Take a fault on in place of the one it has; None heals."""
        self.fault = fault
        self._struck += 1
        self.engine.strike(fault, factor)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _admin(self, group: asyncio.TaskGroup) -> web.Application:
        async def state(_: web.Request) -> web.Response:
            return web.json_response(self.state())

        async def strike(request: web.Request) -> web.Response:
            try:
                order = msgspec.json.decode(await request.read(), type=_Order)
            except msgspec.DecodeError as error:
                return web.json_response({"error": str(error)}, status=400)
            self.strike(order.kind, order.factor)
            if order.for_s is not None:
                group.create_task(self._heal_after(order.for_s, self._struck), name=f"heal {self.address}")
            return web.json_response(self.state())

        async def heal(_: web.Request) -> web.Response:
            self.strike(None)
            return web.json_response(self.state())

        app = web.Application()
        app.router.add_get("/", state)
        app.router.add_post("/fault", strike)
        app.router.add_delete("/fault", heal)
        return app

    async def _heal_after(self, seconds: float, struck: int) -> None:
        await self.engine.clock.sleep_until(self.engine.clock.monotonic() + seconds)
        if struck == self._struck:
            self.strike(None)

    def state(self) -> Mapping[str, object]:
        """What the admin port tells."""
        batch = self.engine.batch
        return {
            "address": f"{self.address}:{self.port}", "ready": self.ready, "stage": self.stage, "starts": self.starts,
            "fault": None if self.fault is None else self.fault.value, "running": len(batch.running),
            "waiting": len(batch.queue), "kv_used_ratio": batch.used_ratio, "late_s": self.engine.book.late_s,
        }  # fmt: skip
