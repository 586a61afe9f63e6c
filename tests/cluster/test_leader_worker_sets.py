"""LeaderWorkerSets under their own controller: a replica is a group of pods, whose leader alone shows metrics."""

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import install
from tests.cluster.lws import Groups, Lws
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import QUEUE, QUIET, Scene

pytestmark = [pytest.mark.real, pytest.mark.needs("lws"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with Plane(tmp_path_factory.mktemp("plane")) as plane:
        install(plane)
        with Lws(plane), Scene.begin(plane, "groups") as made:
            yield made


def test_an_annotated_set_grows_and_shrinks_by_whole_groups(scene: Scene) -> None:
    service = Groups(
        scene.plane, scene.engines, scene.namespace, "chat", replicas=2, size=3, min_replicas="1", max_replicas="4"
    )
    wait_for(lambda: service.groups() == {"0": 3, "1": 3}, 60, "two groups of three")
    leaders = service.wait_ready(2)
    scene.engines.of_all(leaders, **QUIET)
    # Fresh is what most of the replicas say: workers that counted as such, and say nothing, would keep it from that.
    wait_for(lambda: "SignalsFresh=True" in scene.explained(service), 30, "fresh signals of the leaders alone")
    scene.decide_anew(service)
    assert service.counts() == [], "nothing waits, so nothing grows"
    scene.engines.of_all(leaders, **QUEUE)
    wait_for(lambda: service.replicas() == 4, 30, "growth up to the maximum")
    wait_for(lambda: service.groups() == dict.fromkeys("0123", 3), 60, "four groups of three")
    assert service.counts()[0][0] == 2
    assert not service.shrinks()
    leaders = service.wait_ready(4)
    scene.engines.of_all(leaders, **QUIET)
    service.annotate(max_replicas="3")
    wait_for(lambda: service.replicas() == 3, 30, "the lowered limit")
    wait_for(lambda: service.groups() == dict.fromkeys("012", 3), 60, "three whole groups")
    assert service.counts()[-1] == (4, 3)
    assert set(scene.engines.asked) <= set(leaders), "a worker has no page of its own, and is not asked for one"
