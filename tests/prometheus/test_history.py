"""Past load through prometheus-api-client, without its traps."""

import asyncio

import numpy as np
import pytest
from aiohttp import web

from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.history import remembering
from autoscaler.adapters.prometheus.live import MAX_POINTS
from autoscaler.ports import Fault, PortError
from tests.prometheus.fake import FakePrometheus, prometheus, success


async def rates(
    fake: FakePrometheus, start_s: int, end_s: int, step_s: int = 10, *, timeout_s: float = 10.0
) -> list[tuple[np.ndarray, np.ndarray]]:
    async with remembering({"main": Endpoint(fake.url)}, timeout_s=timeout_s) as history:
        query = "sum(rate(x[60s]))"
        return [chunk async for chunk in history.rates("main", query, start_s=start_s, end_s=end_s, step_s=step_s)]


async def test_a_range_becomes_arrays_and_what_is_no_number_is_left_out() -> None:
    async with prometheus() as fake:
        fake.answer = success({"metric": {}, "values": [[100, "1.5"], [110, "NaN"], [120, "2"], [130, "+Inf"]]})
        ((t, rps),) = await rates(fake, 100, 130)
    assert t.tolist() == [100.0, 120.0]
    assert rps.tolist() == [1.5, 2.0]
    _, form = fake.asked[0]
    assert (form["start"], form["end"], form["step"]) == ("100", "130", "10")


async def test_a_long_range_is_asked_in_chunks_that_leave_nothing_out_and_nothing_double() -> None:
    async with prometheus() as fake:
        chunks = await rates(fake, 0, 10 * (2 * MAX_POINTS + 5))
    assert len(chunks) == 3
    asked = [(int(form["start"]), int(form["end"])) for _, form in fake.asked]
    points = [at_s for start_s, end_s in asked for at_s in range(start_s, end_s + 1, 10)]
    assert points == list(range(0, 10 * (2 * MAX_POINTS + 5) + 1, 10))
    assert all((end_s - start_s) // 10 + 1 <= MAX_POINTS for start_s, end_s in asked)


async def test_no_history_is_empty_arrays() -> None:
    async with prometheus() as fake:
        ((t, rps),) = await rates(fake, 0, 100)
    assert (t.size, rps.size) == (0, 0)


async def hangs(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.Response()


async def elsewhere(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.9.9.9/steal")


TROUBLES = {
    "a part is missing": (success(warnings=["store 3 is down"]), 200, Fault.INVALID, "part is missing.*store 3"),
    "several series": (success({"metric": {}}, {"metric": {}}), 200, Fault.INVALID, "2 series"),
    "a refusal": ({"status": "error", "error": "no"}, 403, Fault.DENIED, "HTTP 403"),
    "a failure, asked once": ({"status": "error", "error": "no"}, 503, Fault.UNAVAILABLE, "HTTP 503"),
    "a bad query": ({"status": "error", "error": "parse error"}, 400, Fault.INVALID, "parse error"),
    "a page": ("<html></html>", 200, Fault.INVALID, "not Prometheus"),
    "another program's JSON": ({"status": "success"}, 200, Fault.INVALID, "not Prometheus"),
    "nothing in time": (hangs, 200, Fault.TIMEOUT, "within 0.3 s"),
    "the way to somewhere else": (elsewhere, 200, Fault.UNAVAILABLE, "redirects"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "status", "fault", "words"), TROUBLES.values(), ids=TROUBLES.keys())
async def test_what_is_no_whole_answer_is_an_error(answer, status: int, fault: Fault, words: str) -> None:
    async with prometheus() as fake:
        fake.answer, fake.status = answer, status
        with pytest.raises(PortError, match=words) as raised:
            await rates(fake, 0, 100, timeout_s=0.3 if answer is hangs else 10.0)
    assert raised.value.fault is fault
    assert len(fake.asked) == 1, "never asked again: whoever wants the past can wait for the next time"


async def test_the_environments_proxies_and_passwords_are_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.9.9.9:1")
    monkeypatch.setenv("NO_PROXY", "")
    async with prometheus() as fake:
        await rates(fake, 0, 100)
    assert "Authorization" not in fake.asked[0][0].headers


async def test_the_loop_turns_while_two_ask_and_a_third_waits() -> None:
    async def slow(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return web.json_response(success())

    async with prometheus() as fake, remembering({"main": Endpoint(fake.url)}) as history:
        fake.answer = slow

        async def ask() -> None:
            async for _ in history.rates("main", "x", start_s=0, end_s=10, step_s=1):
                pass

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(ask())
    assert len(fake.asked) == 3
