"""Whoever is short for the sake of a limit, or of a provider that refuses, says which one or why, and what to do."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.params import KnownEvent
from autoscaler.core.pool.intents import Aspect
from autoscaler.core.pool.params import PoolTier
from tests.core.pool.builders import (
    FIRST,
    NOW_S,
    SECOND,
    claim,
    demand,
    fleet,
    node_pools,
    pool,
    slot,
    taken,
    told,
    world,
)


@pytest.mark.parametrize(
    ("tier", "limits", "words"),
    [
        (FIRST, {"limit_gpus": 2, "used_gpus": 2.0}, "its limit of GPUs 2): raise them or add a tier"),
        (FIRST, {"limit_nodes": 1, "used_nodes": 2}, "NodePool 'np-first' holds 2 nodes, its limit is 1"),
        (replace(FIRST, max_gpus=2), {"used_gpus": 2.0, "used_nodes": 2}, "spec.tiers[0].limits.gpus 2"),
        (replace(FIRST, max_gpus=2), {"used_gpus": 3.0}, "holds 3 GPUs, spec.tiers[0].limits.gpus is 2"),
        (replace(FIRST, max_nodes=1), {"used_nodes": 1}, "spec.tiers[0].limits.nodes 1"),
        (FIRST, {"limit_gpus": 3, "used_gpus": 2.0}, "and is asked for 1 more, and no further slot fits"),
        (FIRST, {"scarce": ("2% of 512 cpu",)}, "spec.limits of NodePool 'np-first' leave 2% of 512 cpu"),
    ],
)
def test_a_limit_that_keeps_a_pool_short_is_told_with_its_field(
    tier: PoolTier, limits: dict[str, Any], words: str
) -> None:
    """Two of four slots are warm, and nothing but a limit stands in the way of the others."""
    seen = world(fleet(2), node_pools=node_pools(FIRST, **limits))
    within = told(taken(pool(tier, min_slots=4), seen), Aspect.WITHIN_LIMITS)
    assert (within.holds, words in within.message) == (False, True), within.message


def test_limits_that_keep_nothing_from_being_ordered_are_no_trouble() -> None:
    full = {"limit_gpus": 2, "used_gpus": 2.0, "used_nodes": 2, "scarce": ("2% of 512 cpu",)}
    for params, pools in (
        (pool(min_slots=2), node_pools(FIRST, **full)),
        (pool(FIRST, SECOND, min_slots=4), (*node_pools(FIRST, limit_gpus=2, used_gpus=2.0), *node_pools(SECOND))),
    ):
        within = told(taken(params, world(fleet(2), node_pools=pools)), Aspect.WITHIN_LIMITS)
        assert within.holds, within.message


def test_a_provider_that_does_not_launch_for_another_cause_is_told_in_its_words() -> None:
    """Karpenter gives such claims up after five minutes, which looks like missing capacity."""
    refused = tuple(claim(f"c{at}", refused="UnauthorizedOperation: you may not") for at in range(3))
    done = taken(pool(min_slots=1), world((slot(claim="c0"),), claims=refused))
    there = told(done, Aspect.CAPACITY_AVAILABLE)
    assert there.holds is False
    assert there.message == (
        "not launched: NodeClaim c2 (UnauthorizedOperation: you may not): look at the NodeClass, its rights and quotas"
    )


def test_an_event_that_asks_for_more_than_the_pool_may_have_is_told_days_before() -> None:
    """It was told when the event had begun, and nodes take minutes to come."""
    day_s = 86_400.0
    events = (
        KnownEvent(NOW_S + 2 * day_s, NOW_S + 3 * day_s, floor=80),
        KnownEvent(NOW_S + day_s, NOW_S + 2 * day_s, floor=50),
    )
    within = told(taken(pool(max_slots=20, events=events), world()), Aspect.WITHIN_LIMITS)
    assert within.holds is False
    assert "asks for 50 slots in 24.0 hours and 20 are allowed" in within.message
    assert told(taken(pool(max_slots=80, events=events), world()), Aspect.WITHIN_LIMITS).holds
    past = (KnownEvent(NOW_S - 2 * day_s, NOW_S - day_s, floor=50),)
    assert told(taken(pool(max_slots=20, events=past), world()), Aspect.WITHIN_LIMITS).holds


def test_a_model_of_which_there_is_no_workload_is_told_and_is_no_fault() -> None:
    """A label with a slip of the pen, or a workload that is yet to come."""
    params = pool(models=("chat", "lama"))
    models = told(taken(params, world()), Aspect.MODELS_SUPPORTED)
    assert (models.holds, models.word) == (True, "NoWorkload")
    assert "is of the models lama: " in models.message
    assert told(taken(pool(), world()), Aspect.MODELS_SUPPORTED).word == "ModelsSupported"
    assert told(taken(params, world(demand=None)), Aspect.MODELS_SUPPORTED).word == "ModelsSupported"
    by_claim = told(taken(params, world(demand=(demand(uses_claims=True),))), Aspect.MODELS_SUPPORTED)
    assert by_claim.holds is False
