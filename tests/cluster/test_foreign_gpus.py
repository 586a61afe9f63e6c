"""A budget of GPUs beside pods that nobody told the controller about, on a real control plane."""

from collections.abc import Iterator

import pytest

from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import FLOOD, Scene
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def scene(plane: Plane) -> Iterator[Scene]:
    with Scene.begin(plane, "foreign", budgets={"cluster_gpus": 8}) as made:
        yield made


def test_what_other_pods_hold_is_no_room_to_grow_into_until_they_go(scene: Scene) -> None:
    strangers = Service(scene.plane, scene.engines, scene.namespace, "training", replicas=2, gpus=2, asks=False)
    strangers.wait_ready(2)
    service, ips = scene.serve("chat", 2, max_replicas="9", gpus=1)
    scene.engines.of_all(ips, **FLOOD)
    wait_for(lambda: service.replicas() == 4, 30, "all that is left of eight GPUs")
    scene.engines.of_all(service.wait_ready(4), **FLOOD)
    words = "the cluster has 8 GPUs, 4 of them are held by pods not scaled here"
    wait_for(lambda: words in scene.explained(service), 30, "a word about the strangers", every_s=0.2)
    assert "in the namespaces that are watched" in scene.explained(service), "others might hold more"
    strangers.edit(0)
    wait_for(lambda: service.replicas() == 8, 60, "growth once they are gone")
    strangers.edit(2)
    strangers.wait_ready(2)
    scene.decide_anew(service)
    assert service.shrinks() == [], "nobody who serves gives way to strangers"
