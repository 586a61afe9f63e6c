"""Batch work in front of a real control plane: queues and Jobs, and where the real scheduler bound their pods."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Self
from uuid import uuid4

from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for

GROUP: Final = "/apis/headroom.dev/v1alpha1"
MERGE: Final = "application/merge-patch+json"
GPU: Final = "nvidia.com/gpu"
CLASS: Final = "batch"
SETTINGS: Final[dict[str, Any]] = {"batch": {"enabled": True}, "shapes": {"h100": {"sku": "h100"}}}

SLACK_S: Final = 60.0
"""How long anything may take on a loaded machine."""


class Desk:
    """A namespace for batch work, with queues of its own; all go with the block."""

    def __init__(self, plane: Plane, controller: Controller, namespace: str) -> None:
        self.plane, self.controller, self.namespace = plane, controller, namespace
        self._queues: list[str] = []

    @classmethod
    @contextmanager
    def open(cls, plane: Plane, controller: Controller) -> Iterator[Self]:
        """A new one; everything in it is gone from the nodes when the next one opens."""
        namespace = f"t-{uuid4().hex[:8]}"
        plane.kubectl("create", "namespace", namespace)
        desk = cls(plane, controller, namespace)
        yield desk
        plane.kubectl("delete", "jobs,deployments", "--all", "-n", namespace, "--cascade=foreground", "--wait=false")
        plane.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=0", "--force", "--wait=false")
        for name in desk._queues:
            plane.call("DELETE", f"{GROUP}/batchqueues/{name}")
        wait_for(lambda: not desk.pods(), SLACK_S, "the pods to be gone")
        plane.kubectl("delete", "namespace", namespace, "--wait=false")

    def queue(self, name: str, guaranteed: int = 0, *, own: bool = True, **spec: Any) -> str:
        """A BatchQueue that this namespace may use; its full name."""
        full = f"{name}-{self.namespace}"
        limit = spec.pop("limit", None)
        quota = {"shape": "h100", "guaranteed": guaranteed} | ({} if limit is None else {"limit": limit})
        spec = {"quotas": [quota], "preemption": {"graceS": 0}, **spec}
        if own:
            spec["namespaces"] = [self.namespace]
        self.plane.apply({
            "apiVersion": "headroom.dev/v1alpha1", "kind": "BatchQueue", "metadata": {"name": full}, "spec": spec,
        })  # fmt: skip
        if full not in self._queues:
            self._queues.insert(0, full)
        return full

    def job(self, name: str, queue: str, pods: int = 1, gpus: int = 8, **given: Any) -> str:
        """A suspended Job of so many pods at once, labelled with a queue; its name."""
        self.plane.call("POST", self._jobs, manifest(self.namespace, name, queue, pods, gpus, **given))
        return name

    @property
    def _jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    def read(self, name: str) -> dict[str, Any]:
        """A Job as it is now."""
        found: dict[str, Any] = self.plane.call("GET", f"{self._jobs}/{name}")
        return found

    def edit(self, name: str, change: Mapping[str, Any]) -> None:
        """Merge a change into a Job."""
        self.plane.call("PATCH", f"{self._jobs}/{name}", change, MERGE)

    def delete(self, name: str) -> None:
        """Delete a Job with its pods."""
        self.plane.kubectl("delete", "job", name, "-n", self.namespace, "--wait=false")

    def is_suspended(self, name: str) -> bool:
        """Whether a Job may not run."""
        return bool(self.read(name)["spec"]["suspend"])

    def width(self, name: str) -> tuple[int, int | None, str | None]:
        """Pods of a Job at once, its ends, and our note of what was chosen."""
        found = self.read(name)
        note = found["metadata"].get("annotations", {}).get("headroom.dev/width")
        return found["spec"]["parallelism"], found["spec"].get("completions"), note

    def pods(self, name: str | None = None) -> list[dict[str, Any]]:
        """Pods that are not over, of one Job or of all."""
        items: list[dict[str, Any]] = self.plane.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        label = "batch.kubernetes.io/job-name"
        mine = [pod for pod in items if name is None or pod["metadata"].get("labels", {}).get(label) == name]
        return [pod for pod in mine if pod["status"].get("phase") not in {"Succeeded", "Failed"}]

    def nodes(self, name: str) -> dict[str, int]:
        """Pods of a Job by the node that the scheduler bound them to, those that are told to end left out."""
        bound = [
            str(pod["spec"].get("nodeName", ""))
            for pod in self.pods(name)
            if "deletionTimestamp" not in pod["metadata"]
        ]
        return dict(sorted(Counter(bound).items()))

    def wait_bound(self, name: str, pods: int, seconds: float = SLACK_S) -> dict[str, int]:
        """The nodes of a Job once so many of its pods are bound."""
        try:
            wait_for(
                lambda: sum(count for node, count in self.nodes(name).items() if node) == pods, seconds,
                f"{pods} bound pods of {name}",
            )  # fmt: skip
        except AssertionError as error:
            error.add_note(self._scene())
            raise
        return self.nodes(name)

    def _scene(self) -> str:
        """Who is where and what was told: a gang that was not bound says nothing of who held it up."""
        everywhere = self.plane.call("GET", "/api/v1/pods")["items"]
        pods = [
            f"{at['namespace']}/{at['name']} on {pod['spec'].get('nodeName', 'no node')}: {pod['status'].get('phase')}"
            + (f", told to end {at['deletionTimestamp']}" if "deletionTimestamp" in at else "")
            for pod in everywhere for at in [pod["metadata"]]
        ]  # fmt: skip
        events = self.plane.call("GET", f"/api/v1/namespaces/{self.namespace}/events")["items"]
        told = [": ".join((each["involvedObject"]["name"], each["reason"], each["message"])) for each in events]
        return "\n".join(["pods:", *pods, "events:", *told])

    def end(self, name: str) -> None:
        """Let all pods of a Job end well."""
        for pod in self.pods(name):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}/status"
            self.plane.call("PATCH", path, {"status": {"phase": "Succeeded"}}, MERGE)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages of our Events about a Job."""
        items = self.plane.call("GET", f"/api/v1/namespaces/{self.namespace}/events")["items"]
        return [
            (event["reason"], event["message"]) for event in items
            if event["involvedObject"]["name"] == name and event["source"].get("component") == "headroom"
        ]  # fmt: skip

    def wait_told(self, name: str, words: str, seconds: float = SLACK_S) -> str:
        """The message of the first Event about a Job that has these words."""
        found: list[str] = []

        def told() -> bool:
            found[:] = [message for reason, message in self.events(name) if words in f"{reason}: {message}"]
            return bool(found)

        wait_for(told, seconds, f"an Event about {name} with {words!r}", every_s=0.2)
        return found[0]

    def writes(self, name: str) -> list[str]:
        """When we patched a Job, tries aside, by the audit log."""
        entries = self.plane.audited(verb="patch", resource="jobs", user=ACCOUNT)
        return [
            entry["requestReceivedTimestamp"] for entry in entries
            if entry["objectRef"]["namespace"] == self.namespace and entry["objectRef"]["name"] == name
            and entry["responseStatus"]["code"] == 200 and "dryRun" not in entry["requestURI"]
        ]  # fmt: skip

    def status(self, queue: str) -> dict[str, Any]:
        """The status of a BatchQueue."""
        found: dict[str, Any] = self.plane.call("GET", f"{GROUP}/batchqueues/{queue}").get("status", {})
        return found

    def condition(self, queue: str, kind: str) -> str:
        """The message of a condition of a BatchQueue; empty while it has none."""
        return next(
            (str(one["message"]) for one in self.status(queue).get("conditions", ()) if one["type"] == kind), ""
        )


def manifest(
    namespace: str, name: str, queue: str, pods: int, gpus: int, *, labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None, priority_class: str = CLASS, suspend: bool = True, **spec: Any,
) -> dict[str, Any]:  # fmt: skip
    """A Job of so many pods at once, in a queue or in none."""
    container = {"name": "train", "image": "train:v1", "resources": {"limits": {GPU: str(gpus)} if gpus else {}}}
    template = {
        "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        **({"priorityClassName": priority_class} if priority_class else {}), **spec.pop("template", {}),
    }  # fmt: skip
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": namespace, "annotations": dict(annotations or {}),
            "labels": ({"headroom.dev/queue": queue} if queue else {}) | dict(labels or {}),
        },
        "spec": {
            "suspend": suspend, "parallelism": pods, "completions": pods, "backoffLimit": 0,
            "template": {"spec": template}, **spec,
        },
    }  # fmt: skip


def priority_class(name: str, value: int) -> dict[str, Any]:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
    }  # fmt: skip


def instant_s(text: str) -> float:
    """A date of the API server in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
