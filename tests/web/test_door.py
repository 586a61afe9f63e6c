"""Who asks over HTTP must show a token of an account that may get the path; the probes are anybody's."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from autoscaler.adapters.web import live, server
from autoscaler.adapters.web.asked import RefusedError
from autoscaler.adapters.web.door import MOST_AT_ONCE, MOST_KEPT, Door, Verdict
from autoscaler.adapters.web.hosts import INTRODUCTION
from autoscaler.adapters.web.live import live_application
from autoscaler.ports import Fault, PortError
from tests.web.test_live import HOSTS, Client, Controller, StoodStill
from tests.web.test_server import event

PROMETHEUS = "system:serviceaccount:monitoring:prometheus"


@dataclass
class ApiServer:
    """Knows two tokens: `all` may get everything, `metrics` all that begins with /metrics."""

    away: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def review(self, token: str, path: str) -> Verdict:
        self.asked.append((token, path))
        if self.away:
            raise PortError(Fault.UNAVAILABLE, "POST tokenreviews: connection refused")
        if token == "metrics":
            return Verdict(PROMETHEUS, path.startswith("/metrics"))
        return Verdict("jane", True) if token == "all" else Verdict(None)


@pytest.fixture
def api() -> ApiServer:
    return ApiServer()


@pytest.fixture
def clock() -> StoodStill:
    return StoodStill()


@pytest.fixture
async def client(api: ApiServer, clock: StoodStill) -> AsyncIterator[Client]:
    controller = Controller()
    door = Door(api.review, clock, "headroom-system/headroom-reader")
    app = live_application(controller.facts(), controller.hub, HOSTS, door)
    async with TestClient(TestServer(app)) as made:
        yield made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def password(token: str, name: str = "me") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()}


async def status(client: Client, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    response = await client.get(path, headers=headers)
    return response.status, await response.json() if response.content_type == "application/json" else {}


@pytest.mark.parametrize("path", ["/", "/events", "/metrics", "/api/status", "/api/snapshot", "/no/such/path"])
async def test_nobody_is_told_anything_and_learns_how_to_take_a_token(client: Client, path: str) -> None:
    response = await client.get(path)
    assert response.status == 401
    assert response.headers.getall("WWW-Authenticate") == [
        'Bearer realm="headroom"', 'Basic realm="headroom", charset="UTF-8"',
    ]  # fmt: skip
    said = (await response.json())["error"]
    assert "kubectl -n headroom-system create token headroom-reader" in said


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_are_answered_to_anybody_and_nobody_is_asked_about(
    client: Client, api: ApiServer, path: str
) -> None:
    assert (await status(client, path))[0] == 200
    assert (await status(client, path, bearer("forged")))[0] == 200
    assert api.asked == []


@pytest.mark.parametrize(
    "headers",
    [bearer("all"), {"Authorization": "bearer  all "}, password("all"), password("all", ""), {INTRODUCTION: "all"},
     {INTRODUCTION: "all", "Authorization": "Bearer of-the-proxy"}],
    ids=["bearer", "bearer with spaces", "a browser's password", "a password without a name", "our own header",
         "our own header wins"],
)  # fmt: skip
async def test_a_token_is_taken_in_each_of_its_places(client: Client, headers: dict[str, str]) -> None:
    assert (await status(client, "/metrics", headers))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [bearer(""), bearer("a b"), {"Authorization": "Basic ???"}, {"Authorization": "Basic /w=="},
     {"Authorization": "Basic \xe9"}, {"Authorization": "Digest all"}, {INTRODUCTION: ""}, {"Authorization": ""}],
    ids=["empty", "two words", "not base64", "not UTF-8", "not ASCII", "another scheme", "our own, empty", "nothing"],
)  # fmt: skip
async def test_what_can_be_no_token_is_refused_without_a_question(
    client: Client, api: ApiServer, headers: dict[str, str]
) -> None:
    assert (await status(client, "/metrics", headers))[0] == 401
    assert api.asked == []


async def test_a_header_without_end_is_refused_without_a_question(client: Client, api: ApiServer) -> None:
    assert (await client.get("/metrics", headers=bearer("x" * 20_000))).status == 400
    assert api.asked == []


async def test_an_account_gets_what_it_may_and_is_told_what_it_lacks(client: Client) -> None:
    assert (await status(client, "/metrics", bearer("metrics")))[0] == 200
    code, said = await status(client, "/api/status", bearer("metrics"))
    assert code == 403
    assert said["error"].startswith(
        f"{PROMETHEUS} may not get /headroom/api/status: grant it the verb get on this path"
    )


@pytest.mark.parametrize(
    ("path", "code"),
    [("/metrics", 200), ("/%6detrics", 200), ("/metrics/../api/status", 403), ("/metrics%2f..%2fapi/status", 403),
     ("/%61pi/status", 403), ("//api/status", 403), ("/api/./status", 403), ("http://localhost/api/status", 403)],
)  # fmt: skip
async def test_no_way_to_write_a_path_leads_past_what_was_asked_about(client: Client, path: str, code: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    lines = (f"GET {path} HTTP/1.1", "Host: localhost", "Authorization: Bearer metrics", "Connection: close", "", "")
    writer.write("\r\n".join(lines).encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert int(answer.split()[1]) == code


async def test_a_yes_stands_for_a_minute_and_a_no_for_ten_seconds(
    client: Client, api: ApiServer, clock: StoodStill
) -> None:
    for _ in range(3):
        assert (await status(client, "/metrics", bearer("metrics")))[0] == 200
        assert (await status(client, "/metrics", bearer("forged")))[0] == 401
    assert api.asked == [("metrics", "/metrics"), ("forged", "/metrics")]
    clock.now_s += 11.0
    await status(client, "/metrics", bearer("metrics"))
    await status(client, "/metrics", bearer("forged"))
    assert api.asked[2:] == [("forged", "/metrics")]
    clock.now_s += 50.0
    await status(client, "/metrics", bearer("metrics"))
    assert api.asked[3:] == [("metrics", "/metrics")]


async def test_a_yes_for_one_path_is_none_for_another(client: Client, api: ApiServer) -> None:
    await status(client, "/metrics", bearer("metrics"))
    assert (await status(client, "/api/past", bearer("metrics")))[0] == 403
    assert [path for _, path in api.asked] == ["/metrics", "/headroom/api/past"]


async def test_while_nobody_can_be_asked_an_earlier_yes_stands_for_ten_minutes_and_nobody_new_is_let_in(
    client: Client, api: ApiServer, clock: StoodStill
) -> None:
    await status(client, "/metrics", bearer("metrics"))
    await status(client, "/metrics", bearer("forged"))
    api.away = True
    clock.now_s += 590.0
    assert (await status(client, "/metrics", bearer("metrics")))[0] == 200
    code, said = await status(client, "/metrics", bearer("all"))
    assert (code, said["error"]) == (
        503, "whether you may ask could not be looked up: POST tokenreviews: connection refused",
    )  # fmt: skip
    assert (await status(client, "/metrics", bearer("forged")))[0] == 503
    clock.now_s += 11.0
    assert (await status(client, "/metrics", bearer("metrics")))[0] == 503


async def test_what_is_kept_is_bounded_whoever_asks() -> None:
    api = ApiServer()
    door = Door(api.review, StoodStill(), "a/b")
    for number in range(MOST_KEPT + 100):
        with pytest.raises(RefusedError):
            await door.admit(bearer(f"forged-{number}"), "/metrics", "127.0.0.2")
    assert len(door._kept) == MOST_KEPT
    assert not any(b"forged" in key for key, _ in door._kept)


async def test_a_crowd_of_tokens_from_one_address_keeps_nobody_else_waiting() -> None:
    answered, all_asked, asked = asyncio.Event(), asyncio.Event(), []

    async def review(token: str, path: str) -> Verdict:
        asked.append(token)
        if token == "all":
            all_asked.set()
        await answered.wait()
        return Verdict("jane", token == "all")

    door = Door(review, StoodStill(), "a/b")

    async def code(token: str, address: str) -> int:
        try:
            await door.admit(bearer(token), "/metrics", address)
        except RefusedError as refused:
            return refused.status
        return 200

    async with asyncio.TaskGroup() as group:
        crowd = [group.create_task(code(f"forged-{number}", "127.0.0.2")) for number in range(100)]
        other = group.create_task(code("all", "127.0.0.3"))
        await all_asked.wait()
        answered.set()
    assert other.result() == 200
    assert [each.result() for each in crowd] == [403] * MOST_AT_ONCE + [429] * (100 - MOST_AT_ONCE)
    assert len(asked) == MOST_AT_ONCE + 1
    assert await code("all", "127.0.0.2") == 200
    assert await code("forged-99", "127.0.0.2") == 403, "what was refused unasked is asked about later"


async def test_who_was_let_in_before_is_refused_nothing_while_that_is_looked_up_again(clock: StoodStill) -> None:
    """A gateway asks about twenty workloads at once, each second; what it may is looked up again every minute."""
    paths = [f"/api/overload/prod/chat-{number}" for number in range(20)]
    answered, all_asked, asked = asyncio.Event(), asyncio.Event(), list[str]()
    answered.set()

    async def review(_token: str, path: str) -> Verdict:
        asked.append(path)
        if len(asked) == len(paths):
            all_asked.set()
        await answered.wait()
        return Verdict("gateway", True)

    door = Door(review, clock, "a/b")
    for path in paths:
        await door.admit(bearer("all"), path, "127.0.0.2")
    clock.now_s += 61.0
    answered.clear()
    all_asked.clear()
    asked.clear()
    async with asyncio.TaskGroup() as group:
        first = [group.create_task(door.admit(bearer("all"), path, "127.0.0.2")) for path in paths]
        await all_asked.wait()
        for path in paths:
            await door.admit(bearer("all"), path, "127.0.0.2")
        assert not any(each.done() for each in first)
        answered.set()
    assert len(asked) == len(paths), "one question looks each of them up again"


async def test_a_stream_is_begun_anew_now_and_then_so_that_a_lost_right_ends_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client.get("/events", headers=bearer("all")) as response:
        assert response.status == 200
        await event(response)
    monkeypatch.setattr(live, "LOOK_AGAIN_S", 0.05)
    controller, api = Controller(), ApiServer()
    app = live_application(controller.facts(), controller.hub, HOSTS, Door(api.review, StoodStill(), "a/b"))
    assert app[server._SOURCE].lasts_s == 0.05
    async with TestClient(TestServer(app)) as other, other.get("/events", headers=password("all")) as response:
        assert response.status == 200
        assert (await response.read()).startswith(b"retry: 1000\n\n")
    assert controller.hub.readers == 0
