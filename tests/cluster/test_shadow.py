"""Shadow mode on a real API server: a human scales, Headroom counts beside it, and what it recorded is replayed."""

import asyncio
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.store import ConfigMapStore, Stored
from autoscaler.hindsight.ledger import Ledger, Three
from autoscaler.hindsight.served import Sums
from autoscaler.runtime.clock import WallClock
from tests.cluster.controller import NAMESPACE, Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(420)]

FULL = {"waiting": 30.0, "running": 8.0, "rps": 5.0}
"""Each pod serves five a second while thirty wait in it."""


def headroom(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and output of a command, as from a shell."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("HEADROOM_")}
    command = [sys.executable, "-m", "autoscaler", *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def past(controller: Controller) -> dict[str, Any]:
    """What is told of the one workload; empty while nothing is counted."""
    told = controller.get("/api/past")
    return {} if not told or told[0]["estimate"] is None else dict(told[0]["estimate"])


async def keep_two_hours_more(plane: Plane, workload: str) -> None:
    """Put two hours of four replicas beside three of ours into what the controller kept, none of them misplaced."""
    clock = WallClock()
    kubeconfig = plane.folder / "admin.kubeconfig"
    async with KubeApi.connect(kubeconfig=kubeconfig, context=None, clock=clock, qps=50, burst=50) as api:
        store = ConfigMapStore(api, NAMESPACE, Stored.SHADOW.prefix("headroom"), lambda: True)
        kept = {name: dict(sums) for name, sums in (await store.load()).items()}
        ledger = Ledger.unpack(kept[workload])
        four, three = Sums(4 * 7200.0, late=90.0, waited_s=9000.0), Sums(3 * 7200.0, late=130.0, waited_s=9900.0)
        ledger.closed.add(Three(four, four, three, counted_s=7200.0, requests=72_000.0))
        earlier = {"from_s": ledger.from_s - 7200.0, "error": [7200.0, 72_000.0, 0.0, 0.0]}
        kept[workload] = ledger.pack() | earlier
        await store.save(kept)


def shown(controller: Controller, words: str, seconds: float = 90) -> bool:
    """Whether the stream that the page draws says `words` within a time."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    ends_s = time.monotonic() + seconds
    with opener.open(f"{controller.url}/events", timeout=seconds) as stream:
        for line in stream:
            if words in line.decode():
                return True
            if time.monotonic() > ends_s:
                return False
    return False


def scale(service: Service, replicas: int) -> float:
    """A human sets the count; when the pods were there."""
    service.plane.kubectl("-n", service.namespace, "scale", "deployment", service.name, f"--replicas={replicas}")
    service.wait_ready(replicas)
    return time.time()


def test_what_a_human_held_is_counted_beside_ours_told_replayed_and_kept(
    plane: Plane, namespace: str, engines: Engines
) -> None:
    """Two replicas, then four from a known instant on; by its policy Headroom's are three all the time."""
    service = Service(
        plane, engines, namespace, "chat", replicas=2, gpus=1, mode="Shadow", min_replicas="3", max_replicas="3"
    )
    engines.of_all(service.wait_ready(2), **FULL)
    with Controller(plane, "watches", watch_namespaces=[namespace]) as controller:
        controller.wait_leading()
        wait_for(lambda: past(controller).get("counted_s", 0) > 10 and not past(controller)["least"], 90, "a count")
        from_s = past(controller)["from_s"]
        scaled_s = scale(service, 4)
        wait_for(lambda: past(controller)["to_s"] > scaled_s + 30, 60, "half a minute of four")
        told = past(controller)
        expected_s = 2 * (scaled_s - from_s) + 4 * (told["to_s"] - scaled_s)
        assert 3600 * told["observed"]["held_hours"] == pytest.approx(expected_s, abs=4 * 6.0)
        assert 3600 * told["ours"]["held_hours"] == pytest.approx(3 * told["counted_s"], abs=3 * 6.0)
        assert told["requests"] == pytest.approx(10 * told["counted_s"], rel=0.1)
        assert (told["doubt"], told["saved_hours"]) == ("TOO_SHORT", None)
        families = {family.name: family for family in parse_text(controller.get("/metrics"))}
        (doubt,) = families["headroom_shadow_doubt"].samples
        assert (doubt.labels["workload"], doubt.labels["reason"]) == ("chat", "TOO_SHORT")
        code, said = headroom("report", "--server", controller.url)
        assert code == 0
        assert f"{namespace}/chat" in said
        assert "Cannot tell what would have been saved: too little of what happened was modelled yet" in said
        assert controller.stop() == 0
    assert service.replicas() == 4, "nobody but the human scaled"
    assert not service.counts() or all(count in {2, 4} for pair in service.counts() for count in pair)

    asyncio.run(keep_two_hours_more(plane, f"{namespace}/chat"))
    with Controller(plane, "watches", watch_namespaces=[namespace]) as controller:
        controller.wait_leading()
        wait_for(lambda: past(controller).get("counted_s", 0) > 7200 + told["counted_s"] + 5, 90, "the sums to go on")
        later = past(controller)
        assert (later["from_s"], later["doubt"], later["gpus_per_replica"]) == (from_s - 7200, None, 1)
        assert later["saved_hours"] == pytest.approx(2.0, abs=0.3), "two hours of one replica too many"
        samples = {family.name: family.samples for family in parse_text(controller.get("/metrics"))}
        (saved,) = samples["headroom_shadow_saved_gpu_hours"]
        assert saved.value == pytest.approx(2.0, abs=0.3)
        held = {sample.labels["account"]: sample.value for sample in samples["headroom_shadow_replica_hours"]}
        assert held["observed"] - held["ours"] == pytest.approx(saved.value, abs=0.01)
        assert "headroom_shadow_doubt" not in samples
        words = re.compile(r"Headroom in 2[\d.]* h: [\d.]+ GPU-hours of [\d.]+ saved; [\d,.]+ late requests")
        code, said = headroom("report", "--server", controller.url)
        assert code == 0
        assert words.search(said), said
        assert "the model misplaced" in said.split("Headroom in")[0], "its error stands first"
        assert shown(controller, "GPU-hours of"), "the page says it too"
        assert controller.stop() == 0
        audit = controller.folder / "audit"

    code, said = headroom("replay", audit)
    assert code == 0, said
    assert "every one as recorded, byte for byte" in said
    code, said = headroom("replay", audit, "--set", "max_replicas=5", "--set", "min_replicas=5")
    assert code == 0, said
    assert "decisions differ" in said
    code, said = headroom("report", audit, "--workload", f"{namespace}/chat")
    assert code == 0, said
    assert "as it happened" in said
