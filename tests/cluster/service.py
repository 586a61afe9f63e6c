"""One workload of a test: its object, its pods' pages, and what the controller did to its count."""

from typing import Any

from tests.cluster.controller import ACCOUNT
from tests.cluster.engines import Engines
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for

ASKS = {"headroom.dev/scale": "true"}


class Service:
    """A Deployment (or another kind) with annotated settings, such as max_replicas="20"."""

    def __init__(
        self,
        plane: Plane,
        engines: Engines,
        namespace: str,
        name: str,
        *,
        replicas: int = 1,
        stages: dict[str, str] | None = None,
        kind: str = "Deployment",
        gpus: int = 0,
        asks: bool = True,
        **settings: str,
    ) -> None:
        self.plane, self.engines, self.namespace, self.name, self.kind = plane, engines, namespace, name, kind
        self.workload = f"{namespace}/{name}"
        self.resource = f"{kind.lower()}s"
        annotations = {f"headroom.dev/{key.replace('_', '-')}": value for key, value in settings.items()}
        manifest = deployment(
            namespace, name, engines.port, replicas=replicas, annotations=annotations | (ASKS if asks else {}),
            stages=stages, gpus=gpus, kind=kind,
        )  # fmt: skip
        plane.apply(manifest)

    def pods(self) -> list[dict[str, Any]]:
        """Its pods that are not going away."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=app%3D{self.name}"
        items: list[dict[str, Any]] = self.plane.call("GET", path)["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def ips(self) -> list[str]:
        """The addresses of its ready pods."""
        return [
            pod["status"]["podIP"]
            for pod in self.pods()
            if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
        ]

    def wait_ready(self, count: int, seconds: float = 30) -> list[str]:
        """The addresses once exactly `count` pods are ready."""
        wait_for(lambda: len(self.ips()) == count, seconds, f"{count} ready pods of {self.workload}", every_s=0.2)
        return self.ips()

    def replicas(self) -> int:
        """The count that is asked for now."""
        return int(self.plane.call("GET", self.path)["spec"]["replicas"])

    @property
    def path(self) -> str:
        """The object's path."""
        return f"/apis/apps/v1/namespaces/{self.namespace}/{self.resource}/{self.name}"

    def edit(self, replicas: int) -> None:
        """Set the count by hand."""
        body = {"spec": {"replicas": replicas}}
        self.plane.call("PATCH", f"{self.path}/scale", body, "application/merge-patch+json")

    def annotate(self, **settings: str | None) -> None:
        """Change annotations of ours; None removes one."""
        changes = {f"headroom.dev/{key.replace('_', '-')}": value for key, value in settings.items()}
        self.plane.call("PATCH", self.path, {"metadata": {"annotations": changes}}, "application/merge-patch+json")

    def counts(self) -> list[tuple[int, int]]:
        """(before, after) of every patch of its count that the API server took from the controller, oldest first."""
        found = []
        for entry in self.patches():
            if entry["responseStatus"]["code"] == 200:
                after = entry["responseObject"]["spec"].get("replicas", 0)
                before = next(
                    o["value"] for o in entry["requestObject"] if o["op"] == "test" and o["path"] != "/metadata/uid"
                )
                found.append((0 if before == {} else int(before), int(after)))
        return found

    def answers(self) -> list[int]:
        """What the API server answered to every such patch, taken or not."""
        return [int(entry["responseStatus"]["code"]) for entry in self.patches()]

    def shrinks(self) -> list[tuple[int, int]]:
        """Those that took replicas away."""
        return [(before, after) for before, after in self.counts() if after < before]

    def patches(self) -> list[dict[str, Any]]:
        """The controller's patches of its count in the API server's audit log, oldest first."""
        audited = self.plane.audited(verb="patch", resource=f"{self.resource}/scale", user=ACCOUNT)
        own = (self.namespace, self.name)
        return [e for e in audited if (e["objectRef"]["namespace"], e["objectRef"]["name"]) == own]
