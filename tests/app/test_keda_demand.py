"""What KEDA is answered from a step's readings: demand counted whole or not at all, and for how long without any."""

import math

import pytest

from autoscaler.adapters.keda.answers import Refusal, Served
from autoscaler.api.trigger import Measure, Style
from autoscaler.core.types import GatewayReading, PodReading
from tests.app.keda_bench import CHAT, HOLD_S, Bench, Known, claim


def test_an_outage_of_metrics_is_held_then_refused_and_never_a_smaller_number() -> None:
    """Edge case 5, as KEDA sees it: ten minutes without metrics under load."""
    bench = Bench()
    bench.step(8, seen=8)
    begun_s = bench.clock.at_s
    told: list[int | Refusal] = []
    for second in range(0, 601, 5):
        bench.clock.at_s = begun_s + second
        state = "fresh" if second == 0 else "held" if second <= 15 else "unknown"
        bench.step(8, seen=8, signals=tuple((name, state, float(second)) for name in ("arrivals", "queue")))
        answer = bench.told()
        told.append(answer.replicas if isinstance(answer, Served) else answer.refusal)
        if isinstance(answer, Served):
            assert answer.held == (second > 0)
            assert answer.age_s == second
    assert told == [8] * 25 + [Refusal.NOT_READY] * 96


def test_one_signal_of_demand_that_is_read_is_enough() -> None:
    bench = Bench()
    bench.step(5, signals=(("arrivals", "unknown", 600.0), ("queue", "fresh", 0.0)))
    told = bench.told()
    assert isinstance(told, Served)
    assert not told.held


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf, -1e18, 1e18], ids=str)
def test_a_pod_that_says_nonsense_never_becomes_a_number_of_nonsense(figure: float) -> None:
    """Edge case 1, kedacore/keda#7880 and #7475: KEDA reads NaN, infinity and what is negative as 0."""
    bench = Bench()
    bench.step(5, pods=(pod(figure, 1.0), pod(2.0, 1.0)))
    told = bench.told()
    assert isinstance(told, Served)
    assert told.replicas == 5
    for measure in (Measure(), Measure(Style.DEMAND, 8)):
        value = measure.value(told.replicas, told.demand)
        assert math.ceil(value / measure.per_replica) == 5


def pod(waiting: float | None, running: float | None) -> PodReading:
    return PodReading(f"p{waiting}{running}", waiting=waiting, running=running)


@pytest.mark.parametrize(
    ("pods", "queued", "gateway", "demand"),
    [
        pytest.param((pod(2, 8), pod(0, 5)), None, None, 15, id="pods alone"),
        pytest.param((pod(2, 8), pod(0, 5)), 4.0, "main", 19, id="with a gateway's queue"),
        pytest.param((pod(0.4, 8),), None, None, 9, id="rounded up to whole requests"),
        pytest.param((), None, None, None, id="no pod where three replicas stand"),
        pytest.param((pod(2, None),), None, None, None, id="a pod that does not say"),
        pytest.param((pod(1.7e308, 1.7e308),), None, None, None, id="a pod whose finite figures have no finite sum"),
        pytest.param(None, None, None, None, id="pods that could not be read"),
        pytest.param((pod(2, 8),), None, "main", None, id="a gateway that does not say"),
    ],
)
def test_demand_is_counted_whole_or_not_at_all(
    pods: tuple[PodReading, ...] | None, queued: float | None, gateway: str | None, demand: int | None
) -> None:
    bench = Bench(Known(claims={CHAT: claim(gateway=gateway)}))
    bench.step(3, pods=pods, gateway=None if queued is None else GatewayReading(queued))
    told = bench.told()
    assert isinstance(told, Served)
    assert told.demand == demand


@pytest.mark.parametrize(
    ("starting", "pods", "told"),
    [
        pytest.param(2, (), True, id="all that was ordered starts"),
        pytest.param(1, (), False, id="one is neither ready nor starting"),
        pytest.param(2, None, False, id="and pods could not be read"),
    ],
)
def test_a_warm_up_longer_than_values_are_held_is_no_fault(
    starting: int, pods: tuple[PodReading, ...] | None, told: bool
) -> None:
    """Woken by another trigger, without a gateway there is nothing to read: KEDA's fallback would order more."""
    bench = Bench()
    old = (("arrivals", "unknown", 2 * HOLD_S), ("queue", "unknown", 2 * HOLD_S))
    bench.step(2, seen=2, signals=old, pods=pods, starting=starting)
    found = bench.told()
    assert isinstance(found, Served) is told
    if isinstance(found, Served):
        assert (found.replicas, found.demand, found.held) == (2, None, False)
