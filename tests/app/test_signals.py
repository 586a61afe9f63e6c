"""A workload's pods first, the Prometheus of its policy second, and one error with both their words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from autoscaler.adapters.engines.fetch import Trouble
from autoscaler.adapters.engines.scraper import Scraper
from autoscaler.adapters.engines.targets import ScrapeTarget
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.live import querying
from autoscaler.adapters.prometheus.source import PrometheusSource
from autoscaler.app.signals import Signals
from autoscaler.ports import Fault, PortError
from autoscaler.runtime.clock import WallClock
from tests.engines.pods import vllm
from tests.kube.clients import until
from tests.prometheus.fake import FakePrometheus, prometheus, success
from tests.prometheus.test_source import Fixed, pod

W = "team/chat"
POD = ScrapeTarget(W, "a", "uid-a", "10.0.0.1", 8000, ready_since_s=1.0)


class Scene:
    """Both sources of a workload with one pod."""

    def __init__(self, fake: FakePrometheus, scraper: Scraper, signals: Signals) -> None:
        self.fake, self.scraper, self.signals = fake, scraper, signals
        fake.answer = success(*pod("a", waiting=7.0))

    def page(self, answer: bytes | Trouble) -> None:
        """The pod answers the scraper."""
        self.scraper._absorb(POD, answer)

    async def waiting(self) -> float | None:
        (found,) = (await self.signals.read(W)).pods or ()
        return found.waiting


@asynccontextmanager
async def scene(endpoint: str | None = "main", clock: WallClock | None = None) -> AsyncIterator[Scene]:
    clock = clock or Fixed()
    async with prometheus() as fake, querying({"main": Endpoint(fake.url)}, timeout_s=10.0) as live:
        scraper = Scraper(clock=clock, on_news=lambda _: None)
        signals = Signals(scraper, {"main": PrometheusSource(live, "main", clock)})
        signals.put(POD)
        signals.stand_behind(W, endpoint)
        yield Scene(fake, scraper, signals)


async def test_while_a_page_can_be_read_prometheus_is_not_asked() -> None:
    async with scene() as made:
        made.page(vllm(3, 5, 10, 0.5).encode())
        assert await made.waiting() == 3.0
        assert made.fake.asked == []


async def test_where_no_page_can_be_read_prometheus_answers() -> None:
    async with scene() as made:
        assert await made.waiting() == 7.0
        assert made.signals.problem(W) is None


async def test_what_neither_can_tell_is_one_error_with_both_their_words() -> None:
    async with scene() as made:
        made.page(Trouble(Fault.TIMEOUT, "no whole page within 1 s"))
        made.fake.status, made.fake.answer = 503, "<html>no backend</html>"
        with pytest.raises(PortError, match=r"no whole page within 1 s .*; prometheus main: .*HTTP 503") as caught:
            await made.signals.read(W)
        assert caught.value.fault is Fault.UNAVAILABLE
        assert "prometheus main" in (made.signals.problem(W) or "")
        made.page(vllm(3, 5, 10, 0.5).encode())
        assert await made.waiting() == 3.0
        assert made.signals.problem(W) is None, "nobody misses it while pages are read"


@pytest.mark.parametrize("gone", [True, False], ids=["scaled no more", "without an endpoint by now"])
async def test_an_endpoint_that_is_taken_back_while_it_is_asked_in_vain_is_no_bug_and_leaves_nothing(
    gone: bool,
) -> None:
    """A bug there cost the workload all that was learnt of it, and a minute without a decision."""
    async with scene() as made:
        taken_back = asyncio.Event()

        async def late(_: web.Request) -> web.StreamResponse:
            await taken_back.wait()
            return web.Response(text="<html>no backend</html>", status=503)

        made.fake.answer = late
        asking = asyncio.create_task(made.signals.read(W))
        await until(lambda: made.fake.asked)
        if gone:
            made.signals.forget(W)
        else:
            made.signals.stand_behind(W, None)
        taken_back.set()
        with pytest.raises(PortError, match=r"prometheus main: .*HTTP 503"):
            await asking
        assert made.signals.problem(W) is None


@pytest.mark.parametrize("endpoint", [None, "other"], ids=["none named", "one that the settings do not know"])
async def test_without_an_endpoint_the_error_is_the_pods_own(endpoint: str | None) -> None:
    async with scene(endpoint) as made:
        with pytest.raises(PortError, match="no page has been read yet") as caught:
            await made.signals.read(W)
        assert "prometheus" not in str(caught.value)
        assert made.fake.asked == []


async def test_an_endpoint_that_is_named_later_knows_the_pods_and_one_that_is_taken_back_forgets_them() -> None:
    async with scene(None) as made:
        made.signals.stand_behind(W, "main")
        assert await made.waiting() == 7.0
        made.signals.drop("uid-a")
        assert (await made.signals.read(W)).pods == ()
        made.signals.put(POD)
        assert await made.waiting() == 7.0
        made.signals.stand_behind(W, None)
        with pytest.raises(PortError):
            await made.signals.read(W)
        made.signals.forget(W)
        with pytest.raises(PortError, match="no pod or gateway"):
            await made.signals.read(W)
