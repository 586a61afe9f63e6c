"""The pod that holds the place of one pod of a gang until that starts: its manifest, and what its status says.

Enters: an order, the WarmPool that owns the pod, what an administrator set. Leaves: the pod as JSON, a `HolderSeen`.
It asks for what the gang's pod will ask for, so that nodes are made for just that, and does nothing. It shares no node
with slots, nor with what is held for another gang: when the gang comes, the scheduler can take away its own only.
"""

from collections.abc import Iterable
from typing import Any

from autoscaler.adapters.kube.membership import OVER
from autoscaler.adapters.kube.pods import Taint
from autoscaler.adapters.kube.pool_objects import PlacedPod
from autoscaler.adapters.kube.pool_places import units_of
from autoscaler.adapters.kube.pool_slot_pod import (
    SMALL,
    Errand,
    Making,
    apart_from,
    bare,
    container,
    owner_of,
    tolerations,
)
from autoscaler.adapters.kube.pool_slots import GANG, GANG_UID, HEADROOM, MANAGED_BY, POOL, TIER, epoch_s
from autoscaler.core.pool.intents import CreateHolder
from autoscaler.core.pool.world import HolderSeen


def holder_pod(order: CreateHolder, errand: Errand, making: Making, taints: Iterable[Taint]) -> dict[str, Any]:
    """The pod; `taints` are those of the nodes it is for."""
    form = errand.form
    requests = dict(SMALL)
    if order.cpu > 0:
        requests["cpu"] = f"{max(1, round(order.cpu * 1000))}m"
    if order.memory_gib > 0:
        requests["memory"] = str(max(1, round(order.memory_gib * 2**30)))
    labels = {MANAGED_BY: HEADROOM, POOL: errand.pool.name, TIER: order.tier, GANG_UID: order.gang_uid}
    others = {"matchExpressions": [{"key": GANG_UID, "operator": "NotIn", "values": [order.gang_uid]}]}
    pod = bare(order.life_s, making, {**dict(order.selector), making.node_pool_label: order.node_pool})
    pod |= apart_from(others) | {
        "tolerations": list(tolerations(form, taints)),
        "containers": [
            container("hold", making.pause_image, requests=requests, limits={form.resource: str(order.units)})
        ],
    }
    meta = {
        "name": order.name, "namespace": making.namespace, "labels": labels, "annotations": {GANG: order.gang},
        "ownerReferences": [owner_of(errand.pool)],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod}


def holder_seen(pod: PlacedPod, resource: str) -> HolderSeen:
    """What such a pod says of itself."""
    meta = pod.metadata
    return HolderSeen(
        name=meta.name,
        uid=meta.uid,
        gang_uid=meta.labels.get(GANG_UID, ""),
        tier=meta.labels.get(TIER, ""),
        units=units_of(pod, resource),
        created_s=epoch_s(meta.creation_timestamp) or 0.0,
        node=pod.spec.node_name or None,
        deleting=meta.deletion_timestamp is not None,
        over=pod.status.phase in OVER,
    )
