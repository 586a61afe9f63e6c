"""Shadow mode on a real API server: a human scales, Headroom counts beside it, and what it recorded is replayed."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.cluster.controller import Controller
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


def scale(service: Service, replicas: int) -> float:
    """A human sets the count; when the pods were there."""
    service.plane.kubectl("-n", service.namespace, "scale", "deployment", service.name, f"--replicas={replicas}")
    service.wait_ready(replicas)
    return time.time()


def test_what_a_human_held_is_counted_beside_ours_told_replayed_and_kept(
    plane: Plane, namespace: str, engines: Engines
) -> None:
    """Two replicas, then four from a known instant on; by its policy Headroom's are three all the time."""
    service = Service(plane, engines, namespace, "chat", replicas=2, mode="Shadow", min_replicas="3", max_replicas="3")
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

    with Controller(plane, "watches", watch_namespaces=[namespace]) as controller:
        controller.wait_leading()
        wait_for(lambda: past(controller).get("counted_s", 0) > told["counted_s"] + 5, 60, "the sums to go on")
        assert past(controller)["from_s"] == from_s
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
