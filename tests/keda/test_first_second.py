"""The whole process before it knows anything: its API server does not answer, and KEDA asks all the same."""

import asyncio
import json
import sys
import urllib.request
from pathlib import Path

import grpc
import pytest

from tests.cluster.processes import Process, free_port
from tests.keda.book import calling, query, ref

NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


@pytest.mark.slow
async def test_the_spec_is_told_from_the_first_second_and_no_number_before_the_cluster_is_known(tmp_path: Path) -> None:
    """kedacore/keda#7729: without a spec KEDA makes no HPA, and a count that is made up would be acted upon."""
    config, keda, http = tmp_path / "config", free_port(), free_port()
    config.write_text(NOWHERE)
    settings = tmp_path / "settings.json"
    settings.write_text(
        json.dumps({
            "kube": {"kubeconfig": str(config)}, "http": {"host": "127.0.0.1", "port": http},
            "keda": {"enabled": True, "plaintext": True, "host": "127.0.0.1", "port": keda},
        })
    )  # fmt: skip
    command: list[str | Path] = [sys.executable, "-m", "autoscaler", "run", "--config", settings]
    with Process(command, tmp_path / "log") as process:
        async with calling(keda) as client:
            asked = ref({"value": "demand", "perReplica": "8"})
            try:
                found = await client.GetMetricSpec(asked, wait_for_ready=True, timeout=40)
            except grpc.aio.AioRpcError as error:
                pytest.fail(f"{error.code().name}; ended with {process.returncode}: {process.words()[-2000:]}")
            assert [(spec.metricName, spec.targetSizeFloat) for spec in found.metricSpecs] == [("headroom-demand", 8.0)]
            for call in (client.GetMetrics(query()), client.IsActive(ref())):
                with pytest.raises(grpc.aio.AioRpcError, match="nobody leads") as refused:
                    await call
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        metrics = await asyncio.to_thread(_metrics, http)
        words = process.words()
    assert "headroom_keda_plaintext 1.0" in metrics
    assert "keda.plaintext is on: KEDA is answered without encryption" in words


def _metrics(port: int) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text
