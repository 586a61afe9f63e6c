"""What labels, taints and conditions say of nodes, claims and NodePools; what they do not say is not known."""

from typing import Any

import pytest

from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_nodes import OnNode, claim_seen, node_pool_seen, node_seen
from autoscaler.adapters.kube.pool_objects import NodeClaim
from autoscaler.core.pool.params import CapacityType, Domain, Sharing, SlotForm
from autoscaler.core.pool.world import NodeSeen, Template
from tests.kube.pools import FORM, T0, TIER, at, claim, node, node_pool


def seen(
    given: Node, *, of: NodeClaim | None = None, form: SlotForm = FORM, there: OnNode | None = None, **more: Any
) -> NodeSeen:
    there = there or OnNode()
    return node_seen(
        given, TIER, form, claim=of, startup_taints=more.get("startup", ()), there=there,
        gated_since_s=more.get("gated_since_s"),
    )  # fmt: skip


def test_a_node_is_what_its_tier_and_its_labels_say() -> None:
    found = seen(node(labels={"karpenter.sh/capacity-type": "spot"}), there=OnNode(units=3, foreign=1))
    assert (found.name, found.node_pool, found.sku, found.zone) == ("n0", "gpu", "h100", "a")
    assert (found.units, found.free_units, found.foreign_pods) == (4, 1, 1)
    assert found.capacity_type is CapacityType.SPOT
    assert found.ready
    assert seen(node()).capacity_type is CapacityType.ON_DEMAND, "a label that is missing leaves the tier's word"


def test_gpus_that_no_plugin_has_registered_are_unknown_and_not_zero() -> None:
    assert seen(node(gpus=None)).units is None
    assert seen(node(gpus="0")).units == 0


@pytest.mark.parametrize("key", ["readiness.k8s.io/gpu", "karpenter.sh/unregistered", "example.com/starting"])
def test_a_startup_or_readiness_taint_gates_the_node(key: str) -> None:
    found = seen(node(spec={"taints": [{"key": key}]}), startup={"example.com/starting"}, gated_since_s=T0 + 9)
    assert found.gating_taints == (key,)
    assert found.unusable_since_s == T0 + 9


def test_until_feature_discovery_has_labelled_it_nobody_knows_how_a_node_is_divided() -> None:
    slices, label = SlotForm(sharing=Sharing.TIME_SLICING, parts=4), {"nvidia.com/gpu.replicas": "4"}
    assert not seen(node(), form=slices).labelled
    product = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert not seen(node(labels=product), form=slices).labelled, "its NodePool may name its GPUs before"
    told = seen(node(labels=label), form=slices)
    assert (told.labelled, told.sharing, told.parts) == (True, Sharing.TIME_SLICING, 4)
    assert seen(node()).labelled, "slots of whole GPUs need no label"
    assert seen(node(), form=SlotForm("nvidia.com/mig-1g.10gb", sharing=Sharing.MIG, parts=7)).labelled


def test_a_node_that_is_taken_away_is_interrupted_and_not_merely_cordoned() -> None:
    disrupted = {"unschedulable": True, "taints": [{"key": "karpenter.sh/disrupted"}]}
    assert seen(node(spec=disrupted)).interrupted
    assert not seen(node(spec=disrupted)).cordoned
    assert seen(node(), of=claim(metadata={"deletionTimestamp": at(4)})).interrupted
    assert seen(node(spec={"unschedulable": True})).cordoned


def test_a_node_that_is_not_ready_says_since_when() -> None:
    status = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at(7)}]}
    found = seen(node(status=status))
    assert (found.ready, found.unusable_since_s, found.ready_s) == (False, T0 + 7, None)
    assert seen(node()).ready_s == T0 + 1


@pytest.mark.parametrize(("status", "is_full"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_that_is_short_of_disk_says_so(status: str, is_full: bool) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(1)}
    pressure = {"type": "DiskPressure", "status": status, "lastTransitionTime": at(7)}
    assert seen(node(status={"conditions": [ready, pressure]})).disk_full is is_full
    assert not seen(node()).disk_full, "who says nothing of it has not run out"


FORMS: dict[str, tuple[dict[str, str], SlotForm, tuple[Sharing, int]]] = {
    "whole": ({}, FORM, (Sharing.WHOLE, 1)),
    "time-sliced": ({"nvidia.com/gpu.replicas": "4"}, FORM, (Sharing.TIME_SLICING, 4)),
    "a MIG resource": (
        {}, SlotForm("nvidia.com/mig-3g.40gb", 1, Sharing.MIG, 2), (Sharing.MIG, 2),
    ),
    "MIG under the plain name": (
        {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, SlotForm(parts=7, sharing=Sharing.MIG),
        (Sharing.MIG, 7),
    ),
    "a label that is no number": ({"nvidia.com/gpu.replicas": "many"}, FORM, (Sharing.WHOLE, 1)),
}  # fmt: skip


@pytest.mark.parametrize(("labels", "form", "expected"), FORMS.values(), ids=FORMS)
def test_how_gpus_are_divided_is_read_off_feature_discovery(
    labels: dict[str, str], form: SlotForm, expected: tuple[Sharing, int]
) -> None:
    found = seen(node(labels=labels), form=form)
    assert (found.sharing, found.parts) == expected


def test_versions_are_read_whole_or_by_their_parts_and_else_unknown() -> None:
    new = {"nvidia.com/cuda.driver-version.full": "580.65.06", "nvidia.com/cuda.runtime-version.full": "13.0"}
    old = {"nvidia.com/cuda.driver.major": "535", "nvidia.com/cuda.driver.minor": "129"}
    assert (seen(node(labels=new)).driver, seen(node(labels=new)).cuda) == ((580, 65, 6), (13, 0))
    assert (seen(node(labels=old)).driver, seen(node(labels=old)).cuda) == ((535, 129), None)
    assert seen(node(labels={"nvidia.com/cuda.driver-version.full": "new"})).driver is None


def test_validation_counts_where_the_operator_validates_and_nowhere_else() -> None:
    label = {"nvidia.com/gpu.deploy.operator-validator": "true"}
    assert seen(node()).validated is None
    assert seen(node(labels=label)).validated is False
    assert seen(node(labels=label), there=OnNode(validator_ready=True)).validated is True


def test_a_capacity_block_ends_when_its_nodes_say() -> None:
    noted = {"annotations": {"headroom.dev/capacity-ends": at(30)}}
    assert seen(node(metadata=noted)).ends_s == T0 + 30
    assert seen(node(metadata={"annotations": {"headroom.dev/capacity-ends": "soon"}})).ends_s is None


def test_a_claim_tells_its_stages_its_domain_and_what_the_provider_promised() -> None:
    whole = claim(
        conditions=("Launched", "Registered", "Initialized", "Drifted"), labels={"topology.kubernetes.io/zone": "b"},
        status={"nodeName": "n0"},
    )  # fmt: skip
    found = claim_seen(whole, TIER, FORM)
    assert found.domain == Domain("h100", "b", CapacityType.ON_DEMAND)
    assert claim_seen(claim(), TIER, FORM).units is None, "before its launch nobody knows"
    launched = claim(status={"conditions": [{"type": "Launched", "status": "True"}], "capacity": {}})
    assert claim_seen(launched, TIER, FORM).launched_s is None, "a condition without a time tells none"
    assert seen(node(), of=claim(conditions=("Drifted",))).drifted


def test_a_claim_that_leaves_its_zone_open_has_none() -> None:
    one = {"requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["c"]}]}
    two = {"requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b", "c"]}]}
    assert claim_seen(claim(spec=one), TIER, FORM).domain.zone == "c"
    assert claim_seen(claim(spec=two), TIER, FORM).domain.zone == ""


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"status": "False", "reason": "RegistrationFailed", "message": "no node joined"}, "no node joined"),
        ({"status": "False", "reason": "RegistrationFailed"}, "RegistrationFailed"),
        ({"status": "False"}, "NodeRegistrationHealthy"),
        ({"status": "True"}, ""),
        ({"status": "Unknown", "message": "not known yet"}, ""),
        (None, ""),
    ],
)
def test_a_node_pool_tells_that_its_nodes_do_not_join(condition: dict[str, str] | None, words: str) -> None:
    conditions = [] if condition is None else [{"type": "NodeRegistrationHealthy", **condition}]
    assert node_pool_seen(node_pool(status={"conditions": conditions}), FORM, "chat").unregistered == words


def test_a_node_pool_tells_its_limits_its_use_and_why_it_is_not_ready() -> None:
    pool = node_pool(
        spec={"limits": {"nvidia.com/gpu": "16", "nodes": "3"}},
        status={
            "resources": {"nvidia.com/gpu": "8", "nodes": "1"},
            "conditions": [{"type": "Ready", "status": "False", "reason": "X", "message": "NodeClass is missing"}],
        },
    )
    found = node_pool_seen(pool, FORM, "chat")
    assert (found.limit_gpus, found.limit_nodes, found.used_gpus, found.used_nodes) == (16, 3, 8.0, 1)
    assert (found.ready, found.problem) == (False, "NodeClass is missing")
    assert not found.ours
    assert found.static_nodes is None
    assert node_pool_seen(node_pool(spec={"replicas": 2}), FORM, "chat").static_nodes == 2
    halves = SlotForm(sharing=Sharing.TIME_SLICING, parts=2)
    assert node_pool_seen(pool, halves, "chat").limit_gpus == 8, "limits count units, and are told in GPUs"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"status": "Unknown", "reason": "LaunchFailed", "message": "not allowed"}, "not allowed"),
        ({"status": "Unknown", "reason": "AwaitingReconciliation", "message": "object is awaiting"}, ""),
        ({"status": "True", "reason": "Launched", "message": ""}, ""),
        ({"status": "False", "reason": "LaunchFailed"}, "LaunchFailed"),
    ],
)
def test_a_claim_tells_why_it_is_not_launched(condition: dict[str, str], words: str) -> None:
    given = claim(status={"conditions": [{"type": "Launched", **condition}]})
    assert claim_seen(given, TIER, FORM).refused == words


@pytest.mark.parametrize(
    ("text", "ends_s", "unread"),
    [
        ("2023-11-14T22:13:20Z", T0, ""),
        ("2023-11-14T23:13:20+01:00", T0, ""),
        ("2023-11-14T22:13:20", None, "2023-11-14T22:13:20"),
        ("tomorrow", None, "tomorrow"),
        ("", None, ""),
    ],
)
def test_the_end_of_a_capacity_block_is_read_with_its_offset_or_told(
    text: str, ends_s: float | None, unread: str
) -> None:
    """Without one it was taken for the time of wherever the controller runs."""
    found = seen(node(metadata={"annotations": {"headroom.dev/capacity-ends": text}}))
    assert (found.ends_s, found.ends_unread) == (ends_s, unread)


DISRUPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing said": ({}, ""),
    "when empty": ({"consolidationPolicy": "WhenEmpty"}, ""),
    "the usual": ({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}, "Underutilized"),
    "a later word": ({"consolidationPolicy": "Balanced"}, "Balanced"),
    "never": ({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never"}, ""),
    "held": (
        {"consolidationPolicy": "Balanced", "budgets": [{"nodes": "0", "reasons": ["Drifted", "Underutilized"]}]}, "",
    ),
    "held at night": (
        {"consolidationPolicy": "Balanced", "budgets": [{"nodes": "0", "schedule": "@daily", "duration": "8h"}]},
        "Balanced",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("disruption", "policy"), DISRUPTIONS.values(), ids=DISRUPTIONS)
def test_a_node_pool_tells_whether_nodes_that_are_not_empty_are_taken_away(
    disruption: dict[str, Any], policy: str
) -> None:
    found = node_pool_seen(node_pool(spec={"disruption": disruption}), FORM, "chat").consolidates
    assert found.endswith(policy)
    assert bool(found) == bool(policy)


def test_a_node_pool_tells_what_its_nodes_are_and_when_they_end() -> None:
    zone, kind = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
    requirements = [
        {"key": zone, "operator": "In", "values": ["a", "b"]}, {"key": kind, "operator": "NotIn", "values": ["x"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
    ]  # fmt: skip
    ref = {"group": "g", "kind": "Kind", "name": "gpu"}
    body = {"requirements": requirements, "nodeClassRef": ref, "expireAfter": "720h"}
    found = node_pool_seen(node_pool(spec={"template": {"spec": body}}), FORM, "chat")
    assert found.template == Template(("a", "b"), ("spot",), (), "g/Kind/gpu")
    assert found.expires == "720h"
    never = node_pool(spec={"template": {"spec": {"expireAfter": "Never"}}})
    assert node_pool_seen(never, FORM, "chat").expires == node_pool_seen(node_pool(), FORM, "chat").expires == ""


def test_what_is_left_of_other_limits_is_told_where_it_is_less_than_a_node_has() -> None:
    """Karpenter launches nothing that one of the limits does not leave room for, of cores as of GPUs."""
    used = {"resources": {"nvidia.com/gpu": "40", "nodes": "5", "cpu": "960", "memory": "5000Gi"}}
    limits = {"nvidia.com/gpu": "40", "cpu": "1000", "memory": "8000Gi"}
    assert node_pool_seen(node_pool(spec={"limits": limits}, status=used), FORM, "chat").scarce == ("4% of 1000 cpu",)
    roomy = {"cpu": "1200", "memory": "8000Gi"}
    assert node_pool_seen(node_pool(spec={"limits": roomy}, status=used), FORM, "chat").scarce == ()
    assert node_pool_seen(node_pool(spec={"limits": {"cpu": "1"}}), FORM, "chat").scarce == (), "no node, no size"


BUDGETS: dict[str, tuple[list[dict[str, Any]], int | None]] = {
    "none": ([], None),
    "held": ([{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "10%", "reasons": ["Empty"]}], 0),
    "of another reason": ([{"nodes": "0", "reasons": ["Empty"]}], None),
    "of every reason": ([{"nodes": "5"}], 5),
    "a share": ([{"nodes": "10%"}], 1),
    "by schedule only": ([{"nodes": "0", "schedule": "@daily", "duration": "1h"}], None),
}


@pytest.mark.parametrize(("budgets", "expected"), BUDGETS.values(), ids=BUDGETS)
def test_what_drift_may_replace_is_the_least_of_what_always_holds(
    budgets: list[dict[str, Any]], expected: int | None
) -> None:
    pool = node_pool(spec={"disruption": {"budgets": budgets}})
    assert node_pool_seen(pool, FORM, "chat").drifted_budget == expected
