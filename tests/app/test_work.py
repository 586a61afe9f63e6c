"""How much a pod has to do: the tokens it holds where all say, else its requests."""

import pytest

from autoscaler.app.work import work_of
from autoscaler.core.types import PodReading
from autoscaler.ports import Fault, MetricSample, PortError


def pod(name: str, running: float | None, kv: float | None, waiting: float = 0.0) -> PodReading:
    return PodReading(name, waiting=waiting, running=running, kv_cache_usage=kv)


@pytest.mark.parametrize(
    ("pods", "order"),
    [
        pytest.param((pod("a", 3, 0.2), pod("b", 1, 0.6)), ["a", "b"], id="a long one outweighs three short ones"),
        pytest.param((pod("a", 3, 0.2), pod("b", 1, None)), ["b", "a"], id="requests, where tokens are not said"),
        pytest.param((pod("a", 1, 0.2, waiting=2), pod("b", 2, 0.2)), ["b", "a"], id="who waits counts too"),
        pytest.param((pod("a", None, None), pod("b", 2, 0.2)), ["b"], id="a silent one is not known"),
        pytest.param(None, [], id="no pods are known"),
    ],
)
def test_least_first(pods: tuple[PodReading, ...] | None, order: list[str]) -> None:
    work = work_of(lambda _: MetricSample(1.0, pods), "prod/chat")
    assert sorted(work, key=lambda name: work[name]) == order


def test_without_a_sample_nothing_is_known() -> None:
    def lost(_: str) -> MetricSample:
        raise PortError(Fault.TIMEOUT, "no answer")

    assert work_of(lost, "prod/chat") == {}
