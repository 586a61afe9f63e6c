"""Live queries: in the body, on time, whole or not at all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from autoscaler.adapters.prometheus import live as module
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.live import MAX_POINTS, querying
from autoscaler.errors import InputError
from autoscaler.ports import Fault, PortError
from tests.prometheus.fake import Answer, prometheus, success


async def test_the_query_is_in_the_body_and_the_answer_in_series() -> None:
    async with prometheus() as fake, querying({"main": Endpoint(fake.url + "/prefix/")}) as live:
        fake.answer = success(
            {"metric": {"pod": "a"}, "value": [1700000000.5, "3"]},
            {"metric": {"pod": "b"}, "values": [[1, "1"], [2, "+Inf"]]},
            infos=["the metric might not be a counter"],
        )
        one, two = await live.instant("main", "up" * 3000)
    request, form = fake.asked[0]
    assert (request.method, request.path, request.query_string) == ("POST", "/prefix/api/v1/query", "")
    assert form["query"] == "up" * 3000
    assert one.samples == ((1700000000.5, "3"),)
    assert two.samples == ((1.0, "1"), (2.0, "+Inf"))


async def test_a_range_has_explicit_times_and_no_more_points_than_prometheus_gives() -> None:
    async with prometheus() as fake, querying({"main": Endpoint(fake.url)}, timeout_s=10.0) as live:
        await live.range("main", "up", start_s=100.25, end_s=200.0, step_s=0.5)
        with pytest.raises(ValueError, match="points"):
            await live.range("main", "up", start_s=0.0, end_s=float(MAX_POINTS), step_s=1.0)
        with pytest.raises(ValueError, match="points"):
            await live.range("main", "up", start_s=2.0, end_s=1.0, step_s=1.0)
    _, form = fake.asked[0]
    assert (form["start"], form["end"], form["step"]) == ("100.250", "200.000", "0.5")


async def hangs(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def foreign(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b'{"status": "error", "error": "Ger\xe4t"}', content_type="application/json")


async def elsewhere(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPTemporaryRedirect("http://127.9.9.9/steal")


async def resets(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def error(text: str) -> dict[str, Any]:
    return {"status": "error", "errorType": "bad_data", "error": text}


TROUBLES: dict[str, tuple[Answer, int, Fault, str]] = {
    "a part is missing": (success(warnings=["store 3 is down"]), 200, Fault.INVALID, "part is missing.*store 3"),
    "a part that VictoriaMetrics marks": (success(isPartial=True), 200, Fault.INVALID, "missing.*vmstorage node"),
    "a query it cannot read": (error("parse error"), 400, Fault.INVALID, "HTTP 400: parse error"),
    "a query that takes too long for it": (error("query timed out"), 503, Fault.UNAVAILABLE, "query timed out"),
    "too many requests": (error("slow down"), 429, Fault.UNAVAILABLE, "HTTP 429"),
    "an order to terminals": (error("\x1b[2Jall is well"), 400, Fault.INVALID, "HTTP 400: [?].2Jall is well"),
    "a stranger": (error("who are you"), 401, Fault.DENIED, "HTTP 401"),
    "a proxy's page": ("<html>502 Bad Gateway</html>", 502, Fault.UNAVAILABLE, "HTML"),
    "a proxy's page that calls itself fine": ("<html>Sign in</html>", 200, Fault.INVALID, "HTML"),
    "a proxy that wants a password": ("<html>no</html>", 403, Fault.DENIED, "HTTP 403"),
    "something else": ("[1, 2]", 200, Fault.INVALID, "not Prometheus"),
    "half of an answer": ('{"status": "success", "data": {"resu', 200, Fault.INVALID, "not Prometheus"),
    "text that is not UTF-8": (foreign, 200, Fault.INVALID, "not Prometheus"),
    "success without an answer": ({"status": "success"}, 200, Fault.INVALID, "HTTP 200"),
    "nothing in time": (hangs, 200, Fault.TIMEOUT, "within 0.2 s"),
    "the way to somewhere else": (elsewhere, 200, Fault.INVALID, "HTTP 307"),
    "a reset": (resets, 200, Fault.UNAVAILABLE, "isconnected"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "status", "fault", "words"), TROUBLES.values(), ids=TROUBLES.keys())
async def test_what_is_no_whole_answer_is_an_error(answer: Answer, status: int, fault: Fault, words: str) -> None:
    timeout_s = 0.2 if answer is hangs else 10.0
    async with prometheus() as fake, querying({"main": Endpoint(fake.url)}, timeout_s=timeout_s) as live:
        fake.answer, fake.status = answer, status
        with pytest.raises(PortError, match=words) as raised:
            await live.instant("main", "up")
    assert raised.value.fault is fault
    assert fake.url in str(raised.value)


async def test_an_answer_too_large_to_hold_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CAP_BYTES", 1000)
    async with prometheus() as fake, querying({"main": Endpoint(fake.url)}, timeout_s=10.0) as live:
        fake.answer = " " * 2000
        with pytest.raises(PortError, match="larger than 1000 bytes"):
            await live.instant("main", "up")


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with querying({"main": Endpoint("http://127.0.0.1:9")}) as live:
        with pytest.raises(PortError) as raised:
            await live.instant("main", "up")
        assert raised.value.fault is Fault.UNAVAILABLE
        with pytest.raises(KeyError):
            await live.instant("http://elsewhere", "up")


async def test_the_token_is_read_for_every_query_and_sent_to_the_endpoint_only(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with prometheus() as fake, querying({"main": Endpoint(fake.url, token)}) as live:
        with pytest.raises(PortError, match="cannot be read") as raised:
            await live.instant("main", "up")
        assert raised.value.fault is Fault.DENIED
        for word in ("one\n", "two"):
            token.write_text(word)
            await live.instant("main", "up")
    assert [request.headers["Authorization"] for request, _ in fake.asked] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "prometheus:9090", "http://", "http://me:secret@host/", "http://host/?q=1", "http://h#x"],
)
def test_what_is_no_endpoint_is_refused_without_telling_its_password(url: str) -> None:
    with pytest.raises(InputError) as raised:
        Endpoint(url)
    assert "secret" not in str(raised.value)
