"""One controller for many tests: its plane, its namespaces, and what it tells of the workloads in them."""

import json
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from tests.cluster.controller import Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.service import Service

QUIET: Final = {"waiting": 0.0, "running": 1.0, "rps": 1.0}
"""Far below what a replica can serve."""

QUEUE: Final = {"waiting": 300.0, "running": 8.0, "rps": 5.0}
"""Requests wait for six times the objective, and nothing is known yet of what a replica can serve. Thirty are six
seconds' work: who has seen such pods for less than `uncalibrated.SETTLE_S` rightly orders nothing for them."""

FLOOD: Final = {"waiting": 3000.0, "running": 8.0, "rps": 5.0}
"""More than such replicas clear within the objective, known or not."""

WITHIN_S: Final = 5.0 + 5.0
"""The promise is one interval after a fault's end; the rest is room for a loaded machine."""


class Scene:
    """A controller that leads, and the namespaces it watches."""

    def __init__(self, plane: Plane, engines: Engines, controller: Controller, namespaces: Sequence[str]) -> None:
        self.plane, self.engines, self.controller = plane, engines, controller
        self.namespace, *self.others = namespaces

    @classmethod
    @contextmanager
    def begin(
        cls,
        plane: Plane,
        name: str,
        *,
        namespaces: int = 1,
        server: str | None = None,
        engines: Engines | None = None,
        **settings: Any,
    ) -> Iterator[Self]:
        """A scene of new namespaces, which are deleted at its end; `settings` are the controller's."""
        names = [f"t-{uuid4().hex[:8]}" for _ in range(namespaces)]
        for one in names:
            plane.kubectl("create", "namespace", one)
        with ExitStack() as stack:
            engines = engines or stack.enter_context(Engines())
            controller = Controller(plane, name, server, watch_namespaces=names, **settings)
            stack.enter_context(controller).wait_leading()
            yield cls(plane, engines, controller, names)
        for one in names:
            plane.kubectl("delete", "namespace", one, "--wait=false", check=False)

    def serve(
        self, name: str, replicas: int = 2, *, namespace: str | None = None, read: bool = True, **given: Any
    ) -> tuple[Service, list[str]]:
        """A workload with little to do, whose pages were read, and the addresses of its pods.

        What `stages` hold holds later pods only.
        """
        service = Service(self.plane, self.engines, namespace or self.namespace, name, replicas=replicas, **given)
        if "hold" in given.get("stages", {}):
            wait_for(lambda: len(service.pods()) == replicas, 20, f"the pods of {name}")
            where = ("-n", service.namespace, "-l", f"app={name}")
            self.plane.kubectl("annotate", "pods", *where, "stage.headroom.dev/hold-")
        # Before they are ready, hence before anyone reads them: an address may have been a busy pod's of another test.
        wait_for(lambda: self._quieten(service) == replicas, 30, f"{replicas} addresses of pods of {name}")
        ips = service.wait_ready(replicas)
        if read:
            wait_for(lambda: "SignalsFresh=True" in self.explained(service), 30, f"fresh signals of {name}")
        return service, ips

    def _quieten(self, service: Service) -> int:
        """Give its pods that have an address little to do; how many those are."""
        ips = [pod["status"]["podIP"] for pod in service.pods() if "podIP" in pod["status"]]
        self.engines.of_all(ips, **QUIET)
        return len(ips)

    def decide_anew(self, service: Service) -> None:
        """Wait until pages as they are now have been read and decided on, whatever was on its way."""
        seen = len(self.decided(service))
        wait_for(lambda: len(self.decided(service)) > seen + 1, 20, "two decisions")

    def explained(self, service: Service) -> str:
        """The text of `headroom explain`."""
        answer = self.answer(f"/api/explain/{service.workload}")
        return str(answer.get("text", answer))

    def told(self, service: Service) -> str:
        """All that a person can learn about a workload and the process: explain, status and readiness."""
        said = [json.dumps(self.answer(path), ensure_ascii=False) for path in ("/api/status", "/readyz")]
        return "\n".join([self.explained(service), *said])

    def row(self, service: Service) -> dict[str, Any]:
        """The workload's row of the status; empty while there is none."""
        rows = self.answer("/api/status")["workloads"]
        return next((row for row in rows if row["workload"] == service.workload), {})

    def condition(self, service: Service, kind: str) -> tuple[str, str]:
        """Status and reason of one of its conditions; empty while there is none."""
        for condition in self.row(service).get("about", {}).get("conditions", ()):
            if condition["type"] == kind:
                return condition["status"], condition["reason"]
        return "", ""

    def message(self, service: Service, kind: str) -> str:
        """The words of one of its conditions; empty while there is none."""
        conditions = self.row(service).get("about", {}).get("conditions", ())
        return next((condition["message"] for condition in conditions if condition["type"] == kind), "")

    def answer(self, path: str) -> Any:
        """What the controller answers, refusals included."""
        try:
            return self.controller.get(path)
        except urllib.error.HTTPError as error:
            return json.loads(error.read())
        except OSError as error:
            words = self.controller.words()[-4000:]
            raise AssertionError(f"the controller does not answer: {error}\n{words}") from error

    def decided(self, service: Service) -> list[dict[str, Any]]:
        """Its decisions, oldest first."""
        return [line for line in self.controller.decisions() if line["workload"] == service.workload]

    def acts(self, service: Service) -> list[dict[str, Any]]:
        """What was done about them, oldest first."""
        lines = self.controller.journal()
        return [line for line in lines if line["kind"] == "act" and line["workload"] == service.workload]


def policy(service: Service, **spec: Any) -> dict[str, Any]:
    """A ScalingPolicy of the same name for a workload."""
    target = {"name": service.name, "kind": service.kind}
    return {
        "apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
        "metadata": {"name": service.name, "namespace": service.namespace}, "spec": {"targetRef": target, **spec},
    }  # fmt: skip


def apply_file(plane: Plane, path: Path) -> None:
    """Install what an administrator applies."""
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", path)
