"""The process of `headroom run` as a whole, before it knows anything: what is set for its length and put back after."""

import asyncio
import gc
import signal
from pathlib import Path

from autoscaler.app import garbage, live
from autoscaler.settings.http import Http
from autoscaler.settings.model import Settings
from autoscaler.settings.parts import Kube
from tests.cluster.processes import free_port

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
