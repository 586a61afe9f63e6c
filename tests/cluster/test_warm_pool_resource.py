"""WarmPool on a real API server: what it takes, what it refuses before our reader does, its columns and its status."""

import json
from typing import Any

import pytest

from autoscaler.api.schema import custom_resource
from autoscaler.api.status import Condition, Truth
from autoscaler.api.warm_pool_status import Breaker, BreakerState, StageCount, WarmPoolStatus
from autoscaler.core.pool.intents import Aspect
from tests.api.pools import FAULTY, SOUND, spec
from tests.cluster.plane import Plane, RefusedError

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane")]

MERGE = "application/merge-patch+json"
POOLS = "/apis/headroom.dev/v1alpha1/warmpools"
NOON_S = 1795863600.0
"""2026-11-28T11:00:00Z."""

REFUSED = {
    "no tier": "spec.tiers: Required value",
    "no model": "spec.models: Required value",
    "an empty list of models": "spec.models",
    "a maximum of nothing": "should be greater than or equal to 1",
    "a minimum above the maximum": "minSlots is above maxSlots; lower the minimum or raise the maximum",
    "zones above the maximum": "zoneMinima in all are above maxSlots; lower a minimum or raise the maximum",
    "a managed pool that refers to NodePools": "a tier has a nodePoolRef exactly when the pool is not managed",
    "a managed pool without a NodeClass": "a tier has a nodeClassRef exactly when the pool is managed",
    "no NodePool": "a tier has a nodePoolRef exactly when the pool is not managed",
    "weights without a cache": "weights are given without a cache volume; give cache, or leave the weights out",
    "two caches": "give one of hostPath and claim, and not both",
    "a cache in the kubelet's folder": "hostPath is a folder of the node's own; give the cache one of its own",
    "an image in capitals": "spec.models[0].image",
    "a source without a scheme": "spec.models[0].weights",
    "a driver in words": "spec.slot.minDriver",
    "a schedule without a duration": "give schedule and durationS, or from and to",
    "a window that ends before it begins": "from is not before to; end the window later",
    "an event that asks for nothing": "no slots and no ceiling; give one of them",
    "a floor above the ceiling": "slots are above ceiling; lower the slots",
}
"""Faults that the server refuses too; the rest needs settings, time zones or other objects, and is our reader's."""


def pool(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "headroom.dev/v1alpha1", "kind": "WarmPool", "metadata": {"name": "chat-pool"}, "spec": given,
    }  # fmt: skip


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND)
def test_a_sound_pool_is_taken_with_nothing_dropped(plane: Plane, given: dict[str, Any]) -> None:
    stored = plane.call("POST", f"{POOLS}?dryRun=All&fieldValidation=Strict", pool(given))["spec"]
    flat = {name for name, value in given.items() if not isinstance(value, dict | list)}
    assert {name: stored[name] for name in flat} == {name: given[name] for name in flat}


@pytest.mark.parametrize(("name", "words"), REFUSED.items(), ids=REFUSED)
def test_a_faulty_pool_is_refused_in_words(plane: Plane, name: str, words: str) -> None:
    with pytest.raises(RefusedError) as caught:
        plane.call("POST", f"{POOLS}?dryRun=All", pool(FAULTY[name][0]))
    assert caught.value.status == 422
    assert words in str(caught.value)


def test_the_whole_status_is_kept_and_shown_in_the_columns(plane: Plane) -> None:
    status = WarmPoolStatus(
        observed_generation=1,
        target_slots=6,
        warm_slots=4,
        starting_slots=2,
        hit_ratio=0.991,
        refill_s=640.0,
        reason="GROWTH",
        text="t" * 10_000,
        stages=(StageCount(stage="weights_warm", slots=4),),
        breakers=(Breaker(sku="h100", zone="a", capacity_type="spot", state=BreakerState.OPEN, until_s=NOON_S),),
        conditions=tuple(
            Condition(type=a.value, status=Truth.TRUE, last_transition_time_s=NOON_S, reason=a.value, message="…")
            for a in Aspect
        ),
    )
    plane.call("POST", POOLS, pool(spec()))
    try:
        written = custom_resource(status)
        path = f"{POOLS}/chat-pool/status?fieldValidation=Strict"
        kept = plane.call("PATCH", path, {"status": written}, kind=MERGE)
        assert kept["status"] == json.loads(json.dumps(written))
        header, row = plane.kubectl("get", "hwp").splitlines()
        assert header.split() == ["NAME", "BACKEND", "MIN", "MAX", "TARGET", "WARM", "STARTING", "REASON", "AGE"]
        assert row.split()[:8] == ["chat-pool", "slots", "0", "10", "6", "4", "2", "GROWTH"]
    finally:
        plane.call("DELETE", f"{POOLS}/chat-pool")
