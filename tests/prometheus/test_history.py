"""Past load through prometheus-api-client, without its traps."""

import asyncio
import errno
import re
import socket
import threading
from pathlib import Path

import numpy as np
import pytest
import requests
from aiohttp import web

from autoscaler.adapters.prometheus.answers import AnswerError, Trouble
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.history import PastSeries, _broken, remembering
from tests.prometheus.fake import FakePrometheus, prometheus, success


async def ranged(fake: FakePrometheus, start_s: int, end_s: int, *, timeout_s: float = 10.0) -> tuple[PastSeries, ...]:
    async with remembering(Endpoint(fake.url), timeout_s=timeout_s) as history:
        return await history.range("sum(rate(x[60s]))", start_s=start_s, end_s=end_s, step_s=10)


async def test_a_range_becomes_arrays_with_what_is_no_number_in_its_place() -> None:
    async with prometheus() as fake:
        rows = [[100, "1.5"], [110, "NaN"], [120, "2e-3"], [130, "+Inf"]]
        fake.answer = success({"metric": {"le": "0.5"}, "values": rows}, {"metric": {}, "values": []})
        first, second = await ranged(fake, 100, 130)
    assert first.labels == {"le": "0.5"}
    assert first.t_s.tolist() == [100.0, 110.0, 120.0, 130.0]
    assert first.values.tolist() == pytest.approx([1.5, np.nan, 0.002, np.inf], nan_ok=True)
    assert second.values.size == 0
    request, form = fake.asked[0]
    assert (form["start"], form["end"], form["step"]) == ("100", "130", "10")
    assert (request.method, dict(request.query)) == ("POST", {}), "a query of ten thousand characters fits no URL"


async def as_victoria_metrics(request: web.Request) -> web.StreamResponse:
    """Moves the instants to multiples of the step, for the sake of its cache."""
    form = await request.post()
    start_s, end_s, step_s = (int(str(form[name])) for name in ("start", "end", "step"))
    if form.get("nocache") != "1":
        start_s, end_s = start_s - start_s % step_s, end_s - end_s % step_s
    rows = [[at_s, "1"] for at_s in range(start_s, end_s + 1, step_s)]
    return web.json_response(success({"metric": {}, "values": rows}))


async def test_a_server_that_moves_the_instants_for_its_cache_is_asked_not_to() -> None:
    async with prometheus() as fake:
        fake.answer = as_victoria_metrics
        (series,) = await ranged(fake, 105, 125)
    assert series.t_s.tolist() == [105.0, 115.0, 125.0]


async def test_series_are_asked_for_by_selectors() -> None:
    async with prometheus() as fake:
        fake.answer = {"status": "success", "data": [{"__name__": "up", "pod": 'a"b'}]}
        async with remembering(Endpoint(fake.url)) as history:
            found = await history.series(['up{pod="x"}'], start_s=100, end_s=200)
    request, form = fake.asked[0]
    assert found == [{"__name__": "up", "pod": 'a"b'}]
    assert (request.path, form["match[]"], float(form["start"])) == ("/api/v1/series", 'up{pod="x"}', 100.0)


async def hangs(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.Response()


async def elsewhere(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.9.9.9/steal")


async def trickles(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(50):
        await response.write(b" ")
        await asyncio.sleep(0.1)
    return response


async def breaks_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"status":"success","data":{"result":[')
    assert request.transport is not None
    request.transport.close()
    return response


def error(text: str) -> dict[str, str]:
    return {"status": "error", "error": text}


MATRIX = success({"metric": {}, "values": [[100, "1"]]})
TWICE = success({"metric": {"a": "b"}}, {"metric": {"a": "b"}})
UNTIL = '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{}'
TROUBLES = {
    "a part is missing": (success(warnings=["store 3 is down"]), 200, Trouble.PARTIAL, "again", "part is.*store 3"),
    "a part that VictoriaMetrics marks": (success(isPartial=True), 200, Trouble.PARTIAL, "again", "vmstorage node"),
    "the same series twice": (TWICE, 200, Trouble.AMBIGUOUS, "", "two series"),
    "a refusal": (error("no"), 403, Trouble.REFUSED, "", "HTTP 403"),
    "a failure": (error("no"), 500, Trouble.UNREACHABLE, "again", "HTTP 500"),
    "a proxy's page": ("<html>bad gateway</html>", 502, Trouble.UNREACHABLE, "again", "HTTP 502.*HTML"),
    "too many at once": (error("busy"), 429, Trouble.UNREACHABLE, "again", "HTTP 429"),
    "a query too slow for it": (error("query timed out in expression evaluation"), 503, Trouble.UNREACHABLE,
                                "again smaller answered", "timed out"),
    "a query too slow for its storage": (
        error("expanding series: context deadline exceeded"), 422, Trouble.UNREACHABLE, "again smaller answered",
        "deadline",
    ),
    "too many samples": (error("query processing would load too many samples into memory in query execution"), 422,
                         Trouble.TOO_MANY, "smaller", "too many samples"),
    "too long a range": (error("the query time range exceeds the limit (query length: 336h, limit: 24h)"), 422,
                         Trouble.TOO_MANY, "smaller", "exceeds"),
    "a join of several": (error("multiple matches for labels: many-to-many matching not allowed"), 422,
                          Trouble.AMBIGUOUS, "", "many-to-many"),
    "a bad query": (error("parse error"), 400, Trouble.REFUSED, "", "parse error"),
    "another bad query": (error("no such function"), 422, Trouble.REFUSED, "", "no such"),
    "a log-in page": ("<html></html>", 200, Trouble.REFUSED, "", "HTML"),
    "half a text": (UNTIL, 200, Trouble.UNREACHABLE, "again", "not Prometheus"),
    "another program's JSON": ({"status": "success"}, 200, Trouble.REFUSED, "", "HTTP 200"),
    "no numbers": (success({"metric": {}, "values": [[1, "one"]]}), 200, Trouble.REFUSED, "", "no points"),
    "times without values": (success({"metric": {}, "values": [[1], [2], [3]]}), 200, Trouble.REFUSED, "", "no points"),
    "nothing in time": (hangs, 200, Trouble.UNREACHABLE, "again smaller", "within 0.3 s"),
    "a byte now and then": (trickles, 200, Trouble.UNREACHABLE, "again smaller", "within 0.6 s"),
    "a line that breaks": (breaks_off, 200, Trouble.UNREACHABLE, "again", "http"),
    "the way to somewhere else": (elsewhere, 200, Trouble.REFUSED, "", "HTTP 302"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "status", "trouble", "may", "words"), TROUBLES.values(), ids=TROUBLES.keys())
async def test_what_is_no_whole_answer_says_what_may_help(answer, status, trouble, may: str, words: str) -> None:
    async with prometheus() as fake:
        fake.answer, fake.status = answer, status
        with pytest.raises(AnswerError, match=words) as raised:
            await ranged(fake, 0, 100, timeout_s=0.3 if answer in (hangs, trickles) else 10.0)
    error = raised.value
    assert error.trouble is trouble
    assert [name for name in ("again", "smaller") if getattr(error, name)] == [
        n for n in may.split() if n != "answered"
    ]
    assert error.answered is (trouble is not Trouble.UNREACHABLE or "answered" in may)
    assert len(fake.asked) == 1, "asked again by whoever knows whether that helps"


async def test_an_answer_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.adapters.prometheus.history.CAP_BYTES", 1 << 20)
    async with prometheus() as fake:
        fake.answer = " " * (2 << 20)
        with pytest.raises(AnswerError, match="larger than") as raised:
            await ranged(fake, 0, 100)
    assert (raised.value.trouble, raised.value.smaller) == (Trouble.TOO_MANY, True)


async def test_nobody_there_is_no_answer() -> None:
    async with prometheus() as fake:
        pass
    with pytest.raises(AnswerError) as raised:
        await ranged(fake, 0, 100)
    assert raised.value.trouble is Trouble.UNREACHABLE
    assert str(raised.value) == f"connection refused by {fake.url}; is the address right and the server up?"


UNREACHED = {
    "a name that nobody knows": (socket.gaierror(-2, "Name or service not known"), "no address .* is the name right"),
    "no route": (OSError(errno.EHOSTUNREACH, "No route to host"), "no way leads to .*No route to host"),
    "anything else": (OSError(errno.EIO, "broken"), "^http://prometheus: wrapped$"),
}


@pytest.mark.parametrize(("cause", "words"), UNREACHED.values(), ids=UNREACHED.keys())
def test_what_broke_beneath_the_libraries_is_said_in_place_of_their_words(cause: OSError, words: str) -> None:
    wrapped = requests.ConnectionError("wrapped")
    wrapped.__context__ = RuntimeError("within")
    wrapped.__context__.__cause__ = cause
    assert re.search(words, _broken("http://prometheus", wrapped))


async def test_a_token_is_read_for_every_question(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with prometheus() as fake, remembering(Endpoint(fake.url, token)) as history:
        for text in ("first", "second"):
            token.write_text(f"{text}\n")
            await history.range("x", start_s=0, end_s=10, step_s=10)
    assert [request.headers["Authorization"] for request, _ in fake.asked] == ["Bearer first", "Bearer second"]


async def test_the_environments_proxies_and_passwords_are_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.9.9.9:1")
    monkeypatch.setenv("NO_PROXY", "")
    async with prometheus() as fake:
        await ranged(fake, 0, 100)
    assert "Authorization" not in fake.asked[0][0].headers


async def test_the_loop_turns_while_two_ask_and_a_third_waits() -> None:
    async def slow(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return web.json_response(success())

    async with prometheus() as fake, remembering(Endpoint(fake.url)) as history:
        fake.answer = slow

        async def ask() -> None:
            await history.range("x", start_s=0, end_s=10, step_s=1)

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(ask())
    assert len(fake.asked) == 3


async def test_a_thread_that_nobody_waits_for_ends_with_the_next_piece_of_its_answer() -> None:
    async with prometheus() as fake:
        fake.answer = trickles
        with pytest.raises(AnswerError):
            await ranged(fake, 0, 100, timeout_s=0.2)
        for thread in threading.enumerate():
            if thread.name == "prometheus history":
                await asyncio.to_thread(thread.join, 2.0)
                assert not thread.is_alive()
