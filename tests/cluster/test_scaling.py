"""The live controller on a real API server, from the metrics page of a pod to the count on ``/scale``."""

import json

import pytest

from tests.cluster.controller import Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import QUEUE
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_an_annotated_target_grows_when_requests_wait(
    plane: Plane, namespace: str, engines: Engines, kind: str
) -> None:
    service = Service(plane, engines, namespace, "chat", replicas=2, kind=kind, max_replicas="4")
    ips = service.wait_ready(2)
    with Controller(plane, f"grows-{kind}".lower(), watch_namespaces=[namespace]) as controller:
        controller.wait_leading()
        wait_for(lambda: all(engines.asked.get(ip, 0) >= 3 for ip in ips), 15, "pages to be read")
        assert service.replicas() == 2, "nothing waits, so nothing grows"
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() > 2, 10, "growth")
        wait_for(lambda: service.replicas() == 4, 30, "the policy's maximum")
        decided = controller.get(f"/api/explain/{service.workload}")
        assert controller.stop() == 0
    assert service.counts()[0][0] == 2
    assert not service.shrinks()
    assert "300" in json.dumps(decided)


def test_what_nobody_asked_for_is_left_alone(plane: Plane, namespace: str, engines: Engines) -> None:
    asked = Service(plane, engines, namespace, "asked", max_replicas="2")
    unasked = Service(plane, engines, namespace, "unasked", asks=False)
    engines.of_all(asked.wait_ready(1) + unasked.wait_ready(1), **QUEUE)
    with Controller(plane, "unasked", watch_namespaces=[namespace]) as controller:
        controller.wait_leading()
        wait_for(lambda: asked.replicas() == 2, 30, "growth of the one that asks")
        assert unasked.ips()[0] not in {ip for ip, pages in engines.asked.items() if pages}, "nobody read its metrics"
    assert unasked.counts() == []


def _orders(controller: Controller) -> list[float]:
    """When it decided to scale."""
    return [line["now_s"] for line in controller.decisions() if line["verdict"] == "SCALE"]


def test_shadow_decides_and_records_and_never_writes(plane: Plane, namespace: str, engines: Engines) -> None:
    service = Service(plane, engines, namespace, "chat", mode="Shadow")
    engines.of_all(service.wait_ready(1), **QUEUE)
    with Controller(plane, "shadow", watch_namespaces=[namespace]) as controller:
        controller.wait_leading()
        wait_for(lambda: len(_orders(controller)) > 1, 40, "decisions to scale, one after another")
        assert service.answers() == [], "the API server was asked for nothing, not even in vain"
        assert service.replicas() == 1
        service.annotate(mode="Active")
        wait_for(lambda: service.replicas() > 1, 10, "growth once the mode is Active")


def test_a_restart_in_mid_burst_neither_shrinks_nor_orders_twice(
    plane: Plane, namespace: str, engines: Engines
) -> None:
    service = Service(plane, engines, namespace, "chat", max_replicas="12", stages={"hold": "ready"})
    wait_for(lambda: len(service.pods()) == 1, 10, "the first pod")
    service.plane.kubectl("-n", namespace, "annotate", "pod", "--all", "stage.headroom.dev/hold-")
    engines.of_all(service.wait_ready(1), **QUEUE)
    with Controller(plane, "first", watch_namespaces=[namespace]) as first:
        first.wait_leading()
        wait_for(lambda: service.replicas() > 1, 20, "growth")
        ordered = service.replicas()
        assert first.stop() == 0
    with Controller(plane, "second", watch_namespaces=[namespace]) as second:
        second.wait_leading()
        wait_for(lambda: len(second.decisions()) >= 3, 30, "three decisions after the restart")
        assert service.replicas() >= ordered
    assert not service.shrinks()
