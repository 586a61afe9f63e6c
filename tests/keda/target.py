"""A Deployment behind KEDA whose answers a test gives, and what becomes of it."""

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from autoscaler.adapters.keda.answers import Refusal, Refused, Served
from tests.cluster.keda import Keda, scaled_object
from tests.cluster.manifests import deployment
from tests.cluster.scaler import Scaler

SILENT: Final = Refused(Refusal.NOT_READY, "the metrics could not be read for 130 s")
FALLBACK: Final = {"failureThreshold": 2, "replicas": 6}
SOON_S: Final = 20.0

T = TypeVar("T")


def settled(read: Callable[[], T], wanted: object, seconds: float = SOON_S) -> T:
    """What is read once it is what is wanted, or after so many seconds."""
    until_s = time.monotonic() + seconds
    while (found := read()) != wanted and time.monotonic() < until_s:
        time.sleep(0.02)
    return found


class Target:
    """A Deployment that KEDA scales, and the ScaledObject for it."""

    def __init__(self, keda: Keda, scaler: Scaler, namespace: str, name: str = "chat") -> None:
        self.keda, self.scaler, self.namespace, self.name = keda, scaler, namespace, name
        self.plane = keda.plane

    def make(
        self, replicas: int, answer: Served | Refused | int, *, beside: dict[str, Any] | None = None, **options: Any
    ) -> None:
        """Make both, with a trigger beside ours where one is given."""
        self.say(answer, replicas)
        self.plane.apply(deployment(self.namespace, self.name, 8000, replicas=replicas, gpus=0))
        made = scaled_object(self.namespace, self.name, self.scaler.address, **options)
        made["spec"]["triggers"] += [] if beside is None else [beside]
        self.plane.apply(made)

    def say(self, answer: Served | Refused | int, standing: int | None = None) -> None:
        self.scaler.say(self.namespace, self.name, answer, standing)

    def replicas(self) -> int:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.name}"
        return int(self.plane.call("GET", path)["spec"]["replicas"])

    def comes_to(self, wanted: int, seconds: float = SOON_S) -> int:
        """The count once it is the one that is wanted, or after so many seconds."""
        return settled(self.replicas, wanted, seconds)

    def counts_over(self, seconds: float) -> set[int]:
        """Every count that it is seen with for so many seconds, which are several pulls and polls."""
        seen, until_s = {self.replicas()}, time.monotonic() + seconds
        while time.monotonic() < until_s:
            time.sleep(0.1)
            seen.add(self.replicas())
        return seen

    def told(self, metric: str = "s0-headroom-replicas") -> float | None:
        """The number as HPA reads it; None while it is refused."""
        return self.keda.value(self.namespace, self.name, metric)

    def status(self) -> dict[str, Any]:
        path = f"/apis/keda.sh/v1alpha1/namespaces/{self.namespace}/scaledobjects/{self.name}"
        found: dict[str, Any] = self.plane.call("GET", path).get("status", {})
        return found

    def condition(self, kind: str) -> str:
        return next((str(c["status"]) for c in self.status().get("conditions", ()) if c["type"] == kind), "")

    def annotate(self, **annotations: str | None) -> None:
        changes = {f"autoscaling.keda.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self._edit({"metadata": {"annotations": changes}}, "application/merge-patch+json")

    def set_trigger(self, **metadata: str) -> None:
        """Write into our trigger's metadata."""
        changes = [
            {"op": "add", "path": f"/spec/triggers/0/metadata/{key}", "value": value} for key, value in metadata.items()
        ]
        self._edit(changes, "application/json-patch+json")

    def _edit(self, patch: Any, content_type: str) -> None:
        path = f"/apis/keda.sh/v1alpha1/namespaces/{self.namespace}/scaledobjects/{self.name}"
        self.plane.call("PATCH", path, patch, content_type)

    def metrics(self) -> list[str]:
        """The names of the metrics in the HPA."""
        path = f"/apis/autoscaling/v2/namespaces/{self.namespace}/horizontalpodautoscalers/keda-hpa-{self.name}"
        return sorted(entry["external"]["metric"]["name"] for entry in self.plane.call("GET", path)["spec"]["metrics"])

    def events(self) -> str:
        return self.plane.kubectl("-n", self.namespace, "get", "events", "-o", "wide")
