"""Who is heard when several ask for one workload, and who is told why not."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.discovery import Discovery, Resolution
from autoscaler.adapters.kube.meta import Meta, Owner
from autoscaler.adapters.kube.scaling import (
    Hpa,
    HpaSpec,
    ObjectRef,
    ScaledObject,
    ScaledObjectSpec,
    ScalingPolicyObject,
    Target,
    TargetMeta,
    UpdatePolicy,
    Vpa,
    VpaSpec,
)
from autoscaler.api.claims import Block, Kind, Reject, Way

DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet")
ASKS = {"headroom.dev/scale": "true"}
CHAT = ObjectRef("apps/v1", "Deployment", "chat")


def books() -> Discovery:
    return Discovery((DEPLOYMENT, STATEFUL_SET))


def target(annotations: dict[str, str] | None = None, *, uid: str = "t1", owners: tuple[Owner, ...] = ()) -> Target:
    return Target(TargetMeta("chat", "prod", uid, "1", annotations=annotations or {}, owner_references=owners))


def policy(name: str, *, made: int = 1, kind: str = "Deployment", **spec: Any) -> ScalingPolicyObject:
    content = {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "chat"}} | spec
    meta = Meta(name, "prod", f"p-{name}", "1", 3, datetime(2026, 1, made, tzinfo=UTC))
    return ScalingPolicyObject(meta, msgspec.Raw(msgspec.json.encode(content)))


def rejects(found: Resolution) -> dict[str, Reject]:
    return {rejection.name: rejection.reject for rejection in found.rejections}


def test_a_target_that_nobody_asks_for_is_nobodys() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target())
    assert known.resolve("prod/chat") == Resolution()


def test_an_annotation_claims_its_own_object_with_its_settings() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS | {"headroom.dev/max-replicas": "7"}))
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert (claim.way, claim.policy, claim.spec.max_replicas, claim.ref.uid) == (Way.ANNOTATION, None, 7, "t1")
    assert claim.ref.path == "/apis/apps/v1/namespaces/prod/deployments/chat"


def test_a_policy_is_heard_before_the_annotation_and_an_older_policy_before_a_younger_one() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS))
    known.policy("prod/young", policy("young", made=9))
    known.policy("prod/old", policy("old", made=2))
    found = known.resolve("prod/chat")
    assert found.claim is not None
    assert (found.claim.way, found.claim.policy, found.claim.generation) == (Way.SCALING_POLICY, "old", 3)
    assert rejects(found) == {"young": Reject.OUTRANKED, "chat": Reject.OUTRANKED}
    assert "ScalingPolicy old claims prod/chat already" in found.rejections[0].message


def test_when_the_winner_is_deleted_the_next_one_is_heard() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS))
    known.policy("prod/old", policy("old"))
    assert known.policy("prod/old", None) == {"prod/chat"}
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.way is Way.ANNOTATION


def test_a_policy_that_is_aimed_elsewhere_frees_its_old_target() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target())
    known.policy("prod/p", policy("p"))
    elsewhere = policy("p", targetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "code"})
    assert known.policy("prod/p", elsewhere) == {"prod/chat", "prod/code"}
    assert known.resolve("prod/chat").claim is None
    assert rejects(known.resolve("prod/code")) == {"p": Reject.NO_TARGET}


@pytest.mark.parametrize(
    ("asked", "reject", "words"),
    [
        pytest.param(policy("p", maxReplicas=0), Reject.INVALID, "spec.maxReplicas: 0 is out of range", id="bad value"),
        pytest.param(policy("p", minReplicas=9, maxReplicas=3), Reject.INVALID, "minReplicas", id="min above max"),
        pytest.param(policy("p", maxReplica=3), Reject.INVALID, "maxReplica", id="misspelled field"),
        pytest.param(policy("p", kind="DaemonSet"), Reject.KIND_REFUSED, "listed: Deployment, StatefulSet", id="kind"),
        pytest.param(policy("p", kind="StatefulSet"), Reject.NO_TARGET, "no StatefulSet chat", id="no such target"),
    ],
)
def test_a_policy_that_cannot_be_served_says_why(asked: ScalingPolicyObject, reject: Reject, words: str) -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target())
    assert known.policy("prod/p", asked) == {"prod/chat"}, "whoever asks in vain goes on asking for it"
    found = known.resolve("prod/chat")
    assert found.claim is None
    assert rejects(found) == {"p": reject}
    assert words in found.rejections[0].message


def test_a_policy_nested_too_deeply_to_be_read_asks_in_vain_and_ends_nothing() -> None:
    deep = b'{"slo": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    known = books()
    (key,) = known.policy("prod/p", ScalingPolicyObject(Meta("p", "prod", "p-p"), msgspec.Raw(deep)))
    assert rejects(known.resolve(key)) == {"p": Reject.INVALID}


def test_an_annotation_that_cannot_be_read_is_told_and_claims_nothing() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target({"headroom.dev/scale": "yes"}))
    found = known.resolve("prod/chat")
    assert (found.claim, rejects(found)) == (None, {"chat": Reject.INVALID})


@pytest.mark.parametrize(
    ("kind", "other", "block"),
    [
        pytest.param("HPA", Hpa(Meta("h", "prod"), HpaSpec(CHAT)), Block.HPA, id="an HPA"),
        pytest.param(
            "ScaledObject",
            ScaledObject(Meta("s", "prod"), ScaledObjectSpec(ObjectRef(name="chat"))),
            Block.SCALED_OBJECT,
            id="KEDA's ScaledObject without a kind",
        ),
    ],
)
def test_another_scaler_on_the_same_target_is_an_obstacle_until_it_goes(
    kind: str, other: Hpa | ScaledObject, block: Block
) -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS))
    assert known.other("prod/x", other, kind) == {"prod/chat"}
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is not None
    assert claim.obstacle.block is block
    assert "delete one of the two" in claim.obstacle.message
    assert known.other("prod/x", None, kind) == {"prod/chat"}
    freed = known.resolve("prod/chat").claim
    assert freed is not None
    assert freed.obstacle is None


def test_an_hpa_on_a_statefulset_of_the_same_name_is_no_obstacle() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS))
    known.other("prod/h", Hpa(Meta("h", "prod"), HpaSpec(ObjectRef("apps/v1", "StatefulSet", "chat"))), "HPA")
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is None


KEDAS: Final = Hpa(Meta("keda-hpa", "prod", labels={"scaledobject.keda.sh/name": "s"}), HpaSpec(CHAT))


def test_the_hpa_that_keda_makes_is_told_once_as_its_scaledobject() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS))
    known.other("prod/keda-hpa", KEDAS, "HPA")
    known.scaled_object("prod/s", ScaledObject(Meta("s", "prod"), ScaledObjectSpec(ObjectRef(name="chat"))))
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is not None
    assert claim.obstacle.message.startswith("ScaledObject s sets its replicas too")


@pytest.mark.parametrize("aimed", [None, "code"], ids=["it cannot be read, or is gone", "it aims at another target"])
def test_the_hpa_that_keda_made_is_an_obstacle_where_no_scaledobject_speaks_for_it(aimed: str | None) -> None:
    """Without the right to read ScaledObjects two would set the count of chat: KEDA's HPA, and Headroom."""
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS))
    if aimed is not None:
        known.scaled_object("prod/s", ScaledObject(Meta("s", "prod"), ScaledObjectSpec(ObjectRef(name=aimed))))
    assert known.other("prod/keda-hpa", KEDAS, "HPA") == {"prod/chat"}
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is not None
    assert claim.obstacle.block is Block.HPA
    assert known.other("prod/keda-hpa", None, "HPA") == {"prod/chat"}
    freed = known.resolve("prod/chat").claim
    assert freed is not None
    assert freed.obstacle is None


def test_of_names_that_come_and_go_nothing_is_kept() -> None:
    """A cluster that makes and deletes 10,000 Deployments a day would cost the controller 75 MB a month."""
    known = books()

    def held() -> int:
        return sum(len(book) for book in vars(known).values() if isinstance(book, dict))

    before = held()
    for n in range(20):
        name, key = f"preview-{n}", f"prod/preview-{n}"
        known.target(DEPLOYMENT, key, Target(TargetMeta(name, "prod", annotations=ASKS)))
        known.policy("prod/p", policy("p", targetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": name}))
        known.other("prod/h", Hpa(Meta("h", "prod"), HpaSpec(ObjectRef("apps/v1", "Deployment", name))), "HPA")
        known.resolve(key)
        known.target(DEPLOYMENT, key, None)
    known.policy("prod/p", None)
    known.other("prod/h", None, "HPA")
    assert held() == before


@pytest.mark.parametrize(
    ("mode", "told"), [(None, "Recreate"), ("", "Recreate"), ("Auto", "Auto"), ("Initial", "Initial"), ("Off", None)]
)
def test_a_vpa_is_remarked_upon_and_blocks_nothing(mode: str | None, told: str | None) -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS))
    known.other("prod/v", Vpa(Meta("v", "prod"), VpaSpec(CHAT, UpdatePolicy(mode))), "Vpa")
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is None
    words = f"VerticalPodAutoscaler v resizes its pods (update mode {told}): what one replica carries may change"
    assert claim.remarks == (() if told is None else (words,))


def test_a_target_that_kserve_owns_is_left_to_kserve() -> None:
    known = books()
    owner = Owner("serving.kserve.io/v1beta1", "InferenceService", "llama", "u", controller=True)
    known.target(DEPLOYMENT, "prod/chat", target(ASKS, owners=(owner,)))
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is not None
    assert claim.obstacle.block is Block.OWNER
    assert "InferenceService llama owns it" in claim.obstacle.message


def test_an_owner_whose_name_is_an_order_to_terminals_is_shown_and_not_obeyed() -> None:
    """A reference to an owner is its author's text; the words stand in the status, in events and on the terminal."""
    known = books()
    owner = Owner("example.com/v1", "Nim\x1b[2J", "llama\x1b]0;all is well\x07", "u", controller=True)
    known.target(DEPLOYMENT, "prod/chat", target(ASKS, owners=(owner,)))
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is not None
    assert claim.obstacle.message.startswith("Nim?[2J llama?]0;all is well? controls it")


OWNERS: Final = {
    "knative": (Owner("serving.knative.dev/v1", "Revision", "llama-00001", "u", True), "autoscaling.knative.dev/*"),
    "another-group": (Owner("example.com/v1", "InferenceService", "llama", "u", True), "would set its replicas back"),
    "operator": (Owner("example.com/v1", "NimService", "llama", "u", True), "list NimService in the settings (kinds)"),
    "listed": (Owner("apps/v1", "StatefulSet", "llama", "u", True), "ask for scaling on the StatefulSet instead"),
}


@pytest.mark.parametrize(("owner", "words"), OWNERS.values(), ids=OWNERS)
def test_a_target_that_anything_controls_is_said_to_be_and_not_fought_over(owner: Owner, words: str) -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS, owners=(owner,)))
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is not None
    assert claim.obstacle.block is Block.OWNER
    assert f"{owner.kind} {owner.name}" in claim.obstacle.message
    assert words in claim.obstacle.message


def test_a_target_that_belongs_to_something_that_does_not_control_it_is_scaled() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS, owners=(Owner("v1", "ConfigMap", "app", "u"),)))
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.obstacle is None


def test_two_kinds_of_one_name_are_not_both_scaled() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS, uid="d"))
    known.target(STATEFUL_SET, "prod/chat", target(ASKS, uid="s"))
    found = known.resolve("prod/chat")
    assert found.claim is not None
    assert found.claim.ref.kind == "Deployment"
    assert [r.reject for r in found.rejections] == [Reject.OUTRANKED]


def test_a_target_made_anew_is_another_object() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS, uid="first"))
    known.target(DEPLOYMENT, "prod/chat", None)
    assert known.resolve("prod/chat").claim is None
    known.target(DEPLOYMENT, "prod/chat", target(ASKS, uid="second"))
    claim = known.resolve("prod/chat").claim
    assert claim is not None
    assert claim.ref.uid == "second"


def test_a_status_update_of_the_target_does_not_read_its_policy_again() -> None:
    known = books()
    known.target(DEPLOYMENT, "prod/chat", target(ASKS))
    before = known.resolve("prod/chat").claim
    known.target(DEPLOYMENT, "prod/chat", target(dict(ASKS)))
    after = known.resolve("prod/chat").claim
    assert before is not None
    assert after is not None
    assert after.spec is before.spec
