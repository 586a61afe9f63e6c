"""Gangs of several sets of pods in a desk's namespace, objects of one kind, and where the real scheduler bound them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.batch_work import CLASS, MERGE, SLACK_S, Desk, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file


@contextmanager
def admitting_plane(folder: Path, *rights: str) -> Iterator[Plane]:
    """A control plane with the Job controller and a PriorityClass, where Headroom has the rights of these folders."""
    with Plane(folder, manager_flags=["--controllers", "job"]) as made:
        install(made)
        for each in rights:
            apply_file(made, CONFIG / "rbac" / each)
        made.apply(priority_class(CLASS, -20))
        yield made


class Gangs:
    """All objects of one kind: `path` is where the kind is served, `labels` are those of a pod for its gang and set."""

    def __init__(self, desk: Desk, path: str, resource: str, labels: tuple[str, str]) -> None:
        self.desk, self.plane, self.resource = desk, desk.plane, resource
        self.root = f"{path}/namespaces/{desk.namespace}/{resource}"
        self._name, self._set = labels

    def create(self, found: dict[str, Any]) -> None:
        """An object comes."""
        self.plane.call("POST", self.root, found)

    def read(self, name: str) -> dict[str, Any]:
        """An object as it is now."""
        found: dict[str, Any] = self.plane.call("GET", f"{self.root}/{name}")
        return found

    def edit(self, name: str, change: Mapping[str, Any]) -> None:
        """Merge a change into an object."""
        self.plane.call("PATCH", f"{self.root}/{name}", change, MERGE)

    def delete(self, name: str) -> None:
        """Delete an object with what it made."""
        self.plane.kubectl("delete", self.resource, name, "-n", self.desk.namespace, "--wait=false")

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Pods of a gang that are not over."""
        return [pod for pod in self.desk.pods() if pod["metadata"].get("labels", {}).get(self._name) == name]

    def uids(self, name: str) -> set[str]:
        """Of the pods of a gang that are not over."""
        return {pod["metadata"]["uid"] for pod in self.pods(name)}

    def nodes(self, name: str) -> dict[str, list[str]]:
        """For each set of a gang the nodes of its bound pods, those that are told to end left out."""
        found: dict[str, list[str]] = {}
        for pod in self.pods(name):
            if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName"):
                found.setdefault(pod["metadata"]["labels"][self._set], []).append(pod["spec"]["nodeName"])
        return {each: sorted(nodes) for each, nodes in found.items()}

    def wait_bound(self, name: str, pods: int, seconds: float = SLACK_S) -> dict[str, list[str]]:
        """The nodes of a gang once so many of its pods are bound."""
        found: list[dict[str, list[str]]] = []

        def bound() -> bool:
            found.append(self.nodes(name))
            return sum(map(len, found[-1].values())) == pods

        wait_for(bound, seconds, f"{pods} bound pods of {name}")
        return found[-1]

    def set_phase(self, name: str, phase: str, *, of: str | None = None) -> None:
        """Let the pods of a gang end this way, all or those of one set."""
        for pod in self.pods(name):
            if of is None or pod["metadata"]["labels"][self._set] == of:
                path = f"/api/v1/namespaces/{self.desk.namespace}/pods/{pod['metadata']['name']}/status"
                self.plane.call("PATCH", path, {"status": {"phase": phase}}, MERGE)

    def end(self, name: str) -> None:
        """Let all pods of a gang end well."""
        self.set_phase(name, "Succeeded")

    def writes(self, name: str, user: str) -> Sequence[str]:
        """When this user patched an object, by the audit log."""
        entries = self.plane.audited(verb="patch", resource=self.resource, user=user)
        return [
            entry["requestReceivedTimestamp"] for entry in entries
            if entry["objectRef"]["namespace"] == self.desk.namespace and entry["objectRef"]["name"] == name
            and entry["responseStatus"]["code"] == 200
        ]  # fmt: skip
