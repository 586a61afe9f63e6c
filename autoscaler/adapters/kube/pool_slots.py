"""Slot pods: how one is told from other pods, and what its own status says of its life.

Enters: a pod and the claim that Karpenter nominated it to. Leaves: a `SlotSeen` whose instants are the pod's own words,
so that a process that starts anew sees the same. A pod is a slot only by our label and by the WarmPool that owns it.
"""

from datetime import datetime
from typing import Final

from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_objects import InitStatus, PlacedPod, Said
from autoscaler.core.pool.world import SlotSeen

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
HEADROOM: Final = "headroom"
POOL: Final = "headroom.dev/pool"
TIER: Final = "headroom.dev/tier"
CONTENT: Final = "headroom.dev/content"
LEASE: Final = "headroom.dev/lease"
LEASED_AT: Final = "headroom.dev/leased-at"
NODE_ENDS: Final = "headroom.dev/node-ends"
"""A label of slots whose node ends or retires: new ones of their pool are kept apart from them."""

GANG_UID: Final = "headroom.dev/gang-uid"
"""A label of pods that hold the place of a gang's pod: whose object it is for."""

GANG: Final = "headroom.dev/gang"
"""An annotation of them: the gang's kind, namespace and name."""

ZONE: Final = "topology.kubernetes.io/zone"

PULL: Final = "pull-"
FETCH: Final = "fetch-"
"""How the names of init containers begin that pull an image and that fetch weights."""

KEEPS_FAILING: Final = 4
"""Restarts after which a start is given up: the kubelet waits 10, 20, 40 and 80 s between them."""

BROKEN: Final = frozenset(
    {"InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull"}
)
"""Reasons to wait that no waiting mends."""


def pool_of(pod: PlacedPod) -> str | None:
    """The WarmPool that a pod is a slot of, by our labels; None for any other pod."""
    labels = pod.metadata.labels
    return labels.get(POOL) if labels.get(MANAGED_BY) == HEADROOM and GANG_UID not in labels else None


def is_slot(meta: Meta, namespace: str) -> bool:
    """Whether a pod is a slot of some pool, where slots are in `namespace`."""
    return is_ours(meta, namespace) and GANG_UID not in meta.labels


def holds_for(meta: Meta, namespace: str) -> tuple[str, str] | None:
    """The gang, and the uid of its object, whose place a pod of ours holds; None for any other pod."""
    labels = meta.labels
    if not is_ours(meta, namespace) or GANG_UID not in labels:
        return None
    return meta.annotations.get(GANG, ""), labels[GANG_UID]


def is_ours(meta: Meta, namespace: str) -> bool:
    """Whether a pod is one that warm pools made, where those are in `namespace`."""
    return meta.namespace == namespace and meta.labels.get(MANAGED_BY) == HEADROOM and POOL in meta.labels


def owned_by(pod: PlacedPod, uid: str) -> bool:
    """Whether the WarmPool of this uid owns the pod."""
    return any(owner.uid == uid for owner in pod.metadata.owner_references)


def slot_seen(pod: PlacedPod, claim: str | None, *, label: str = "", units: int | None = None) -> SlotSeen:
    """What a slot's pod says of it; `claim` is the NodeClaim it was nominated to, while it is not bound, `label` that
    of nodes with the name of their NodePool, `units` what it asks for of the slots' resource."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations = meta.annotations
    images_s, weights_s = _ends(status.init_container_statuses, _since(status.conditions, "Initialized"))
    started_s = epoch_s(status.start_time)
    life_s = spec.active_deadline_seconds
    return SlotSeen(
        name=meta.name,
        uid=meta.uid,
        tier=meta.labels.get(TIER, ""),
        created_s=epoch_s(meta.creation_timestamp) or 0.0,
        content=annotations.get(CONTENT, ""),
        zone=spec.node_selector.get(ZONE),
        node=spec.node_name or None,
        claim=None if spec.node_name else claim,
        scheduled_s=_since(status.conditions, "PodScheduled") if spec.node_name else None,
        images_s=images_s,
        digests="" if images_s is None else _digests(status.init_container_statuses),
        weights_s=weights_s,
        ready_s=_since(status.conditions, "Ready"),
        unready_s=_since(status.conditions, "Ready", "False"),
        deadline_s=None if started_s is None or life_s is None else started_s + life_s,
        deleting_s=epoch_s(meta.deletion_timestamp),
        failed=_failed(pod),
        lease=annotations.get(LEASE) or None,
        leased_s=_number(annotations.get(LEASED_AT, "")),
        node_pool=spec.node_selector.get(label, ""),
        units=units,
        node_ends=NODE_ENDS in meta.labels,
    )


def epoch_s(at: datetime | None) -> float | None:
    """An instant in seconds since 1970."""
    return None if at is None else at.timestamp()


def _since(conditions: tuple[Said, ...], kind: str, status: str = "True") -> float | None:
    """Since when a condition has been true, or has had another status; None while it has not."""
    found = next((c for c in conditions if c.type == kind and c.status == status), None)
    return None if found is None else epoch_s(found.last_transition_time)


def _ends(statuses: tuple[InitStatus, ...], initialized_s: float | None) -> tuple[float | None, float | None]:
    """When the last image was there, and the last weights; a pod without init containers of a kind has them at once.

    A pod that is initialized has ended all of them well, whatever became of their statuses.
    """
    if initialized_s is not None and not statuses:
        return initialized_s, initialized_s
    if not statuses:
        return None, None
    images_s = _last([s for s in statuses if s.name.startswith(PULL)])
    fetches = [s for s in statuses if s.name.startswith(FETCH)]
    return images_s, (_last(fetches) if fetches else images_s)


def _digests(statuses: tuple[InitStatus, ...]) -> str:
    """The digests of the images that were pulled, each once; a runtime names them `sha256:…` or `image@sha256:…`."""
    pulled = {status.image_id.rpartition("@")[2] for status in statuses if status.name.startswith(PULL)}
    return "" if "" in pulled else "+".join(sorted(pulled))


def _last(statuses: list[InitStatus]) -> float | None:
    """When the last of some init containers ended well; None while one has not."""
    ends = [
        epoch_s(s.state.terminated.finished_at)
        for s in statuses
        if s.state.terminated is not None and s.state.terminated.exit_code == 0
    ]
    known = [at_s for at_s in ends if at_s is not None]
    return max(known) if statuses and len(known) == len(statuses) else None


def _failed(pod: PlacedPod) -> str | None:
    """Why a slot's start has failed, in its own words; None while it may still succeed."""
    status = pod.status
    if status.phase in {"Failed", "Succeeded"}:
        return status.message or status.reason or f"the pod is {status.phase}"
    for init in status.init_container_statuses:
        waits = init.state.waiting
        if waits is not None and waits.reason in BROKEN:
            return f"{init.name}: {waits.reason}"
        ended = init.state.terminated or init.last_state.terminated
        if init.restart_count >= KEEPS_FAILING and ended is not None and ended.exit_code != 0:
            return f"{init.name}: exit code {ended.exit_code} {init.restart_count} times, {ended.reason or 'no reason'}"
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
