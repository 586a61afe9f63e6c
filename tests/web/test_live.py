"""The live controller over HTTP: what is asked is answered from memory, what is not known is said, nothing changes."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families as parse_text

from autoscaler.adapters.web import server
from autoscaler.adapters.web.asked import MOST_REJECTED, MOST_ROWS
from autoscaler.adapters.web.hosts import NO_PAGE, Hosts
from autoscaler.adapters.web.hub import Hub
from autoscaler.adapters.web.live import STUCK_S, LiveFacts, Place, live_application, serving_live
from autoscaler.errors import InputError
from autoscaler.record.batch import BatchBook
from autoscaler.record.board import Board
from autoscaler.record.estimate import Estimate
from autoscaler.record.metrics import Process
from autoscaler.record.pool_status import PoolStatus
from autoscaler.record.status import About, Problem, Rejected
from autoscaler.settings.http import Http
from tests.record.pool_statuses import short_pool
from tests.record.test_board import AIM, act, step
from tests.web.builders import estimate, frame
from tests.web.test_server import event

Client = TestClient[Any, Any]

HOSTS = Hosts("headroom-system")

CHAT = About(kind="Deployment", way="ScalingPolicy", policy="chat", mode="Active")
CODE = About(
    kind="StatefulSet",
    way="annotation",
    mode="Shadow",
    problems=(Problem("metrics timeout: no answer within 2 s", "see the log"),),
)
LEADING = Process(
    identity="headroom-0_1", holder="headroom-0_1", holder_address="10.0.0.7:8080", leading=True, version="0.1.0"
)
FOLLOWING = replace(LEADING, identity="headroom-1_2", leading=False)


class StoodStill:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 102.0

    def now(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    async def sleep_until(self, monotonic_s: float, wake: Any = None) -> None:
        raise AssertionError("the server never sleeps")


@dataclass
class Controller:
    """What a controller that leads and has decided on one of two workloads would say."""

    clock: StoodStill = field(default_factory=StoodStill)
    board: Board = field(default_factory=Board)
    hub: Hub = field(default_factory=lambda: Hub(interval_s=0.01))
    process: Process = LEADING
    workloads: Mapping[str, About] = field(default_factory=lambda: {"prod/chat": CHAT, "prod/code": CODE})
    not_ready: tuple[str, ...] = ()
    snapshot: bytes | None = b"\x00learnt"
    rejected: tuple[Rejected, ...] = ()
    past: tuple[Estimate, ...] = ()
    pools: tuple[PoolStatus, ...] = ()
    batch: BatchBook | None = None

    def facts(self) -> LiveFacts:
        return LiveFacts(
            clock=self.clock,
            board=self.board,
            process=lambda: self.process,
            workloads=lambda: self.workloads,
            not_ready=lambda: self.not_ready,
            snapshot=lambda: self.snapshot,
            rejected=lambda: self.rejected,
            past=lambda: self.past,
            pools=lambda: self.pools,
            batch=self.batch,
        )


@pytest.fixture
def controller() -> Controller:
    made = Controller()
    made.board.stepped(step(95.0, 2, 4), AIM, 95.2)
    made.board.acted(act(95.4))
    made.board.stepped(step(100.0), AIM, 100.2)
    return made


@pytest.fixture
async def client(controller: Controller) -> AsyncIterator[Client]:
    async with TestClient(TestServer(live_application(controller.facts(), controller.hub, HOSTS))) as made:
        yield made


async def asked(client: Client, path: str) -> Any:
    response = await client.get(path)
    assert response.status == 200, await response.text()
    assert response.content_type == "application/json"
    return await response.json()


async def refused(client: Client, path: str, status: int) -> dict[str, Any]:
    response = await client.get(path)
    assert response.status == status
    content = await response.json()
    assert content["status"] == status
    return dict(content)


async def test_the_status_tells_need_have_and_getting_of_all_that_is_to_be_scaled(client: Client) -> None:
    told = await asked(client, "/api/status")
    chat, code = told["workloads"]
    assert (told["total"], told["next"], told["replica"]["leading"]) == (2, None, True)
    assert (chat["workload"], chat["needs"], chat["has"], chat["getting"], chat["age_s"]) == ("prod/chat", 4, 4, 0, 2.0)
    assert (chat["about"]["mode"], chat["act"]["outcome"], chat["overload"]) == ("Active", "APPLIED", "fits")
    assert (code["workload"], code["has"], code["age_s"], code["overload"]) == ("prod/code", None, None, "unknown")
    assert code["about"]["problems"] == [{"words": "metrics timeout: no answer within 2 s", "remedy": "see the log"}]


async def test_a_long_status_comes_in_parts_and_every_workload_in_one_of_them(
    client: Client, controller: Controller
) -> None:
    controller.workloads = {f"team-{number % 7}/chat-{number:04d}": CHAT for number in range(2500)}
    names: list[str] = []
    for after, count in (("", MOST_ROWS), ("&after=", MOST_ROWS), ("&after=", 500)):
        told = await asked(client, f"/api/status?{after and after + names[-1]}")
        assert len(told["workloads"]) == count
        names += [row["workload"] for row in told["workloads"]]
        assert told["next"] == (names[-1] if count == MOST_ROWS else None)
    assert names == sorted(controller.workloads)
    told = await asked(client, "/api/status?namespace=team-3&limit=10")
    assert {row["workload"].split("/")[0] for row in told["workloads"]} == {"team-3"}
    assert (len(told["workloads"]), told["total"]) == (10, 357)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", "limit '0' is out of range; give 1..1000"),
        ("limit=1e9", "limit '1e9' is out of range"),
        ("limit=-1", "limit '-1' is out of range"),
        ("limit=²", "limit '²' is out of range"),
        ("watch=true", "'watch' is no parameter; give limit, after or namespace"),
    ],
)
async def test_a_question_that_cannot_be_understood_is_refused_in_words(client: Client, query: str, words: str) -> None:
    assert (await refused(client, f"/api/status?{query}", 400))["error"].startswith(words)


async def test_an_explanation_has_the_text_the_decision_and_the_changes(client: Client) -> None:
    told = await asked(client, "/api/explain/prod/chat")
    assert told["text"].splitlines()[0] == "00:01:40  prod/chat  4 → 4  HOLD  STEADY"
    assert told["decision"]["reason"] == "STEADY"
    assert [change["replicas"] for change in told["changes"]] == [4]
    told = await asked(client, "/api/explain/prod/code")
    assert told["decision"] is None
    assert "problem: metrics timeout" in told["text"]


async def test_an_overload_is_unknown_once_nobody_has_decided_for_two_ticks(
    client: Client, controller: Controller
) -> None:
    told = await asked(client, "/api/overload/prod/chat")
    assert (told["state"], told["shed_ratio"], told["expires_in_s"]) == ("fits", 0.0, 8.0)
    controller.clock.now_s = 110.0
    told = await asked(client, "/api/overload/prod/chat")
    assert (told["state"], told["shed_ratio"], told["expires_s"]) == ("unknown", None, None)
    told = await asked(client, "/api/overload")
    assert [(row["workload"], row["state"]) for row in told["workloads"]] == [
        ("prod/chat", "unknown"),
        ("prod/code", "unknown"),
    ]


@pytest.mark.parametrize("question", ["explain", "overload"])
@pytest.mark.parametrize("name", ["prod/none", "..%2f..%2fetc/passwd", "%00/x", "prod/" + "x" * 300])
async def test_a_workload_that_is_not_scaled_is_not_found(client: Client, question: str, name: str) -> None:
    content = await refused(client, f"/api/{question}/{name}", 404)
    assert "/api/" in content["error"]


async def test_whoever_leads_tells_what_shadow_mode_counted(client: Client, controller: Controller) -> None:
    assert await asked(client, "/api/past") == []
    controller.past = (estimate(),)
    (told,) = await asked(client, "/api/past")
    assert (told["observed"]["held_hours"], told["ours"]["held_hours"], told["saved_hours"]) == (10.0, 6.0, 4.0)


@pytest.mark.parametrize("path", ["/api/explain/prod/chat", "/api/overload/prod/chat", "/api/overload", "/api/past"])
async def test_a_replica_that_does_not_lead_names_the_leader_instead_of_saying_zero(
    client: Client, controller: Controller, path: str
) -> None:
    controller.process = FOLLOWING
    content = await refused(client, path, 503)
    assert content["error"] == "this replica does not lead, headroom-0_1 does; ask there"
    assert (content["leader"], content["address"]) == ("headroom-0_1", "10.0.0.7:8080")
    controller.process = replace(FOLLOWING, holder="", holder_address="")
    assert (await refused(client, path, 503))["leader"] is None


async def test_the_status_of_a_follower_says_who_leads_and_holds_no_figures(
    client: Client, controller: Controller
) -> None:
    controller.process, controller.board = FOLLOWING, Board()
    async with TestClient[Any, Any](TestServer(live_application(controller.facts(), Hub(), HOSTS))) as follower:
        told = await asked(follower, "/api/status")
    assert (told["replica"]["leading"], told["replica"]["holder"]) == (False, "headroom-0_1")
    assert {row["has"] for row in told["workloads"]} == {None}


async def test_the_leaders_snapshot_is_handed_out_and_a_followers_is_not(
    client: Client, controller: Controller
) -> None:
    response = await client.get("/api/snapshot")
    assert (response.status, await response.read()) == (200, b"\x00learnt")
    controller.process, controller.snapshot = FOLLOWING, None
    assert "does not lead" in (await refused(client, "/api/snapshot", 503))["error"]


@pytest.mark.parametrize(
    ("process", "age_s", "said"),
    [(LEADING, 2.0, "ok"), (LEADING, STUCK_S + 1, "stuck"), (FOLLOWING, STUCK_S + 1, "ok")],
    ids=["it decides", "it has decided nothing for long", "a follower decides nothing"],
)
async def test_health_is_that_a_leader_still_decides(
    client: Client, controller: Controller, process: Process, age_s: float, said: str
) -> None:
    controller.process, controller.clock.now_s = process, 100.0 + age_s
    response = await client.get("/healthz")
    assert response.status == (200 if said == "ok" else 503)
    assert await response.json() == {"status": said, "step_age_s": age_s}


async def test_a_leader_that_looks_and_can_read_nothing_is_not_stuck(client: Client, controller: Controller) -> None:
    """Another would read no more, and would have to learn anew."""
    controller.clock.now_s = 100.0 + STUCK_S + 1
    controller.process = replace(LEADING, blind_age_s=4.0)
    response = await client.get("/healthz")
    assert (response.status, (await response.json())["status"]) == (200, "nothing can be read")
    controller.process = replace(LEADING, blind_age_s=STUCK_S + 1)
    assert (await client.get("/healthz")).status == 503


async def test_a_leader_without_a_workload_is_well(client: Client, controller: Controller) -> None:
    controller.board.forget("prod/chat")
    response = await client.get("/healthz")
    assert (response.status, await response.json()) == (200, {"status": "ok", "step_age_s": None})


async def test_readiness_says_what_it_waits_for(client: Client, controller: Controller) -> None:
    assert (await client.get("/readyz")).status == 200
    controller.not_ready = ("pods: not listed yet",)
    response = await client.get("/readyz")
    assert (response.status, await response.json()) == (503, {"status": "not ready", "why": ["pods: not listed yet"]})


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_metrics_are_a_page_for_prometheus(client: Client, encoding: str) -> None:
    response = await client.get("/metrics", headers={"Accept-Encoding": encoding})
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    assert response.headers.get("Content-Encoding", "identity") == encoding
    values = {
        (sample.name, sample.labels.get("workload")): sample.value
        for family in parse_text(await response.text())
        for sample in family.samples
    }
    assert values["headroom_desired_replicas", "chat"] == 4
    assert values["headroom_decision_age_seconds", "chat"] == 2.0
    assert values["headroom_leader", None] == 1


class Crowd(Hosts):
    """Lets everybody in, and rings once thirty have come."""

    def __init__(self) -> None:
        super().__init__("headroom-system")
        self.come = 0
        self.all_here = threading.Event()

    def admits(self, headers: Mapping[str, str]) -> bool:
        self.come += 1
        if self.come == 30:
            self.all_here.set()
        return super().admits(headers)


class Slow(list[PoolStatus]):
    """Pools that are not told before the crowd is there, in the thread that writes."""

    crowd: Crowd

    def __iter__(self) -> Iterator[PoolStatus]:
        self.crowd.all_here.wait(10.0)
        return super().__iter__()


async def test_a_crowd_that_asks_for_metrics_is_served_by_two_pages(controller: Controller) -> None:
    """A page of a thousand workloads takes a third of a second: thirty at once would leave the event loop no turns."""
    written, crowd = 0, Crowd()

    def pools() -> list[PoolStatus]:
        nonlocal written
        written += 1
        slow = Slow()
        slow.crowd = crowd
        return slow

    application = live_application(replace(controller.facts(), pools=pools), controller.hub, crowd)
    async with TestClient(TestServer(application)) as client:
        pages = await asyncio.gather(*(client.get("/metrics") for _ in range(30)))
        assert {page.status for page in pages} == {200}
        assert written == 2
        await client.get("/metrics")
        assert written == 3, "who comes later is told what is true then"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/api/status", "/api/explain/prod/chat"])
async def test_nothing_can_be_changed(client: Client, method: str, path: str) -> None:
    response = await client.request(method, path)
    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")
    assert "read-only" in (await response.json())["error"]


@pytest.mark.parametrize(
    "path", ["/api", "/api/status/", "/metrics/x", "/../etc/passwd", "/%2e%2e/etc/passwd", "/a" * 999]
)
async def test_what_is_not_served_is_a_short_answer_in_json(client: Client, path: str) -> None:
    content = await refused(client, path, 404)
    assert "/api/status" in content["error"]
    assert len(json.dumps(content)) < 600


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/readyz", "/api/status", "/api/none"])
async def test_no_answer_may_be_kept_framed_or_read_by_another_site(client: Client, path: str) -> None:
    response = await client.head(path)
    assert await response.read() == b""
    headers = response.headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert not [name for name in headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("path", ["/", "/events", "/metrics", "/api/status", "/api/snapshot", "/api/overload"])
async def test_nothing_but_a_probe_answers_to_a_name_that_a_foreign_page_may_have(client: Client, path: str) -> None:
    """DNS rebinding: a page at rebound.example points that name at this address and asks as its own site."""
    foreign = {"Host": "rebound.example:8080"}
    response = await client.get(path, headers=foreign)
    assert response.status == 421
    said = (await response.json())["error"]
    assert "rebound.example:8080 is no name of this server" in said
    assert "http.allowed_hosts" in said
    assert (await client.get("/healthz", headers=foreign)).status == 200


async def test_a_command_is_answered_through_the_api_servers_proxy_whatever_its_name(client: Client) -> None:
    """The proxy passes the name by which it was asked; the header is one that no script of a page may set."""
    asked = {"Host": "api.cluster.example:6443", **NO_PAGE}
    assert (await client.get("/api/status", headers=asked)).status == 200


async def test_the_page_is_served_with_what_this_replica_is(client: Client, controller: Controller) -> None:
    controller.process = FOLLOWING
    controller.hub.publish(frame())
    assert (await client.get("/")).content_type == "text/html"
    async with client.get("/events") as stream:
        text = (await stream.content.readuntil(b"\n\n")) + (await stream.content.readuntil(b"\n\n"))
    content = json.loads(text.split(b"data: ", 1)[1])
    assert content["standing"] == {"leading": False, "holder": "headroom-0_1", "frozen": False}
    assert [row["workload"] for row in content["rows"]] == ["demo/chat"]


async def test_a_page_hears_within_a_beat_that_the_replica_leads_now(
    client: Client, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BEAT_S", 0.02)
    controller.process = FOLLOWING
    async with client.get("/events") as stream:
        kind, content = await event(stream)
        assert (kind, content["standing"]["leading"]) == ("snapshot", False)
        controller.process = replace(LEADING, frozen=True)
        while kind != "standing":
            kind, content = await event(stream)
    assert content == {"leading": True, "holder": "headroom-0_1", "frozen": True}


async def test_who_asks_in_vain_is_told_with_the_reason_and_the_number(client: Client, controller: Controller) -> None:
    one = Rejected("prod", "ScalingPolicy", "chat", "Invalid", "spec.maxReplicas: 0 is out of range")
    controller.rejected = tuple(replace(one, name=f"chat-{number}") for number in range(250))
    told = await asked(client, "/api/status")
    assert (told["rejected_total"], len(told["rejected"])) == (250, MOST_REJECTED)
    assert told["rejected"][0]["message"] == "spec.maxReplicas: 0 is out of range"


async def test_it_listens_where_it_is_told_and_says_why_it_cannot(controller: Controller) -> None:
    async with serving_live(controller.facts(), controller.hub, Place("127.0.0.1", 0, HOSTS)) as port:
        with socket.create_connection(("127.0.0.1", port)):
            pass
        with pytest.raises(InputError, match=rf"http.port {port} on 127.0.0.1: another program listens there"):
            async with serving_live(controller.facts(), Hub(), Place("127.0.0.1", port, HOSTS)):
                pytest.fail("the port was taken")
    with pytest.raises(InputError, match="this machine has no such address"):
        async with serving_live(controller.facts(), Hub(), Place("192.0.2.1", 0, HOSTS)):
            pytest.fail("no such address")


@pytest.mark.parametrize(
    "both",
    [
        pytest.param(True, marks=pytest.mark.needs("ipv6"), id="both families"),
        pytest.param(False, id="a kernel without IPv6"),
    ],
)
async def test_unless_told_otherwise_it_listens_on_every_address_of_the_pod(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: both)
    place = Place(Http().host, 0, HOSTS)
    async with serving_live(controller.facts(), controller.hub, place) as port:
        for address in ("127.0.0.1", "127.0.0.7", *(["::1"] if both else [])):
            with socket.create_connection((address, port)) as connection:
                assert connection.getpeername()[:2] == (address, port)


async def test_warm_pools_are_told_whole_and_as_rows_of_the_status(controller: Controller, client: Client) -> None:
    assert await asked(client, "/api/pools") == []
    controller.pools = (short_pool(),)
    (told,) = await asked(client, "/api/pools")
    assert told == await asked(client, "/api/pools/chat")
    assert (told["warm"], told["target"], dict(told["stages"])) == (2, 4, {"requested": 1, "weights_warm": 2})
    assert "found warm: 99 of 100" in told["explained"]
    (row,) = (await asked(client, "/api/status"))["pools"]
    assert (row["pool"], row["state"], row["idle_warm_h"]) == ("chat", "no capacity", 1.0)
    assert 'headroom_pool_warm_slots{pool="chat"} 2.0' in await (await client.get("/metrics")).text()


async def test_a_pool_that_is_not_kept_and_a_replica_that_does_not_lead_say_so(
    controller: Controller, client: Client
) -> None:
    told = await refused(client, "/api/pools/code", 404)
    assert told["error"] == "code is no WarmPool that is kept; `headroom status` (/api/pools) lists those that are"
    controller.process = FOLLOWING
    for path in ("/api/pools", "/api/pools/chat"):
        assert "does not lead" in (await refused(client, path, 503))["error"]
