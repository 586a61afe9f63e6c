"""Pods whose pages come from somebody else's vLLM-compatible server, read with our profile of vLLM and scaled on it.

One server answers for all pods of the workload, since it listens on every address: each pod shows the same queue.
"""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.plane import Plane
from tests.cluster.processes import Process, free_port, wait_for
from tests.cluster.scene import Scene
from tests.real import parts

pytestmark = [
    pytest.mark.real,
    pytest.mark.needs("control-plane", "llm-d-inference-sim"),
    pytest.mark.timeout(240),
]

REQUESTS: Final = 40
"""Two of them run, for longer than the test takes; the others wait."""

OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The server's URL, with nothing to do yet."""
    port = free_port()
    program = parts.program(parts.LLM_D)
    assert program is not None
    command = [str(program), "--model", "m", "--port", str(port), "--max-num-seqs", "2"]
    with Process([*command, "--time-to-first-token", "120s"], tmp_path / "server.log") as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: b"vllm:" in _page(url), 30, f"the server's page ({process.log})")
        yield url


def _page(url: str) -> bytes:
    with suppress(OSError), OPENER.open(f"{url}/metrics", timeout=2) as answer:
        return bytes(answer.read())
    return b""


def _ask(url: str) -> None:
    body = json.dumps({"model": "m", "prompt": "hello", "max_tokens": 1}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    with suppress(OSError):  # the server ends first
        OPENER.open(request, timeout=200).close()


def test_what_waits_at_another_makers_engine_makes_its_workload_grow(plane: Plane, server: str) -> None:
    with Scene.begin(plane, "foreign-engine") as scene:
        port = server.rpartition(":")[2]
        service, _ = scene.serve("chat", 2, metrics_port=port, max_replicas="4")
        scene.decide_anew(service)
        assert service.counts() == [], "nothing waits, so nothing grows"
        asking = [threading.Thread(target=_ask, args=(server,), daemon=True) for _ in range(REQUESTS)]
        for one in asking:
            one.start()
        wait_for(lambda: service.replicas() == 4, 60, "growth up to the maximum")
        assert not service.shrinks()
        found = scene.row(service)["about"]["found"]
        assert {"vllm:num_requests_waiting", "vllm:num_requests_running"} <= set(found)
