"""Warm pools on real Karpenter and the real scheduler: filled, used, moved, left alone, given up.

Nodes, pulls and weights are KWOK's: how long they take is an input. What is real is who does what, in which order.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests.capacity.karpenter import NODE_POOLS, Karpenter, condition, gpu_pod, node_pool
from tests.capacity.pools import MERGE, POOLS, SETTINGS, SLOTS, Pool
from tests.cluster.conftest import CONFIG
from tests.cluster.controller import Controller
from tests.cluster.processes import wait_for
from tests.cluster.rights_used import KARPENTER, judged
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("karpenter"), pytest.mark.timeout(400)]

SLACK_S: Final = 120.0
"""How long anything may take on a loaded machine."""

HOLD_DRIFT: Final = ({"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "100%", "reasons": ["Empty"]})
"""Drift replaces nothing, empty nodes go."""


@pytest.fixture(scope="module")
def shared_controller(shared_karpenter: Karpenter) -> Iterator[Controller]:
    apply_file(shared_karpenter.plane, CONFIG / "rbac" / "warm-pools")
    with Controller(shared_karpenter.plane, **SETTINGS) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def _rights(request: pytest.FixtureRequest, shared_karpenter: Karpenter) -> Iterator[None]:
    yield from judged(request, shared_karpenter.plane, "warm-pools", untrue=KARPENTER)


@pytest.fixture
def controller(shared_controller: Controller) -> Controller:
    """A controller that leads; one that has ended is started again, as a cluster would."""
    if shared_controller.returncode is not None:
        shared_controller.start()
    shared_controller.wait_leading(SLACK_S)
    return shared_controller


def wait_warm(pool: Pool, slots: int = 2) -> None:
    wait_for(lambda: pool.warm == slots, SLACK_S, f"{slots} warm slots of {pool.name}", every_s=0.2)


def is_running(karpenter: Karpenter, namespace: str, name: str) -> bool:
    found = karpenter.plane.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    return bool(found["status"].get("phase") == "Running")


def node_of(karpenter: Karpenter, namespace: str, name: str) -> str:
    found = karpenter.plane.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    return str(found["spec"]["nodeName"])


def test_a_burst_lands_on_a_warm_node_and_only_the_refill_asks_for_another(
    karpenter: Karpenter, pods: str, controller: Controller
) -> None:
    karpenter.plane.apply(node_pool("burst", stages={"gpus-after": "2s"}, startup_taints=["readiness.k8s.io/gpu"]))
    pool = Pool(karpenter.plane, "burst", ("h100", "burst"))
    wait_warm(pool)
    warm = {slot["spec"]["nodeName"] for slot in pool.slots}
    assert len(warm) == len(karpenter.claims("burst")) == 2
    karpenter.plane.apply(gpu_pod("chat", pods, "burst", gpus=8))
    wait_for(lambda: is_running(karpenter, pods, "chat"), SLACK_S, "the replica to run")
    assert node_of(karpenter, pods, "chat") in warm
    wait_for(lambda: len(karpenter.created("burst")) == 3, SLACK_S, "a node for the refill")
    wait_for(lambda: len(karpenter.nodes("burst")) == 3, SLACK_S, "its node")
    wait_warm(pool)
    assert len(pool.ordered()) == len(karpenter.created("burst")) == 3, "none for the replica itself"
    pool.delete()


def test_a_slot_whose_node_ends_gets_a_successor_on_a_node_of_its_own_though_there_is_room_beside_it(
    karpenter: Karpenter, controller: Controller
) -> None:
    """Karpenter passes over pods that name hosts in their affinity, and heeds what keeps one apart from a label."""
    karpenter.plane.apply(node_pool("ends"))
    pool = Pool(karpenter.plane, "ends", ("h100", "ends"), slot={"count": 4}, minSlots=1)
    wait_warm(pool, 1)
    (old,) = (node["metadata"]["name"] for node in karpenter.nodes("ends"))
    ends = (datetime.now(UTC) + timedelta(seconds=500)).isoformat()
    karpenter.plane.kubectl("annotate", "node", old, f"headroom.dev/capacity-ends={ends}")

    def stands() -> list[str]:
        return [node["metadata"]["name"] for node in karpenter.nodes("ends")]

    wait_for(lambda: len(stands()) == 1 and old not in stands(), SLACK_S, "the old node to go", every_s=0.2)
    wait_warm(pool, 1)
    assert (len(pool.ordered()), len(karpenter.created("ends"))) == (2, 2), "one successor, on one node"
    assert [slot["spec"]["nodeName"] for slot in pool.slots] == stands()
    pool.delete()


def test_without_capacity_a_pool_moves_to_the_next_tier_and_without_any_it_stops_asking(
    karpenter: Karpenter, controller: Controller
) -> None:
    karpenter.fail({"instanceType": "h100-8x", "capacityType": "spot"}, hide_s=3600.0)
    karpenter.plane.apply(node_pool("first", capacity_types=["spot"]))
    karpenter.plane.apply(node_pool("second", ["a100-8x"], zones=["zone-a"]))
    pool = Pool(karpenter.plane, "moved", ("h100-spot", "first"), ("a100", "second"), minSlots=1, spotMaxRatio=1.0)
    wait_warm(pool, 1)
    assert {slot["spec"]["nodeSelector"]["karpenter.sh/nodepool"] for slot in pool.slots} == {"second"}
    assert "no capacity: h100 spot (asks again" in pool.told("CapacityAvailable")[1]
    assert len(karpenter.created("first")) <= 2, "one in each zone, and then the provider offers none"
    karpenter.fail({})
    for claim in karpenter.claims("second"):
        karpenter.reclaim(claim["metadata"]["name"])
    wait_for(lambda: "in every tier" in pool.told("CapacityAvailable")[1], SLACK_S, "word of it", every_s=0.2)
    wait_for(lambda: not pool.slots, SLACK_S, "slots that wait in vain to go")
    begin = time.time()
    time.sleep(60.0)
    asked = [at - begin for at in pool.ordered() if at > begin]
    assert len(asked) <= 1, "at most the probe of a circuit that was opened three minutes ago"
    assert asked or not [at for at in karpenter.created("first", "second") if at > begin]
    pool.delete()


def test_a_launch_that_is_refused_is_told_in_the_providers_words_before_it_is_given_up(
    karpenter: Karpenter, controller: Controller
) -> None:
    karpenter.fail(launch_error="not allowed to launch")
    karpenter.plane.apply(node_pool("unlaunched"))
    pool = Pool(karpenter.plane, "unlaunched", ("h100", "unlaunched"), minSlots=1)
    wait_for(lambda: pool.told("CapacityAvailable")[0] == "False", SLACK_S, "word of it", every_s=0.2)
    (claim,) = karpenter.claims("unlaunched")
    assert (
        f"not launched: NodeClaim {claim['metadata']['name']} (not allowed to launch)"
        in (pool.told("CapacityAvailable")[1])
    )
    karpenter.fail()
    wait_warm(pool, 1)
    wait_for(lambda: pool.told("CapacityAvailable")[0] == "True", SLACK_S, "word of it", every_s=0.2)
    pool.delete()


def test_without_a_controller_slots_end_and_empty_nodes_go_until_there_is_one_again(
    karpenter: Karpenter, controller: Controller
) -> None:
    karpenter.plane.apply(node_pool("alone"))
    pool = Pool(karpenter.plane, "alone", ("h100", "alone"), slotLifeS=1800)
    wait_warm(pool)
    controller.kill()
    try:
        for slot in pool.slots:
            assert 0.8 * 1800 <= slot["spec"]["activeDeadlineSeconds"] <= 1800
            where = f"{SLOTS}/{slot['metadata']['name']}"
            overdue = {"metadata": {"annotations": {"stage.headroom.dev/overdue": "true"}}}
            karpenter.plane.call("PATCH", where, overdue, MERGE)
        wait_for(lambda: not karpenter.nodes("alone"), SLACK_S, "the empty nodes to go", every_s=0.2)
        assert len(karpenter.created("alone")) == 2, "nothing grows"
    finally:
        controller.start()
    controller.wait_leading(SLACK_S)
    wait_for(lambda: len(karpenter.nodes("alone")) == 2, SLACK_S, "new nodes", every_s=0.2)
    wait_warm(pool)
    pool.delete()


def test_a_restart_of_karpenter_delays_a_refill_and_loses_none(karpenter: Karpenter, controller: Controller) -> None:
    karpenter.process.kill()
    karpenter.plane.apply(node_pool("restart"))
    pool = Pool(karpenter.plane, "restart", ("h100", "restart"))
    wait_for(lambda: len(pool.slots) == 2, SLACK_S, "two slots that wait")
    karpenter.start()
    wait_warm(pool)
    assert (len(pool.ordered()), len(karpenter.created("restart"))) == (2, 2)
    pool.delete()


def held(karpenter: Karpenter, name: str) -> Pool:
    """A pool with one warm slot, on a NodePool of its name that holds drift back."""
    karpenter.plane.apply(node_pool(name, budgets=HOLD_DRIFT))
    pool = Pool(karpenter.plane, name, ("h100", name), minSlots=1)
    wait_warm(pool, 1)
    return pool


def edit(pool: Pool, metadata: dict[str, dict[str, str]]) -> None:
    """Edit the template of such a NodePool, and wait until the pool says that what stands there has drifted."""
    template = {"spec": {"template": {"metadata": metadata}}}
    pool.plane.call("PATCH", f"{NODE_POOLS}/{pool.name}", template, MERGE)
    wait_for(
        lambda: "1 nodes have drifted and are kept" in pool.told("DriftHeld")[1], SLACK_S, "word of it", every_s=0.2
    )


def test_a_nodepool_that_somebody_edits_or_deletes_is_told_with_field_and_remedy(
    karpenter: Karpenter, controller: Controller
) -> None:
    pool = held(karpenter, "edited")
    before = [node["metadata"]["name"] for node in karpenter.nodes("edited")]
    edit(pool, {"labels": {"example.com/edited": "true"}})
    assert any(condition(claim, "Drifted").get("status") == "True" for claim in karpenter.claims("edited"))
    assert [node["metadata"]["name"] for node in karpenter.nodes("edited")] == before
    policy = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}}}
    karpenter.plane.call("PATCH", f"{NODE_POOLS}/edited", policy, MERGE)
    consolidates = "(consolidationPolicy: WhenEmptyOrUnderutilized): set WhenEmpty"
    wait_for(lambda: consolidates in pool.told("NodePoolsUsable")[1], SLACK_S, "word of it", every_s=0.2)
    karpenter.plane.call("DELETE", f"{NODE_POOLS}/edited")
    wait_for(lambda: pool.told("NodePoolsUsable")[0] == "False", SLACK_S, "word of it", every_s=0.2)
    assert "spec.tiers[0].nodePoolRef: there is no NodePool 'edited'; create it" in pool.told("NodePoolsUsable")[1]
    pool.delete()


def test_nodes_that_a_bad_template_brings_without_gpus_replace_no_good_one_and_nothing_is_moved_onto_them(
    karpenter: Karpenter, controller: Controller
) -> None:
    """What a canary would be for: the template is edited, all that stands has drifted, and new nodes are no good."""
    pool = held(karpenter, "canary")
    (good,) = karpenter.nodes("canary")
    (slot,) = pool.slots
    edit(pool, {"annotations": {"stage.headroom.dev/hold": "gpus"}})
    karpenter.plane.call("PATCH", f"{POOLS}/canary", {"spec": {"minSlots": 2}}, MERGE)

    def new() -> list[dict[str, Any]]:
        names = good["metadata"]["name"]
        return [node for node in karpenter.nodes("canary") if node["metadata"]["name"] != names]

    wait_for(new, SLACK_S, "a node of the new template", every_s=0.2)
    wait_for(lambda: "1 registered" in pool.told("Ready")[1], SLACK_S, "word of its GPUs", every_s=0.2)
    assert slot["metadata"]["uid"] in {one["metadata"]["uid"] for one in pool.slots}
    assert (pool.warm, len(karpenter.created("canary"))) == (1, 2), "one try, and what was good is as it was"
    (tried,) = new()
    karpenter.plane.kubectl("annotate", "node", tried["metadata"]["name"], "stage.headroom.dev/hold-")
    wait_warm(pool)
    assert good["metadata"]["name"] in {node["metadata"]["name"] for node in karpenter.nodes("canary")}
    pool.delete()


def test_a_managed_nodepool_is_made_mended_and_never_deleted_under_others(
    karpenter: Karpenter, pods: str, controller: Controller
) -> None:
    ref = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    tier = {"name": "first", "shape": "h100", "nodeClassRef": ref, "instanceTypes": ["h100-8x"], "limits": {"gpus": 16}}
    pool = Pool(karpenter.plane, "managed", tiers=[tier], managed=True, minSlots=1)
    wait_warm(pool, 1)
    path = f"{NODE_POOLS}/managed-first"
    karpenter.plane.call("PATCH", path, {"spec": {"limits": {"nvidia.com/gpu": "800"}}}, MERGE)

    def limit() -> str:
        return str(karpenter.plane.call("GET", path)["spec"]["limits"]["nvidia.com/gpu"])

    wait_for(lambda: limit() == "16", SLACK_S, "the limit as the tier has it", every_s=0.2)
    karpenter.plane.call("PATCH", f"{POOLS}/managed", {"spec": {"tiers": [{**tier, "zones": ["zone-x"]}]}}, MERGE)
    kept = "spec.tiers[0].zones: zone-x, and NodePool 'managed-first' was made with nothing; a template is never edited"
    wait_for(lambda: kept in pool.told("NodePoolsUsable")[1], SLACK_S, "word of it", every_s=0.2)
    karpenter.plane.call("PATCH", f"{POOLS}/managed", {"spec": {"tiers": [tier]}}, MERGE)
    wait_for(lambda: kept not in pool.told("NodePoolsUsable")[1], SLACK_S, "word of it", every_s=0.2)
    karpenter.plane.apply(gpu_pod("other", pods, "managed-first", gpus=8))
    wait_for(lambda: is_running(karpenter, pods, "other"), SLACK_S, "somebody else's pod")
    pool.delete()
    wait_for(lambda: not pool.slots, SLACK_S, "the slots to go with their WarmPool")
    assert "deletionTimestamp" not in karpenter.plane.call("GET", path)["metadata"]
    assert is_running(karpenter, pods, "other")
