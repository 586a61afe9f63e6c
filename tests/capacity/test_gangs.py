"""Nodes for whole gangs on real Karpenter, the real scheduler and Job controller: asked for, taken over, given back.

Nodes are KWOK's. What is real is who asks for which node, who gets it, and what is left when nobody wants it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.capacity.karpenter import CLAIMS, NODE_POOLS, STAGES, Karpenter, node_pool
from tests.capacity.pools import POOLS, SETTINGS, SLOTS
from tests.cluster.batch_work import Desk, instant_s, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("karpenter"), pytest.mark.timeout(900)]

SLACK_S: Final = 150.0
"""How long anything may take on a loaded machine."""

PRODUCT: Final = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    flags = ["--controllers", "podgc,job"]
    with Plane(tmp_path_factory.mktemp("gangs"), nodes=0, stages=[STAGES], manager_flags=flags) as made:
        install(made)
        for rights in ("batch", "warm-pools"):
            apply_file(made, CONFIG / "rbac" / rights)
        made.apply(priority_class("filler", -5))
        yield made


@pytest.fixture(scope="module")
def provider(plane: Plane) -> Iterator[Karpenter]:
    with Karpenter(plane) as made:
        yield made


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    with Controller(plane, **SETTINGS, batch={"enabled": True}) as made:
        made.wait_leading(SLACK_S)
        yield made


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, plane: Plane, provider: Karpenter, controller: Controller
) -> Iterator["Scene"]:
    """Nodes have their GPUs at once, or by the stages that a test names."""
    provider.fail()
    with Desk.open(plane, controller) as desk:
        scene = Scene(desk, provider, controller, getattr(request, "param", {}))
        yield scene
        scene.leave()


class Scene:
    """A NodePool of nodes of eight GPUs, a WarmPool without slots that has it make nodes for gangs, and a queue."""

    def __init__(self, desk: Desk, karpenter: Karpenter, controller: Controller, stages: dict[str, str]) -> None:
        self.desk, self.karpenter, self.controller, self.plane = desk, karpenter, controller, desk.plane
        self.name = desk.namespace
        held = node_pool(self.name, stages=stages)
        held["spec"]["template"]["metadata"]["labels"] = PRODUCT
        self.plane.apply(held)
        self.plane.apply({
            "apiVersion": "headroom.dev/v1alpha1", "kind": "WarmPool", "metadata": {"name": self.name},
            "spec": {
                "tiers": [{"name": "gpu", "shape": "h100", "nodePoolRef": self.name}], "slot": {"count": 8},
                "models": [{"name": "chat", "image": "registry.example.com/vllm:v1"}], "maxSlots": 1,
                "gangs": {"maxGpus": 32, "timeoutS": 600},
            },
        })  # fmt: skip
        self.queue = desk.queue("team", 16)

    def leave(self) -> None:
        """All of it goes, so that nothing is left for the next one."""
        self.plane.call("DELETE", f"{POOLS}/{self.name}")
        self.plane.call("DELETE", f"{NODE_POOLS}/{self.name}")
        for claim in self.karpenter.claims(self.name):
            self.plane.call("DELETE", f"{CLAIMS}/{claim['metadata']['name']}")

    def job(self, name: str, pods: int = 2) -> None:
        """A gang of pods of eight GPUs each, whose pods displace what holds places for them."""
        self.desk.job(name, self.queue, pods, priority_class="filler")

    def held(self) -> list[dict[str, Any]]:
        """Pods that hold places for gangs and are not going."""
        items: list[dict[str, Any]] = self.plane.call("GET", SLOTS)["items"]
        mine = [pod for pod in items if "headroom.dev/gang-uid" in pod["metadata"]["labels"]]
        return [pod for pod in mine if "deletionTimestamp" not in pod["metadata"]]

    def explained(self, name: str) -> str:
        """What `headroom explain job/NAME` prints."""
        return str(self.controller.get(f"/api/batch/gangs/job/{self.name}/{name}"))

    def wait(self, is_so: Callable[[], object], what: str) -> None:
        """Until something is so."""
        try:
            wait_for(is_so, SLACK_S, what, every_s=0.2)
        except AssertionError as error:
            alive = self.controller.returncode is None
            pool = self.controller.get(f"/api/pools/{self.name}") if alive else "no controller"
            raise AssertionError(f"{error}; the pool: {pool}; held: {self.held()}") from None


def test_a_gang_gets_all_of_its_nodes_made_at_once_and_its_pods_take_over_the_places_that_were_held(
    scene: Scene,
) -> None:
    scene.job("train")
    nodes = scene.desk.wait_bound("train", 2, SLACK_S)
    assert sorted(nodes.values()) == [1, 1]
    made = {node["metadata"]["name"]: node for node in scene.karpenter.nodes(scene.name)}
    assert nodes.keys() == made.keys(), "on the nodes that were made for it, and no other was"
    assert len(scene.karpenter.created(scene.name)) == 2
    assert len(scene.desk.writes("train")) == 1, "one patch starts it and holds it to its nodes"
    begun_s = instant_s(scene.desk.read("train")["status"]["startTime"])
    ready_s = [
        instant_s(c["lastTransitionTime"])
        for node in made.values()
        for c in node["status"]["conditions"]
        if c["type"] == "Ready"
    ]
    assert begun_s >= max(ready_s), "not before all of them were there"
    scene.wait(lambda: not scene.held(), "what held the places to be gone")
    assert scene.desk.nodes("train") == nodes
    assert len(scene.karpenter.created(scene.name)) == 2, "the hand-over asks for no node"
    ours = scene.plane.audited(verb="delete", resource="pods", user=ACCOUNT)
    assert {entry["objectRef"]["namespace"] for entry in ours} <= {"headroom-slots"}


@pytest.mark.parametrize("scene", [{"gpus-after": "20s"}], indirect=True, ids=["GPUs come after 20 s"])
def test_a_controller_that_dies_while_nodes_come_finds_what_was_held_and_starts_the_gang_there(scene: Scene) -> None:
    scene.job("train")
    scene.wait(lambda: len(scene.held()) == 2, "two places to be asked for")
    before = {pod["metadata"]["uid"] for pod in scene.held()}
    scene.controller.kill()
    scene.wait(lambda: all(pod["spec"].get("nodeName") for pod in scene.held()), "the places to be held on nodes")
    assert scene.desk.is_suspended("train")
    scene.controller.start()
    scene.controller.wait_leading(SLACK_S)
    assert {pod["metadata"]["uid"] for pod in scene.held()} <= before, "none was asked for twice"
    nodes = scene.desk.wait_bound("train", 2, SLACK_S)
    assert nodes.keys() == {node["metadata"]["name"] for node in scene.karpenter.nodes(scene.name)}
    assert len(scene.karpenter.created(scene.name)) == 2


def test_quota_blocked_work_creates_no_node_and_one_that_goes_while_nodes_come_leaves_none(scene: Scene) -> None:
    scene.job("large", pods=3)
    said = scene.desk.wait_told("large", "Waiting", SLACK_S)
    assert "nobody ever lends as many" in said
    scene.job("small", pods=1)
    scene.desk.wait_bound("small", 1, SLACK_S)
    assert len(scene.karpenter.created(scene.name)) == 1, "of two gangs only the one that quota admits"
    scene.job("leaves", pods=1)
    scene.wait(lambda: scene.held() or scene.desk.nodes("leaves"), "its place to be held")
    scene.desk.delete("leaves")
    scene.desk.end("small")
    scene.wait(lambda: not scene.held(), "the place to be given back")
    scene.wait(lambda: not scene.karpenter.nodes(scene.name), "nodes that nobody wants to go")


def test_missing_capacity_is_learnt_told_and_given_back_and_tried_again_once_there_may_be_some(scene: Scene) -> None:
    scene.karpenter.fail({"instanceType": "h100-8x"})
    scene.job("train")
    said = scene.desk.wait_told("train", "capacity is missing in every tier", SLACK_S)
    assert f"WarmPool {scene.name} has no nodes made for it" in said
    assert "capacity is missing in every tier" in scene.explained("train")
    scene.wait(lambda: not scene.held(), "the places to be given back")
    assert scene.desk.is_suspended("train")
    scene.karpenter.fail()
    nodes = scene.desk.wait_bound("train", 2, 2 * SLACK_S)
    assert sorted(nodes.values()) == [1, 1]
