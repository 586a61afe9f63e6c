"""The pod that holds the place of a gang's pod: as large as that, alone, no slot, and told from pods that only pose."""

from dataclasses import replace
from typing import Any

from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pods import Taint
from autoscaler.adapters.kube.pool_holder_pod import holder_pod, holder_seen
from autoscaler.adapters.kube.pool_places import Places, is_foreign
from autoscaler.adapters.kube.pool_slots import holds_for, is_ours, is_slot, pool_of
from autoscaler.adapters.kube.pool_writer import Became, PoolWriter
from autoscaler.core.pool.intents import CreateHolder
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.runtime.clock import WallClock
from tests.kube.pools import MAKING, T0, Server, errand, pod

ORDER = CreateHolder("chat-gang-1-0", "first", "gpu", "job/ns/train", "u1", 8, 12.5, 64.0, 1500.0, PoolReason.GANG)
TAINT = Taint("team", "ml", "NoSchedule")


def held(name: str = "chat-gang-1-0", **metadata: Any) -> Any:
    """A pod that holds a place on n0, of the WarmPool `chat`."""
    labels = {
        "app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat", "headroom.dev/tier": "first",
        "headroom.dev/gang-uid": "u1",
    }  # fmt: skip
    return pod(
        name, metadata={"labels": labels, "annotations": {"headroom.dev/gang": "job/ns/train"}, **metadata},
        spec={"nodeName": "n0"},
    )  # fmt: skip


async def test_it_asks_for_what_the_gangs_pod_will_and_shares_no_node_with_slots_or_other_gangs() -> None:
    server = Server()
    writer = PoolWriter(
        server, WallClock(), MAKING, may_write=lambda: True, taints_of=lambda _: (TAINT,), node_of=lambda _: ""
    )
    assert (await writer.carry_out(ORDER, errand())).became is Became.DONE
    ((method, path, made),) = server.requests
    assert (method, path) == ("POST", "/api/v1/namespaces/slots/pods")
    spec = made["spec"]
    assert spec["nodeSelector"] == {"karpenter.sh/nodepool": "gpu"}
    (box,) = spec["containers"]
    assert box["resources"] == {
        "requests": {"cpu": "12500m", "memory": str(64 * 2**30), "nvidia.com/gpu": "8"},
        "limits": {"nvidia.com/gpu": "8"},
    }
    assert "initContainers" not in spec, "it pulls and fetches nothing"
    assert (spec["priorityClassName"], spec["activeDeadlineSeconds"]) == ("headroom-slot", 1500)
    assert (spec["terminationGracePeriodSeconds"], spec["automountServiceAccountToken"]) == (0, False)
    assert {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"} in spec["tolerations"]
    (apart,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchExpressions"] == [
        {"key": "headroom.dev/gang-uid", "operator": "NotIn", "values": ["u1"]}
    ]
    assert made["metadata"]["ownerReferences"][0]["uid"] == "pool-uid", "it goes with its WarmPool"


def test_a_pod_that_asks_for_little_is_held_a_place_with_little() -> None:
    little = CreateHolder("x", "first", "gpu", "job/ns/train", "u1", 1, 0.0, 0.0, 60.0, PoolReason.GANG)
    (box,) = holder_pod(little, errand(), MAKING, ())["spec"]["containers"]
    assert box["resources"]["requests"] == {"cpu": "10m", "memory": "32Mi", "nvidia.com/gpu": "1"}


def test_it_goes_where_the_gangs_pods_may_go_and_to_no_other_node_pool() -> None:
    zoned = replace(ORDER, selector=(("karpenter.sh/nodepool", "other"), ("zone", "a")))
    assert holder_pod(zoned, errand(), MAKING, ())["spec"]["nodeSelector"] == {
        "karpenter.sh/nodepool": "gpu", "zone": "a",
    }  # fmt: skip


def test_what_it_says_of_itself_is_whose_place_it_holds_and_where() -> None:
    seen = holder_seen(held(), "nvidia.com/gpu")
    assert (seen.gang_uid, seen.tier, seen.units, seen.node, seen.created_s) == ("u1", "first", 2, "n0", T0)
    assert not seen.deleting
    assert not seen.over
    going = held(deletionTimestamp="2023-11-14T22:13:20Z")
    assert holder_seen(going, "nvidia.com/gpu").deleting


def test_it_is_no_slot_though_it_is_ours_and_no_node_under_it_is_taken_for_empty() -> None:
    one, elsewhere = held(), held(namespace="prod")
    assert holds_for(one.metadata, "slots") == ("job/ns/train", "u1")
    assert (is_slot(one.metadata, "slots"), is_ours(one.metadata, "slots"), pool_of(one)) == (False, True, None)
    assert is_foreign(one, "slots", "chat"), "a NodeClaim under it is never deleted"
    assert holds_for(elsewhere.metadata, "slots") is None


def test_they_are_listed_by_pool_and_owner_until_they_are_gone() -> None:
    places = Places("slots")
    ours, posing = held(), held("chat-gang-1-1", ownerReferences=[])
    for one in (ours, posing):
        places.note(Change(one.metadata.key, None, one))
    assert [each.metadata.name for each in places.holders("chat", "pool-uid")] == ["chat-gang-1-0"]
    assert list(places.slots("chat", "pool-uid")) == []
    assert places.on_node("n0", "nvidia.com/gpu", "chat").units == 4
    places.note(Change(ours.metadata.key, ours, None))
    assert list(places.holders("chat", "pool-uid")) == []
