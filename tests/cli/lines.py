"""Builders of lines for `decide`, and a stream that never fits: one workload, steps of five seconds."""

import json
from typing import Any

from autoscaler.cli.stream import DecideStream
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest

POLICY: dict[str, Any] = {"min_replicas": 1, "max_replicas": 20, "slo": {"wait_s": 10}, "tick_s": 5}


def no_fit(request: FitRequest) -> FittedModel:
    raise AssertionError(f"{request.workload} asked for a model; these stories are too short for one")


def make_stream() -> DecideStream:
    return DecideStream(no_fit)


def make_pod(name: str, **fields: object) -> dict[str, Any]:
    plain = {"ready_since_s": -600.0, "waiting": 0, "running": 2, "requests_total": 100.0, "kv_cache_usage": 0.3}
    tokens = {"prompt_tokens_total": 1e4, "generation_tokens_total": 1e4}
    return {"name": name, **plain, **tokens, **fields}


def make_line(now_s: float = 0, **fields: object) -> dict[str, Any]:
    """A line of a quiet workload with two replicas; a field set to `...` is left out."""
    plain: dict[str, Any] = {
        "now_s": now_s,
        "workload": "ns/chat",
        "policy": POLICY,
        "replicas": {"desired": 2, "ready": 2, "starting": []},
        "pods": [make_pod("a"), make_pod("b")],
        "gateway": {"queued": 0, "requests_total": 1000.0 + now_s},
    }
    return {key: value for key, value in (plain | fields).items() if value is not ...}


def encode(line: dict[str, Any] | str | bytes) -> bytes:
    if isinstance(line, dict):
        return json.dumps(line).encode() + b"\n"
    return line.encode() if isinstance(line, str) else line


def answers(*lines: dict[str, Any] | str | bytes, stream: DecideStream | None = None) -> list[dict[str, Any]]:
    """What a stream answers to each line."""
    stream = stream or make_stream()
    return [json.loads(stream.answer(encode(line))) for line in lines]


def busy(
    now_s: float, *, desired: int = 2, ready: int = 2, queued: float = 0.0, rate_rps: float = 4.0
) -> dict[str, Any]:
    """A line of `ready` replicas that serve `rate_rps` together, with `queued` requests waiting in their queues."""
    done = 1e6 + rate_rps / ready * now_s
    pods = [
        make_pod(f"p{i}", requests_total=done, generation_tokens_total=100 * done, waiting=queued / ready)
        for i in range(ready)
    ]
    replicas = {"desired": desired, "ready": ready, "starting": [{"since_s": 0}] * max(0, desired - ready)}
    arrived = 1e6 + rate_rps * now_s + queued
    return make_line(now_s, replicas=replicas, pods=pods, gateway={"queued": 0, "requests_total": arrived})
