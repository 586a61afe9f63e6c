"""An engine's metrics page under the names that vLLM and SGLang give their metrics.

Enters: an engine. Leaves: Prometheus text. Sources of the names: vllm/v1/metrics/loggers.py of vLLM, and
python/sglang/srt/metrics/collector.py of SGLang. What an engine of ours does not have (grammars, remote KV) reads 0.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from loadtests.engines.engine import Engine, Histogram


class _Page:
    def __init__(self, prefix: str, labels: str) -> None:
        self._prefix = prefix
        self._labels = labels
        self._lines: list[str] = []

    def gauge(self, name: str, value: float, extra: str = "") -> None:
        self._family(name, "gauge", value, extra)

    def counter(self, name: str, value: float, extra: str = "") -> None:
        self._family(name, "counter", value, extra)

    def histogram(self, name: str, found: Histogram) -> None:
        full = f"{self._prefix}:{name}"
        self._lines.append(f"# TYPE {full} histogram")
        total = 0
        for bound, count in zip([*map(str, found.bounds), "+Inf"], found.counts, strict=True):
            total += count
            self._lines.append(f'{full}_bucket{{{self._labels},le="{bound}"}} {float(total)}')
        self._lines.append(f"{full}_sum{{{self._labels}}} {found.sum}")
        self._lines.append(f"{full}_count{{{self._labels}}} {float(total)}")

    def _family(self, name: str, kind: str, value: float, extra: str) -> None:
        full = f"{self._prefix}:{name}"
        declared = f"# TYPE {full} {kind}"
        if declared not in self._lines:
            self._lines.append(declared)
        self._lines.append(f"{full}{{{self._labels}{extra}}} {float(value)}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def vllm(engine: Engine, model: str) -> str:
    """The page as vLLM 0.29 writes it."""
    batch, book = engine.batch, engine.book
    page = _Page("vllm", f'engine="0",model_name="{model}"')
    page.gauge("num_requests_running", len(batch.running))
    page.gauge("num_requests_waiting", len(batch.queue))
    page.gauge("num_requests_waiting_by_reason", len(batch.queue), ',reason="capacity"')
    page.gauge("num_requests_waiting_by_reason", 0, ',reason="deferred"')
    page.gauge("kv_cache_usage_perc", batch.used_ratio)
    page.counter("num_preemptions_total", batch.preemptions)
    page.counter("prompt_tokens_total", book.prompt_tokens)
    page.counter("generation_tokens_total", book.generation_tokens)
    for reason, count in (("stop", 0), ("length", book.finished), ("abort", book.aborted)):
        page.counter("request_success_total", count, f',finished_reason="{reason}"')
    page.histogram("request_queue_time_seconds", book.queue_s)
    page.histogram("time_to_first_token_seconds", book.ttft_s)
    page.histogram("inter_token_latency_seconds", book.gap_s)
    page.histogram("e2e_request_latency_seconds", book.e2e_s)
    return page.text()


def sglang(engine: Engine, model: str) -> str:
    """The page as SGLang writes it for one rank."""
    batch, book = engine.batch, engine.book
    page = _Page("sglang", f'engine_type="unified",model_name="{model}",moe_ep_rank="0",pp_rank="0",tp_rank="0"')
    page.gauge("num_running_reqs", len(batch.running))
    page.gauge("num_queue_reqs", len(batch.queue))
    page.gauge("num_grammar_queue_reqs", 0)
    page.gauge("num_used_tokens", round(batch.used_ratio * engine.speed.kv_tokens))
    page.gauge("max_total_num_tokens", engine.speed.kv_tokens)
    page.gauge("token_usage", batch.used_ratio)
    page.counter("prompt_tokens_total", book.prompt_tokens)
    page.counter("generation_tokens_total", book.generation_tokens)
    page.counter("num_requests_total", book.finished + book.aborted)
    page.counter("num_aborted_requests_total", book.aborted)
    page.histogram("queue_time_seconds", book.queue_s)
    page.histogram("time_to_first_token_seconds", book.ttft_s)
    page.histogram("inter_token_latency_seconds", book.gap_s)
    page.histogram("e2e_request_latency_seconds", book.e2e_s)
    return page.text()


PAGES: Mapping[str, Callable[[Engine, str], str]] = MappingProxyType({"vllm": vllm, "sglang": sglang})
