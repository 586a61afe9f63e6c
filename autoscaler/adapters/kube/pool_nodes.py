"""Nodes, NodeClaims and NodePools as a warm pool sees them.

Enters: objects, the form of a slot, what is on each node. Leaves: frozen values of the core. Labels, taints and
conditions are read here and nowhere else; what a label does not say is unknown, not assumed.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from autoscaler.adapters.kube.meta import Amounts, Condition, quantity
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_objects import (
    Budget,
    Disruption,
    NodeClaim,
    NodePool,
    NodeTemplateSpec,
    Said,
)
from autoscaler.adapters.kube.pool_slots import HEADROOM, MANAGED_BY, POOL, ZONE, epoch_s
from autoscaler.core.pool.params import CapacityType, Domain, PoolTier, Sharing, SlotForm
from autoscaler.core.pool.world import ClaimSeen, NodePoolSeen, NodeSeen, Template
from autoscaler.errors import InputError

NODE_POOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ENDS: Final = "headroom.dev/capacity-ends"
"""An annotation of nodes, which a NodePool's template may set: when a capacity block ends."""

REPLICAS: Final = "nvidia.com/gpu.replicas"
PRODUCT: Final = "nvidia.com/gpu.product"
MIG: Final = "nvidia.com/mig-"
"""How a resource begins that names a MIG profile."""

AWAITED: Final = "AwaitingReconciliation"
"""The reason of a condition of which Karpenter has said nothing yet."""

VALIDATED: Final = "nvidia.com/gpu.deploy.operator-validator"
"""Set by the GPU operator on nodes that it validates; its validator's pod is ready when it has."""

GATES: Final = (
    "readiness.k8s.io/",
    "karpenter.sh/unregistered",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
"""How the keys of taints begin that keep pods off a node until it can do its work."""

LEAVING: Final = (
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/",
    "cloud.google.com/impending-node-termination",
)
"""How the keys of taints begin that say that a node will be taken."""


@dataclass(frozen=True, slots=True)
class OnNode:
    """What is on one node: units of the slot's resource asked for, foreign pods, and whether its GPUs are validated."""

    units: int = 0
    foreign: int = 0
    validator_ready: bool = False


def node_seen(
    node: Node,
    tier: PoolTier,
    form: SlotForm,
    *,
    claim: NodeClaim | None,
    startup_taints: Collection[str],
    there: OnNode,
    gated_since_s: float | None,
) -> NodeSeen:
    """One node of a tier; `gated_since_s` is since when it was seen gated, or without what slots need."""
    meta, labels = node.metadata, node.metadata.labels
    units = _units(node.status.allocatable, form.resource)
    keys = [taint.key for taint in node.spec.taints]
    gates = tuple(sorted({key for key in keys if key.startswith(GATES) or key in startup_taints}))
    ready, since_s = _ready(node.status.conditions)
    sharing, parts = _sharing(labels, form)
    leaving = meta.deletion_timestamp is not None or any(key.startswith(LEAVING) for key in keys)
    leaving = leaving or (claim is not None and claim.metadata.deletion_timestamp is not None)
    ends_s = _instant(meta.annotations.get(ENDS, ""))
    promised = None if claim is None or sharing is not Sharing.WHOLE else _units(claim.status.capacity, form.resource)
    return NodeSeen(
        name=meta.name,
        node_pool=tier.node_pool,
        sku=tier.sku,
        zone=labels.get(ZONE, ""),
        capacity_type=_capacity_type(labels, tier),
        created_s=epoch_s(meta.creation_timestamp) or 0.0,
        claim=None if claim is None else claim.metadata.name,
        ready=ready,
        units=units,
        free_units=max(0, (units or 0) - there.units),
        sharing=sharing,
        parts=parts,
        labelled=form.sharing is Sharing.WHOLE or sharing is Sharing.MIG or REPLICAS in labels,
        expected_units=promised or None,
        validated=there.validator_ready if labels.get(VALIDATED) == "true" else None,
        gating_taints=gates,
        cordoned=node.spec.unschedulable and not leaving,
        interrupted=leaving,
        drifted=claim is not None and _holds(claim.status.conditions, "Drifted") is True,
        ends_s=ends_s,
        ends_unread=meta.annotations.get(ENDS, "")[:64] if ends_s is None else "",
        gpu_ready_s=None if claim is None else _since(claim.status.conditions, "Initialized"),
        unusable_since_s=gated_since_s if ready else since_s,
        ready_s=since_s if ready else None,
        driver=_version(labels, "nvidia.com/cuda.driver-version", "nvidia.com/cuda.driver"),
        cuda=_version(labels, "nvidia.com/cuda.runtime-version", "nvidia.com/cuda.runtime"),
        foreign_pods=there.foreign,
        disk_full=any(c.type == "DiskPressure" and c.status == "True" for c in node.status.conditions),
    )


def claim_seen(claim: NodeClaim, tier: PoolTier, form: SlotForm) -> ClaimSeen:
    """One NodeClaim of a tier."""
    meta, status = claim.metadata, claim.status
    launched_s = _since(status.conditions, "Launched")
    return ClaimSeen(
        name=meta.name,
        uid=meta.uid,
        node_pool=tier.node_pool,
        created_s=epoch_s(meta.creation_timestamp) or 0.0,
        domain=domain_of(claim, tier),
        launched_s=launched_s,
        registered_s=_since(status.conditions, "Registered"),
        initialized_s=_since(status.conditions, "Initialized"),
        node=status.node_name or None,
        units=None if launched_s is None else _units(status.capacity, form.resource) or 0,
        deleting_s=epoch_s(meta.deletion_timestamp),
        refused=_refused(status.conditions),
    )


def domain_of(claim: NodeClaim, tier: PoolTier) -> Domain:
    """Where a claim asks for capacity: the one zone that it was given or asks for, empty where it leaves it open."""
    labels = claim.metadata.labels
    asked = next((r.values for r in claim.spec.requirements if r.key == ZONE and r.operator == "In"), ())
    zone = labels.get(ZONE) or (asked[0] if len(asked) == 1 else "")
    return Domain(tier.sku, zone, _capacity_type(labels, tier))


def _refused(conditions: tuple[Said, ...]) -> str:
    """Why a claim is not launched. Karpenter sets Launched to Unknown with the cause, and tries for five minutes."""
    told = _told(conditions, "Launched")
    return "" if told is None or told.status == "True" or told.reason in {"", AWAITED} else told.message or told.reason


def is_launched(claim: NodeClaim) -> bool:
    """Whether there was ever an instance behind a claim."""
    return _holds(claim.status.conditions, "Launched") is True


def node_pool_seen(pool: NodePool, form: SlotForm, owner: str) -> NodePoolSeen:
    """One NodePool as the WarmPool `owner` sees it; its limits and its use in physical GPUs of the slots' resource."""
    limits, used = pool.spec.limits, pool.status.resources
    ready, joins = (_told(pool.status.conditions, kind) for kind in ("Ready", "NodeRegistrationHealthy"))
    most = _number(limits, form.resource)
    nodes = _number(limits, "nodes")
    return NodePoolSeen(
        name=pool.metadata.name,
        ready=None if ready is None or ready.status == "Unknown" else ready.status == "True",
        problem="" if ready is None or ready.status == "True" else ready.message or ready.reason,
        unregistered="" if joins is None or joins.status != "False" else joins.message or joins.reason or joins.type,
        limit_gpus=None if most is None else int(most / form.parts),
        limit_nodes=None if nodes is None else int(nodes),
        used_gpus=(_number(used, form.resource) or 0.0) / form.parts,
        used_nodes=int(_number(used, "nodes") or 0),
        scarce=tuple(_scarce(limits, used, form)),
        drifted_budget=_drifted_budget(pool.spec.disruption.budgets),
        template=_template(pool.spec.template.spec),
        consolidates=_consolidates(pool.spec.disruption),
        expires=pool.spec.template.spec.expire_after.removeprefix("Never"),
        static_nodes=pool.spec.replicas,
        deleting=pool.metadata.deletion_timestamp is not None,
        ours=pool.metadata.labels.get(MANAGED_BY) == HEADROOM and pool.metadata.labels.get(POOL) == owner,
    )


def _scarce(limits: Amounts, used: Amounts, form: SlotForm) -> Iterator[str]:
    """What is left of other limits where that is less than a node of the NodePool has, as they are on the average: a
    NodePool says no size of its next node."""
    nodes = _number(used, "nodes") or 0.0
    for name in sorted(limits):
        most, has = _number(limits, name), _number(used, name)
        if name in {form.resource, "nodes"} or most is None or not has or not nodes:
            continue
        if most - has < has / nodes:
            yield f"{max(0.0, 1.0 - has / most):.0%} of {limits[name]} {name}"


def _drifted_budget(budgets: tuple[Budget, ...]) -> int | None:
    """The nodes that drift may replace at once at any time; a share of the nodes counts as one at least."""
    held = [b.nodes for b in budgets if (b.reasons is None or "Drifted" in b.reasons) and b.schedule is None]
    if not held:
        return None
    return min(_nodes(nodes) for nodes in held)


def _template(spec: NodeTemplateSpec) -> Template:
    ref, asked = spec.node_class_ref, {r.key: r.values for r in spec.requirements if r.operator == "In"}
    node_class = f"{ref.group}/{ref.kind}/{ref.name}" if ref.name else ""
    return Template(asked.get(ZONE, ()), asked.get(CAPACITY_TYPE, ()), asked.get(INSTANCE_TYPE, ()), node_class)


def _consolidates(disruption: Disruption) -> str:
    """The policy by which nodes that are not empty are taken away; empty where none is, or a budget of 0 holds it."""
    held = any(
        str(b.nodes) in {"0", "0%"} and b.schedule is None and (b.reasons is None or "Underutilized" in b.reasons)
        for b in disruption.budgets
    )
    stays = held or disruption.consolidate_after == "Never" or disruption.consolidation_policy == "WhenEmpty"
    return "" if stays else disruption.consolidation_policy


def _nodes(nodes: str | int) -> int:
    text = str(nodes).removesuffix("%")
    number = int(text) if text.isascii() and text.isdecimal() else 1
    return min(number, 1) if str(nodes).endswith("%") else number


def _sharing(labels: Mapping[str, str], form: SlotForm) -> tuple[Sharing, int]:
    """How a node's units of the slot's resource divide its GPUs; a MIG profile's share is the form's to say."""
    if form.resource.startswith(MIG) or "-MIG-" in labels.get(PRODUCT, ""):
        return Sharing.MIG, form.parts
    replicas = labels.get(REPLICAS, "1")
    number = int(replicas) if replicas.isascii() and replicas.isdecimal() else 1
    return (Sharing.TIME_SLICING, number) if number > 1 else (Sharing.WHOLE, 1)


def _capacity_type(labels: Mapping[str, str], tier: PoolTier) -> CapacityType:
    said = labels.get(CAPACITY_TYPE)
    return next((each for each in CapacityType if each.value == said), tier.capacity_type)


def _version(labels: Mapping[str, str], *prefixes: str) -> tuple[int, ...] | None:
    """A version as feature discovery labels it: whole, or by its parts, under its newer or its older name."""
    for prefix in prefixes:
        whole = labels.get(f"{prefix}.full")
        texts = whole.split(".") if whole else []
        if not texts:
            parts = (labels.get(f"{prefix}.{part}") for part in ("major", "minor", "revision", "rev"))
            texts = [text for text in parts if text]
        if texts and all(text.isascii() and text.isdecimal() for text in texts):
            return tuple(int(text) for text in texts)
    return None


def _ready(conditions: tuple[Condition, ...]) -> tuple[bool, float | None]:
    found = next((c for c in conditions if c.type == "Ready"), None)
    if found is None:
        return False, None
    return found.status == "True", epoch_s(found.last_transition_time)


def _told(conditions: tuple[Said, ...], kind: str) -> Said | None:
    return next((c for c in conditions if c.type == kind), None)


def _holds(conditions: tuple[Said, ...], kind: str) -> bool | None:
    found = next((c.status for c in conditions if c.type == kind), "Unknown")
    return None if found == "Unknown" else found == "True"


def _since(conditions: tuple[Said, ...], kind: str) -> float | None:
    found = next((c for c in conditions if c.type == kind and c.status == "True"), None)
    return None if found is None else epoch_s(found.last_transition_time)


def _instant(text: str) -> float | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else at.timestamp()


def _units(amounts: Amounts, resource: str) -> int | None:
    number = _number(amounts, resource)
    return None if number is None else int(number)


def _number(amounts: Amounts, name: str) -> float | None:
    try:
        return quantity(amounts[name]) if name in amounts else None
    except InputError:
        return None
