"""Against Debian's Prometheus: it scrapes a vLLM-like page and answers our live and past queries."""

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from autoscaler.adapters.engines.targets import ScrapeTarget
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.history import remembering
from autoscaler.adapters.prometheus.live import LivePrometheus, querying
from autoscaler.adapters.prometheus.promql import quoted, selector
from autoscaler.adapters.prometheus.source import PrometheusSource
from autoscaler.ports import Fault, PortError
from autoscaler.runtime.clock import WallClock
from tests.engines.pods import Pods, serving, vllm
from tests.prometheus.test_promql import NASTY

pytestmark = [pytest.mark.real, pytest.mark.needs("prometheus"), pytest.mark.timeout(120)]

ALIVE, DEAD = "127.5.0.1", "127.5.0.2"
POD, GONE = "chat-7d4b9c6f58-x2x9q", "chat-7d4b9c6f58-zzzzz"
RPS = 20.0


def config(pods: Pods) -> str:
    """Both pods, scraped each second under the labels that a PodMonitor gives."""
    jobs = "".join(
        f"      - targets: ['{ip}:{pods.port}']\n        labels: {{namespace: team, pod: {pod}}}\n"
        for ip, pod in ((ALIVE, POD), (DEAD, GONE))
    )
    return (
        "global: {scrape_interval: 1s, scrape_timeout: 900ms}\n"
        f"scrape_configs:\n  - job_name: pods\n    static_configs:\n{jobs}"
    )


@contextlib.asynccontextmanager
async def running(folder: Path, pods: Pods) -> AsyncIterator[str]:
    """A Prometheus that has scraped the pods a few times; yields its URL."""
    (folder / "prometheus.yml").write_text(config(pods))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = [
        f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec("prometheus", *flags)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def scraped(live: LivePrometheus, times: int) -> None:
    """Return once Prometheus has so many samples of the live pod."""
    query = f"count_over_time({selector(['up'], ('namespace', 'team'), ('pod', [POD]))}[60s])"
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(PortError):
                found = await live.instant("main", query)
                if found and float(found[0].samples[-1][1]) >= times:
                    return
            await asyncio.sleep(0.2)


async def test_prometheus_answers_live_and_past_queries(tmp_path: Path) -> None:
    clock, begin_s = WallClock(), WallClock().now()

    async def busy(_request: web.Request) -> web.Response:
        return web.Response(text=vllm(3, 5, int(RPS * (clock.now() - begin_s)), 0.5, deferred=2))

    async with serving(ALIVE, DEAD) as pods, running(tmp_path, pods) as url:
        pods.answers = {ALIVE: busy, DEAD: vllm(500, 9)}
        endpoints = {"main": Endpoint(url)}
        async with querying(endpoints) as live, remembering(endpoints["main"]) as history:
            await scraped(live, 12)
            del pods.answers[DEAD]
            source = PrometheusSource(live, "main", clock)
            source.put(ScrapeTarget("team/chat", POD, "u", ALIVE, 1, ready_since_s=begin_s))
            sample = await source.read("team/chat")
            (pod,) = sample.pods or ()
            assert (pod.waiting, pod.waiting_deferred, pod.running, pod.kv_cache_usage) == (3.0, 2.0, 5.0, 0.5)
            assert pod.requests_total == pytest.approx(RPS * (sample.at_s - begin_s), abs=RPS)
            assert 0.0 <= clock.now() - sample.at_s < 3.0

            await nothing_gets_out_of_its_quotes(live)
            with pytest.raises(PortError, match="parse error") as refused:
                await live.instant("main", "sum(")
            assert refused.value.fault is Fault.INVALID

            now_s = math.floor(clock.now())
            ranged = await live.range("main", f"up{{pod={quoted(POD)}}}", start_s=now_s - 5.0, end_s=now_s, step_s=1.0)
            assert [value for _, value in ranged[0].values] == ["1"] * len(ranged[0].values)

            rate = "sum(rate(vllm:request_success_total{namespace=%s}[5s]))"
            (past,) = await history.range(rate % '"team"', start_s=now_s - 60, end_s=now_s, step_s=1)
            assert past.t_s.size >= 4
            assert past.values[-2:] == pytest.approx([RPS, RPS], rel=0.25)
            assert await history.range(rate % '"other"', start_s=now_s - 60, end_s=now_s, step_s=1) == ()
            known = await history.series([f"up{{pod={quoted(POD)}}}"], start_s=now_s - 60, end_s=now_s)
            assert [one["pod"] for one in known] == [POD]


async def nothing_gets_out_of_its_quotes(live: LivePrometheus) -> None:
    """Nasty names find nothing, and Prometheus understands every query."""
    for nasty in filter(None, NASTY):
        query = selector(["up", "vllm:num_requests_waiting"], ("namespace", "team"), ("pod", [nasty]))
        assert await live.instant("main", query) == [], nasty
        query = selector(["up"], ("namespace", nasty), ("pod", [POD]))
        assert await live.instant("main", query) == [], nasty
        mixed = selector(["up"], ("namespace", "team"), ("pod", [nasty, POD]))
        assert [one.metric["pod"] for one in await live.instant("main", mixed)] == [POD]
