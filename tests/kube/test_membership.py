"""Which pods count as whose replicas, and as what."""

from datetime import UTC, datetime

import pytest

from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.membership import Membership, Owned, owner_of, serving_since_s
from autoscaler.adapters.kube.meta import Condition, Meta, Owner
from autoscaler.adapters.kube.pods import Pod, PodStatus
from autoscaler.api.claims import TargetRef

CHAT = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "t1")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
REPLICA_SET = Owner("apps/v1", "ReplicaSet", "chat-7d9", "rs", controller=True)
READY = Condition("Ready", "True", last_transition_time=NOON)
UNREADY = Condition("Ready", "False", last_transition_time=NOON)
STUCK = Condition("PodScheduled", "False", "Unschedulable", NOON)


def pod(
    name: str = "a",
    *conditions: Condition,
    owner: Owner | None = REPLICA_SET,
    labels: dict[str, str] | None = None,
    going: bool = False,
    phase: str = "Running",
    nominated: str = "",
) -> Pod:
    meta = Meta(
        name, "prod", f"uid-{name}", creation_timestamp=NOON, deletion_timestamp=NOON if going else None,
        labels={"pod-template-hash": "7d9"} if labels is None else labels,
        owner_references=() if owner is None else (owner,),
    )  # fmt: skip
    return Pod(meta, status=PodStatus(phase, "127.0.0.9", conditions, nominated_node_name=nominated))


def members(*pods: Pod) -> Membership:
    known = Membership()
    for found in pods:
        known.note(Change(found.metadata.key, None, found))
    return known


@pytest.mark.parametrize(
    ("found", "owned"),
    [
        pytest.param(pod(), Owned("Deployment", "prod/chat"), id="through its ReplicaSet"),
        pytest.param(
            pod(owner=Owner("apps/v1", "StatefulSet", "db", "s", controller=True), labels={}),
            Owned("StatefulSet", "prod/db"),
            id="a StatefulSet's own",
        ),
        pytest.param(
            pod(
                owner=Owner("apps/v1", "StatefulSet", "big", "s", controller=True),
                labels={"leaderworkerset.sigs.k8s.io/name": "big", "leaderworkerset.sigs.k8s.io/worker-index": "0"},
            ),
            Owned("LeaderWorkerSet", "prod/big"),
            id="the leader of a group is its replica",
        ),
        pytest.param(
            pod(labels={"leaderworkerset.sigs.k8s.io/name": "big", "leaderworkerset.sigs.k8s.io/worker-index": "1"}),
            None,
            id="a worker of a group is no replica",
        ),
        pytest.param(pod(owner=None), None, id="the right labels and no controller: posing"),
        pytest.param(
            pod(owner=Owner("apps/v1", "ReplicaSet", "chat-7d9", "rs")), None, id="an owner that does not control"
        ),
        pytest.param(
            pod(owner=Owner("apps/v1", "ReplicaSet", "mine", "r", controller=True), labels={}),
            Owned("ReplicaSet", "prod/mine"),
            id="a ReplicaSet of nobody",
        ),
        pytest.param(
            pod(labels={"rollouts-pod-template-hash": "7d9"}), Owned("Rollout", "prod/chat"), id="a Rollout's"
        ),
        pytest.param(
            pod(
                owner=Owner("apps/v1", "ReplicaSet", "chat-canary", "r", controller=True),
                labels={"rollouts-pod-template-hash": "7d9"},
            ),
            Owned("ReplicaSet", "prod/chat-canary"),
            id="an Experiment's, whose ReplicaSet has another name",
        ),
    ],
)
def test_a_pod_belongs_to_the_target_whose_controller_made_it(found: Pod, owned: Owned | None) -> None:
    assert owner_of(found) == owned


def test_ready_starting_and_unschedulable_pods_are_told_apart() -> None:
    known = members(pod("a", READY), pod("b", UNREADY), pod("c", STUCK), pod("d", READY, going=True))
    reading = known.reading(CHAT, 5)
    assert (reading.desired, reading.ready) == (5, 1)
    assert [(s.name, s.unschedulable) for s in reading.starting] == [("b", False), ("c", True)]
    assert reading.starting[0].since_s == NOON.timestamp()


def test_a_pod_for_which_others_give_way_on_a_node_has_its_room() -> None:
    """Counted as waiting until it is bound it had a second gang recalled, for a slot that was its own already."""
    known = members(pod("a", STUCK), pod("b", STUCK, nominated="gpu-1"))
    assert [(s.name, s.unschedulable) for s in known.reading(CHAT, 2).starting] == [("a", True), ("b", False)]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_is_over_is_neither(phase: str) -> None:
    reading = members(pod("a", UNREADY, phase=phase)).reading(CHAT, 1)
    assert (reading.ready, reading.starting) == (0, ())


def test_a_probe_that_fails_for_a_moment_is_no_new_start() -> None:
    known = members(pod("a", READY))
    known.note(Change("prod/a", pod("a", READY), pod("a", UNREADY)))
    reading = known.reading(CHAT, 1)
    assert (reading.ready, reading.starting) == (0, ())


def test_a_deleted_pod_is_forgotten_and_a_later_one_of_its_name_starts_afresh() -> None:
    known = members(pod("a", READY))
    assert known.note(Change("prod/a", pod("a", READY), None)) == {Owned("Deployment", "prod/chat")}
    assert not known.pods(CHAT)
    known.note(Change("prod/a", None, pod("a", UNREADY)))
    assert len(known.reading(CHAT, 1).starting) == 1


def test_the_same_name_in_another_namespace_is_another_target() -> None:
    other = TargetRef("apps", "v1", "deployments", "Deployment", "staging", "chat", "t2")
    assert members(pod("a", READY)).reading(other, 1).ready == 0


def test_a_pod_going_away_serves_no_longer() -> None:
    assert serving_since_s(pod("a", READY)) == NOON.timestamp()
    assert serving_since_s(pod("a", READY, going=True)) is None


def test_a_pod_whose_gpu_has_failed_is_no_replica_that_serves() -> None:
    known = members(pod("a", READY), pod("b", READY))
    reading = known.reading(CHAT, 2, lambda key: key == "prod/b")
    assert (reading.desired, reading.ready, reading.starting) == (2, 1, ())
