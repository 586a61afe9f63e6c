"""What is on a node is counted as pods come and go: units, foreign pods, validation; ended pods hold nothing."""

from typing import Any

import pytest

from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pool_nodes import OnNode
from autoscaler.adapters.kube.pool_objects import PlacedPod
from autoscaler.adapters.kube.pool_places import Places, is_foreign
from tests.kube.pools import pod

GPU = "nvidia.com/gpu"


def placed(name: str, *, namespace: str = "prod", **parts: Any) -> PlacedPod:
    """Somebody else's pod with two GPUs on n0."""
    metadata = {"namespace": namespace, "labels": {}, "ownerReferences": []} | parts.pop("metadata", {})
    return pod(name, metadata=metadata, spec={"nodeName": "n0"} | parts.pop("spec", {}), **parts)


def change(new: PlacedPod | None, old: PlacedPod | None = None) -> Change[PlacedPod]:
    one = new or old
    assert one is not None
    return Change(one.metadata.key, old, new)


def test_units_are_held_from_binding_to_the_end() -> None:
    places, waiting, bound = Places("slots"), placed("a", spec={"nodeName": ""}), placed("a")
    places.note(change(waiting))
    assert places.on_node("n0", GPU, "chat") == OnNode()
    places.note(change(bound, waiting))
    assert places.on_node("n0", GPU, "chat") == OnNode(units=2, foreign=1)
    over = placed("a", status={"phase": "Succeeded"})
    places.note(change(over, bound))
    assert places.on_node("n0", GPU, "chat") == OnNode()


def test_a_pod_that_goes_gives_back_what_it_held() -> None:
    places, one = Places("slots"), placed("a")
    places.note(change(one))
    assert places.on_node("n0", GPU, "chat").units == 2
    places.note(change(None, one))
    assert places.on_node("n0", GPU, "chat") == OnNode()


def test_slots_are_listed_by_pool_and_owner_and_are_not_foreign() -> None:
    places, ours = Places("slots"), pod(spec={"nodeName": "n0"})
    posing = pod("chat-1", metadata={"ownerReferences": []})
    elsewhere = pod("chat-2", metadata={"namespace": "prod"})
    for one in (ours, posing, elsewhere):
        places.note(change(one))
    assert [one.metadata.name for one in places.slots("chat", "pool-uid")] == ["chat-0"]
    assert places.on_node("n0", GPU, "chat") == OnNode(units=2, foreign=0)
    places.note(change(None, ours))
    assert list(places.slots("chat", "pool-uid")) == []


def test_a_slot_of_another_pool_is_foreign_to_this_one_so_that_a_node_that_both_warm_is_nobodys_to_retire() -> None:
    places, ours = Places("slots"), pod(spec={"nodeName": "n0"})
    places.note(change(ours))
    assert places.on_node("n0", GPU, "chat") == OnNode(units=2, foreign=0)
    assert places.on_node("n0", GPU, "bulk") == OnNode(units=2, foreign=1)
    places.note(change(None, ours))
    assert places.on_node("n0", GPU, "bulk") == OnNode()


def test_names_of_pods_that_are_not_this_pools_are_taken_for_as_long_as_they_are_there() -> None:
    places = Places("slots")
    kept = pod("chat-0")
    strange = pod("chat-1", metadata={"labels": {}})
    elsewhere = pod("chat-2", metadata={"namespace": "prod", "labels": {}})
    for one in (kept, strange, elsewhere, pod("chat-3")):
        places.note(change(one))
    assert places.taken("chat", "pool-uid") == {"chat-1"}
    assert places.taken("chat", "of-a-pool-made-anew") == {"chat-0", "chat-1", "chat-3"}
    assert places.taken("bulk", "bulk-uid") == {"chat-1"}
    places.note(change(None, strange))
    assert places.taken("chat", "pool-uid") == frozenset()


def test_of_a_thousand_nodes_and_pools_that_came_and_went_nothing_is_kept() -> None:
    places = Places("slots")
    for number in range(1000):
        labels = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": f"pool-{number}"}
        holding = {"labels": labels | {"headroom.dev/gang-uid": "g1"}}
        on = {"nodeName": f"n{number}"}
        ours, held = pod(metadata={"labels": labels}, spec=on), pod("held-0", metadata=holding, spec=on)
        for one in (ours, held):
            places.note(change(one))
        assert places.on_node(f"n{number}", GPU, f"pool-{number}").units == 4
        for one in (ours, held):
            places.note(change(None, one))
        assert places.on_node(f"n{number}", GPU, f"pool-{number}") == OnNode()
    assert [len(books) for books in (places._on_node, places._counted, places._slots, places._holders)] == [0, 0, 0, 0]


def test_a_node_without_pods_reads_as_the_same_object_so_that_a_look_has_nothing_to_translate() -> None:
    places = Places("slots")
    assert places.on_node("n0", GPU, "chat") is places.on_node("n0", GPU, "chat")


@pytest.mark.parametrize(
    ("metadata", "foreign"),
    [
        pytest.param({}, True, id="a bare pod"),
        pytest.param({"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}, True, id="a replica"),
        pytest.param({"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}, False, id="a daemon"),
        pytest.param({"annotations": {"kubernetes.io/config.mirror": "x"}}, False, id="a node's own"),
    ],
)
def test_foreign_is_whom_a_deleted_node_would_hit(metadata: dict[str, Any], foreign: bool) -> None:
    assert is_foreign(placed("a", metadata=metadata), "slots", "chat") is foreign


def test_a_node_is_validated_while_the_operators_validator_is_ready_on_it() -> None:
    places = Places("slots")
    label = {"labels": {"app": "nvidia-operator-validator"}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    before, after = placed("v", metadata=label), placed("v", metadata=label, status=ready)
    places.note(change(before))
    assert not places.on_node("n0", GPU, "chat").validator_ready
    places.note(change(after, before))
    assert places.on_node("n0", GPU, "chat").validator_ready
