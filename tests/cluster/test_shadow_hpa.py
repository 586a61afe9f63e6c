"""Shadow mode beside a real HPA: what it set is what happened, ours stands beside it, and nobody of ours touches it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.hindsight.recording import Looked, Recording
from tests.cluster.conftest import install
from tests.cluster.controller import Controller
from tests.cluster.engines import Engines
from tests.cluster.external_metrics import ExternalMetrics, horizontal
from tests.cluster.hpa import USER
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.service import Service
from tests.cluster.test_shadow import headroom

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(300)]

FULL = {"waiting": 30.0, "running": 8.0, "rps": 5.0}
"""Each pod serves five a second while thirty wait in it."""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    """A control plane that serves metrics to HPA, which looks at them every 2 s in place of 15."""
    flags = ("--horizontal-pod-autoscaler-sync-period=2s",)
    with Plane(tmp_path / "plane", aggregates=True, manager_flags=flags) as made:
        install(made)
        yield made


def past(controller: Controller) -> dict[str, Any]:
    """What is told of the one workload; empty while nothing is counted."""
    told = controller.get("/api/past")
    return {} if not told or told[0]["estimate"] is None else dict(told[0]["estimate"])


def test_what_hpa_held_is_counted_beside_ours_and_told(
    plane: Plane, namespace: str, engines: Engines, tmp_path: Path
) -> None:
    """HPA holds two replicas for a load of 20, then four for one of 40; by its policy Headroom's are three."""
    service = Service(
        plane, engines, namespace, "chat", replicas=2, gpus=1, mode="Shadow", min_replicas="3", max_replicas="3"
    )
    engines.of_all(service.wait_ready(2), **FULL)
    with (
        ExternalMetrics(plane, tmp_path, 20) as metrics,
        Controller(plane, "watches", watch_namespaces=[namespace]) as controller,
    ):
        plane.apply(horizontal(namespace, "chat", least=1, most=6, each=10))
        controller.wait_leading()
        wait_for(lambda: past(controller).get("counted_s", 0) > 10 and not past(controller)["least"], 90, "a count")
        assert service.replicas() == 2, "HPA is content with two"
        metrics.value = 40
        wait_for(lambda: service.replicas() == 4, 60, "HPA to scale")
        service.wait_ready(4)
        scaled_s, told = time.time(), past(controller)
        wait_for(lambda: past(controller)["to_s"] > scaled_s + 20, 90, "a third of a minute of four")
        later = past(controller)
        grown_s = later["counted_s"] - told["counted_s"]
        held = 3600 * (later["observed"]["held_hours"] - told["observed"]["held_hours"])
        ours = 3600 * (later["ours"]["held_hours"] - told["ours"]["held_hours"])
        assert held == pytest.approx(4 * grown_s, abs=2 * 10.0), "what HPA ordered, but for the look it came in"
        assert ours == pytest.approx(3 * grown_s, abs=3 * 6.0)
        assert later["doubt"] == "TOO_SHORT"
        code, said = headroom("report", "--server", controller.url)
        assert code == 0
        assert "Cannot tell what would have been saved: too little of what happened was modelled yet" in said
        assert controller.stop() == 0
        audit = controller.folder / "audit"
    assert service.counts() == [], "nothing was patched by Headroom"
    assert plane.audited(verb="update", resource="deployments/scale", user=USER)

    entries = [entry for entry in Recording.of([audit]).entries() if isinstance(entry, Looked)]
    seen = [entry.line.replicas.desired for entry in entries]
    assert (seen[0], seen[-1]) == (2, 4), "what HPA had set stands in the inputs"
    assert {entry.said.replicas for entry in entries[-2:] if entry.said is not None} == {3}, "and ours in the decisions"
    code, said = headroom("replay", audit)
    assert code == 0, said
    code, said = headroom("report", audit)
    assert code == 0, said
    assert "as it happened" in said
