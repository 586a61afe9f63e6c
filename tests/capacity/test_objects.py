"""What we write for Karpenter: within every version of its v1 API, and nothing that keeps a node for good.

The table is karpenter.sh/v1's NodePool as Karpenter 1.0.0 defines it (kubernetes-sigs/karpenter:
pkg/apis/crds/karpenter.sh_nodepools.yaml at v1.0.0); 1.14.0 has all of it, unchanged, and more.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.pool_node_pool import safe_fields, whole
from autoscaler.adapters.kube.pool_nodes import claim_seen, node_pool_seen
from autoscaler.adapters.kube.pool_objects import NodeClaim, NodePool
from autoscaler.adapters.kube.pool_slot_pod import slot_pod
from autoscaler.core.pool.intents import CreateNodePool, CreateSlot, PatchNodePool
from autoscaler.core.pool.params import CapacityType, PoolTier, SlotForm
from autoscaler.core.pool.reasons import PoolReason
from tests.conftest import ROOT
from tests.kube.pools import MAKING, errand

FIELDS: Final = frozenset(
    {
        "disruption.budgets[].duration", "disruption.budgets[].nodes", "disruption.budgets[].reasons[]",
        "disruption.budgets[].schedule", "disruption.consolidateAfter", "disruption.consolidationPolicy", "limits.*",
        "template.metadata.annotations.*", "template.metadata.labels.*", "template.spec.expireAfter",
        "template.spec.nodeClassRef.group", "template.spec.nodeClassRef.kind", "template.spec.nodeClassRef.name",
        "template.spec.requirements[].key", "template.spec.requirements[].minValues",
        "template.spec.requirements[].operator", "template.spec.requirements[].values[]",
        "template.spec.taints[].effect", "template.spec.taints[].key", "template.spec.taints[].value",
        "template.spec.startupTaints[].effect", "template.spec.startupTaints[].key",
        "template.spec.startupTaints[].value", "template.spec.terminationGracePeriod", "weight",
    }
)  # fmt: skip
REQUIRED: Final = frozenset(
    {
        "disruption.consolidateAfter", "template.spec.nodeClassRef.group", "template.spec.nodeClassRef.kind",
        "template.spec.nodeClassRef.name",
    }
)  # fmt: skip
REASONS: Final = {"Underutilized", "Empty", "Drifted"}
POLICIES: Final = {"WhenEmpty", "WhenEmptyOrUnderutilized"}
"""Without Balanced, which came later."""

FREE_FORM: Final = re.compile(r"((?:limits|annotations|labels)\.).*")
FORM: Final = SlotForm(count=8)
MANAGED: Final[dict[str, Any]] = {
    "managed": True,
    "tiers": [
        {"name": "first", "shape": "h100", "zones": ["a", "b"], "instanceTypes": ["p5.48xlarge", "p5e.48xlarge"],
         "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}},
    ],
}  # fmt: skip
MAKE: Final = CreateNodePool("chat-first", "first", CapacityType.SPOT, 16, 2, PoolReason.NODE_POOL_MISSING)


def made() -> dict[str, Any]:
    """The NodePool of a tier with everything that a tier can say."""
    return whole(MAKE, "chat", errand(**MANAGED).spec, FORM)


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Where a body has values; keys that are free to choose as an asterisk."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, f"{at}[]")
    else:
        yield FREE_FORM.sub(r"\1*", at)


def test_a_node_pool_that_is_made_has_no_field_that_the_first_version_lacks_and_all_that_it_requires() -> None:
    found = set(paths(made()["spec"]))
    assert found <= FIELDS
    assert found >= REQUIRED
    assert "replicas" not in made()["spec"]


def test_an_edit_of_one_stays_within_it_too() -> None:
    edit = safe_fields(PatchNodePool("chat-first", 8, 1, 0, PoolReason.LIMITS), FORM)
    assert set(paths(edit["spec"])) <= FIELDS


def test_policy_and_reasons_are_words_that_every_version_knows() -> None:
    disruption = made()["spec"]["disruption"]
    assert disruption["consolidationPolicy"] in POLICIES
    assert {reason for budget in disruption["budgets"] for reason in budget["reasons"]} <= REASONS


SAID: Final[dict[str, Any]] = {"limits": {"nvidia.com/gpu": "16"}, "disruption": {"budgets": [{"nodes": "0"}]}}
POOLS: Final[dict[str, dict[str, Any]]] = {
    "1.0": {"spec": SAID, "status": {"resources": {"nvidia.com/gpu": "8", "nodes": "1"}}},
    "1.14": {
        "spec": {**SAID, "disruption": {**SAID["disruption"], "consolidationPolicy": "Balanced"}, "replicas": 2},
        "status": {
            "resources": {"nvidia.com/gpu": "8", "nodes": "1"}, "nodes": 1, "nodeClassObservedGeneration": 3,
            "conditions": [{"type": "NodeRegistrationHealthy", "status": "True"}],
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("body", POOLS.values(), ids=POOLS)
def test_a_node_pool_is_read_alike_whatever_later_versions_added(body: dict[str, Any]) -> None:
    seen = node_pool_seen(msgspec.convert(body, NodePool, strict=False), FORM, "chat")
    assert (seen.limit_gpus, seen.used_gpus, seen.used_nodes, seen.drifted_budget) == (16, 8.0, 1, 0)
    assert seen.ready is None, "it has no word on it yet: neither ready nor faulty"


def test_a_claim_that_says_nothing_yet_is_not_launched_and_its_gpus_are_unknown() -> None:
    tier = PoolTier("first", "gpu", "h100", CapacityType.SPOT)
    seen = claim_seen(msgspec.convert({"metadata": {"name": "gpu-a"}}, NodeClaim, strict=False), tier, FORM)
    assert (seen.launched_s, seen.registered_s, seen.initialized_s, seen.units) == (None, None, None, None)


def test_nothing_that_we_write_keeps_karpenter_off_a_node() -> None:
    """Left over after a crash, such an annotation would keep an idle node for good."""
    slot = slot_pod(CreateSlot("chat-0", "first", "gpu", None, "c1", 3600.0, PoolReason.REFILL), errand(), MAKING, ())
    assert "do-not-disrupt" not in json.dumps([slot, made()])
    sources = [path for path in (ROOT / "autoscaler").rglob("*.py") if "do-not-disrupt" in path.read_text()]
    assert sources == []
