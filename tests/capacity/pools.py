"""WarmPools in front of real Karpenter: how they are made, and what their slots and statuses say."""

from datetime import datetime
from typing import Any, Final

from tests.cluster.controller import ACCOUNT
from tests.cluster.plane import Plane

SLOTS: Final = "/api/v1/namespaces/headroom-slots/pods"
POOLS: Final = "/apis/headroom.dev/v1alpha1/warmpools"
MERGE: Final = "application/merge-patch+json"
SHAPES: Final = {
    "h100": {"sku": "h100"},
    "a100": {"sku": "a100"},
    "h100-spot": {"sku": "h100", "capacity_type": "spot"},
}
SETTINGS: Final[dict[str, Any]] = {
    "warm_pools": {"enabled": True, "registries": ["registry.example.com"]},
    "shapes": SHAPES,
    "lease": {"duration_s": 20.0, "deadline_s": 15.0},
}
"""The lead outlasts a machine that is busy with other things."""


class Pool:
    """A WarmPool of two slots of eight GPUs each, which is a whole node; `tiers` are (shape, NodePool)."""

    def __init__(self, plane: Plane, name: str, *tiers: tuple[str, str], **fields: Any) -> None:
        self.plane, self.name = plane, name
        model = {"name": name, "image": "registry.example.com/vllm:v1", "weights": f"hf://example/{name}"}
        refs = [{"name": f"tier-{at}", "shape": shape, "nodePoolRef": ref} for at, (shape, ref) in enumerate(tiers)]
        spec = {
            "tiers": refs, "slot": {"count": 8}, "models": [model], "cache": {"hostPath": "/var/lib/headroom/cache"},
            "minSlots": 2, "maxSlots": 3,
        }  # fmt: skip
        plane.apply({
            "apiVersion": "headroom.dev/v1alpha1", "kind": "WarmPool", "metadata": {"name": name},
            "spec": spec | fields,
        })  # fmt: skip

    @property
    def slots(self) -> list[dict[str, Any]]:
        """Its slots that are not going."""
        path = f"{SLOTS}?labelSelector=headroom.dev%2Fpool%3D{self.name}"
        items: list[dict[str, Any]] = self.plane.call("GET", path)["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    @property
    def status(self) -> dict[str, Any]:
        """What its status says."""
        found: dict[str, Any] = self.plane.call("GET", f"{POOLS}/{self.name}").get("status", {})
        return found

    @property
    def warm(self) -> int:
        """Its warm slots, by its status."""
        return int(self.status.get("warmSlots", 0))

    def told(self, kind: str) -> tuple[str, str]:
        """Status and message of a condition; empty while it has none."""
        for one in self.status.get("conditions", ()):
            if one["type"] == kind:
                return one["status"], one["message"]
        return "", ""

    def ordered(self) -> list[float]:
        """When its slots were created, gone ones included, by the audit log; oldest first."""
        entries = self.plane.audited(verb="create", resource="pods", user=ACCOUNT)
        named = [entry for entry in entries if str(entry["objectRef"].get("name", "")).startswith(f"{self.name}-")]
        return sorted(
            datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
            for entry in named
            if entry["responseStatus"]["code"] == 201
        )

    def delete(self) -> None:
        """Delete the WarmPool; its slots go with it."""
        self.plane.call("DELETE", f"{POOLS}/{self.name}")
