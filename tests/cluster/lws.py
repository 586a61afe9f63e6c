"""The real controller of LeaderWorkerSets beside a control plane, and workloads of that kind."""

from typing import Final

from tests.cluster.engines import Engines
from tests.cluster.operators import Operator, Program
from tests.cluster.plane import Plane
from tests.cluster.service import ASKS, Service
from tests.real import parts

NAME: Final = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
ROOT: Final = "/apis/leaderworkerset.x-k8s.io/v1"
PROGRAM: Final = Program(
    part="lws",
    module=parts.LWS_MODULE,
    name="lws-controller",
    crds=("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",),
    hooks="config/webhook/manifests.yaml",
    config="config.lws.x-k8s.io/v1alpha1",
    served=f"{ROOT}/leaderworkersets",
    label=NAME,
)


class Lws(Operator):
    """The controller; a context manager."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane, PROGRAM)


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
