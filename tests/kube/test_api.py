"""The client: one deadline and one limit for everything, and every failure as one error that says what happened."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
import pytest

from autoscaler.adapters.kube.answers import MOST_WORDS, refusal
from autoscaler.adapters.kube.api import KubeError
from autoscaler.adapters.kube.retry import Backoff, BackoffBounds
from autoscaler.adapters.kube.scale import patch_scale
from autoscaler.api.claims import TargetRef
from autoscaler.ports import Fault, RefusedError
from tests.kube import fakeserver
from tests.kube.clients import client, until
from tests.kube.fakeserver import PODS, FakeServer, answer, half, hang, hang_up, lines, status

SCALE = "/apis/apps/v1/namespaces/prod/deployments/chat/scale"


async def failure(server: FakeServer, handler: Any, **given: Any) -> KubeError:
    """The error of one GET that `handler` answers."""
    server.script.append(handler)
    async with client(server.url) as api:
        with pytest.raises(KubeError) as caught:
            await api.request("GET", SCALE, **given)
    return caught.value


async def test_bytes_come_back_as_they_are_and_go_out_as_they_are() -> None:
    async with FakeServer() as server, client(server.url) as api:
        server.script.append(answer(201, b"\x00\xffraw", X_Kept="yes"))
        got = await api.request(
            "PATCH", SCALE, query=[("fieldManager", "head room"), ("a", "1+1=2&b")], body=b'[{"op":"test"}]',
            content_type="application/json-patch+json",
        )  # fmt: skip
    assert (got.status, got.body, got.headers["x-kept"]) == (201, b"\x00\xffraw", "yes")
    [request] = server.requests
    assert (request.method, request.path, request.body) == ("PATCH", SCALE, b'[{"op":"test"}]')
    assert request.query == {"fieldManager": "head room", "a": "1+1=2&b"}
    assert request.headers["content-type"] == "application/json-patch+json"
    assert request.headers["user-agent"].startswith("headroom/")
    assert "authorization" not in request.headers


REFUSALS = {
    "a wrong token": (status(401, "Unauthorized", "Unauthorized"), Fault.DENIED, 401, "Unauthorized", None),
    "a missing role": (status(403, "Forbidden", "may not get"), Fault.DENIED, 403, "Forbidden", None),
    "nothing there": (status(404, "NotFound", "not found"), Fault.INVALID, 404, "NotFound", None),
    "a lost race": (status(409, "Conflict", "was modified"), Fault.INVALID, 409, "Conflict", None),
    "a failed test": (status(422, "Invalid", "testing value failed"), Fault.INVALID, 422, "Invalid", None),
    "a full server": (status(429, "TooManyRequests", "later", Retry_After=7), Fault.UNAVAILABLE, 429,
                      "TooManyRequests", 7.0),
    "a starting server": (status(503, "ServiceUnavailable", "soon", Retry_After="2"), Fault.UNAVAILABLE, 503,
                          "ServiceUnavailable", 2.0),
    "a date to come back": (status(503, "", "later", Retry_After="Sat, 21 Nov 2026 16:00:00 GMT"), Fault.UNAVAILABLE,
                            503, "", None),
    "a web page": (answer(502, b"<html><h1>Bad Gateway", Content_Type="text/html"), Fault.UNAVAILABLE, 502, "", None),
    "a redirect": (answer(302, b"", Location="http://127.0.0.9/elsewhere"), Fault.INVALID, 302, "", None),
}  # fmt: skip


@pytest.mark.parametrize(("handler", "fault", "code", "reason", "retry_after_s"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_is_sorted_and_keeps_the_servers_words(handler, fault, code, reason, retry_after_s) -> None:
    async with FakeServer() as server:
        error = await failure(server, handler)
    assert (error.fault, error.status, error.reason, error.retry_after_s) == (fault, code, reason, retry_after_s)
    assert str(error).startswith(f"GET {SCALE}: {code}")
    assert len(server.requests) == 1


@pytest.mark.parametrize(("seconds", "retry_after_s"), [(3, 3.0), (0, 0.0), (-5, None), (-0.1, None), (1e300, 1e300)])
async def test_the_seconds_in_a_status_count_where_there_is_no_header(seconds, retry_after_s) -> None:
    said = fakeserver.status_object(429, "TooManyRequests", "later") | {"details": {"retryAfterSeconds": seconds}}
    async with FakeServer() as server:
        error = await failure(server, answer(429, said))
    assert error.retry_after_s == retry_after_s


@pytest.mark.parametrize(
    ("header", "body"),
    [
        pytest.param("", b'{"details": {"retryAfterSeconds": -3600}}', id="less than none"),
        pytest.param("", b'{"details": {"retryAfterSeconds": 1e300}}', id="longer than the world"),
        pytest.param("", b'{"details": {"retryAfterSeconds": 1e400}}', id="more than a number holds"),
        pytest.param("9" * 400, b"", id="a header of 400 digits"),
        pytest.param("-7", b"", id="a header below none"),
    ],
)
def test_whatever_a_proxy_asks_for_the_next_call_is_a_fifth_of_a_second_to_a_minute_and_a_half_away(
    header: str, body: bytes
) -> None:
    error = refusal("GET /x", 429, {"Retry-After": header}, body)
    waits = Backoff(np.random.default_rng(1), BackoffBounds())
    assert all(0.2 <= waits.next_s(error.retry_after_s) <= 90.0 for _ in range(20))


BUSY = status(429, "TooManyRequests", "storage is (re)initializing", Retry_After=0)


async def test_a_command_that_is_put_off_asks_again_within_its_deadline() -> None:
    async with FakeServer() as server, client(server.url, comes_again=True) as api:
        server.script += [BUSY, BUSY, answer(200, b"{}")]
        assert (await api.request("GET", SCALE)).body == b"{}"
        assert len(server.requests) == 3
        assert api.answers == {("GET", "2xx"): 1}


@pytest.mark.parametrize(
    ("method", "said", "comes_again"),
    [
        pytest.param("GET", BUSY, False, id="the controller, which looks again by itself"),
        pytest.param("PATCH", BUSY, True, id="a write, which its caller decides anew"),
        pytest.param("GET", status(429, "", "later", Retry_After=11), True, id="put off beyond the deadline of 10 s"),
        pytest.param("GET", status(429, "", "no budget lets this be evicted"), True, id="nobody says until when"),
        pytest.param("GET", status(503, "", "soon", Retry_After=0), True, id="trouble that is no queue"),
    ],
)
async def test_nothing_else_is_asked_twice(method, said, comes_again) -> None:
    async with FakeServer() as server, client(server.url, comes_again=comes_again) as api:
        server.script += [said, answer(200, b"{}")]
        with pytest.raises(KubeError):
            await api.request(method, SCALE)
        assert len(server.requests) == 1


async def test_a_message_is_cut_has_one_line_and_calls_a_web_page_one() -> None:
    async with FakeServer() as server:
        long = await failure(server, status(500, "InternalError", "etcd\x1b[31m is\nfull " * 200))
        page = await failure(server, answer(500, b"\n <!DOCTYPE html><h1>Oops</h1>"))
        mute = await failure(server, answer(500, b""))
        odd = await failure(server, answer(500, b"\xff\xfe not UTF-8, and no JSON"))
    words = str(long).partition("500 InternalError: ")[2]
    assert len(words) == MOST_WORDS
    assert words.startswith("etcd [31m is full")
    assert words.endswith("...")
    assert "an HTML page of 30 bytes" in str(page)
    assert "without a word" in str(mute)
    assert "not UTF-8, and no JSON" in str(odd)


BREAKS = {
    "never answers": (hang, Fault.TIMEOUT, "no answer within 0.1 s"),
    "stops in the middle of the body": (lines(b"half", then="hang"), Fault.TIMEOUT, "no answer within 0.1 s"),
    "hangs up": (hang_up, Fault.UNAVAILABLE, "disconnected"),
    "hangs up in the body": (half(b'{"metadata"'), Fault.UNAVAILABLE, "payload"),
}


@pytest.mark.parametrize(("handler", "fault", "words"), BREAKS.values(), ids=BREAKS)
async def test_a_server_that_breaks_off_is_an_error_within_the_deadline(handler, fault, words) -> None:
    async with FakeServer() as server:
        server.always = handler  # the client library asks twice where a kept connection was closed
        error = await failure(server, handler, timeout_s=0.1 if fault is Fault.TIMEOUT else 5.0)
    assert (error.fault, error.status) == (fault, None)
    assert words in str(error)


async def test_another_protocol_is_not_mistaken_for_an_answer() -> None:
    async def smtp(request: object, connection: Any) -> None:
        await connection.send(b"220 mail.example.org ESMTP\r\n\r\n")

    async with FakeServer() as server:
        server.always = smtp
        error = await failure(server, smtp)
    assert error.fault is Fault.INVALID
    assert "not HTTP" in str(error)


async def test_no_server_is_unavailable_and_a_frozen_one_times_out() -> None:
    async with FakeServer() as server:
        server.frozen = True
        assert (await failure(server, hang, timeout_s=0.05)).fault is Fault.TIMEOUT
    error = await failure(server, hang)
    assert error.fault is Fault.UNAVAILABLE
    assert str(error).endswith(f": no connection to 127.0.0.1:{server.url.rpartition(':')[2]} (Connection refused)")


async def test_the_wait_for_the_own_limit_counts_against_the_deadline() -> None:
    async with FakeServer() as server, client(server.url, qps=0.01, burst=1) as api:
        server.always = answer(200, b"{}")
        await api.request("GET", SCALE)
        with pytest.raises(KubeError) as caught:
            await api.request("GET", SCALE, timeout_s=0.05)
    assert caught.value.fault is Fault.TIMEOUT
    assert len(server.requests) == 1


async def test_what_is_allowed_no_more_when_its_turn_comes_does_not_leave() -> None:
    async with FakeServer() as server, client(server.url, qps=4.0, burst=1) as api:
        server.always = answer(200, b"{}")
        await api.request("GET", SCALE)
        until_s = asyncio.get_running_loop().time() + 0.1
        with pytest.raises(KubeError, match="not sent: it was allowed no more") as caught:
            await api.request("PATCH", SCALE, admit=lambda: asyncio.get_running_loop().time() < until_s)
    assert not caught.value.sent
    assert len(server.requests) == 1


async def test_what_is_allowed_no_more_while_it_waits_for_a_connection_does_not_leave() -> None:
    said = iter([True, False])
    async with FakeServer() as server, client(server.url) as api:
        server.always = answer(200, b"{}")
        with pytest.raises(KubeError, match="not sent: it was allowed no more") as caught:
            await api.request("PATCH", SCALE, body=b"[]", admit=lambda: next(said))
        assert caught.value.fault is Fault.DENIED
        assert not caught.value.sent
        assert server.requests == []
        await api.request("PATCH", SCALE, body=b"[]")
    assert [request.body for request in server.requests] == [b"[]"]


async def test_what_was_sent_once_is_not_said_to_be_withheld_when_its_connection_breaks() -> None:
    """A DELETE is sent again by aiohttp itself where a connection that was open breaks; by then the lead is lost."""
    said = iter([True, True, False])
    async with FakeServer() as server, client(server.url) as api:
        server.script += [answer(200, b"{}"), hang_up]
        await api.request("GET", SCALE)
        with pytest.raises(KubeError) as caught:
            await api.request("DELETE", SCALE, body=b"{}", admit=lambda: next(said))
        assert next(said, None) is None, "asked at its turn, for the first body and for the second"
    assert (caught.value.fault, caught.value.sent) == (Fault.UNAVAILABLE, True)
    assert [request.method for request in server.requests] == ["GET", "DELETE"]


async def test_a_patch_that_waits_in_vain_for_its_turn_is_known_not_to_have_been_made() -> None:
    ref = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "u1")
    async with FakeServer() as server, client(server.url, qps=0.01, burst=1) as api:
        server.always = answer(200, b"{}")
        await api.request("GET", SCALE)
        with pytest.raises(RefusedError, match=r"no answer within 0\.05 s"):
            await patch_scale(
                api, ref, seen_replicas=2, replicas=4, may_write=lambda: True, remaining_s=lambda: 9.0, timeout_s=0.05
            )
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "name",
    ["../../other/deployments/chat", "..", ".", "a/../b", "%2e%2e", "chat?x=1", "chat#", "a b", "a\\b", "a\nb", ""],
)
async def test_a_name_that_leads_elsewhere_is_not_sent(name: str) -> None:
    async with FakeServer() as server, client(server.url) as api:
        with pytest.raises(KubeError, match="not the path of an object") as caught:
            await api.request("GET", f"/apis/apps/v1/namespaces/prod/deployments/{name}/scale")
    assert caught.value.fault is Fault.INVALID
    assert server.requests == []


@pytest.mark.parametrize("path", ["/version", "/api/v1/namespaces/a.b/pods/x:y", "/apis/x.io/v1/things/system:a.b-c_1"])
async def test_ordinary_paths_go_through(path: str) -> None:
    async with FakeServer() as server, client(server.url) as api:
        server.always = answer(200, b"{}")
        assert (await api.request("GET", path)).body == b"{}"
    assert server.requests[0].path == path


async def test_the_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with FakeServer() as server, client(server.url) as api:
        server.always = answer(200, b"{}")
        assert (await api.request("GET", "/version")).status == 200


async def collected(server: FakeServer, handler: Any, idle_s: float = 0.5) -> tuple[list[bytes], KubeError | None]:
    """The lines of one stream, and how it broke."""
    server.script.append(handler)
    got: list[bytes] = []
    async with client(server.url) as api:
        try:
            async with api.stream(PODS, [("watch", "true")], idle_s=idle_s) as stream:
                async for line in stream:
                    got.append(line)  # noqa: PERF401 # what came before the break counts too
        except KubeError as error:
            return got, error
    return got, None


STREAMS = {
    "one line a chunk": ((b"a\n", b"b\n"), "end", [b"a", b"b"], None, ""),
    "lines across chunks": ((b"a", b"bc\nd", b"e\n\nf\n"), "end", [b"abc", b"de", b"", b"f"], None, ""),
    "nothing at all": ((), "end", [], None, ""),
    "a reset": ((b"a\n", b"b"), "cut", [b"a"], Fault.UNAVAILABLE, "payload"),
    "an end in the middle of a line": ((b"a\n", b'{"type":'), "end", [b"a"], Fault.UNAVAILABLE, "middle of a line"),
    "silence": ((b"a\n",), "hang", [b"a"], Fault.TIMEOUT, "no answer within 0.1 s"),
    "a line that is never finished": ((b"a\n", b"b"), "hang", [b"a"], Fault.TIMEOUT, "no answer within 0.1 s"),
}


@pytest.mark.parametrize(("chunks", "then", "want", "fault", "words"), STREAMS.values(), ids=STREAMS)
async def test_a_stream_gives_whole_lines_and_says_how_it_broke(chunks, then, want, fault, words) -> None:
    async with FakeServer() as server:
        got, error = await collected(server, lines(*chunks, then=then), idle_s=0.1)
    assert got == want
    assert (error.fault if error else None) is fault
    assert words in str(error)


async def test_a_line_of_five_megabytes_comes_in_one_piece() -> None:
    long = json.dumps({"blob": "x" * 5_000_000}).encode()
    async with FakeServer() as server:
        got, error = await collected(server, lines(long + b"\n" + b"short\n"))
    assert (got, error) == ([long, b"short"], None)


async def test_a_drip_of_bytes_without_a_line_is_silence() -> None:
    async def drip(request: object, connection: Any) -> None:
        await connection.head(200, Transfer_Encoding="chunked")
        while True:
            await connection.chunk(b".")
            await asyncio.sleep(0.01)

    async with FakeServer() as server:
        got, error = await collected(server, drip, idle_s=0.1)
    assert got == []
    assert error is not None
    assert error.fault is Fault.TIMEOUT


@pytest.mark.parametrize("handler", [hang, status(403, "Forbidden", "may not watch"), hang_up])
async def test_a_stream_that_does_not_begin_says_why(handler: Any) -> None:
    async with FakeServer() as server:
        server.always = handler
        got, error = await collected(server, handler, idle_s=0.1)
    assert got == []
    assert error is not None


async def test_leaving_a_stream_early_frees_its_connection() -> None:
    async with FakeServer() as server, client(server.url) as api:
        connector: Any = api._session.connector
        for _ in range(12):
            server.script.append(lines(b"a\n", then="hang"))
            async with api.stream(PODS, idle_s=0.5) as stream:
                assert await anext(stream) == b"a"
                assert len(connector._acquired) == 1
            assert not connector._acquired


async def test_streams_of_more_namespaces_than_requests_go_at_once_keep_no_request_from_being_sent() -> None:
    """Eleven resources are followed in each of `watch_namespaces`: five of these would have taken 50 connections."""
    async with FakeServer() as server, client(server.url, at_once=2) as api, AsyncExitStack() as open_streams:
        for _ in range(55):
            server.script.append(lines(b"a\n", then="hang"))
            stream = await open_streams.enter_async_context(api.stream(PODS, idle_s=5.0))
            assert await anext(stream) == b"a"
        server.script.append(answer(200, b"{}"))
        assert (await api.request("PATCH", SCALE, body=b"[]", timeout_s=1.0)).status == 200


async def test_a_request_that_waits_for_others_to_end_was_not_sent_when_its_time_is_over() -> None:
    async with FakeServer() as server, client(server.url, at_once=2) as api, asyncio.TaskGroup() as group:
        server.always = hang
        before = [group.create_task(api.request("GET", SCALE, timeout_s=5.0)) for _ in range(2)]
        await until(lambda: len(server.requests) == 2)
        with pytest.raises(KubeError) as caught:
            await api.request("PATCH", SCALE, body=b"[]", timeout_s=0.05)
        for each in before:
            each.cancel()
    assert (caught.value.fault, caught.value.sent, len(server.requests)) == (Fault.TIMEOUT, False, 2)
