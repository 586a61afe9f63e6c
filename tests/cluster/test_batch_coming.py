"""A gang waits for a node that is on its way, on a real control plane: told when, nobody stopped for it, bound there.

One node of eight GPUs is there at first. Others are made by the test as they are before their kubelet is ready.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from tests.cluster.batch_work import MERGE, SETTINGS, SLACK_S, Desk, priority_class
from tests.cluster.controller import Controller
from tests.cluster.gangs import admitting_plane
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(300)]

HOLD: Final = "stage.headroom.dev/hold"
TYPE: Final = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
LONG: Final = {"headroom.dev/expected-duration": "10h"}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with admitting_plane(tmp_path_factory.mktemp("coming"), "batch", nodes=1) as plane:
        plane.apply(priority_class("urgent", -10))
        plane.kubectl("label", "node", "gpu-0", "=".join(*TYPE.items()))
        with Controller(plane, **SETTINGS) as controller:
            controller.wait_leading(SLACK_S)
            with Desk.open(plane, controller) as made:
                yield made


def comes(plane: Plane, name: str) -> None:
    """A node is there, without GPUs, and its kubelet is not ready."""
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **TYPE}, "annotations": {HOLD: "node"}}
    sizes = {"cpu": "64", "memory": "512Gi", "pods": "500"}
    status = {"allocatable": sizes, "capacity": sizes, "conditions": [{"type": "Ready", "status": "False"}]}
    plane.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})


def arrives(plane: Plane, name: str) -> None:
    """Its device plugin is there, and then its kubelet is ready."""
    more = {"nvidia.com/gpu": "8"}
    status = {"status": {"allocatable": more, "capacity": more}}
    plane.call("PATCH", f"/api/v1/nodes/{name}/status", status, MERGE)
    plane.call("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"annotations": {HOLD: None}}}, MERGE)


def told(desk: Desk, name: str) -> str:
    """What the page says of a gang."""
    gangs: list[dict[str, Any]] = desk.controller.get("/api/batch").get("gangs", [])
    return next((str(each["text"]) for each in gangs if each["gang"] == f"job/{desk.namespace}/{name}"), "")


def wait_counting(desk: Desk, name: str, node: str) -> None:
    words = f"counting on 8 h100 of node {node}, which is on its way"
    try:
        wait_for(lambda: words in told(desk, name), SLACK_S, f"{name} to count on {node}", every_s=0.2)
    except AssertionError as error:
        error.add_note(f"{name}: {told(desk, name)}")
        raise


def test_a_gang_is_told_when_a_node_is_expected_and_is_bound_there_once_it_is_ready(desk: Desk) -> None:
    queue = desk.queue("team", 32, preemption={"graceS": 3600})
    desk.job("runs", queue, annotations=LONG)
    desk.wait_bound("runs", 1)
    desk.job("train", queue, annotations=LONG)
    wait_for(lambda: "waits, place 1" in told(desk, "train"), SLACK_S, "the gang to wait", every_s=0.2)
    assert "on its way" not in told(desk, "train")
    comes(desk.plane, "new-0")
    wait_counting(desk, "train", "new-0")
    said = CliRunner().invoke(app, ["explain", "job/train", "--server", desk.controller.url]).stdout
    assert "counts on: 8 h100 of node new-0, expected 20" in said
    assert desk.is_suspended("train"), "nothing starts on a node that cannot be used"
    arrives(desk.plane, "new-0")
    assert desk.wait_bound("train", 1) == {"new-0": 1}
    assert len(desk.writes("train")) == 1


def test_nobody_is_stopped_for_a_gang_whose_node_comes_sooner_than_their_work_is_worth(desk: Desk) -> None:
    """By the node before, one takes seconds; who is stopped is taken to need two minutes to be where it was."""
    queue = desk.queue("team", 32, preemption={"graceS": 3600})
    comes(desk.plane, "new-1")
    desk.job("urgent", queue, priority_class="urgent")
    wait_counting(desk, "urgent", "new-1")
    assert [desk.is_suspended(name) for name in ("runs", "train", "urgent")] == [False, False, True]
    arrives(desk.plane, "new-1")
    assert desk.wait_bound("urgent", 1) == {"new-1": 1}
    assert [desk.writes(name) for name in ("runs", "train")] == [desk.writes("runs")[:1], desk.writes("train")[:1]]
