"""The server: read-only, on this machine, one document with nothing from elsewhere, a stream that reconnects."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession
from aiohttp.test_utils import TestClient, TestServer

from autoscaler.adapters.web import server
from autoscaler.adapters.web.history import SLACK
from autoscaler.adapters.web.hub import FEW, Hub, Standing
from autoscaler.adapters.web.reader import BACKLOG, Reader
from autoscaler.adapters.web.server import MAX_SHOWN, application, serving
from autoscaler.errors import InputError
from autoscaler.record.stream import Frame, Result, Results
from tests.web.builders import decision, frame, workload

Client = TestClient[Any, Any]


@pytest.fixture
def hub() -> Hub:
    return Hub(interval_s=0.01)


@pytest.fixture
async def client(hub: Hub) -> AsyncIterator[Client]:
    async with TestClient(TestServer(application(hub))) as made:
        yield made


async def event(response: ClientResponse) -> tuple[str, dict[str, Any]]:
    """The next event of a stream that carries content: its kind and its content."""
    kind = ""
    while True:
        line = (await response.content.readline()).decode()
        assert line, "the stream ended"
        if line.startswith("event: "):
            kind = line[7:].strip()
        elif line.startswith("data: "):
            return kind, json.loads(line[6:])


async def test_the_page_is_one_document_without_a_single_foreign_address(client: Client) -> None:
    response = await client.get("/")
    text = await response.text()
    assert response.status == 200
    assert response.content_type == "text/html"
    assert text.lower().startswith("<!doctype html>")
    addresses = set(re.findall(r"(?:https?|wss?):/[^\s\"')]*", text))
    assert addresses <= {"https://github.com/leeoniya/uPlot"}, "only the licence comment of the chart library"
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"'](?!data:)", text)
    assert "Copyright (c) 2022 Leon Sorokin" in text, "the licence goes with every copy of the chart library"
    assert "{{" not in text


async def test_the_policy_admits_the_pages_own_script_and_style_and_nothing_else(client: Client) -> None:
    first, second = await client.get("/"), await client.get("/")
    policies = [response.headers["Content-Security-Policy"] for response in (first, second)]
    nonces = [re.findall(r"'nonce-([\w-]{20,})'", policy) for policy in policies]
    assert nonces[0][0] != nonces[1][0]
    assert nonces[0][0] == nonces[0][1]
    text = await first.text()
    tags = re.findall(r"<(?:script|style)\b[^>]*>", text)
    assert len(tags) == 2
    assert all(f'nonce="{nonces[0][0]}"' in tag for tag in tags)
    assert "default-src 'none'" in policies[0]
    assert "unsafe" not in policies[0]
    assert not re.search(r"\son\w+=|\sstyle=", text.split("<script")[0]), "inline handlers and styles would be refused"


@pytest.mark.parametrize("path", ["/", "/events", "/healthz"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_changed(client: Client, method: str, path: str) -> None:
    response = await client.request(method, path)
    assert response.status == 405
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:1", "[x]:1"]
)
async def test_a_foreign_host_name_is_refused_so_that_names_cannot_be_rebound(client: Client, host: str) -> None:
    response = await client.get("/events", headers={"Host": host})
    assert response.status == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:8080", "[::1]:8080", "10.1.2.3:8080"])
async def test_what_can_only_mean_this_machine_is_answered(client: Client, host: str) -> None:
    assert (await client.get("/healthz", headers={"Host": host})).status == 200


async def test_health_tells_what_is_there(client: Client, hub: Hub) -> None:
    hub.publish(frame())
    answer = await (await client.get("/healthz")).json()
    assert answer == {"status": "ok", "workloads": 1, "readers": 0}


async def test_a_reader_gets_a_snapshot_then_updates_then_the_end(client: Client, hub: Hub) -> None:
    hub.publish(frame(0.0))
    hub.publish(frame(5.0, workload(5.0, decision=decision(5.0, 4, 6))))
    async with client.get("/events") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        kind, content = await event(stream)
        assert kind == "snapshot"
        assert 0.0 <= content["quiet_s"] < 30.0
        assert [f["now_s"] for f in content["frames"]] == [5.0]
        assert [row[0] for row in content["points"]["demo/chat"]] == [0.0, 5.0]
        assert [d["after"] for d in content["decisions"]["demo/chat"]] == [6]
        hub.publish(frame(10.0))
        kind, content = await event(stream)
        assert (kind, content["now_s"], content["speed"]) == ("update", 10.0, 60.0)
        assert [row[0] for row in content["points"]["demo/chat"]][-1] == 10.0
        hub.end("The run has ended.")
        assert await event(stream) == ("end", {"why": "The run has ended."})
        rows = (Result("ours", "headroom", "defaults", 0.995, 10.0, 1.1, 20.0, 30.0),)
        hub.publish_results(Results("demo/chat", 3600.0, 0.99, rows, "a note"))
        kind, content = await event(stream)
        assert (kind, content["rows"][0]["policy"]) == ("results", "headroom")
        hub.close()
        assert (await stream.content.read()).strip() == b""


async def test_a_reader_that_reconnects_starts_from_a_snapshot_of_all(client: Client, hub: Hub) -> None:
    hub.publish(frame(0.0))
    async with client.get("/events") as stream:
        await event(stream)
    hub.publish(frame(5.0))
    hub.publish_results(Results("demo/chat", 1.0, 0.99, (), "a note"))
    async with client.get("/events", headers={"Last-Event-ID": "1"}) as stream:
        kind, content = await event(stream)
    assert kind == "snapshot"
    assert [row[0] for row in content["points"]["demo/chat"]] == [0.0, 5.0]
    assert [table["note"] for table in content["results"]] == ["a note"]


async def test_a_reader_after_the_end_still_sees_the_last_state(client: Client, hub: Hub) -> None:
    hub.publish(frame(5.0))
    hub.end("Stopped.")
    hub.close()
    async with client.get("/events") as stream:
        kind, content = await event(stream)
        assert (kind, content["ended"], len(content["frames"])) == ("snapshot", "Stopped.", 1)
        assert (await stream.content.read()).strip() == b""


async def test_a_quiet_stream_says_that_it_lives(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BEAT_S", 0.02)
    async with client.get("/events") as stream:
        await event(stream)
        assert await event(stream) == ("beat", {})


async def test_a_reader_that_falls_behind_is_given_a_snapshot_in_place_of_the_backlog(hub: Hub) -> None:
    hub.publish(frame(0.0))
    with hub.reader() as slow, hub.reader() as other:
        assert b"event: snapshot" in (await slow.message(hub) or b"")
        assert b"event: snapshot" in (await other.message(hub) or b"")
        for number in range(BACKLOG + 5):
            hub.publish_results(Results(f"table {number}", 1.0, 0.99, (), ""))
            if number == 0:
                hub.publish(frame(5.0))
            assert await other.message(hub) is not None
        assert b"event: snapshot" in (await slow.message(hub) or b"")


async def test_frames_in_one_interval_are_told_together(hub: Hub) -> None:
    with hub.reader() as reader:
        await reader.message(hub)
        for now_s in (0.0, 5.0, 10.0):
            hub.publish(frame(now_s))
        message = await reader.message(hub) or b""
    content = json.loads(message.split(b"data: ", 1)[1])
    assert len(content["frames"]) == 1
    assert len(content["points"]["demo/chat"]) == 3


async def test_what_a_snapshot_holds_is_not_told_again() -> None:
    hub = Hub(interval_s=60.0)
    with hub.reader() as first, hub.reader() as late:
        await first.message(hub)
        hub.publish(frame(0.0))
        assert b"event: snapshot" in (await late.message(hub) or b"")
        assert b'"now_s":0.0' in (await first.message(hub) or b""), "the other reader heard it as an update"
        hub.publish(frame(5.0))
        hub.end("Stopped.")
        message = await late.message(hub) or b""
    rows = json.loads(message.split(b"data: ", 1)[1])["points"]["demo/chat"]
    assert [row[0] for row in rows] == [5.0]


async def told(hub: Hub, reader: Reader) -> tuple[str, dict[str, Any]]:
    """The next message of a reader: its kind and its content."""
    text = (await reader.message(hub) or b"").decode()
    return text.split("event: ")[1].split("\n")[0], json.loads(text.split("data: ", 1)[1])


def fleet(count: int, now_s: float = 0.0) -> Frame:
    return frame(now_s, *(workload(now_s, workload=f"demo/s{number:02d}") for number in range(count)))


async def test_few_services_are_told_whole_and_many_as_a_line_each(hub: Hub) -> None:
    hub.publish(fleet(FEW))
    with hub.reader() as reader:
        _, content = await told(hub, reader)
        assert (len(content["rows"]), len(content["frames"]), len(content["points"])) == (FEW, FEW, FEW)
        hub.publish(fleet(FEW + 1, 5.0))
        kind, content = await told(hub, reader)
    assert (kind, len(content["rows"]), content["frames"], content["points"]) == ("update", FEW + 1, [], {})
    assert content["rows"][0] == {
        "workload": "demo/s00", "now_s": 5.0, "tick_s": 5.0, "mode": "Active", "load_rps": 12.0, "wait_s": 0.2,
        "slo_wait_s": 10.0, "needs": 5, "ready": 4, "starting": 1, "desired": 5, "before": 4, "reason": "STEADY",
        "text": "4→4: 4 needed", "overload": "fits", "blind": 0,
    }  # fmt: skip


async def test_a_page_that_opened_services_hears_the_whole_of_those_and_a_line_of_the_rest(
    client: Client, hub: Hub
) -> None:
    hub.publish(fleet(20))
    async with client.get("/events?show=demo/s03&show=demo/s07&show=demo/none") as stream:
        kind, content = await event(stream)
        assert (kind, len(content["rows"])) == ("snapshot", 20)
        assert [shown["workload"] for shown in content["frames"]] == ["demo/s03", "demo/s07"]
        assert set(content["points"]) == set(content["decisions"]) == {"demo/s03", "demo/s07"}
        hub.publish(fleet(5, 5.0))
        kind, content = await event(stream)
    assert (kind, len(content["rows"])) == ("update", 5)
    assert [shown["workload"] for shown in content["frames"]] == ["demo/s03"]


async def test_a_page_may_open_only_so_many(client: Client, hub: Hub) -> None:
    hub.publish(fleet(40))
    asked = "&".join(f"show=demo/s{number:02d}" for number in range(40))
    async with client.get(f"/events?{asked}") as stream:
        assert len((await event(stream))[1]["frames"]) == MAX_SHOWN


async def test_merged_points_of_one_service_let_only_those_start_over_that_show_it(hub: Hub) -> None:
    hub.publish(fleet(2))
    with hub.reader(frozenset({"demo/s00"})) as one, hub.reader(frozenset({"demo/s01"})) as other:
        assert {(await told(hub, one))[0], (await told(hub, other))[0]} == {"snapshot"}
        for number in range(SLACK + 1):
            hub.publish(frame(5.0 + number, workload(5.0 + number, workload="demo/s00")))
        assert (await told(hub, other))[0] == "update"
        assert (await told(hub, one))[0] == "snapshot"


async def test_a_service_that_is_no_longer_scaled_is_gone_from_every_page(hub: Hub) -> None:
    hub.publish(fleet(2))
    with hub.reader() as reader:
        await told(hub, reader)
        hub.publish(frame(5.0, workload(5.0, workload="demo/s01")))
        hub.forget("demo/s01")
        hub.forget("demo/none")
        assert await told(hub, reader) == ("gone", {"workload": "demo/s01"})
    with hub.reader() as late:
        assert [row["workload"] for row in (await told(hub, late))[1]["rows"]] == ["demo/s00"]
    assert hub.frames == 1


async def test_what_this_replica_is_is_told_when_it_changes(hub: Hub) -> None:
    with hub.reader() as reader:
        _, content = await told(hub, reader)
        assert content["standing"] == {"leading": True, "holder": "", "frozen": False}
        hub.stand(Standing(leading=True, holder="", frozen=False))
        hub.stand(Standing(leading=True, holder="headroom-0", frozen=True))
        assert await told(hub, reader) == ("standing", {"leading": True, "holder": "headroom-0", "frozen": True})


async def test_too_many_pages_are_turned_away_politely(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_READERS", 0)
    response = await client.get("/events")
    assert response.status == 503
    assert response.headers["Retry-After"] == "10"


async def test_serving_takes_a_free_port_of_the_loopback_address(hub: Hub) -> None:
    async with serving(hub) as url, serving(Hub()) as other:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        assert url != other


SILENT = {
    "nothing": b"",
    "the half of a question": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ",
    "one question and no other": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("says", SILENT.values(), ids=SILENT.keys())
async def test_who_connects_and_asks_nothing_is_not_held_for_ever(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.1)
    async with serving(hub) as url, asyncio.timeout(10.0):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))
        writer.write(says)
        await reader.read()
        assert reader.at_eof(), "the server closed it, and not the test's ten seconds"
        writer.close()


async def test_a_page_that_only_listens_is_not_taken_for_silent(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.05)
    monkeypatch.setattr(server, "BEAT_S", 0.1)
    async with serving(hub) as url, ClientSession() as session, session.get(f"{url}events") as response:
        kinds = [(await event(response))[0] for _ in range(5)]
    assert kinds == ["snapshot", "beat", "beat", "beat", "beat"]


async def test_a_port_in_use_is_a_clear_error_with_a_remedy(hub: Hub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"--port {port}: another program listens there; .* leave --port out"):
            async with serving(hub, port):
                pytest.fail("the port was taken")


@pytest.mark.parametrize("port", [-1, 0, 65536])
async def test_a_number_that_is_no_port_is_refused(hub: Hub, port: int) -> None:
    with pytest.raises(InputError, match="from 1 to 65535"):
        async with serving(hub, port):
            pytest.fail("no such port")
