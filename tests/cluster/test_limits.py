"""More workloads than the settings take up, on a real control plane: who is told, who stays when the leader changes."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.cluster.controller import NAMESPACE, Controller
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import Scene
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

LIMITS: Final = {"namespace_workloads": 2}


@pytest.fixture(scope="module")
def scene(plane: Plane) -> Iterator[Scene]:
    with Scene.begin(plane, "limits", limits=LIMITS) as made:
        yield made


def taken(controller: Controller) -> set[str]:
    """Names of the workloads that are taken up."""
    return {row["workload"].partition("/")[2] for row in controller.get("/api/status")["workloads"]}


def refused(controller: Controller) -> dict[str, str]:
    """Names of the objects that ask in vain, with the reason."""
    return {one["name"]: one["reason"] for one in controller.get("/api/status")["rejected"]}


def test_who_is_scaled_stays_so_whoever_is_added_and_whoever_leads(scene: Scene) -> None:
    plane, where = scene.plane, scene.namespace
    ancient = Service(plane, scene.engines, where, "ancient", asks=False)
    for name in ("a", "b"):
        Service(plane, scene.engines, where, name, max_replicas="4")
    wait_for(lambda: taken(scene.controller) == {"a", "b"}, 30, "both taken up")
    plane.kubectl("-n", where, "annotate", "deployment", "ancient", "headroom.dev/scale=true")
    wait_for(lambda: refused(scene.controller) == {"ancient": "TooManyWorkloads"}, 20, "a word about the third")
    wait_for(lambda: _events(plane, where, "ancient"), 20, "its event")
    assert "at most 2 workloads of a namespace" in _events(plane, where, "ancient")[0]["message"]
    assert taken(scene.controller) == {"a", "b"}
    assert ancient.replicas() == 1
    assert scene.controller.stop() == 0
    with Controller(plane, "limits-next", None, watch_namespaces=[where], limits=LIMITS) as following:
        following.wait_leading()
        wait_for(lambda: taken(following) == {"a", "b"}, 30, "the same two, though the third is older")
        assert refused(following) == {"ancient": "TooManyWorkloads"}
        plane.kubectl("-n", where, "delete", "deployment", "b", "--wait=false")
        wait_for(lambda: taken(following) == {"a", "ancient"}, 20, "the third in the place of one that went")
        assert refused(following) == {}


def test_who_was_scaled_stays_so_though_the_next_leader_finds_no_checkpoints(plane: Plane) -> None:
    with Scene.begin(plane, "limits-lost", limits=LIMITS) as scene:
        where = scene.namespace
        Service(plane, scene.engines, where, "ancient", asks=False)
        scaled = [Service(plane, scene.engines, where, name, min_replicas="2", max_replicas="4") for name in ("a", "b")]
        wait_for(lambda: [one.replicas() for one in scaled] == [2, 2], 40, "both at the least that they ask for")
        plane.kubectl("-n", where, "annotate", "deployment", "ancient", "headroom.dev/scale=true")
        wait_for(lambda: refused(scene.controller) == {"ancient": "TooManyWorkloads"}, 20, "a word about the third")
        assert scene.controller.stop() == 0
        kept = ("-n", NAMESPACE, "configmaps", "-l", "app.kubernetes.io/component=checkpoints")
        assert "headroom-checkpoint-index" in plane.kubectl("get", *kept)
        plane.kubectl("delete", *kept)
        with Controller(plane, "limits-found", None, watch_namespaces=[where], limits=LIMITS) as following:
            following.wait_leading()
            wait_for(lambda: taken(following) == {"a", "b"}, 30, "those whose counts it finds to be its own")
            assert refused(following) == {"ancient": "TooManyWorkloads"}
            assert (
                "ConfigMaps headroom-checkpoint-...): what was learnt" in (following.folder / "output.log").read_text()
            )


def _events(plane: Plane, namespace: str, name: str) -> list[dict[str, Any]]:
    selector = f"involvedObject.name={name},reason=TooManyWorkloads"
    found = plane.kubectl("-n", namespace, "get", "events", "--field-selector", selector, "-o", "json")
    return list(json.loads(found)["items"])
