"""Metrics pages of fake pods: every pod's own 127.x address answers as a vLLM of the given figures would.

One server for all pods: it tells them apart by the address that was asked, which is the pod's podIP. Figures are set
per pod. The names on a page are those of vLLM's own metrics.
"""

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.cluster.processes import free_port

PIECE_BYTES = 2**17
"""Of a large page, at a time: one that is given up in the middle costs no more."""

PAGE = """\
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{model_name="m"}} {waiting}
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="m"}} {running}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{model_name="m"}} {kv}
# TYPE vllm:request_success_total counter
vllm:request_success_total{{finished_reason="stop",model_name="m"}} {done}
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{model_name="m"}} {prompt}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{model_name="m"}} {generated}
"""


@dataclass(slots=True)
class Figures:
    """What a pod's page says. `rps` moves its counters on; what follows it makes another page of it, or none."""

    waiting: float = 0.0
    running: float = 0.0
    kv: float = 0.1
    rps: float = 0.0
    tokens_per_request: float = 100.0
    page: bytes | None = None
    status: int = 200
    silent: bool = False
    """Accepts and never answers."""
    hangs_up: bool = False
    """Resets the connection in the middle of the page."""
    drip_s: float = 0.0
    """Seconds between two bytes."""
    kind: str = "text/plain"
    since_s: float = field(default=0.0)
    done: float = 0.0

    def text(self, now_s: float) -> bytes:
        """The page at `now_s`."""
        if self.page is not None:
            return self.page
        self.done += self.rps * (now_s - self.since_s)
        self.since_s = now_s
        tokens = self.done * self.tokens_per_request
        return PAGE.format(
            waiting=self.waiting, running=self.running, kv=self.kv, done=self.done, prompt=tokens, generated=tokens
        ).encode()


class Engines:
    """The server in a thread of its own; a context manager. Figures may be changed at any time."""

    def __init__(self) -> None:
        self.port = free_port()
        self.figures: dict[str, Figures] = {}
        """Pod address -> its figures."""
        self.default = Figures()
        self.asked: dict[str, int] = {}
        """Pod address -> pages served."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="engines")
        self._up = threading.Event()

    def of(self, ip: str) -> Figures:
        """The figures of one pod, its own from now on; they begin as a copy of `default`."""
        if ip not in self.figures:
            self.figures[ip] = replace(self.default, since_s=self._loop.time())
        return self.figures[ip]

    def of_all(self, ips: Iterable[str], **figures: Any) -> None:
        """Set some figures of several pods."""
        for ip in ips:
            for name, value in figures.items():
                setattr(self.of(ip), name, value)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "0.0.0.0", self.port, backlog=1024).start())
        self._up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        left = asyncio.all_tasks(self._loop)  # answers that were not to come
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ip = str(request.transport.get_extra_info("sockname")[0])
        assert ip.startswith("127."), "only this machine may ask"
        self.asked[ip] = self.asked.get(ip, 0) + 1
        figures = self.of(ip)
        if figures.silent:
            await asyncio.sleep(60)
        body = figures.text(self._loop.time())
        if not figures.drip_s and not figures.hangs_up and len(body) < PIECE_BYTES:
            return web.Response(body=body, status=figures.status, content_type=figures.kind)
        response = web.StreamResponse()
        await response.prepare(request)
        if figures.hangs_up:
            await response.write(body[: len(body) // 2])
            assert isinstance(request.transport, asyncio.Transport)
            request.transport.abort()
            return response
        piece = 1 if figures.drip_s else PIECE_BYTES
        with suppress(ConnectionError):  # whoever asks may have had enough
            for begin in range(0, len(body), piece):
                await response.write(body[begin : begin + piece])
                await asyncio.sleep(figures.drip_s)
        return response
