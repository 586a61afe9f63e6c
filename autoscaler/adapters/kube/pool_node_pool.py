"""The NodePool of a tier that Headroom manages, as it is applied.

Enters: a WarmPool and one of its tiers. Leaves: the whole object for the day on which it is made, and the fields that
may be edited afterwards. The template is written once: another template, or narrower requirements, would drift every
healthy node (kubernetes-sigs/karpenter:pkg/controllers/nodeclaim/disruption/drift.go).
"""

from typing import Any, Final

from autoscaler.adapters.kube.pool_nodes import CAPACITY_TYPE, INSTANCE_TYPE
from autoscaler.adapters.kube.pool_slots import HEADROOM, MANAGED_BY, POOL, TIER, ZONE
from autoscaler.api.warm_pool import WarmPoolSpec
from autoscaler.core.pool.intents import CreateNodePool, PatchNodePool
from autoscaler.core.pool.params import SlotForm

API_VERSION: Final = "karpenter.sh/v1"

EMPTY_FOR: Final = "15m"
"""An empty node goes after so long: with the slots' own deadlines it is what shrinks a pool that nobody minds."""

DRAIN_FOR: Final = "1h"
HEAVIEST: Final = 100


def whole(order: CreateNodePool, pool: str, spec: WarmPoolSpec, form: SlotForm) -> dict[str, Any]:
    """The NodePool as it is made."""
    at = next(at for at, tier in enumerate(spec.tiers) if tier.name == order.tier)
    tier = spec.tiers[at]
    assert tier.node_class_ref is not None
    ref = tier.node_class_ref
    labels = {POOL: pool, TIER: tier.name}
    requirements = [
        {"key": key, "operator": "In", "values": list(values)}
        for key, values in (
            (CAPACITY_TYPE, (order.capacity_type.value,)), (INSTANCE_TYPE, tier.instance_types), (ZONE, tier.zones),
        )
        if values
    ]  # fmt: skip
    made = _safe(order.name, order.limit_gpus, order.limit_nodes, 0, form)
    made["metadata"]["labels"] = {MANAGED_BY: HEADROOM, POOL: pool}
    made["spec"] |= {
        "weight": tier.weight or HEAVIEST - at,
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "nodeClassRef": {"group": ref.group, "kind": ref.kind, "name": ref.name},
                "requirements": requirements,
                "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                "expireAfter": "Never",
                "terminationGracePeriod": DRAIN_FOR,
            },
        },
    }
    made["spec"]["disruption"] |= {"consolidationPolicy": "WhenEmpty", "consolidateAfter": EMPTY_FOR}
    return made


def safe_fields(patch: PatchNodePool, form: SlotForm) -> dict[str, Any]:
    """The fields that are edited at run time, and no others."""
    return _safe(patch.name, patch.limit_gpus, patch.limit_nodes, patch.drifted_budget, form)


def lifted(patch: PatchNodePool, form: SlotForm) -> dict[str, Any] | None:
    """Limits that go, as a merge patch; None where none does. What another manager has set, as whoever made the
    NodePool has, an applied object that leaves it out would leave as it is."""
    gone = {form.resource: patch.lifts_gpus, "nodes": patch.lifts_nodes}
    limits = {name: None for name, goes in gone.items() if goes}
    return {"spec": {"limits": limits}} if limits else None


def _safe(name: str, gpus: int | None, nodes: int | None, drifted: int, form: SlotForm) -> dict[str, Any]:
    limits = {} if gpus is None else {form.resource: str(gpus * form.parts)}
    limits |= {} if nodes is None else {"nodes": str(nodes)}
    budgets = [{"nodes": str(drifted), "reasons": ["Drifted"]}, {"nodes": "10%", "reasons": ["Empty"]}]
    return {
        "apiVersion": API_VERSION,
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"limits": limits, "disruption": {"budgets": budgets}},
    }
