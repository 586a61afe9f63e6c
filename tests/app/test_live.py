"""The process of `headroom run` as a whole, before it knows anything: what is set for its length and put back after."""

import asyncio
import gc
import signal
import ssl
from pathlib import Path

import aiohttp
import pytest

from autoscaler.app import garbage, live
from autoscaler.settings.http import Http, HttpTls
from autoscaler.settings.model import Settings
from autoscaler.settings.parts import Kube
from tests.cluster.processes import free_port
from tests.keda.certs import Authority, told_by_openssl

NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


async def test_the_collector_looks_at_everything_rarely_while_the_controller_runs(tmp_path: Path) -> None:
    """Left to itself it would make KEDA's calls wait for 100 ms, ten times a minute."""
    config = tmp_path / "config"
    config.write_text(NOWHERE)
    settings = Settings(kube=Kube(kubeconfig=config), http=Http(host="127.0.0.1", port=free_port()))
    before = gc.get_threshold()
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        running = group.create_task(live.run(settings))
        for _ in range(3000):
            if gc.get_threshold() != before:
                break
            await asyncio.sleep(0.01)
        assert gc.get_threshold() == (garbage.YOUNG, garbage.MIDDLE, garbage.NEVER)
        assert gc.get_freeze_count() > 10_000
        signal.raise_signal(signal.SIGTERM)
    assert running.result() == 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


@pytest.mark.needs("openssl")
async def test_over_tls_the_metrics_say_when_the_ports_certificate_ends(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(NOWHERE)
    authority = Authority(tmp_path, "own")
    pair = authority.sign("headroom", "DNS:localhost", days=30)
    http = Http(host="127.0.0.1", port=free_port(), tls=HttpTls(cert_file=pair.cert, key_file=pair.key))
    settings = Settings(kube=Kube(kubeconfig=config), http=http)
    trusted = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(authority.cert)))
    async with asyncio.timeout(50), aiohttp.ClientSession(connector=trusted) as session, asyncio.TaskGroup() as group:
        running = group.create_task(live.run(settings))
        lines = (await _metrics(session, http.port)).splitlines()
        signal.raise_signal(signal.SIGTERM)
    assert running.result() == 0
    told = dict(line.split() for line in lines if line.startswith("headroom_http_"))
    assert {name: float(value) for name, value in told.items()} == {
        "headroom_http_certificate_not_after_timestamp_seconds": told_by_openssl(pair.cert),
        "headroom_http_certificates_refused": 0.0,
    }


async def _metrics(session: aiohttp.ClientSession, port: int) -> str:
    """The page, once there is a server."""
    while True:
        try:
            async with session.get(f"https://localhost:{port}/metrics") as answer:
                return await answer.text()
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.01)
