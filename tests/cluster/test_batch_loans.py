"""An idle warm slot is lent to a gang and taken back for a burst of inference, on a real control plane.

The API server, the scheduler and the Job controller are the real ones; two nodes of eight GPUs are KWOK's, and the
pool's past, three hours without demand, is an input.
"""

import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.error import HTTPError

import numpy as np
import pytest

from autoscaler.core.pool import state as pool_state
from autoscaler.core.pool.growth import BIN_S, DemandHistory
from tests.cluster.batch_work import MERGE, SETTINGS, Desk, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import NAMESPACE, Controller
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(600)]

SLACK_S: Final = 150.0
"""How long anything may take on a loaded machine."""

LABEL: Final = "example.com/node-group"
SLOTS: Final = "/api/v1/namespaces/headroom-slots/pods"
NOTICE: Final = {"headroom.dev/checkpoint-notice": "20s"}
POOL: Final[dict[str, Any]] = {
    "apiVersion": "headroom.dev/v1alpha1", "kind": "WarmPool", "metadata": {"name": "chat"},
    "spec": {
        "tiers": [{"name": "gpu", "shape": "h100", "nodePoolRef": "gpu"}], "slot": {"count": 8},
        "models": [{"name": "chat", "image": "registry.example.com/vllm:v1"}], "minSlots": 2, "maxSlots": 2,
        "loan": {"enabled": True, "keepSlots": 1},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    stages = [CONFIG.parent / "tests" / "capacity" / "stages.yaml"]
    made = Plane(tmp_path_factory.mktemp("loans"), nodes=2, stages=stages, manager_flags=["--controllers", "job"])
    with made:
        install(made)
        for rights in ("batch", "warm-pools"):
            apply_file(made, CONFIG / "rbac" / rights)
        made.apply(priority_class("filler", -5))
        made.kubectl("label", "nodes", "--all", f"{LABEL}=gpu")
        _remember(made)
        yield made


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    pools = {"enabled": True, "registries": ["registry.example.com"], "node_pool_label": LABEL}
    with Controller(plane, **SETTINGS, warm_pools=pools) as made:
        made.wait_leading(SLACK_S)
        yield made


def _remember(plane: Plane) -> None:
    """The pool has seen three hours in which nobody wanted anything."""
    bins = round(3 * 3600 / BIN_S)
    seen = np.zeros(bins)
    past = pool_state.PoolState(DemandHistory(int(time.time() // BIN_S), seen, seen.copy(), 0.0, 0.0))
    text = json.dumps({"chat": pool_state.pack(past)})
    meta = {"labels": {"app.kubernetes.io/managed-by": "headroom", "app.kubernetes.io/component": "checkpoints"}}
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    kept = plane.call("POST", path, {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": meta | {"name": "headroom-pools-0-a"},
        "data": {"checkpoints.json": text},
    })  # fmt: skip
    shard = {
        "slot": 0, "name": "headroom-pools-0-a", "version": kept["metadata"]["resourceVersion"],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }  # fmt: skip
    plane.call("POST", path, {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": meta | {"name": "headroom-pools-index"},
        "data": {"index.json": json.dumps({"generation": 1, "shards": [shard]})},
    })  # fmt: skip


class Scene:
    """A pool of two slots, a gang of one node that may borrow, and a service without replicas."""

    def __init__(self, desk: Desk, controller: Controller) -> None:
        self.desk, self.plane, self.controller = desk, desk.plane, controller
        self.space = desk.namespace
        self.plane.apply(POOL)
        self._wait(lambda: self.warm() == 2, "two warm slots")
        service = deployment(
            self.space, "chat", 8000, replicas=0, gpus=8,
            annotations={"headroom.dev/scale": "true", "headroom.dev/mode": "Shadow", "headroom.dev/max-replicas": "8"},
        )  # fmt: skip
        self.plane.apply(service)
        self.queue = desk.queue("team", 16)

    def _wait(self, is_so: Any, what: str) -> None:
        try:
            wait_for(is_so, SLACK_S, what, every_s=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}; the pool: {self.said()}; gangs: {self.gangs()}") from None

    def warm(self) -> int:
        """Slots that are ready and not going."""
        found = self.plane.call("GET", SLOTS)["items"]
        return sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        )

    def slots(self) -> int:
        return len(self.plane.call("GET", SLOTS)["items"])

    def said(self) -> str:
        return str(self.controller.get("/api/pools/chat")["text"])

    def gangs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._batch().get("gangs", [])
        return found

    def _batch(self) -> dict[str, Any]:
        """What is told of batch work; nothing before the first look."""
        try:
            told: dict[str, Any] = self.controller.get("/api/batch")
        except HTTPError as error:
            if error.code != 503:
                raise
            return {}
        return told

    def owners(self) -> dict[str, int]:
        rows = self._batch().get("owners", [])
        return {name: units for one in rows for name, units in one.items() if isinstance(units, int) and units}

    def wait_lent(self, name: str = "train") -> None:
        self.desk.wait_bound(name, 1, SLACK_S)
        self._wait(lambda: self.owners().get("loan") == 8, "eight GPUs on loan")

    def scale(self, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.space}/deployments/chat"
        self.plane.call("PATCH", path, {"spec": {"replicas": replicas}}, MERGE)

    def running(self) -> int:
        items = self.plane.call("GET", f"/api/v1/namespaces/{self.space}/pods?labelSelector=app%3Dchat")["items"]
        return sum(pod["status"].get("phase") == "Running" for pod in items if pod["spec"].get("nodeName"))


@pytest.fixture(scope="module")
def scene(plane: Plane, controller: Controller) -> Iterator[Scene]:
    with Desk.open(plane, controller) as desk:
        yield Scene(desk, controller)


def test_a_burst_recalls_a_loan_the_gang_checkpoints_the_burst_is_served_and_the_gang_goes_on(scene: Scene) -> None:
    desk = scene.desk
    desk.job("train", scene.queue, priority_class="filler", annotations=NOTICE)
    scene.wait_lent()
    note = json.loads(desk.read("train")["metadata"]["annotations"]["headroom.dev/loan"])
    assert (note["lenders"], note["units"], note["reclaimS"]) == (["WarmPool/chat"], 8, 60)
    (told,) = [each for each in scene.gangs() if each["gang"].endswith("/train")]
    assert "8 of its units lent by WarmPool chat" in told["text"]
    assert (scene.slots(), scene.warm()) == (1, 1), "no slot is ordered for the one that is lent"

    scene.scale(1)
    scene._wait(lambda: scene.running() == 1, "the burst's first replica on the slot that is never lent")
    scene._wait(lambda: desk.is_suspended("train"), "the loan to be called back")
    said = desk.wait_told("train", "Preempted", SLACK_S)
    assert "stopped for WarmPool chat: serving takes its GPUs back" in said
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    desk.edit("train", {"metadata": {"annotations": {"headroom.dev/last-checkpoint": now}}})
    scene._wait(lambda: scene.warm() == 1, "the slot to be back where the gang was")
    assert desk.nodes("train") == {}

    scene.scale(2)
    scene._wait(lambda: scene.running() == 2, "the burst's second replica on the slot that came back")
    assert desk.is_suspended("train")

    scene.scale(0)
    scene.wait_lent()
    assert not desk.is_suspended("train")


def test_a_restart_knows_a_loan_by_its_object_and_calls_it_back(scene: Scene) -> None:
    scene.wait_lent()
    scene.controller.kill()
    scene.controller.start()
    scene.controller.wait_leading(SLACK_S)
    scene._wait(lambda: scene.owners().get("loan") == 8, "the loan to be known")
    assert scene.slots() == 1, "no slot was ordered in its place"
    scene.scale(1)
    scene._wait(lambda: scene.desk.is_suspended("train"), "the loan to be called back")
    scene._wait(lambda: scene.warm() == 1, "the slot to be back")
