"""Metrics servers on loopback addresses, one address per pod, whose answers the test sets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from autoscaler.adapters.engines.targets import ScrapeTarget

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answer = str | bytes | Handler

LABELS = 'engine="0",model_name="llama"'


def vllm(
    waiting: float = 0, running: float = 0, done: float = 0, kv: float | str = 0.2, *, deferred: float = 0.0
) -> str:
    """A small page of a vLLM that has completed `done` requests of 100 tokens in and 10 out."""
    return f"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{LABELS}}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{{LABELS}}} {waiting + deferred}
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{{{LABELS},reason="capacity"}} {waiting}
vllm:num_requests_waiting_by_reason{{{LABELS},reason="deferred"}} {deferred}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{{LABELS}}} {kv}
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{{LABELS}}} {done * 100}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{{LABELS}}} {done * 10}
# TYPE vllm:request_success_total counter
vllm:request_success_total{{{LABELS},finished_reason="stop"}} {done - done // 4}
vllm:request_success_total{{{LABELS},finished_reason="length"}} {done // 4}
"""


@dataclass
class Pods:
    """What each address answers; an address without an answer gives 404."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[float, str, web.BaseRequest]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ip = request.transport.get_extra_info("sockname")[0]
        self.asked.append((asyncio.get_running_loop().time(), ip, request))
        answer = self.answers.get(ip)
        if answer is None:
            raise web.HTTPNotFound
        if callable(answer):
            return await answer(request)
        body = answer.encode() if isinstance(answer, str) else answer
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


@contextlib.asynccontextmanager
async def serving(*ips: str) -> AsyncIterator[Pods]:
    """A server on the same port of every address."""
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    pods = Pods(0)
    app.router.add_route("*", "/{tail:.*}", pods.handle)
    await runner.setup()
    try:
        for ip in ips:
            site = web.TCPSite(runner, ip, pods.port)
            await site.start()
            pods.port = pods.port or site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        yield pods
    finally:
        await runner.cleanup()


def target(ip: str, port: int, workload: str = "team/chat", *, ready: float | None = 0.0, **more: str) -> ScrapeTarget:
    """A ready vLLM pod named after its address."""
    return ScrapeTarget(workload, f"pod-{ip}", f"uid-{ip}", ip, port, ready_since_s=ready, **more)
