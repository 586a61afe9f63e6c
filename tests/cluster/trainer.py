"""The real controller of Kubeflow's Trainer beside a control plane, and TrainJobs with their runtimes in queues."""

from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.batch_work import CLASS, GPU, Desk
from tests.cluster.gangs import Gangs
from tests.cluster.jobsets import NAME, SET
from tests.cluster.operators import Operator, Program
from tests.cluster.plane import Plane
from tests.real import parts

ROOT: Final = "/apis/trainer.kubeflow.org/v1alpha1"
API: Final = "trainer.kubeflow.org/v1alpha1"
STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
KINDS: Final = ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
PROGRAM: Final = Program(
    part="trainer",
    module=parts.TRAINER_MODULE,
    name="trainer-controller",
    crds=tuple(f"manifests/base/crds/trainer.kubeflow.org_{kind}.yaml" for kind in KINDS),
    hooks="manifests/base/webhook/manifests.yaml",
    config="",
    served=f"{ROOT}/{KINDS[-1]}",
    label=NAME,
)


class Trainer(Operator):
    """The controller; a context manager. It takes the controller of JobSets beside it."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane, PROGRAM)


class TrainJobs(Gangs):
    """TrainJobs of a desk's namespace, and where the real scheduler bound their pods."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk, ROOT, "trainjobs", (NAME, SET))

    def runtime(self, name: str, nodes: int, gpus: int, *, beside: Mapping[str, tuple[int, int]] | None = None) -> None:
        """A runtime that trains on so many nodes of so many GPUs each, with sets beside: pods and GPUs of each."""
        steps = [_step("node", nodes, gpus, "trainer")] + [_step(each, *n) for each, n in (beside or {}).items()]
        self.plane.call("POST", f"{ROOT}/namespaces/{self.desk.namespace}/trainingruntimes", {
            "apiVersion": API, "kind": "TrainingRuntime",
            "metadata": {"name": name, "namespace": self.desk.namespace},
            "spec": {"mlPolicy": {"numNodes": nodes}, "template": {"spec": {"replicatedJobs": steps}}},
        })  # fmt: skip

    def make(
        self, name: str, queue: str, runtime: str, *, nodes: int | None = None, gpus: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:  # fmt: skip
        """A suspended TrainJob labelled with a queue; its name. What is given goes before its runtime."""
        trainer: dict[str, Any] = {} if nodes is None else {"numNodes": nodes}
        if gpus is not None:
            trainer["resourcesPerNode"] = {"limits": {GPU: str(gpus)}}
        self.create({
            "apiVersion": API, "kind": "TrainJob",
            "metadata": {
                "name": name, "namespace": self.desk.namespace,
                "labels": {"headroom.dev/queue": queue} | dict(labels or {}),
            },
            "spec": {
                "suspend": True, "runtimeRef": {"name": runtime, "kind": "TrainingRuntime"},
                **({"trainer": trainer} if trainer else {}),
            },
        })  # fmt: skip
        return name

    def is_suspended(self, name: str) -> bool:
        """Whether a TrainJob may not run."""
        return bool(self.read(name)["spec"]["suspend"])


def _step(name: str, pods: int, gpus: int, step: str = "") -> dict[str, Any]:
    container = {"name": "node", "image": "train:v1", "resources": {"limits": {GPU: str(gpus)} if gpus else {}}}
    pod = {
        "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "priorityClassName": CLASS,
    }  # fmt: skip
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": {"spec": pod}}
    labels = {"metadata": {"labels": {STEP: step}}} if step else {}
    return {"name": name, "template": {**labels, "spec": job}}
