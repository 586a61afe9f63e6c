"""Signals out of Prometheus: of live pods, as old as they are, never of half."""

from typing import Any

import pytest

from autoscaler.adapters.engines.profiles import custom
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.live import querying
from autoscaler.adapters.prometheus.source import PrometheusSource
from autoscaler.ports import Fault, MetricSample, PortError
from autoscaler.runtime.clock import WallClock
from tests.prometheus.fake import FakePrometheus, prometheus, success

W = "team/chat"


class Fixed(WallClock):
    """The machine's clock with a wall time that the test sets."""

    now_s = 1_700_000_000.0

    def now(self) -> float:
        return self.now_s


def series(name: str, pod: str, *points: tuple[float, float], **labels: str) -> dict[str, Any]:
    values = [[Fixed.now_s - age_s, str(value)] for age_s, value in points]
    return {"metric": {"__name__": name, "namespace": "team", "pod": pod, **labels}, "values": values}


def pod(name: str, *, age_s: float = 2.0, waiting: float = 0.0) -> list[dict[str, Any]]:
    return [
        series("vllm:num_requests_waiting", name, (age_s + 15.0, 99.0), (age_s, waiting)),
        series("vllm:num_requests_running", name, (age_s, 4.0)),
        series("vllm:request_success_total", name, (age_s, 10.0), finished_reason="stop"),
        series("vllm:request_success_total", name, (age_s, 5.0), finished_reason="length"),
        series("vllm:kv_cache_usage_perc", name, (age_s, 0.5)),
    ]


def target(name: str) -> ScrapeTarget:
    return ScrapeTarget(W, name, f"uid-{name}", "10.0.0.1", 8000, ready_since_s=1.0)


async def read(fake: FakePrometheus, *targets: ScrapeTarget | GatewayTarget, clock: WallClock) -> MetricSample:
    async with querying({"main": Endpoint(fake.url)}, timeout_s=10.0) as live:
        source = PrometheusSource(live, "main", clock)
        for one in targets:
            source.put(one)
        return await source.read(W)


async def test_live_pods_are_read_and_series_of_others_are_not() -> None:
    async with prometheus() as fake:
        fake.answer = success(*pod("a", waiting=3.0), *pod("b", age_s=7.0), *pod("deleted", waiting=500.0))
        sample = await read(fake, target("a"), target("b"), clock=Fixed())
    assert sample.at_s == Fixed.now_s - 2.0, "as old as the newest scrape"
    one, two = sample.pods or ()
    assert (one.name, one.waiting, one.running, one.requests_total, one.kv_cache_usage) == ("a", 3.0, 4.0, 15.0, 0.5)
    assert (two.name, two.waiting) == ("b", 0.0)
    query = fake.asked[0][1]["query"]
    assert query.endswith(',namespace="team",pod=~"a|b"}[30s]')
    assert "vllm:num_requests_waiting" in query


async def test_a_live_pod_without_a_sample_in_half_a_minute_is_silent_and_not_idle() -> None:
    async with prometheus() as fake:
        fake.answer = success(*pod("a"))
        sample = await read(fake, target("a"), target("b"), clock=Fixed())
    assert sample.pods is not None
    assert sample.pods[1].name == "b"
    assert (sample.pods[1].waiting, sample.pods[1].running) == (None, None)


async def test_samples_that_prometheus_should_not_have_given_are_too_old_all_the_same() -> None:
    async with prometheus() as fake:
        fake.answer = success(*pod("a", age_s=31.0))
        with pytest.raises(PortError, match="no page has been read yet"):
            await read(fake, target("a"), clock=Fixed())


@pytest.mark.parametrize("older_first", [True, False])
async def test_a_pod_scraped_by_two_jobs_is_counted_once(older_first: bool) -> None:
    twice = [{**one, "metric": {**one["metric"], "job": "other"}} for one in pod("a", age_s=9.0, waiting=3.0)]
    newest = pod("a", age_s=2.0, waiting=3.0)
    async with prometheus() as fake:
        fake.answer = success(*twice, *newest) if older_first else success(*newest, *twice)
        sample = await read(fake, target("a"), clock=Fixed())
    assert sample.pods is not None
    assert sample.pods[0].waiting == 3.0
    assert sample.pods[0].requests_total == 15.0


async def test_a_gateway_is_read_the_same_way() -> None:
    async with prometheus() as fake:
        fake.answer = success(
            series("llm_d_epp_flow_control_queue_size", "epp-0", (1.0, 6.0), inference_pool="chat"),
            series("llm_d_epp_flow_control_queue_size", "epp-0", (1.0, 70.0), inference_pool="other"),
            series("llm_d_epp_request_total", "epp-0", (1.0, 100.0)),
        )
        sample = await read(fake, GatewayTarget(W, "epp-0", "u", "10.0.0.2", 9090, "team", "chat"), clock=Fixed())
    assert sample.pods == ()
    assert sample.gateway is not None
    assert (sample.gateway.queued, sample.gateway.requests_total) == (6.0, 106.0)


async def test_an_answer_that_is_a_part_or_none_is_an_error_and_not_a_lull() -> None:
    async with prometheus() as fake:
        fake.answer = success(*pod("a"), warnings=["one store did not answer"])
        with pytest.raises(PortError, match="part is missing"):
            await read(fake, target("a"), target("b"), clock=Fixed())
        fake.answer = success()
        with pytest.raises(PortError):
            await read(fake, target("a"), clock=Fixed())


async def test_a_value_that_is_no_number_is_missing_and_no_zero() -> None:
    broken = [{**one, "values": [[Fixed.now_s - 2.0, "none"]]} for one in pod("a")[:1]]
    async with prometheus() as fake:
        fake.answer = success(*broken, *pod("a")[1:])
        sample = await read(fake, target("a"), clock=Fixed())
    (one,) = sample.pods or ()
    assert (one.waiting, one.running) == (None, 4.0)


async def test_targets_come_and_go() -> None:
    async with prometheus() as fake, querying({"main": Endpoint(fake.url)}, timeout_s=10.0) as live:
        source = PrometheusSource(live, "main", Fixed())
        with pytest.raises(PortError, match="no pod or gateway") as raised:
            await source.read(W)
        assert raised.value.fault is Fault.UNAVAILABLE
        source.put(target("a"))
        source.put(target("b"))
        source.drop("uid-b")
        source.drop("uid-of-nobody")
        fake.answer = success(*pod("a"), *pod("b"))
        assert [one.name for one in (await source.read(W)).pods or ()] == ["a"]
        source.drop("uid-a")
        asked = len(fake.asked)
        assert (await source.read(W)).pods == ()
        assert len(fake.asked) == asked, "nothing to ask about"
        source.put(target("a"))
        source.forget(W)
        with pytest.raises(PortError, match="no pod or gateway"):
            await source.read(W)


async def test_an_engine_of_unknown_names_is_silent_until_they_are_known() -> None:
    async with prometheus() as fake, querying({"main": Endpoint(fake.url)}, timeout_s=10.0) as live:
        source = PrometheusSource(live, "main", Fixed())
        source.put(ScrapeTarget(W, "a", "uid-a", "10.0.0.1", 1, profile="mine", ready_since_s=1.0))
        with pytest.raises(PortError, match="engine 'mine': its metric names are not known"):
            await source.read(W)
        assert fake.asked == []
        source.learn(custom("mine", {"waiting": "my_queue"}))
        fake.answer = success(series("my_queue", "a", (1.0, 7.0)))
        (pod,) = (await source.read(W)).pods or ()
        assert pod.waiting == 7.0
        source.unlearn("mine")
        asked = len(fake.asked)
        await source.read(W)
        assert len(fake.asked) == asked, "nobody is asked about names that are not known any more"
