"""A pool of four warm slots that lends two to gangs, and a service that wants them back, on a real control plane.

The API server, the scheduler and the Job controller are the real ones; four nodes of eight GPUs are KWOK's, and the
pool's past, three hours without demand, is an input. Four, because of what a burst took the pool keeps as much idle
from then on: a gang goes on where one is left besides.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import numpy as np

from autoscaler.core.pool import state as pool_state
from autoscaler.core.pool.history import BIN_S, DemandHistory
from tests.cluster.batch_work import MERGE, SETTINGS, Desk, manifest, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import NAMESPACE, Controller
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file

SLACK_S: Final = 150.0
"""How long anything may take on a loaded machine."""

LABEL: Final = "example.com/node-group"
SLOT_PODS: Final = "/api/v1/namespaces/headroom-slots/pods"
NOTICE: Final = {"headroom.dev/checkpoint-notice": "20s"}
GRACE_S: Final = 20
OUTLIVES: Final = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
"""A replica that waits has the scheduler evict a gang's pod by priority, now and then before the gang is stopped: the
Job, which has no try to lose, outlives that."""

SLOTS: Final = 4
POOL: Final[dict[str, Any]] = {
    "apiVersion": "headroom.dev/v1alpha1", "kind": "WarmPool", "metadata": {"name": "chat"},
    "spec": {
        "tiers": [{"name": "gpu", "shape": "h100", "nodePoolRef": "gpu"}], "slot": {"count": 8},
        "models": [{"name": "chat", "image": "registry.example.com/vllm:v1"}], "minSlots": SLOTS, "maxSlots": SLOTS,
        "loan": {"enabled": True, "keepSlots": 1},
    },
}  # fmt: skip


@contextmanager
def lending_plane(folder: Path) -> Iterator[Plane]:
    """A control plane with the pool's nodes, where Headroom may keep pools and admit batch work."""
    stages = [CONFIG.parent / "tests" / "capacity" / "stages.yaml"]
    with Plane(folder, nodes=SLOTS, stages=stages, manager_flags=["--controllers", "job"]) as made:
        install(made)
        for rights in ("batch", "warm-pools"):
            apply_file(made, CONFIG / "rbac" / rights)
        made.apply(priority_class("filler", -5))
        made.kubectl("label", "nodes", "--all", f"{LABEL}=gpu")
        _remember(made)
        yield made


@contextmanager
def lending_controller(plane: Plane) -> Iterator[Controller]:
    """A controller that leads there."""
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
    """The pool, a queue for gangs of one node that may borrow, and a service without replicas."""

    def __init__(self, desk: Desk, controller: Controller) -> None:
        self.desk, self.plane, self.controller = desk, desk.plane, controller
        self.space = desk.namespace
        self.plane.apply(POOL)
        self.wait(lambda: self.warm() == SLOTS, "warm slots")
        service = deployment(
            self.space, "chat", 8000, replicas=0, gpus=8,
            annotations={"headroom.dev/scale": "true", "headroom.dev/mode": "Shadow", "headroom.dev/max-replicas": "8"},
        )  # fmt: skip
        self.plane.apply(service)
        self.queue = desk.queue("team", 8 * SLOTS)

    def wait(self, is_so: Callable[[], object], what: str) -> None:
        """Until something is so."""
        try:
            wait_for(is_so, SLACK_S, what, every_s=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}; the pool: {self.said()}; gangs: {self.gangs()}") from None

    def warm(self) -> int:
        """Slots that are ready and not going."""
        found = self.plane.call("GET", SLOT_PODS)["items"]
        return sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        )

    def slots(self) -> int:
        """Slots, whatever they are at."""
        return len(self.plane.call("GET", SLOT_PODS)["items"])

    def said(self) -> str:
        """What the pool says of itself."""
        return str(self.controller.get("/api/pools/chat")["text"])

    def gangs(self) -> list[dict[str, Any]]:
        """Gangs as they are told."""
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
        """Units by who owns them."""
        rows = self._batch().get("owners", [])
        return {name: units for one in rows for name, units in one.items() if isinstance(units, int) and units}

    def wait_lent(self, *names: str) -> None:
        """Until these gangs, and no others, run on slots that are lent."""
        for name in names:
            self.wait(lambda name=name: sum(self.desk.nodes(name).values()) == 1, f"{name} on a node")  # type: ignore[misc]
        self.wait(lambda: self.owners().get("loan") == 8 * len(names), f"{8 * len(names)} GPUs on loan")

    def scale(self, replicas: int) -> None:
        """Order replicas of the service."""
        path = f"/apis/apps/v1/namespaces/{self.space}/deployments/chat"
        self.plane.call("PATCH", path, {"spec": {"replicas": replicas}}, MERGE)

    def served_on(self) -> list[str]:
        """The nodes of the service's replicas that run."""
        items = self.plane.call("GET", f"/api/v1/namespaces/{self.space}/pods?labelSelector=app%3Dchat")["items"]
        placed = [pod for pod in items if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]
        return [str(pod["spec"]["nodeName"]) for pod in placed if pod["status"].get("phase") == "Running"]

    def running(self) -> int:
        """Replicas of the service that run."""
        return len(self.served_on())

    def train(self, name: str, *, ends_after_s: float = 0.0) -> None:
        """A gang of one node that may borrow; told to end, it takes so long for its checkpoint."""
        found = manifest(
            self.space, name, self.queue, 1, 8, priority_class="filler", annotations=NOTICE, podFailurePolicy=OUTLIVES
        )
        pod = found["spec"]["template"]
        if ends_after_s:
            pod["metadata"] = {"annotations": {"stage.headroom.dev/gone-after": f"{ends_after_s:g}s"}}
            pod["spec"]["terminationGracePeriodSeconds"] = GRACE_S
        self.plane.call("POST", f"/apis/batch/v1/namespaces/{self.space}/jobs", found)

    def checkpoint(self, name: str) -> None:
        """The gang's program writes its checkpoint, and says so."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.desk.edit(name, {"metadata": {"annotations": {"headroom.dev/last-checkpoint": now}}})

    def pool_events(self) -> dict[str, str]:
        """The newest message of each word that was told of the pool."""
        items = self.plane.call("GET", "/api/v1/namespaces/default/events")["items"]
        return {each["reason"]: each["message"] for each in items if each["involvedObject"]["kind"] == "WarmPool"}

    def loans(self) -> list[dict[str, Any]]:
        """The loans in the status of the pool."""
        status = self.plane.call("GET", "/apis/headroom.dev/v1alpha1/warmpools/chat").get("status", {})
        return list(status.get("loans", ()))
