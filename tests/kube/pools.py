"""Objects behind warm pools as an API server shows them, and a server that remembers what was written."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_objects import NodeClaim, NodePool, PlacedPod, ToldEvent
from autoscaler.adapters.kube.pool_slot_pod import Errand, Making, PoolRef
from autoscaler.api.warm_pool import WarmPoolSpec
from autoscaler.core.pool.params import CapacityType, PoolTier, SlotForm
from autoscaler.ports import Fault

T = TypeVar("T")

T0: Final = 1_700_000_000.0
"""2023-11-14T22:13:20Z"""

TIER: Final = PoolTier("first", "gpu", "h100", CapacityType.ON_DEMAND)
FORM: Final = SlotForm(count=2)
MAKING: Final = Making("slots", "headroom-slot", "karpenter.sh/nodepool", "pause:1", "fetch:1")


def at(second: int) -> str:
    """An instant so many seconds (below 40) after `T0`."""
    return f"2023-11-14T22:13:{20 + second}Z"


def pod(name: str = "chat-0", **parts: Any) -> PlacedPod:
    """A slot of the pool chat that was just made; `parts` are its metadata, spec and status."""
    labels = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat", "headroom.dev/tier": "first"}
    metadata = {
        "name": name, "namespace": "slots", "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels,
        "creationTimestamp": at(0), "annotations": {"headroom.dev/content": "c1"},
        "ownerReferences": [{"kind": "WarmPool", "name": "chat", "uid": "pool-uid", "controller": True}],
    } | parts.pop("metadata", {})  # fmt: skip
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]} | parts.pop("spec", {})
    return decoded(PlacedPod, {"metadata": metadata, "spec": spec, **parts})


def node(name: str = "n0", *, gpus: str | None = "4", **parts: Any) -> Node:
    """A ready node of the tier's NodePool."""
    labels = {"karpenter.sh/nodepool": "gpu", "topology.kubernetes.io/zone": "a"} | parts.pop("labels", {})
    metadata = {"name": name, "labels": labels, "creationTimestamp": at(0)} | parts.pop("metadata", {})
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(1)}
    allocatable = {} if gpus is None else {"nvidia.com/gpu": gpus}
    status = {"allocatable": allocatable, "conditions": [ready]} | parts.pop("status", {})
    return decoded(Node, {"metadata": metadata, "status": status, **parts})


def claim(name: str = "gpu-abcde", *, conditions: Sequence[str] = (), **parts: Any) -> NodeClaim:
    """A NodeClaim of the tier's NodePool, with these conditions true, a second apart."""
    labels = {"karpenter.sh/nodepool": "gpu"} | parts.pop("labels", {})
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels, "creationTimestamp": at(0)}
    metadata |= parts.pop("metadata", {})
    true = [
        {"type": kind, "status": "True", "lastTransitionTime": at(1 + n)} for n, kind in enumerate(conditions)
    ]  # fmt: skip
    status = {"conditions": true} | parts.pop("status", {})
    return decoded(NodeClaim, {"metadata": metadata, "status": status, **parts})


def node_pool(name: str = "gpu", **parts: Any) -> NodePool:
    return decoded(NodePool, {"metadata": {"name": name} | parts.pop("metadata", {}), **parts})


def event(about: str, message: str = "", second: int = 5, uid: str = "") -> ToldEvent:
    return decoded(
        ToldEvent, {"involvedObject": {"name": about, "uid": uid}, "message": message, "lastTimestamp": at(second)}
    )


def errand(**spec: Any) -> Errand:
    """The pool chat with one model; its weights go onto the node."""
    model = {"name": "chat", "image": "registry.example.com/vllm:v1", "weights": "hf://example/chat"}
    tier = {"name": "first", "shape": "h100", "nodePoolRef": "gpu"}
    given = {"tiers": [tier], "models": [model], "cache": {"hostPath": "/cache"}} | spec
    return Errand(PoolRef("chat", "pool-uid"), WarmPoolSpec.model_validate(given), FORM)


def decoded(kind: type[T], content: dict[str, Any]) -> T:
    return msgspec.json.decode(json.dumps(content), type=kind)


class Server:
    """Takes requests and answers each as told; by default with an empty object."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.kinds: list[str] = []
        self.faults: list[KubeError] = []
        self.body: bytes = b"{}"

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
        admit: Callable[[], bool] = lambda: True,
    ) -> Answer:
        if not admit():
            error = KubeError(Fault.DENIED, "not sent: it was allowed no more when its turn came")
            error.sent = False
            raise error
        self.requests.append((method, path, None if body is None else json.loads(body)))
        self.queries.append(dict(query))
        self.kinds.append(content_type)
        if self.faults:
            raise self.faults.pop(0)
        return Answer(200, self.body, {})
