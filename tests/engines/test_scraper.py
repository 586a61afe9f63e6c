"""The scraper against real servers on loopback addresses: every bad page costs its own pod one reading."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from autoscaler.adapters.engines.profiles import Fact, custom
from autoscaler.adapters.engines.scraper import Scraper
from autoscaler.adapters.engines.targets import ScrapeTarget
from autoscaler.ports import Fault, PortError
from autoscaler.runtime.clock import WallClock
from tests.engines.pods import Answer, Pods, serving, target, vllm

W = "team/chat"
GOOD, BAD = "127.1.0.1", "127.1.0.2"


@contextlib.asynccontextmanager
async def scraping(pods: Pods, *ips: str, **more) -> AsyncIterator[tuple[Scraper, list[str]]]:
    """A scraper over these addresses that asks ten times a second."""
    news: list[str] = []
    more = {"interval_s": 0.1, "timeout_s": 5.0, "allow_loopback": True, **more}
    scraper = Scraper(clock=WallClock(), on_news=news.append, **more)
    for ip in ips:
        scraper.put(target(ip, pods.port))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scraper.run())
        yield scraper, news
        task.cancel()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is waited for is a server's answer
            await asyncio.sleep(0.01)


async def test_pages_become_readings_and_the_first_of_a_ready_pod_is_news() -> None:
    async with serving(GOOD, BAD) as pods:
        pods.answers = {GOOD: vllm(3, 5, 40, 0.5, deferred=2), BAD: vllm(0, 1, 8, 0.1)}
        async with scraping(pods, GOOD, BAD) as (scraper, news):
            await until(lambda: len(news) >= 2)
            sample = scraper.sample(W)
            assert await scraper.read(W) == sample
    assert sample.pods is not None
    one, two = sorted(sample.pods, key=lambda pod: pod.name)
    assert (one.waiting, one.waiting_deferred, one.running, one.requests_total) == (3.0, 2.0, 5.0, 40.0)
    assert (one.prompt_tokens_total, one.generation_tokens_total, one.kv_cache_usage) == (4000.0, 400.0, 0.5)
    assert (two.name, two.waiting, two.running) == ("pod-127.1.0.2", 0.0, 1.0)


async def drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            await response.write(b"#")
            await asyncio.sleep(0.05)
    return response


async def huge(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            await response.write(b"# comment\n" * 100_000)
    return response


async def cut(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100000"})
    await response.prepare(request)
    await response.write(vllm(3).encode())
    assert request.transport is not None
    request.transport.close()
    return response


async def reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def status(code: int, **headers: str):
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=code, text=vllm(9), headers=headers)

    return answer


async def html(_request: web.Request) -> web.Response:
    return web.Response(text="<!doctype html><p>nginx</p>", content_type="text/html")


async def gzipped(_request: web.Request) -> web.Response:
    return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})


async def commanding(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    assert isinstance(request.transport, asyncio.Transport)
    request.transport.write(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: \x1b]0;all is well\x07\r\nContent-Length: 1\r\n\r\nx"
    )
    request.transport.close()
    return web.Response()


TROUBLES: dict[str, tuple[Answer, Fault, str]] = {
    "empty": ("", Fault.INVALID, "the page is empty"),
    "only blanks": ("  \n\n", Fault.INVALID, "the page is empty"),
    "HTML": (html, Fault.INVALID, "HTML"),
    "HTML that calls itself text": ("<html>502</html>\n", Fault.INVALID, "HTML"),
    "another program's": ("go_goroutines 7\n", Fault.INVALID, "none of vllm:num_requests_waiting_by_reason"),
    "JSON": ('[{"numActiveRequests": 3}]\n', Fault.INVALID, "none of vllm:"),
    "renamed": (vllm(3).replace("vllm:num_", "vllm:count_"), Fault.INVALID, "is on the page"),
    "all not a number": (vllm(float("nan"), float("nan")), Fault.INVALID, "cannot be true"),
    "all negative": (vllm(-1, -1), Fault.INVALID, "cannot be true"),
    "an unknown size that is 100 MB": (huge, Fault.INVALID, "larger than 1048576 bytes"),
    "a slow drip": (drip, Fault.TIMEOUT, "no whole page within 0.3 s"),
    "cut off": (cut, Fault.UNAVAILABLE, "Not enough data"),
    "reset": (reset, Fault.UNAVAILABLE, "isconnected"),
    "an error": (status(503), Fault.UNAVAILABLE, "HTTP 503"),
    "not there": (status(404), Fault.INVALID, "HTTP 404"),
    "for the authorised": (status(401), Fault.DENIED, "credentials are never sent"),
    "elsewhere": (status(302, Location="http://127.1.0.1/metrics"), Fault.INVALID, "HTTP 302"),
    "compressed": (gzipped, Fault.INVALID, "compressed (gzip)"),
    "an order to terminals": (commanding, Fault.INVALID, "compressed (?]0;all is well?)"),
}


@pytest.mark.parametrize(("answer", "fault", "words"), TROUBLES.values(), ids=TROUBLES.keys())
async def test_a_page_that_cannot_be_used_silences_its_own_pod_only(answer: Answer, fault: Fault, words: str) -> None:
    async with serving(GOOD, BAD) as pods:
        pods.answers = {GOOD: vllm(1, 2), BAD: answer}
        async with scraping(pods, GOOD, BAD, timeout_s=0.3 if answer is drip else 5.0) as (scraper, news):
            await until(lambda: any(one.pod == f"pod-{BAD}" for one in scraper.found(W).silent) and bool(news))
            silent = next(one for one in scraper.found(W).silent if one.pod == f"pod-{BAD}")
            sample = scraper.sample(W)
    assert silent.fault is fault
    assert len(news) == 1, "of the good pod"
    assert words in silent.message
    assert sample.pods is not None
    readings = {pod.name: pod for pod in sample.pods}
    assert readings[f"pod-{GOOD}"].waiting == 1.0
    assert readings[f"pod-{BAD}"].waiting is None, "missing, not zero"
    assert readings[f"pod-{BAD}"].kv_cache_usage is None


async def test_an_impossible_value_is_missing_alone_and_counted() -> None:
    async with serving(GOOD) as pods:
        pods.answers = {GOOD: vllm(1, 2, 4, 1.7)}
        async with scraping(pods, GOOD) as (scraper, news):
            await until(lambda: len(news) == 1)
            (pod,) = scraper.sample(W).pods or ()
            found = scraper.found(W)
    assert (pod.waiting, pod.running, pod.requests_total, pod.kv_cache_usage) == (1.0, 2.0, 4.0, None)
    assert found.impossible == {Fact.KV_USED: 1}


async def test_nobody_answering_is_an_error_that_names_the_cause() -> None:
    async with serving(GOOD) as pods:
        async with scraping(pods, GOOD) as (scraper, _):
            with pytest.raises(PortError, match="no page has been read yet"):
                scraper.sample(W)
            await until(lambda: bool(scraper.found(W).silent))
            with pytest.raises(PortError, match=r"team/chat: HTTP 404 \(1 of 1 silent targets\)") as error:
                scraper.sample(W)
        assert error.value.fault is Fault.INVALID
        with pytest.raises(PortError, match="no pod or gateway"):
            scraper.sample("team/other")


async def test_a_redirect_is_not_followed_and_nothing_personal_is_sent() -> None:
    async with serving(GOOD, BAD) as pods:
        pods.answers = {GOOD: status(302, Location=f"http://{BAD}:{pods.port}/metrics"), BAD: vllm()}
        async with scraping(pods, GOOD) as (scraper, _):
            await until(lambda: len(pods.asked) >= 2)
            assert scraper.found(W).silent[0].message == "HTTP 302"
    assert {ip for _, ip, _ in pods.asked} == {GOOD}
    headers = pods.asked[0][2].headers
    assert headers["Accept-Encoding"] == "identity"
    assert not {"Authorization", "Cookie", "Proxy-Authorization"} & set(headers)


async def test_proxies_and_cookies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def bakes(_request: web.Request) -> web.Response:
        return web.Response(text=vllm(), headers={"Set-Cookie": "a=b"})

    monkeypatch.setenv("HTTP_PROXY", "http://127.9.9.9:1")
    async with serving(GOOD) as pods:
        pods.answers = {GOOD: bakes}
        async with scraping(pods, GOOD):
            await until(lambda: len(pods.asked) >= 3)
    assert all("Cookie" not in request.headers for _, _, request in pods.asked)


async def test_an_engine_of_unknown_names_is_silent_until_they_are_known() -> None:
    async with serving(GOOD) as pods:
        pods.answers = {GOOD: "my_queue 7\n"}
        async with scraping(pods) as (scraper, _):
            scraper.put(target(GOOD, pods.port, profile="mine"))
            (silent,) = scraper.found(W).silent
            assert silent.message == "engine 'mine': its metric names are not known; name them in the settings"
            with pytest.raises(PortError, match="engine 'mine'"):
                scraper.sample(W)
            scraper.learn(custom("mine", {"waiting": "my_queue"}))
            await until(lambda: scraper.states()["answering"] == 1)
            (pod,) = scraper.sample(W).pods or ()
            scraper.unlearn("mine")
            await until(lambda: scraper.states()["answering"] == 0)
            assert "mine" not in {*scraper._profiles, *scraper._readers}
            (silent,) = scraper.found(W).silent
            assert "engine 'mine'" in silent.message
    assert pod.waiting == 7.0


async def test_targets_are_counted_by_state() -> None:
    async with serving(GOOD, BAD) as pods:
        pods.answers = {GOOD: vllm()}
        async with scraping(pods, GOOD, BAD) as (scraper, _):
            assert scraper.states() == {"answering": 0, "silent": 0, "unheard": 2}
            await until(lambda: scraper.states() == {"answering": 1, "silent": 1, "unheard": 0})


async def test_loopback_is_refused_unless_it_is_allowed() -> None:
    async with serving(GOOD) as pods:
        pods.answers = {GOOD: vllm()}
        async with scraping(pods, GOOD, allow_loopback=False) as (scraper, _):
            await until(lambda: bool(scraper.found(W).silent))
            assert scraper.found(W).silent[0].message == "not asked: 127.1.0.1 is this machine's own (loopback)"
    assert pods.asked == []


async def test_a_pod_has_one_connection_which_is_kept() -> None:
    async with serving(GOOD) as pods:
        pods.answers = {GOOD: vllm()}
        async with scraping(pods, GOOD):
            await until(lambda: len(pods.asked) >= 5)
    ports = {request.transport.get_extra_info("peername")[1] for _, _, request in pods.asked if request.transport}
    assert len(ports) <= 1


async def test_targets_that_share_an_address_are_asked_one_at_a_time() -> None:
    asking, most = 0, 0

    async def slow(_request: web.Request) -> web.Response:
        nonlocal asking, most
        asking, most = asking + 1, max(most, asking + 1)
        await asyncio.sleep(0.02)
        asking -= 1
        return web.Response(text=vllm())

    async with serving(GOOD) as pods:
        pods.answers = {GOOD: slow}
        async with scraping(pods) as (scraper, _):
            for number in range(10):
                scraper.put(ScrapeTarget(W, f"pod-{number}", f"uid-{number}", GOOD, pods.port, ready_since_s=0.0))
            await until(lambda: len(pods.asked) >= 20)
    assert most == 1


async def test_a_pod_that_goes_away_leaves_no_reading_and_is_asked_no_more() -> None:
    async with serving(GOOD, BAD) as pods:
        pods.answers = {GOOD: vllm(), BAD: vllm()}
        async with scraping(pods, GOOD, BAD) as (scraper, news):
            await until(lambda: len(news) == 2)
            scraper.drop(f"uid-{BAD}")
            scraper.drop("uid-of-nobody")
            assert [pod.name for pod in scraper.sample(W).pods or ()] == [f"pod-{GOOD}"]
            before = len([1 for _, ip, _ in pods.asked if ip == BAD])
            asked = len(pods.asked)
            await until(lambda: len(pods.asked) >= asked + 3)
            assert len([1 for _, ip, _ in pods.asked if ip == BAD]) <= before + 1
            scraper.drop(f"uid-{GOOD}")
            assert scraper.sample(W).pods == (), "there are none, which is known"
            scraper.forget(W)
            with pytest.raises(PortError):
                scraper.sample(W)


class Set:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now(self) -> float:
        return self.at_s

    def monotonic(self) -> float:
        return self.at_s

    async def sleep_until(self, monotonic_s: float, wake: asyncio.Event | None = None) -> None:
        raise AssertionError("nothing is waited for here")


async def test_what_one_request_in_a_hundred_takes_longer_than_is_known_from_the_pages() -> None:
    clock = Set()
    scraper = Scraper(clock=clock, on_news=lambda _: None)
    asked = target(GOOD, 8000)
    scraper.put(asked)
    name = "vllm:e2e_request_latency_seconds_bucket"
    for at_s, count in ((0.0, 0), (6.0, 200)):
        clock.at_s = at_s
        buckets = f'{name}{{le="30"}} {0.98 * count}\n{name}{{le="60"}} {count}\n{name}{{le="+Inf"}} {count}\n'
        assert scraper._absorb(asked, (vllm() + buckets).encode())
    assert scraper.long_request_s(W) == pytest.approx(45.0), "half way between 98 and 100 of a hundred"
    assert scraper.long_request_s("team/other") is None
