"""Serves vLLM-like metrics pages on many loopback addresses: `python -m loadtests.bench.pages TARGETS`.

Prints the port once it listens and serves until it is told to end. The pages are made beforehand; a connection gets the
next one with every request, so that counters and histograms grow as those of a busy pod do.
"""

import asyncio
import signal
import sys

PAGES = 64
"""After so many requests a connection starts over, which looks like a restart of its pod."""

_HISTOGRAMS = (
    "time_to_first_token_seconds", "inter_token_latency_seconds", "request_queue_time_seconds",
    "request_time_per_output_token_seconds", "e2e_request_latency_seconds", "request_prefill_time_seconds",
    "request_decode_time_seconds", "request_inference_time_seconds", "request_prompt_tokens",
    "request_generation_tokens", "iteration_tokens_total", "request_params_n", "request_params_max_tokens",
    "request_max_num_generation_tokens", "request_prefill_kv_computed_tokens", "kv_block_lifetime_seconds",
)  # fmt: skip
_BOUNDS = (
    "0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.25", "0.5", "0.75", "1.0", "2.5", "5.0", "7.5",
    "10.0", "20.0", "40.0", "80.0", "160.0", "640.0", "2560.0", "+Inf",
)  # fmt: skip
_LABELS = 'engine="0",model_name="meta-llama/Llama-3.1-70B-Instruct-long-context"'


def page(turn: int) -> bytes:
    """A page of about 62 KB and 500 samples, as of the `turn`-th second of a busy pod."""
    lines: list[str] = []

    def family(name: str, kind: str, *samples: tuple[str, float]) -> None:
        lines.append(f"# HELP {name} {name.replace('_', ' ')}, as the engine describes it.\n# TYPE {name} {kind}\n")
        lines.extend(f"{sample} {float(value)}\n" for sample, value in samples)

    def plain(name: str, kind: str, value: float) -> None:
        family(name, kind, (f"{name}{{{_LABELS}}}", value))

    family("process_resident_memory_bytes", "gauge", ("process_resident_memory_bytes", 7.3e9))
    routes = [f'http_requests_total{{handler="/v1/r{i}",method="POST",status="2xx"}}' for i in range(24)]
    family("http_requests_total", "counter", *((route, turn) for route in routes))
    plain("vllm:num_requests_running", "gauge", 12)
    plain("vllm:num_requests_waiting", "gauge", 3)
    reasons = [f'vllm:num_requests_waiting_by_reason{{{_LABELS},reason="{r}"}}' for r in ("capacity", "deferred")]
    family("vllm:num_requests_waiting_by_reason", "gauge", *((reason, 2) for reason in reasons))
    plain("vllm:kv_cache_usage_perc", "gauge", 0.4)
    for name in ("prompt_tokens", "generation_tokens", "num_preemptions", "prefix_cache_queries", "prefix_cache_hits"):
        plain(f"vllm:{name}_total", "counter", 1e6 + 900 * turn)
        plain(f"vllm:{name}_created", "gauge", 1.7e9)
    ends = [f'vllm:request_success_total{{{_LABELS},finished_reason="{r}"}}' for r in ("stop", "length", "abort")]
    family("vllm:request_success_total", "counter", *((end, 4 * turn) for end in ends))
    for name in _HISTOGRAMS:
        buckets = [
            (f'vllm:{name}_bucket{{{_LABELS},le="{le}"}}', (i + 1) * (50 + turn)) for i, le in enumerate(_BOUNDS)
        ]
        totals = [(f"vllm:{name}_{part}{{{_LABELS}}}", len(_BOUNDS) * (50 + turn)) for part in ("count", "sum")]
        family(f"vllm:{name}", "histogram", *buckets, *totals)
    return "".join(lines).encode()


def address(number: int) -> str:
    """The loopback address of the `number`-th pod."""
    return f"127.{20 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"


class _Served(asyncio.Protocol):
    """Answers every request, which fits one segment, with the next page."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers
        self._turn = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._transport is not None and data.endswith(b"\r\n\r\n"):
            self._transport.write(self._answers[self._turn % PAGES])
            self._turn += 1


async def serve(targets: int) -> None:
    """Listen on one port of `targets` addresses, print it, and serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    pages = [page(turn) for turn in range(PAGES)]
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\r\n"
    answers = [head.format(len(body)).encode() + body for body in pages]
    port = 0
    servers = []
    for number in range(targets):
        servers.append(await loop.create_server(lambda: _Served(answers), address(number), port))
        port = port or servers[0].sockets[0].getsockname()[1]
    print(port, flush=True)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    for server in servers:
        server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
