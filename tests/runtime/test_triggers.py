"""Which readings contradict a decision, one row per cause."""

from dataclasses import replace

import pytest

from autoscaler.core.reasons import Reason
from autoscaler.core.types import (
    Decision,
    GatewayReading,
    Limits,
    PodReading,
    Readings,
    ReplicaReading,
    StartingReplica,
    Step,
    Verdict,
)
from autoscaler.runtime.triggers import Assumed, Cause, contradiction

START = StartingReplica(90.0, "s")
THEN = Readings(
    100.0,
    ReplicaReading(3, 2, (START,)),
    pods=(PodReading("a", waiting=0.0), PodReading("b", waiting=0.0)),
    gateway=GatewayReading(0.0, 1000.0),
)
PLAN = Step("demand", 3, 4, Reason.FORECAST, (("replica_rps", 2.0),))
DECISION = Decision("w", 100.0, 3, 4, Verdict.SCALE, Reason.FORECAST, (PLAN,), 105.0)
"""From 3 to 4 replicas at 2 requests/s each: 8 requests/s are planned for."""


def replicas(desired: int = 3, ready: int = 2, starting: tuple[StartingReplica, ...] = (START,)) -> Readings:
    return replace(THEN, now_s=102.0, replicas=ReplicaReading(desired, ready, starting))


def arrived(count: float, seconds: float = 2.0) -> Readings:
    return replace(THEN, now_s=100.0 + seconds, gateway=GatewayReading(0.0, 1000.0 + count))


CASES = {
    "nothing new": (replace(THEN, now_s=102.0), None),
    "a request waits in a pod": (replace(THEN, pods=(PodReading("a", waiting=1.0),)), Cause.FIRST_WAITING),
    "a request waits at the gateway": (replace(THEN, gateway=GatewayReading(1.0, 1000.0)), Cause.FIRST_WAITING),
    "a fraction of a request is rounding": (replace(THEN, gateway=GatewayReading(0.2, 1000.0)), None),
    "as many arrive as were planned for": (arrived(16.0), None),
    "a little more is the dice": (arrived(27.0), None),
    "more than three sigmas above plan": (arrived(29.0), Cause.DEMAND),
    "many in no time at all": (arrived(50.0, seconds=0.0), None),
    "our own order shows": (replicas(desired=4, starting=(START, StartingReplica(100.0, "t"))), None),
    "somebody else set the count": (replicas(desired=7), Cause.SCALE_EDITED),
    "a start became ready": (replicas(ready=3, starting=()), Cause.POD_READY),
    "a ready pod is gone": (replicas(ready=1), Cause.POD_LOST),
    "a start is gone and no pod came": (replicas(starting=()), Cause.START_LOST),
    "a start finds no node": (replicas(starting=(replace(START, unschedulable=True),)), Cause.START_STUCK),
    "a quota was set": (replace(THEN, limits=Limits(quota_replicas=3)), Cause.EDITED),
    "the metrics went silent": (replace(THEN, pods=None, gateway=None), None),
}


@pytest.mark.parametrize(("now", "cause"), CASES.values(), ids=CASES.keys())
def test_cause(now: Readings, cause: Cause | None) -> None:
    assert contradiction(Assumed(DECISION, THEN), now) is cause


def test_a_start_that_our_own_decision_cancelled_contradicts_nothing() -> None:
    fewer = replace(DECISION, replicas=2)
    assert contradiction(Assumed(fewer, THEN), replicas(desired=2, starting=())) is None


def test_a_ready_pod_that_our_own_decision_took_away_contradicts_nothing() -> None:
    fewer = replace(DECISION, replicas=1)
    assert contradiction(Assumed(fewer, THEN), replicas(desired=1, ready=1, starting=())) is None


def test_a_queue_that_was_there_already_contradicts_nothing() -> None:
    waiting = replace(THEN, gateway=GatewayReading(5.0, 1000.0))
    assert contradiction(Assumed(DECISION, waiting), replace(waiting, gateway=GatewayReading(9.0, 1000.0))) is None


def test_demand_is_not_judged_while_capacity_is_unknown() -> None:
    uncalibrated = replace(DECISION, trace=(Step("demand", 3, 3, Reason.NO_SIGNAL),))
    assert contradiction(Assumed(uncalibrated, THEN), arrived(500.0)) is None
