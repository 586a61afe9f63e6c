"""Gangs of several sets of pods in a desk's namespace, objects of one kind, and where the real scheduler bound them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.batch_work import CLASS, MERGE, SETTINGS, SLACK_S, Desk, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import Controller
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.rights_used import judged
from tests.cluster.scene import apply_file


@contextmanager
def admitting_plane(folder: Path, *rights: str, nodes: int = 4) -> Iterator[Plane]:
    """A control plane with the Job controller and a PriorityClass, where Headroom has the rights of these folders."""
    with Plane(folder, nodes=nodes, manager_flags=["--controllers", "job"]) as made:
        install(made)
        for each in rights:
            apply_file(made, CONFIG / "rbac" / each)
        made.apply(priority_class(CLASS, -20))
        yield made


def fixtures(
    rights: Sequence[str],
    operators: Sequence[Callable[[Plane], AbstractContextManager[Any]]],
    resources: str,
    *,
    prepare: Callable[[Plane], None] = lambda plane: None,
) -> tuple[Any, Any, Any, Any, Any]:
    """What a suite about one kind of gangs takes, as fixtures of its module: plane, rights, controller, operator, desk.

    Headroom has the rights of these folders and is judged by the first; it begins before the cluster knows the kind,
    whose controllers are the operators. The objects of these resources go with each desk.
    """

    @pytest.fixture(scope="module")
    def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
        with admitting_plane(tmp_path_factory.mktemp(rights[0]), *rights) as made:
            prepare(made)
            yield made

    @pytest.fixture(scope="module", autouse=True)
    def within_rights(request: pytest.FixtureRequest, plane: Plane) -> Iterator[None]:
        yield from judged(request, plane, *rights)

    @pytest.fixture(scope="module")
    def controller(plane: Plane) -> Iterator[Controller]:
        with Controller(plane, **SETTINGS) as made:
            made.wait_leading(SLACK_S)
            yield made

    @pytest.fixture(scope="module")
    def operator(plane: Plane, controller: Controller) -> Iterator[None]:
        with ExitStack() as running:
            for each in operators:
                running.enter_context(each(plane))
            yield

    @pytest.fixture
    def desk(plane: Plane, controller: Controller, operator: None) -> Iterator[Desk]:
        with Desk.open(plane, controller) as made:
            yield made
            plane.kubectl("delete", resources, "--all", "-n", made.namespace, "--wait=false", check=False)

    return plane, within_rights, controller, operator, desk


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

    def writes(self, name: str, user: str, code: int = 200) -> Sequence[str]:
        """When this user patched an object and the server answered so, by the audit log."""
        entries = self.plane.audited(verb="patch", resource=self.resource, user=user)
        return [
            entry["requestReceivedTimestamp"] for entry in entries
            if entry["objectRef"]["namespace"] == self.desk.namespace and entry["objectRef"]["name"] == name
            and entry["responseStatus"]["code"] == code
        ]  # fmt: skip
