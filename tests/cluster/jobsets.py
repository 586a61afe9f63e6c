"""The real controller of JobSets beside a control plane, and JobSets of several pod sets in queues."""

from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.batch_work import CLASS, GPU, Desk
from tests.cluster.gangs import Gangs
from tests.cluster.operators import Operator, Program
from tests.cluster.plane import Plane
from tests.real import parts

NAME: Final = "jobset.sigs.k8s.io/jobset-name"
SET: Final = "jobset.sigs.k8s.io/replicatedjob-name"
ROOT: Final = "/apis/jobset.x-k8s.io/v1alpha2"
PROGRAM: Final = Program(
    part="jobset",
    module=parts.JOBSET_MODULE,
    name="jobset-controller",
    crds=("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    hooks="config/components/webhook/manifests.yaml",
    config="config.jobset.x-k8s.io/v1alpha1",
    served=f"{ROOT}/jobsets",
    label=NAME,
)


class JobSets(Operator):
    """The controller; a context manager."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane, PROGRAM)


class Sets(Gangs):
    """JobSets of a desk's namespace, and where the real scheduler bound their pods."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk, ROOT, "jobsets", (NAME, SET))

    def make(
        self, name: str, queue: str, sets: Mapping[str, tuple[int, int, int]], *,
        labels: Mapping[str, str] | None = None, **spec: Any,
    ) -> str:  # fmt: skip
        """A suspended JobSet labelled with a queue; for each set Jobs, pods of each, GPUs of each. Its name."""
        self.create({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {
                "name": name, "namespace": self.desk.namespace,
                "labels": {"headroom.dev/queue": queue} | dict(labels or {}),
            },
            "spec": {
                "suspend": True, "replicatedJobs": [replicated(each, *sizes) for each, sizes in sets.items()], **spec,
            },
        })  # fmt: skip
        return name

    def is_suspended(self, name: str) -> bool:
        """Whether a JobSet may not run."""
        return bool(self.read(name)["spec"]["suspend"])


def replicated(name: str, jobs: int, pods: int, gpus: int) -> dict[str, Any]:
    """A set of a JobSet: so many Jobs of so many pods at once."""
    container = {"name": "train", "image": "train:v1", "resources": {"limits": {GPU: str(gpus)} if gpus else {}}}
    pod = {
        "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "priorityClassName": CLASS,
    }  # fmt: skip
    template = {"spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": {"spec": pod}}}
    return {"name": name, "replicas": jobs, "template": template}
