"""Pools that were looked at, as they are told of."""

from dataclasses import replace

from autoscaler.core.pool.circuits import Circuit
from autoscaler.core.pool.clock import SlotClock, StartKind
from autoscaler.core.pool.intents import PoolDecision, PoolStep
from autoscaler.core.pool.loans import Lending
from autoscaler.core.pool.params import CapacityType, Domain
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import Circuits, PoolState
from autoscaler.record.pool_status import PoolCounts, PoolStatus, pool_status, with_loans
from autoscaler.record.status import Condition

NOW_S = 1_700_000_000.0
KIND = StartKind("h100", "a", "on-demand", "c1@sha256:0123456789abcdef", new_node=True)
WHERE = Domain("h100", "a", CapacityType.ON_DEMAND)
DECISION = PoolDecision(
    pool="chat", now_s=NOW_S, supply=3, warm=2, target=4, keep=4, reason=PoolReason.MINIMUM,
    trace=(PoolStep("size", 0, 4, PoolReason.MINIMUM, (("min_slots", 4),)),),
    by_stage=(("requested", 1), ("weights_warm", 2), ("failed", 0)), refill_s=640.0,
)  # fmt: skip
LEARNT = PoolState(
    hits=99.0,
    misses=1.0,
    clock=SlotClock(walks={KIND: ((280.0, 20.0, 120.0, 100.0, 60.0),) * 4}),
    circuits=Circuits(
        capacity={
            Domain("h100", "a", CapacityType.ON_DEMAND): Circuit(opened=1, until_s=NOW_S + 180.0, trouble_s=NOW_S)
        }
    ),
)
READY = Condition("Ready", "False", "NotReady", "only 2 of 4 slots are warm")


def short_pool() -> PoolStatus:
    """Two of four slots are warm, none is lent nor held for a gang, and one zone has no capacity."""
    told = pool_status(DECISION, LEARNT, (READY,), PoolCounts(7, 3, 1, 3600.0), "slots")
    return replace(with_loans(told, Lending(lent=0), ()), gang_gpus=0.0)


def young_pool() -> PoolStatus:
    """Nothing is known of it but that it is as it should be."""
    return pool_status(replace(DECISION, warm=4, supply=4), PoolState(), (), PoolCounts(), "slots")
