"""The real controller of JobSets beside a control plane, and JobSets of several pod sets in queues."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.cluster.batch_work import CLASS, GPU, MERGE, Desk
from tests.cluster.operators import Operator, Program
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.real import parts

NAME: Final = "jobset.sigs.k8s.io/jobset-name"
SET: Final = "jobset.sigs.k8s.io/replicatedjob-name"
ROOT: Final = "/apis/jobset.x-k8s.io/v1alpha2"
PROGRAM: Final = Program(
    part="jobset",
    module=parts.JOBSET_MODULE,
    name="jobset-controller",
    crd="config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
    hooks="config/components/webhook/manifests.yaml",
    config="config.jobset.x-k8s.io/v1alpha1",
    served=f"{ROOT}/jobsets",
    label=NAME,
)


class JobSets(Operator):
    """The controller; a context manager."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane, PROGRAM)


class Sets:
    """JobSets of a desk's namespace, and where the real scheduler bound their pods."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._plane = desk, desk.plane
        self._root = f"{ROOT}/namespaces/{desk.namespace}/jobsets"

    def make(
        self, name: str, queue: str, sets: Mapping[str, tuple[int, int, int]], *,
        labels: Mapping[str, str] | None = None, **spec: Any,
    ) -> str:  # fmt: skip
        """A suspended JobSet labelled with a queue; for each set Jobs, pods of each, GPUs of each. Its name."""
        self._plane.call("POST", self._root, {
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {
                "name": name, "namespace": self._desk.namespace,
                "labels": {"headroom.dev/queue": queue} | dict(labels or {}),
            },
            "spec": {
                "suspend": True, "replicatedJobs": [replicated(each, *sizes) for each, sizes in sets.items()], **spec,
            },
        })  # fmt: skip
        return name

    def read(self, name: str) -> dict[str, Any]:
        """A JobSet as it is now."""
        found: dict[str, Any] = self._plane.call("GET", f"{self._root}/{name}")
        return found

    def edit(self, name: str, change: Mapping[str, Any]) -> None:
        """Merge a change into a JobSet."""
        self._plane.call("PATCH", f"{self._root}/{name}", change, MERGE)

    def delete(self, name: str) -> None:
        """Delete a JobSet with its Jobs and pods."""
        self._plane.kubectl("delete", "jobset", name, "-n", self._desk.namespace, "--wait=false")

    def is_suspended(self, name: str) -> bool:
        """Whether a JobSet may not run."""
        return bool(self.read(name)["spec"]["suspend"])

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Pods of a JobSet that are not over."""
        return [pod for pod in self._desk.pods() if pod["metadata"].get("labels", {}).get(NAME) == name]

    def uids(self, name: str) -> set[str]:
        """Of the pods of a JobSet that are not over."""
        return {pod["metadata"]["uid"] for pod in self.pods(name)}

    def nodes(self, name: str) -> dict[str, list[str]]:
        """For each set of a JobSet the nodes of its bound pods, those that are told to end left out."""
        found: dict[str, list[str]] = {}
        for pod in self.pods(name):
            if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName"):
                found.setdefault(pod["metadata"]["labels"][SET], []).append(pod["spec"]["nodeName"])
        return {each: sorted(nodes) for each, nodes in found.items()}

    def wait_bound(self, name: str, pods: int, seconds: float = 60.0) -> dict[str, list[str]]:
        """The nodes of a JobSet once so many of its pods are bound."""
        found: list[dict[str, list[str]]] = []

        def bound() -> bool:
            found.append(self.nodes(name))
            return sum(map(len, found[-1].values())) == pods

        wait_for(bound, seconds, f"{pods} bound pods of {name}")
        return found[-1]

    def end(self, name: str) -> None:
        """Let all pods of a JobSet end well."""
        for pod in self.pods(name):
            path = f"/api/v1/namespaces/{self._desk.namespace}/pods/{pod['metadata']['name']}/status"
            self._plane.call("PATCH", path, {"status": {"phase": "Succeeded"}}, MERGE)

    def writes(self, name: str, user: str) -> Sequence[str]:
        """When this user patched a JobSet, by the audit log."""
        entries = self._plane.audited(verb="patch", resource="jobsets", user=user)
        return [
            entry["requestReceivedTimestamp"] for entry in entries
            if entry["objectRef"]["namespace"] == self._desk.namespace and entry["objectRef"]["name"] == name
            and entry["responseStatus"]["code"] == 200
        ]  # fmt: skip


def replicated(name: str, jobs: int, pods: int, gpus: int) -> dict[str, Any]:
    """A set of a JobSet: so many Jobs of so many pods at once."""
    container = {"name": "train", "image": "train:v1", "resources": {"limits": {GPU: str(gpus)} if gpus else {}}}
    pod = {
        "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "priorityClassName": CLASS,
    }  # fmt: skip
    template = {"spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": {"spec": pod}}}
    return {"name": name, "replicas": jobs, "template": template}
