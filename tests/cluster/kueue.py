"""Kueue's real controller manager beside a control plane, installed as its own kustomization says, and its objects.

Definitions, roles, webhooks and configuration are read from its Go module, and it has the rights of its own service
account. What a cluster would do is done here: its certificate is copied out of its Secret, its Service's name stands
for loopback, and nothing else than loopback is listened on. Its visibility API is left out.
"""

import base64
import os
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from tests.chart.rendering import objects
from tests.cluster.batch_work import GPU, Desk
from tests.cluster.plane import Plane, RefusedError
from tests.cluster.processes import Process, free_port, wait_for
from tests.real import parts

SYSTEM: Final = "kueue-system"
ACCOUNT: Final = f"system:serviceaccount:{SYSTEM}:kueue-controller-manager"
GROUP: Final = "/apis/kueue.x-k8s.io"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
SECRET: Final = f"/api/v1/namespaces/{SYSTEM}/secrets/kueue-webhook-server-cert"
CRD: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
VERSIONS: Final = ("v1beta1", "v1beta2")
LEFT_OUT: Final = frozenset({"APIService", "Deployment"})

READY_S: Final = 90.0
"""How long it may take to make its certificate, have it believed and be ready."""


class Kueue:
    """The controller manager; a context manager."""

    controller: Process

    def __init__(self, plane: Plane) -> None:
        self.plane, self.folder = plane, plane.folder / "kueue"
        self._port, self._health = free_port(), free_port()
        self._config: dict[str, Any] = {}

    def __enter__(self) -> Self:
        source = parts.source("kueue", parts.KUEUE_MODULE)
        assert source is not None, "its Go module is not downloaded"
        (self.folder / "certificates").mkdir(parents=True)
        found = objects(self.plane.kubectl("kustomize", source / "config" / "default"))
        self._config = next(
            msgspec.yaml.decode(one["data"]["controller_manager_config.yaml"])
            for one in found if one["kind"] == "ConfigMap"
        )  # fmt: skip
        every = [self._local(one) for one in found if one["kind"] not in LEFT_OUT]
        namespaces = [one for one in every if one["kind"] == "Namespace"]
        self.plane.apply({"apiVersion": "v1", "kind": "List", "items": namespaces})
        self.plane.apply({"apiVersion": "v1", "kind": "List", "items": [e for e in every if e not in namespaces]})
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.controller.kill()

    def start(self, *, all_jobs: bool = False) -> None:
        """Start it, and return once it is ready; with `all_jobs` it manages those that name no queue of it, too."""
        program = parts.program("kueue-manager")
        assert program is not None, "kueue-manager is not built"
        config = self.folder / "config.json"
        config.write_bytes(msgspec.json.encode(self._config | {
            "manageJobsWithoutQueueName": all_jobs, "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self.folder / "certificates")},
            "featureGates": {"VisibilityOnDemand": False},
        }))  # fmt: skip
        kubeconfig = self.plane.kubeconfig("kueue", self.plane.token(SYSTEM, ACCOUNT.rpartition(":")[2]))
        env = os.environ | {"KUBECONFIG": str(kubeconfig), "NO_PROXY": "127.0.0.1,localhost"}
        command: list[str | Path] = [program, "--config", config, "--zap-log-level=2"]
        self.controller = Process(command, self.folder / "output.log", env).start()
        try:
            wait_for(self._mounted, READY_S, f"Kueue's certificate ({self.controller.log})")
            wait_for(self._is_ready, READY_S, f"Kueue to be ready ({self.controller.log})")
        except AssertionError:
            self.controller.kill()
            raise

    def stop(self) -> None:
        """End it; its webhooks answer nobody from now on."""
        self.controller.stop()

    def restart(self, *, all_jobs: bool = False) -> None:
        """Start it anew, configured so."""
        self.stop()
        self.start(all_jobs=all_jobs)

    @contextmanager
    def serving(self, *versions: str) -> Iterator[None]:
        """The API server serves Workloads of these versions alone meanwhile; Kueue itself needs the newest one."""
        self._serve(versions)
        yield
        self._serve(VERSIONS)

    def _serve(self, versions: Collection[str]) -> None:
        found = self.plane.call("GET", CRD)["spec"]["versions"]
        tests = [
            {"op": "replace", "path": f"/spec/versions/{at}/served", "value": each["name"] in versions}
            for at, each in enumerate(found)
        ]
        self.plane.call("PATCH", CRD, tests, "application/json-patch+json")
        for version in VERSIONS:
            wait_for(lambda v=version: self._answers(v) == (v in versions), READY_S, f"{version} to be served or not")  # type: ignore[misc]

    def _answers(self, version: str) -> bool:
        try:
            self.plane.call("GET", f"{GROUP}/{version}/workloads?limit=1")
        except RefusedError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _mounted(self) -> bool:
        """Whether its Secret has a certificate, which is laid where a kubelet would mount it."""
        assert self.controller.returncode is None, self.controller.words()[-4000:]
        data = self.plane.call("GET", SECRET).get("data", {})
        for name, text in data.items():
            (self.folder / "certificates" / name).write_bytes(base64.b64decode(text))
        return "tls.crt" in data

    def _is_ready(self) -> bool:
        assert self.controller.returncode is None, self.controller.words()[-4000:]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self._health}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def _local(self, found: dict[str, Any]) -> dict[str, Any]:
        """An object of its installation as it is applied here: its webhooks are asked at a port of loopback."""
        if found["kind"] == "Service":
            return found | {"spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}
        for client in _clients(found):
            client["service"]["port"] = self._port
        return found


def _clients(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Where the API server is told to ask Kueue."""
    for hook in found.get("webhooks", ()):
        yield hook["clientConfig"]
    conversion = found.get("spec", {}).get("conversion", {})
    if "webhook" in conversion:
        yield conversion["webhook"]["clientConfig"]


class Lane:
    """A LocalQueue of a desk's namespace with a ClusterQueue of its own, and what Kueue makes of Jobs; goes with the
    desk's namespace but for what `close` takes away."""

    def __init__(self, desk: Desk, gpus: int, *, name: str = "lane") -> None:
        self.desk, self.plane, self.name = desk, desk.plane, name
        self.labels: Final = {QUEUE: name}
        self.plane.apply({"apiVersion": "v1", "kind": "List", "items": [
            self._object("ResourceFlavor", f"h100-{desk.namespace}", {}),
            self._object("ClusterQueue", desk.namespace, {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": desk.namespace}},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [{"coveredResources": [GPU], "flavors": [
                    {"name": f"h100-{desk.namespace}", "resources": [{"name": GPU, "nominalQuota": gpus}]},
                ]}],
            }),
            *(
                self._object("WorkloadPriorityClass", f"{each}-{desk.namespace}", None) | {"value": value}
                for each, value in (("low", 10), ("high", 1000))
            ),
            self._object("LocalQueue", name, {"clusterQueue": desk.namespace}, desk.namespace),
        ]})  # fmt: skip

    def job(self, name: str, pods: int, gpus: int = 8, *, importance: str = "low", **labels: str) -> str:
        """A Job for Kueue to let in, written as if it might run at once; its name."""
        mine = self.labels | {PRIORITY: f"{importance}-{self.desk.namespace}"} | labels
        return self.desk.job(name, "", pods, gpus, labels=mine, suspend=False)

    def workloads(self) -> dict[str, dict[str, Any]]:
        """Kueue's Workloads of the namespace, by the name of what each was made for."""
        items = self.plane.call("GET", f"{GROUP}/v1beta2/namespaces/{self.desk.namespace}/workloads")["items"]
        return {one["metadata"]["ownerReferences"][0]["name"]: one for one in items}

    def condition(self, name: str, kind: str) -> str:
        """The status of a condition of the Workload of a Job; empty while there is none."""
        found = self.workloads().get(name, {}).get("status", {}).get("conditions", ())
        return next((str(one["status"]) for one in found if one["type"] == kind), "")

    def _object(self, kind: str, name: str, spec: dict[str, Any] | None, namespace: str = "") -> dict[str, Any]:
        meta = {"name": name} | ({"namespace": namespace} if namespace else {})
        made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta}
        return made if spec is None else made | {"spec": spec}
