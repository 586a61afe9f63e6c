"""The manifest of one slot pod.

Enters: an order, the WarmPool that owns the pod, what an administrator set. Leaves: the pod as JSON: bare, at low
priority, without a service account's token, within the restricted pod security standard but for one named cache volume
on the node. Its init containers pull the serving images and fetch the weights; then it does nothing and holds its GPUs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from autoscaler.adapters.kube.pods import Taint
from autoscaler.adapters.kube.pool_slots import (
    CONTENT,
    FETCH,
    HEADROOM,
    MANAGED_BY,
    NODE_ENDS,
    POOL,
    PULL,
    TIER,
    ZONE,
)
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.api.warm_pool import WarmPoolSpec
from autoscaler.core.pool.intents import CreateSlot
from autoscaler.core.pool.params import SlotForm

HOSTNAME: Final = "kubernetes.io/hostname"

CACHE: Final = "headroom-cache"
"""The name of the one volume; an admission policy lets no other volume of the node in."""

NOBODY: Final = 65532
"""The user that slots run as: images that would run as root are pulled all the same."""

SMALL: Final = {"cpu": "10m", "memory": "32Mi"}
FETCHING: Final = {"cpu": "100m", "memory": "512Mi"}
"""What a fetch is promised; it may use what the node has free."""


@dataclass(frozen=True, slots=True)
class Making:
    """What an administrator says of all slots."""

    namespace: str
    priority_class: str
    node_pool_label: str
    pause_image: str
    fetch_image: str


@dataclass(frozen=True, slots=True)
class PoolRef:
    """The WarmPool that owns a slot."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Errand:
    """The pool that something is done for."""

    pool: PoolRef
    spec: WarmPoolSpec
    form: SlotForm


def slot_pod(order: CreateSlot, errand: Errand, making: Making, taints: Iterable[Taint]) -> dict[str, Any]:
    """The pod; `taints` are those of the nodes it is for."""
    pool, spec, form = errand.pool, errand.spec, errand.form
    selector = {making.node_pool_label: order.node_pool} | ({ZONE: order.zone} if order.zone else {})
    labels = {MANAGED_BY: HEADROOM, POOL: pool.name, TIER: order.tier}
    pod = bare(order.life_s, making, selector) | {
        "tolerations": list(tolerations(form, taints)),
        "initContainers": [*_pulls(spec), *_fetches(spec, making)],
        "containers": [
            container("hold", making.pause_image, requests=SMALL, limits={form.resource: str(form.count)})
        ],
    }  # fmt: skip
    if spec.cache is not None:
        pod["volumes"] = [{"name": CACHE} | _cache(spec)]
    if order.apart:
        pod |= apart_from({"matchExpressions": [{"key": NODE_ENDS, "operator": "Exists"}]})
    if order.zone is None:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {MANAGED_BY: HEADROOM, POOL: pool.name}},
            }
        ]  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": order.name, "namespace": making.namespace, "labels": labels,
            "annotations": {CONTENT: order.content}, "ownerReferences": [owner_of(pool)],
        },
        "spec": pod,
    }  # fmt: skip


def apart_from(selector: dict[str, Any]) -> dict[str, Any]:
    """What keeps a pod off every node with a pod of ours that `selector` chooses by its labels."""
    ours = selector | {"matchLabels": {MANAGED_BY: HEADROOM}}
    terms = [{"labelSelector": ours, "topologyKey": HOSTNAME}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def owner_of(pool: PoolRef) -> dict[str, Any]:
    """The WarmPool as the owner of a pod: it goes with it."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": "WarmPool", "name": pool.name, "uid": pool.uid, "controller": True,
    }  # fmt: skip


def bare(order_life_s: float, making: Making, selector: dict[str, str]) -> dict[str, Any]:
    """What every pod of ours is: bare, at low priority, without a token, with an end of its own."""
    return {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": max(1, round(order_life_s)),
        "priorityClassName": making.priority_class,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": NOBODY, "runAsGroup": NOBODY, "fsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": selector,
    }  # fmt: skip


def _pulls(spec: WarmPoolSpec) -> Iterator[dict[str, Any]]:
    """One container per serving image; it ends at once, for the image is there when it runs."""
    for number, image in enumerate(dict.fromkeys(model.image for model in spec.models)):
        yield container(f"{PULL}{number}", image, requests=SMALL) | {"command": ["true"]}


def _fetches(spec: WarmPoolSpec, making: Making) -> Iterator[dict[str, Any]]:
    """One container per model with weights: it is given where they come from and where they go."""
    if spec.cache is None:
        return
    for number, model in enumerate(model for model in spec.models if model.weights is not None):
        place = f"{spec.cache.mount_path.rstrip('/')}/{model.name}"
        yield container(f"{FETCH}{number}", making.fetch_image, requests=FETCHING) | {
            "args": [model.weights, place],
            "env": [{"name": "HOME", "value": spec.cache.mount_path}],
            "volumeMounts": [{"name": CACHE, "mountPath": spec.cache.mount_path}],
        }


def container(
    name: str, image: str, *, requests: dict[str, str], limits: dict[str, str] | None = None
) -> dict[str, Any]:
    """One container within the restricted pod security standard."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": requests | (limits or {})} | ({"limits": limits} if limits else {}),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _cache(spec: WarmPoolSpec) -> dict[str, Any]:
    assert spec.cache is not None
    if spec.cache.host_path is not None:
        return {"hostPath": {"path": spec.cache.host_path, "type": "DirectoryOrCreate"}}
    return {"persistentVolumeClaim": {"claimName": spec.cache.claim}}


def tolerations(form: SlotForm, taints: Iterable[Taint]) -> Iterator[dict[str, str]]:
    """Of the taint that GPU nodes have, and of the NodePool's own; never of one that says that a node is not well."""
    yield {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    if form.resource != "nvidia.com/gpu":
        yield {"key": form.resource, "operator": "Exists", "effect": "NoSchedule"}
    for taint in taints:
        yield {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
