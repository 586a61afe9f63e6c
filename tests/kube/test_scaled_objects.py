"""ScaledObjects that ask Headroom: whether they mean us, what is read of them, and who is heard before whom."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from autoscaler.adapters.kube.discovery import Discovery, Resolution
from autoscaler.adapters.kube.meta import Meta, Owner
from autoscaler.adapters.kube.scaling import (
    Hpa,
    HpaSpec,
    ObjectRef,
    ScaledObject,
    ScalingPolicyObject,
    Target,
    TargetMeta,
)
from autoscaler.api.claims import Block, Kind, Reject, Way

DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet")
US = "headroom-keda.headroom-system:8090"
CHAT = "prod/chat"


def books() -> Discovery:
    known = Discovery((DEPLOYMENT, STATEFUL_SET), frozenset({US}))
    known.target(DEPLOYMENT, CHAT, Target(TargetMeta("chat", "prod", "t1", "1")))
    return known


def scaled(
    name: str = "chat",
    *,
    made: int = 1,
    address: str = US,
    kind: str = "external",
    metadata: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    trigger: dict[str, object] | None = None,
    others: tuple[dict[str, object], ...] = (),
    **spec: object,
) -> ScaledObject:
    """A ScaledObject as the API server sends it, with one trigger on an address and what `spec` says."""
    own = {"type": kind, "metadata": {"scalerAddress": address} | (metadata or {})} | (trigger or {})
    content = {
        "metadata": {
            "name": name, "namespace": "prod", "uid": f"so-{name}", "generation": 3,
            "creationTimestamp": datetime(2026, 1, made, tzinfo=UTC).isoformat(), "annotations": annotations or {},
        },
        "spec": {"scaleTargetRef": {"name": "chat"}, "triggers": [own, *others]} | spec,
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(content), type=ScaledObject)


def policy(name: str) -> ScalingPolicyObject:
    return ScalingPolicyObject(Meta(name, "prod", f"p-{name}"), msgspec.Raw(b'{"targetRef": {"name": "chat"}}'))


def resolved(*objects: ScaledObject) -> Resolution:
    known = books()
    for found in objects:
        known.scaled_object(found.metadata.key, found)
    return known.resolve(CHAT)


def test_a_scaledobject_whose_trigger_points_here_is_a_way_in_with_its_own_bounds() -> None:
    found = resolved(scaled(minReplicaCount=2, maxReplicaCount=7, metadata={"tier": "critical", "sloTtftS": "2"}))
    claim = found.claim
    assert claim is not None
    assert (claim.way, claim.scaled_object, claim.policy, claim.generation) == (Way.SCALED_OBJECT, "chat", None, 3)
    assert (claim.ref.kind, claim.ref.workload, claim.obstacle) == ("Deployment", CHAT, None)
    assert (claim.spec.min_replicas, claim.spec.max_replicas, claim.spec.slo.ttft_s) == (2, 7, 2)


@pytest.mark.parametrize(
    ("spec", "bounds"),
    [
        pytest.param({}, (0, 100), id="KEDA's defaults"),
        pytest.param({"minReplicaCount": 4}, (4, 100), id="a floor"),
        pytest.param({"minReplicaCount": 4, "idleReplicaCount": 0}, (0, 100), id="an idle count below the floor"),
    ],
)
def test_bounds_are_the_scaledobjects(spec: dict[str, Any], bounds: tuple[int, int]) -> None:
    claim = resolved(scaled(**spec)).claim
    assert claim is not None
    assert (claim.spec.min_replicas, claim.spec.max_replicas) == bounds


@pytest.mark.parametrize(
    ("version", "kind", "block", "remarked"),
    [
        pytest.param("example.com/v1", "NimService", None, True, id="an operator, which may leave the replicas alone"),
        pytest.param(
            "serving.kserve.io/v1beta1", "InferenceService", Block.OWNER, False, id="one that is known not to"
        ),
    ],
)
def test_where_keda_writes_an_owner_stops_the_number_only_if_it_is_known_to_write_too(
    version: str, kind: str, block: Block | None, remarked: bool
) -> None:
    known = books()
    owner = Owner(version, kind, "llama", "u", controller=True)
    known.target(DEPLOYMENT, CHAT, Target(TargetMeta("chat", "prod", "t1", "1", owner_references=(owner,))))
    known.scaled_object("prod/chat", scaled())
    claim = known.resolve(CHAT).claim
    assert claim is not None
    assert (claim.obstacle.block if claim.obstacle else None) == block
    assert any(f"{kind} llama controls it" in remark for remark in claim.remarks) == remarked


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(scaled(kind="external-push"), id="external-push"),
        pytest.param(scaled(address=f"dns:///{US}"), id="with the resolver's scheme"),
        pytest.param(
            scaled(others=({"type": "cpu", "metadata": {"value": "60"}},), trigger={"metricType": "AverageValue"}),
            id="beside another trigger",
        ),
    ],
)
def test_it_means_us_however_it_is_spelled(found: ScaledObject) -> None:
    assert resolved(found).claim is not None


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(scaled(address="other-scaler.prod:6000"), id="another address"),
        pytest.param(scaled(address=""), id="no address"),
        pytest.param(scaled(kind="prometheus"), id="another type"),
    ],
)
def test_another_ones_scaledobject_is_an_obstacle_and_no_way_in(found: ScaledObject) -> None:
    known = books()
    known.policy("prod/p", policy("p"))
    assert known.scaled_object("prod/chat", found) == {CHAT}
    claim = known.resolve(CHAT).claim
    assert claim is not None
    assert (claim.way, claim.obstacle and claim.obstacle.block) == (Way.SCALING_POLICY, Block.SCALED_OBJECT)


def test_while_keda_is_not_answered_no_scaledobject_means_us() -> None:
    known = Discovery((DEPLOYMENT,))
    known.target(DEPLOYMENT, CHAT, Target(TargetMeta("chat", "prod", "t1", "1")))
    known.scaled_object("prod/chat", scaled())
    assert known.resolve(CHAT) == Resolution()


def test_a_scaledobject_is_heard_before_a_policy_and_that_before_an_annotation_and_losers_are_told() -> None:
    known = books()
    asks = {"headroom.dev/scale": "true"}
    known.target(DEPLOYMENT, CHAT, Target(TargetMeta("chat", "prod", "t1", "1", annotations=asks)))
    known.policy("prod/p", policy("p"))
    known.scaled_object("prod/so", scaled("so", minReplicaCount=1))
    found = known.resolve(CHAT)

    assert found.claim is not None
    assert found.claim.way is Way.SCALED_OBJECT
    assert [(r.kind, r.name, r.reject) for r in found.rejections] == [
        ("ScalingPolicy", "p", Reject.OUTRANKED),
        ("Deployment", "chat", Reject.OUTRANKED),
    ]
    assert {r.message for r in found.rejections} == {"ScaledObject so claims prod/chat already"}
    assert found.claim.remarks == (
        "ScalingPolicy p asks too and is not heard",
        "annotation Deployment asks too and is not heard",
    )


def test_of_two_scaledobjects_the_older_one_is_heard() -> None:
    found = resolved(scaled("young", made=9), scaled("old", made=2))
    assert found.claim is not None
    assert found.claim.scaled_object == "old"
    (lost,) = found.rejections
    assert (lost.name, lost.kind, lost.api_version, lost.policy) == ("young", "ScaledObject", "keda.sh/v1alpha1", False)


def test_when_it_is_pointed_elsewhere_the_policy_is_heard_and_sees_an_obstacle() -> None:
    known = books()
    known.policy("prod/p", policy("p"))
    known.scaled_object("prod/so", scaled("so"))
    known.scaled_object("prod/so", scaled("so", address="other:1"))
    claim = known.resolve(CHAT).claim
    assert claim is not None
    assert (claim.way, claim.obstacle and claim.obstacle.block) == (Way.SCALING_POLICY, Block.SCALED_OBJECT)
    known.scaled_object("prod/so", None)
    freed = known.resolve(CHAT).claim
    assert freed is not None
    assert freed.obstacle is None


@pytest.mark.parametrize(
    ("found", "reject", "words"),
    [
        pytest.param(
            scaled(metadata={"sloWaits": "2"}), Reject.INVALID, "did you mean metadata.sloWaitS?", id="unknown key"
        ),
        pytest.param(
            scaled(metadata={"value": "demand"}), Reject.INVALID, "metadata.perReplica: missing", id="half a measure"
        ),
        pytest.param(
            scaled(minReplicaCount=9, maxReplicaCount=3), Reject.INVALID, "maxReplicaCount: 3", id="min above max"
        ),
        pytest.param(
            scaled(trigger={"metricType": "Value"}), Reject.INVALID, "counts ready pods",
            id="a metric type that reads zero ready pods as zero need",
        ),
        pytest.param(
            scaled(others=({"type": "external-push", "metadata": {"scalerAddress": US}},)), Reject.INVALID,
            "2 triggers point at Headroom; keep one", id="two triggers",
        ),
        pytest.param(
            scaled(scaleTargetRef={"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1", "name": "chat"}),
            Reject.KIND_REFUSED, "listed: Deployment, StatefulSet", id="a kind that is not listed",
        ),
        pytest.param(
            scaled(scaleTargetRef={"kind": "StatefulSet", "name": "chat"}), Reject.NO_TARGET,
            "there is no StatefulSet chat in namespace prod", id="no such target",
        ),
    ],
)  # fmt: skip
def test_one_that_cannot_be_served_says_why(found: ScaledObject, reject: Reject, words: str) -> None:
    (refused,) = resolved(found).rejections
    assert (refused.kind, refused.uid, refused.reject) == ("ScaledObject", "so-chat", reject)
    assert words in refused.message


def test_one_that_cannot_be_read_keeps_others_from_patching_its_target() -> None:
    # KEDA has made an HPA for it, which holds the count to its bounds.
    known = books()
    known.policy("prod/p", policy("p"))
    known.scaled_object("prod/so", scaled("so", metadata={"nonsense": "1"}))
    claim = known.resolve(CHAT).claim
    assert claim is not None
    assert claim.way is Way.SCALING_POLICY
    assert claim.obstacle is not None
    assert claim.obstacle.message.startswith("ScaledObject so points at Headroom and cannot be read: metadata.nonsense")


def test_the_hpa_that_keda_made_for_it_is_no_obstacle_even_without_kedas_label() -> None:
    known = books()
    known.scaled_object("prod/so", scaled("so"))
    owner = Owner("keda.sh/v1alpha1", "ScaledObject", "so", "so-so", controller=True)
    hpa = Hpa(
        Meta("keda-hpa-so", "prod", owner_references=(owner,)), HpaSpec(ObjectRef("apps/v1", "Deployment", "chat"))
    )
    known.other("prod/keda-hpa-so", hpa, "HPA")
    served = known.resolve(CHAT).claim
    assert served is not None
    assert served.obstacle is None
    assert known.other("prod/h", Hpa(Meta("h", "prod"), hpa.spec), "HPA") == {CHAT}
    claim = known.resolve(CHAT).claim
    assert claim is not None
    assert claim.obstacle is not None
    assert claim.obstacle.block is Block.HPA


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            scaled(others=({"type": "cpu", "metadata": {}},), minReplicaCount=1),
            "1 more trigger in it: KEDA takes the largest count",
        ),
        (
            scaled(advanced={"scalingModifiers": {"formula": "ours * 2", "target": "1"}}, minReplicaCount=1),
            "scalingModifiers.formula: HPA is told what the formula makes of our number",
        ),
        (
            scaled(trigger={"useCachedMetrics": True}, minReplicaCount=1),
            "useCachedMetrics: HPA is told what was decided up to one",
        ),
        (scaled(fallback={"failureThreshold": 3, "replicas": 0}), "fallback.replicas is 0: while Headroom cannot tell"),
        (
            scaled(fallback={"failureThreshold": 3, "replicas": 2, "behavior": "static"}),
            "fallback: while Headroom cannot tell, KEDA sets 2 replicas however many serve; give behavior: currentRep",
        ),
        (
            scaled(annotations={"autoscaling.keda.sh/paused": "true"}, minReplicaCount=1),
            "autoscaling.keda.sh/paused is set: KEDA does not",
        ),
        (
            scaled(),
            "minReplicaCount is 0 without a fallback: while Headroom cannot tell, KEDA may take that for no work",
        ),
        (
            scaled(minReplicaCount=4, idleReplicaCount=0),
            "idleReplicaCount is 0 without a fallback: while Headroom cannot tell",
        ),
    ],
    ids=[
        "other triggers",
        "a formula",
        "cached metrics",
        "a fallback to zero",
        "a fallback to fewer",
        "paused in KEDA",
        "no fallback, and KEDA's own minimum",
        "no fallback, and idle at zero",
    ],
)
def test_what_changes_the_fate_of_our_number_is_remarked_upon(found: ScaledObject, words: str) -> None:
    claim = resolved(found).claim
    assert claim is not None
    (remark,) = claim.remarks
    assert remark.startswith(words)


@pytest.mark.parametrize(
    "fallback",
    [
        {"replicas": 2, "behavior": "currentReplicasIfHigher"},
        {"replicas": 0, "behavior": "currentReplicas"},
        {"replicas": 100},
    ],
    ids=str,
)
def test_a_fallback_that_takes_nothing_away_is_nothing_to_remark(fallback: dict[str, Any]) -> None:
    claim = resolved(scaled(fallback={"failureThreshold": 3} | fallback)).claim
    assert claim is not None
    assert claim.remarks == ()
