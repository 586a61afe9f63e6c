"""The real controller of LeaderWorkerSets as a plain program beside a control plane, and workloads of that kind.

Its resource and its webhooks are read from its Go module; the API server reaches the webhooks on loopback instead of
through a Service. It needs no rights of its own and uses the administrator's.
"""

import base64
import json
import os
from types import TracebackType
from typing import Any, Final, Self

from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import Process, free_port, wait_for
from tests.cluster.service import ASKS, Service
from tests.keda.certs import Authority
from tests.real import parts

NAME: Final = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
ROOT: Final = "/apis/leaderworkerset.x-k8s.io/v1"


class Lws:
    """The controller; a context manager."""

    controller: Process

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.folder = plane.folder / "lws"
        self._port, self._health = free_port(), free_port()
        found = parts.source("lws", parts.LWS_MODULE)
        assert found is not None, "its Go module is not downloaded"
        self._source = found

    def __enter__(self) -> Self:
        self.folder.mkdir()
        crd = self._source / "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"
        self.plane.kubectl("apply", "--server-side", "-f", crd)
        served = f"{ROOT}/leaderworkersets"
        wait_for(lambda: self.plane.kubectl("get", "--raw", served, check=False).startswith("{"), 30, served)
        authority = Authority(self.folder, "ca")
        pair = authority.sign("lws", "IP:127.0.0.1")
        pair.cert.rename(self.folder / "tls.crt")
        pair.key.rename(self.folder / "tls.key")
        self._start()
        for hooks in self._webhooks(base64.b64encode(authority.cert.read_bytes()).decode()):
            self.plane.apply(hooks)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.controller.kill()

    def _start(self) -> None:
        program = parts.program("lws-controller")
        assert program is not None, "lws-controller is not built"
        config = self.folder / "config.yaml"
        config.write_text(json.dumps({
            "apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration",
            "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
            "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self.folder)},
        }))  # fmt: skip
        env = os.environ | {
            "KUBECONFIG": str(self.plane.folder / "admin.kubeconfig"), "NO_PROXY": "127.0.0.1,localhost",
        }  # fmt: skip
        self.controller = Process([program, "--config", config], self.folder / "output.log", env).start()
        wait_for(lambda: "Serving webhook server" in self.controller.words(), 60, f"webhooks ({self.controller.log})")

    def _webhooks(self, authority: str) -> list[dict[str, Any]]:
        """What its module asks the API server to send it, of the pods only those of its sets."""
        manifests = self._source / "config/webhook/manifests.yaml"
        read = self.plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", manifests)
        decoder, found, at = json.JSONDecoder(), [], 0
        while at < len(read.rstrip()):
            one, at = decoder.raw_decode(read, at)
            at += len(read[at:]) - len(read[at:].lstrip())
            for hook in one["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": authority}
                if hook["rules"][0]["resources"] == ["pods"]:
                    hook["objectSelector"] = {"matchExpressions": [{"key": NAME, "operator": "Exists"}]}
            found.append(one)
        return found


class Groups(Service):
    """A LeaderWorkerSet; its `pods`, and so its `ips`, are those of the leaders."""

    def __init__(
        self,
        plane: Plane,
        engines: Engines,
        namespace: str,
        name: str,
        *,
        replicas: int,
        size: int,
        **settings: str,
    ) -> None:
        self.plane, self.engines, self.namespace, self.name = plane, engines, namespace, name
        self.kind, self.resource, self.workload = "LeaderWorkerSet", "leaderworkersets", f"{namespace}/{name}"
        annotations = ASKS | {f"headroom.dev/{key.replace('_', '-')}": value for key, value in settings.items()}
        container = {
            "name": "engine", "image": "vllm:v1", "ports": [{"name": "metrics", "containerPort": engines.port}],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }  # fmt: skip
        pod = {"containers": [container], "terminationGracePeriodSeconds": 0}
        leader = {"metadata": {"labels": {"app": name}}, "spec": pod}
        plane.apply({
            "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": self.kind,
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {"replicas": replicas, "leaderWorkerTemplate": {
                "size": size, "leaderTemplate": leader, "workerTemplate": {"spec": pod}}},
        })  # fmt: skip

    @property
    def path(self) -> str:
        """The object's path."""
        return f"{ROOT}/namespaces/{self.namespace}/{self.resource}/{self.name}"

    def groups(self) -> dict[str, int]:
        """Pods that are ready and not going away, by the number of their group."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={NAME.replace('/', '%2F')}%3D{self.name}"
        found: dict[str, int] = {}
        for pod in self.plane.call("GET", path)["items"]:
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
            if ready and "deletionTimestamp" not in pod["metadata"]:
                index = pod["metadata"]["labels"][GROUP_INDEX]
                found[index] = found.get(index, 0) + 1
        return found
