"""The whole process before it knows anything: its API server does not answer, and KEDA asks all the same."""

import asyncio
import json
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from autoscaler.adapters.expiry import not_after_s
from autoscaler.adapters.keda.externalscaler_pb2_grpc import ExternalScalerStub
from tests.cluster.processes import Process, free_port
from tests.keda.book import calling, query, ref
from tests.keda.certs import Authority

ENDS = "headroom_keda_certificate_not_after_timestamp_seconds"

NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


@contextmanager
def running(folder: Path, **keda: Any) -> Iterator[tuple[Process, int, int]]:
    """The controller over an API server that is not there; with it the ports that KEDA and Prometheus ask."""
    config, settings, port, http = folder / "config", folder / "settings.json", free_port(), free_port()
    config.write_text(NOWHERE)
    given = {
        "kube": {"kubeconfig": config},
        "http": {"host": "127.0.0.1", "port": http},
        "keda": {"enabled": True, "host": "127.0.0.1", "port": port, **keda},
    }
    settings.write_text(json.dumps(given, default=str))
    with Process([sys.executable, "-m", "autoscaler", "run", "--config", settings], folder / "log") as process:
        yield process, port, http


async def first_spec(client: ExternalScalerStub, process: Process) -> list[tuple[str, float]]:
    """What a trigger's spec is, once there is a server."""
    asked = ref({"value": "demand", "perReplica": "8"})
    try:
        found = await client.GetMetricSpec(asked, wait_for_ready=True, timeout=40)
    except grpc.aio.AioRpcError as error:
        pytest.fail(f"{error.code().name}; ended with {process.returncode}: {process.words()[-2000:]}")
    return [(spec.metricName, spec.targetSizeFloat) for spec in found.metricSpecs]


@pytest.mark.slow
async def test_the_spec_is_told_from_the_first_second_and_no_number_before_the_cluster_is_known(tmp_path: Path) -> None:
    """kedacore/keda#7729: without a spec KEDA makes no HPA, and a count that is made up would be acted upon."""
    with running(tmp_path, plaintext=True) as (process, keda, http):
        async with calling(keda) as client:
            assert await first_spec(client, process) == [("headroom-demand", 8.0)]
            for call in (client.GetMetrics(query()), client.IsActive(ref())):
                with pytest.raises(grpc.aio.AioRpcError, match="nobody leads") as refused:
                    await call
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        metrics = await asyncio.to_thread(_metrics, http)
        words = process.words()
    assert "headroom_keda_plaintext 1.0" in metrics
    assert ENDS not in metrics
    assert "keda.plaintext is on: KEDA is answered without encryption" in words


@pytest.mark.slow
@pytest.mark.needs("openssl")
async def test_over_tls_the_metrics_say_when_the_certificate_ends(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    pair = authority.sign("headroom", "IP:127.0.0.1", days=30)
    with running(tmp_path, tls={"cert_file": pair.cert, "key_file": pair.key}) as (process, keda, http):
        trusted = grpc.ssl_channel_credentials(authority.cert.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{keda}", trusted) as channel:
            assert await first_spec(ExternalScalerStub(channel), process) == [("headroom-demand", 8.0)]
        metrics = await asyncio.to_thread(_metrics, http)
    assert "headroom_keda_plaintext 0.0" in metrics
    (line,) = [line for line in metrics.splitlines() if line.startswith(f"{ENDS} ")]
    assert float(line.split()[1]) == not_after_s(pair.cert.read_bytes())


def _metrics(port: int) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text
