"""A stand-in for Prometheus with many workloads, in a process of its own: quick answers of full size.

`python -m loadtests.bench.preflight_server WORKLOADS PODS` prints its port. Values are drawn once for a few kinds of
workload; a series has as many digits as Prometheus writes for it, so that what is read is what a real one would send.
"""

import asyncio
import re
import sys
from functools import lru_cache

import msgspec
import numpy as np
from aiohttp import web

KINDS = 4
"""Workloads differ by their number modulo this: more would measure how quickly this server writes."""
BOUNDS = (
    "0.3", "0.5", "0.8", "1.0", "1.5", "2.0", "2.5", "5.0", "10.0", "15.0", "20.0", "30.0", "40.0", "50.0", "60.0",
    "120.0", "240.0", "480.0", "960.0", "1920.0", "7680.0", "+Inf",
)  # fmt: skip
"""vLLM's own, of its latencies of whole requests."""
_SIGNAL = re.compile(r'"headroom_signal","(\w+)"')
_NAME = re.compile(r'"serve-(\d+)-')
_NAMES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:request_success_total",
          "vllm:generation_tokens_total", "vllm:kv_cache_usage_perc", "vllm:request_queue_time_seconds_count",
          "vllm:e2e_request_latency_seconds_count")  # fmt: skip


class Stand:
    """What the stand-in knows."""

    def __init__(self, workloads: int, pods: int) -> None:
        self.pods = [(f"serve-{n}", f"serve-{n}-7d4b9c6f58-{p:05}") for n in range(workloads) for p in range(pods)]

    async def series(self, request: web.Request) -> web.Response:
        """Labels: of engines' series, of pods' owners; no gateways."""
        form = await request.post()
        asked = " ".join(str(one) for one in form.getall("match[]"))
        found: list[dict[str, str]] = []
        if "vllm:num_requests_running" in asked:
            found = [
                {"__name__": name, "namespace": "bench", "pod": pod, "job": "pods", "model_name": owner}
                for owner, pod in self.pods
                for name in _NAMES[:2]
            ]
        elif "kube_pod_owner" in asked:
            found = [
                {"__name__": "kube_pod_owner", "namespace": "bench", "pod": pod, "owner_kind": "ReplicaSet",
                 "owner_name": f"{owner}-7d4b9c6f58"}
                for owner, pod in self.pods
            ]  # fmt: skip
        return _answer(msgspec.json.encode(found))

    async def query_range(self, request: web.Request) -> web.Response:
        """One of our questions, by what is in it."""
        form = await request.post()
        query = str(form["query"])
        grid = int(str(form["start"])), int(str(form["end"])), int(str(form["step"]))
        name = _NAME.search(query)
        kind = int(name[1]) % KINDS if name is not None else 0
        if "count_over_time" in query:
            return _matrix(_rows((('"job":"pods"', "scrapes"),), grid, kind))
        if "kube_pod" in query:
            return _matrix(b"")
        if "by(le)" in query:
            return _matrix(_rows(tuple((f'"le":"{le}"', "bucket") for le in BOUNDS), grid, kind))
        if "__name__" in query:
            named = tuple((f'"__name__":"{one}"', "presence") for one in _NAMES)
            return _matrix(_rows((*named, ('"headroom_signal":"scrapers"', "one")), grid, kind))
        signals = tuple((f'"headroom_signal":"{one}"', one) for one in _SIGNAL.findall(query))
        return _matrix(_rows(signals, grid, kind))


@lru_cache(maxsize=256)
def _rows(series: tuple[tuple[str, str], ...], grid: tuple[int, int, int], kind: int) -> bytes:
    parts = [f'{{"metric":{{{labels}}},"values":[{_points(what, grid, kind)}]}}' for labels, what in series]
    return ",".join(parts).encode()


def _points(what: str, grid: tuple[int, int, int], kind: int) -> str:
    start_s, end_s, step_s = grid
    t_s = np.arange(start_s, end_s + 1, step_s)
    rng = np.random.default_rng([kind, *what.encode()])
    day = 1.0 + 0.6 * np.sin(2 * np.pi * (t_s / 86_400 + kind / KINDS))
    draw = rng.gamma(4.0, 0.25, t_s.size) * day
    drawn = {
        "running": np.round(40 * draw),
        "waiting": np.round(np.maximum(40 * draw - 90, 0)),
        "kv_usage_ratio": np.minimum(0.3 * draw, 1.0),
        "replicas": np.full(t_s.size, 4.0),
        "standing": np.full(t_s.size, 4.0),
        "busy_replicas": np.minimum(np.round(4 * draw), 4),
        "arrivals_per_s": 12.3 * draw / 3.0,
        "tokens_per_s": 2300.0 * draw / 3.0,
        "bucket": 1000.0 * draw / 7.0,
        "scrapes": np.full(t_s.size, 31.0),
        "presence": np.full(t_s.size, 4.0),
        "one": np.ones(t_s.size),
    }
    texts = (f"{value:.17g}" for value in np.asarray(drawn[what], dtype=np.float64).tolist())
    return ",".join(f'[{at},"{text}"]' for at, text in zip(t_s.tolist(), texts, strict=True))


def _matrix(rows: bytes) -> web.Response:
    return _answer(b'{"resultType":"matrix","result":[' + rows + b"]}")


def _answer(data: bytes) -> web.Response:
    return web.Response(body=b'{"status":"success","data":' + data + b"}", content_type="application/json")


async def serve(workloads: int, pods: int) -> None:
    """Serve on a free port of the loopback until the process is ended."""
    stand = Stand(workloads, pods)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/api/v1/series", stand.series)
    app.router.add_post("/api/v1/query_range", stand.query_range)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
