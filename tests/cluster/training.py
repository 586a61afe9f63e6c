"""The real training operator of Kubeflow beside a control plane, and its jobs in queues."""

from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.batch_work import CLASS, GPU, Desk
from tests.cluster.gangs import Gangs
from tests.cluster.operators import Operator, Program
from tests.cluster.plane import Plane
from tests.real import parts

NAME: Final = "training.kubeflow.org/job-name"
SET: Final = "training.kubeflow.org/replica-type"
"""In small letters."""
ROOT: Final = "/apis/kubeflow.org/v1"
PROGRAM: Final = Program(
    part="training",
    module=parts.TRAINING_MODULE,
    name="training-operator",
    crds=tuple(f"manifests/base/crds/kubeflow.org_{kind}.yaml" for kind in ("tfjobs", "pytorchjobs")),
    hooks="manifests/base/webhook/manifests.yaml",
    config="",
    served=f"{ROOT}/pytorchjobs",
    label=NAME,
)
KINDS: Final = {
    "pytorchjobs": ("PyTorchJob", "pytorchReplicaSpecs", "pytorch"),
    "tfjobs": ("TFJob", "tfReplicaSpecs", "tensorflow"),
}
"""The kind's name, where its replicas stand, and what their container has to be called."""


class TrainingOperator(Operator):
    """The operator; a context manager."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane, PROGRAM)


class TrainingJobs(Gangs):
    """Jobs of one kind in a desk's namespace, and where the real scheduler bound their pods."""

    def __init__(self, desk: Desk, resource: str = "pytorchjobs") -> None:
        super().__init__(desk, ROOT, resource, (NAME, SET))
        self.kind, self.replicas_at, self._container = KINDS[resource]

    def make(
        self, name: str, queue: str, replicas: Mapping[str, tuple[int, int]], *,
        labels: Mapping[str, str] | None = None, policy: Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> str:  # fmt: skip
        """A job labelled with a queue, that waits unless its policy is given; of each set pods and their GPUs."""
        specs = {each: self._replica(*sizes) for each, sizes in replicas.items()}
        policy = {"suspend": True} if policy is None else policy
        self.create({
            "apiVersion": "kubeflow.org/v1", "kind": self.kind,
            "metadata": {
                "name": name, "namespace": self.desk.namespace, "annotations": dict(annotations or {}),
                "labels": {"headroom.dev/queue": queue} | dict(labels or {}),
            },
            "spec": {self.replicas_at: specs} | ({"runPolicy": policy} if policy else {}),
        })  # fmt: skip
        return name

    def _replica(self, pods: int, gpus: int) -> dict[str, Any]:
        limits = {GPU: str(gpus)} if gpus else {}
        container = {"name": self._container, "image": "train:v1", "resources": {"limits": limits}}
        pod = {"containers": [container], "terminationGracePeriodSeconds": 0, "priorityClassName": CLASS}
        return {"replicas": pods, "restartPolicy": "OnFailure", "template": {"spec": pod}}

    def workers(self, name: str) -> tuple[int, str | None]:
        """How many workers a job has, and our note of what was chosen."""
        found = self.read(name)
        note = found["metadata"].get("annotations", {}).get("headroom.dev/width")
        return found["spec"][self.replicas_at]["Worker"]["replicas"], note

    def is_suspended(self, name: str) -> bool:
        """Whether a job may not run."""
        return bool(self.read(name)["spec"]["runPolicy"]["suspend"])
