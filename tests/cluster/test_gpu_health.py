"""A GPU fails under a pod that still says that it is ready, as NVIDIA's exporter tells it."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Final
from uuid import uuid4

import pytest

from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import QUIET, WITHIN_S, Scene
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

PAGE_S: Final = 10.0
"""Between two looks at an exporter."""

OFF_THE_BUS: Final = 79
"""The Xid error of a GPU that only a reboot brings back."""

PROCESS_ENDED: Final = 45
"""One that ends a process and not the GPU."""

LINE: Final = """\
DCGM_FI_DEV_XID_ERRORS{{UUID="GPU-{number}",namespace="{namespace}",pod="{pod}"}} {xid}
DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-{number}",namespace="{namespace}",pod="{pod}"}} 50
"""


class Exporter:
    """The exporter of a node: what it shows of the pods of one workload."""

    def __init__(self, scene: Scene, namespace: str) -> None:
        pod = Service(scene.plane, scene.engines, namespace, "dcgm", asks=False)
        (self._ip,) = pod.wait_ready(1)
        self._engines = scene.engines

    def shows(self, service: Service, errors: Mapping[str, int]) -> None:
        """Every pod of the workload has a GPU; `errors` are their last ones, 0 for none."""
        lines = (
            LINE.format(number=number, namespace=service.namespace, pod=pod, xid=xid)
            for number, (pod, xid) in enumerate(errors.items())
        )
        self._engines.of(self._ip).page = "".join(lines).encode()

    @property
    def asked(self) -> int:
        """How often it was asked."""
        return self._engines.asked.get(self._ip, 0)


@pytest.fixture
def exporter(plane: Plane) -> Iterator[tuple[Scene, Exporter]]:
    namespace = f"gpu-{uuid4().hex[:8]}"
    plane.kubectl("create", "namespace", namespace)
    with ExitStack() as stack:
        engines = stack.enter_context(Engines())
        told = {"namespace": namespace, "selector": "app=dcgm", "port": engines.port}
        scene = stack.enter_context(Scene.begin(plane, "gpus", engines=engines, gpu_exporter=told))
        yield scene, Exporter(scene, namespace)
    plane.kubectl("delete", "namespace", namespace, "--wait=false")


def test_a_pod_whose_gpu_has_failed_serves_nobody_until_it_is_repaired(exporter: tuple[Scene, Exporter]) -> None:
    scene, shown = exporter
    service, ips = scene.serve("chat", 3, max_replicas="6")
    lost, hurt, well = sorted(pod["metadata"]["name"] for pod in service.pods())
    shown.shows(service, {lost: 0, hurt: 0, well: 0})
    wait_for(lambda: shown.asked > 1, 3 * PAGE_S, "a page on which all is well")
    busy = f'headroom_gpu_utilisation_ratio{{namespace="{service.namespace}",workload="chat"}} 0.5'
    wait_for(lambda: busy in str(scene.controller.get("/metrics")), WITHIN_S, "how busy they are", every_s=0.5)

    shown.shows(service, {lost: OFF_THE_BUS, hurt: PROCESS_ENDED, well: 0})
    words = f"problem: {service.namespace}/{lost} on "
    wait_for(lambda: words in scene.explained(service), PAGE_S + WITHIN_S, "a word about the GPU")
    assert f"GPU error {OFF_THE_BUS}, it serves nobody: drain the node" in scene.explained(service)
    wait_for(lambda: scene.row(service)["has"] == 2, WITHIN_S, "two that serve, of three that are ready")
    assert len(service.ips()) == 3, "its probes say otherwise"
    assert f"{hurt} on" not in scene.explained(service)

    shown.shows(service, {lost: 0, hurt: PROCESS_ENDED, well: 0})
    wait_for(lambda: scene.row(service)["has"] == 3, PAGE_S + WITHIN_S, "three that serve")
    assert "GPU error" not in scene.explained(service)
    scene.engines.of_all(ips, **QUIET)
    assert not service.shrinks()
