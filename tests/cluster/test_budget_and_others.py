"""A budget of GPUs beside a rolling update and pods that nobody told of, on a real control plane."""

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


def test_a_rolling_update_within_a_spent_budget_orders_and_takes_nothing_and_a_lowered_maximum_is_kept(
    scene: Scene,
) -> None:
    """The new version does not become ready, so that pods of both, more than the budget has room for, are there."""
    service, ips = scene.serve("rolled", 2, max_replicas="12", gpus=2)
    scene.engines.of_all(ips, **FLOOD)
    wait_for(lambda: service.replicas() == 4, 30, "all of eight GPUs")
    scene.engines.of_all(service.wait_ready(4), **FLOOD)
    hold = {"spec": {"template": {"metadata": {"annotations": {"stage.headroom.dev/hold": "ready"}}}}}
    scene.plane.call("PATCH", service.path, hold, "application/merge-patch+json")
    wait_for(lambda: len(service.pods()) > 4, 20, "the pods of both versions")
    before = service.counts()
    wait_for(lambda: "the GPU budget is 4" in scene.message(service, "ScalingLimited"), 40, "a word about the budget")
    scene.decide_anew(service)
    assert "pods not scaled here" not in scene.explained(service), "the pods of the update are nobody else's"
    assert service.counts() == before
    service.annotate(max_replicas="3")
    wait_for(lambda: service.replicas() == 3, 60, "the new maximum, under load and in the middle of the update")
    scene.decide_anew(service)
    assert [after for _, after in service.counts()[len(before) :]] == [3]
    scene.plane.kubectl("-n", service.namespace, "delete", service.kind.lower(), service.name, "--wait")
    wait_for(lambda: service.pods() == [], 30, "their GPUs to be free")


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
