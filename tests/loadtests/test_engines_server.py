"""An engine server over real sockets: its API, its pages as our own profiles read them, its faults and its warm-up."""

import ast
import asyncio
from pathlib import Path

import aiohttp
import pytest
from aiohttp import ClientSession

from autoscaler.adapters.engines.catalogue import SGLANG, VLLM
from autoscaler.adapters.engines.facts import PageReader
from autoscaler.adapters.engines.profiles import Fact, Profile, Span
from loadtests.engines.engine import Fault
from loadtests.engines.profile import Curve, Speed
from loadtests.engines.server import Server
from tests.conftest import ROOT
from tests.loadtests.servers import engine_server, until, until_open

ENDLESS = Speed("endless", Curve(((1, 0.002),)), Curve(((1, 0.001),)), 2, 4_000_000)


def url(server: Server, path: str = "") -> str:
    return f"http://{server.address}:{server.port}{path}"


def fault_url(server: Server) -> str:
    return f"http://{server.address}:{server.port + 1}/fault"


@pytest.mark.parametrize(
    ("path", "asked"),
    [("/v1/completions", {"prompt": "a b c"}), ("/v1/completions", {"prompt": [5, 6, 7]}),
     ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a b c"}]})],
    ids=["words", "tokens", "chat"],
)  # fmt: skip
async def test_an_answer_has_the_tokens_asked_for_and_says_how_many(path: str, asked: dict[str, object]) -> None:
    async with engine_server() as server, ClientSession() as session:
        async with session.post(url(server, path), json={**asked, "model": "m", "max_tokens": 5}) as answer:
            whole = await answer.json()
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        async with session.post(url(server, path), json={**asked, "max_tokens": 5, **streaming}) as answer:
            events = (await answer.text()).split("\n\n")
    choice = whole["choices"][0]
    assert (choice.get("text") or choice["message"]["content"]).split() == ["word"] * 5
    assert whole["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert sum('"content":" word"' in event or '"text":" word"' in event for event in events) == 5
    assert events[-2:] == ["data: [DONE]", ""]
    assert sum('"finish_reason":"length"' in event for event in events) == 1
    assert '"completion_tokens":5' in events[-3]


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [({"prompt": "a", "model": "other"}, 404, "does not exist"), ({"messages": []}, 400, "need a prompt"),
     ({"prompt": "a", "max_tokens": 99_999}, 400, "holds 16000"), ({"prompt": "a", "max_tokens": 0}, 400, "at least 1"),
     ({"prompt": 7}, 400, "prompt")],
    ids=["another model", "no prompt", "longer than the cache", "no token", "a prompt of another kind"],
)  # fmt: skip
async def test_what_cannot_be_answered_is_refused_in_words(asked: dict[str, object], status: int, words: str) -> None:
    async with (
        engine_server() as server,
        ClientSession() as session,
        session.post(url(server, "/v1/completions"), json=asked) as answer,
    ):
        assert answer.status == status
        assert words in (await answer.json())["error"]["message"]


@pytest.mark.parametrize(("pages", "profile"), [("vllm", VLLM), ("sglang", SGLANG)], ids=["vllm", "sglang"])
async def test_our_own_profiles_read_the_pages(pages: str, profile: Profile) -> None:
    reader = PageReader(profile)
    async with engine_server(ENDLESS, pages=pages) as server, ClientSession() as session:
        for _ in range(3):
            body = {"prompt": "a b", "max_tokens": 20}
            await (await session.post(url(server, "/v1/completions"), json=body)).read()
        open_ones = [server.engine.submit(10, 100_000) for _ in range(5)]
        await open_ones[0].more()
        await open_ones[1].more()
        page = await (await session.get(url(server, "/metrics"))).read()
        facts, spans = reader.facts(page), reader.histograms(page)
    assert facts.impossible == frozenset()
    assert {fact: facts.get(fact) for fact in (Fact.WAITING, Fact.RUNNING, Fact.REQUESTS)} == {
        Fact.WAITING: 3.0, Fact.RUNNING: 2.0, Fact.REQUESTS: 3.0,
    }  # fmt: skip
    assert facts.get(Fact.WAITING_DEFERRED) == 0.0
    assert facts.get(Fact.PROMPT_TOKENS) == 3 * 2 + 2 * 10
    assert (facts.get(Fact.GENERATION_TOKENS) or 0.0) >= 62.0
    assert 0.0 < (facts.get(Fact.KV_USED) or 0.0) < 0.01
    assert {span: buckets.counts[-1] for span, buckets in spans.items() if span is not Span.TPOT} == {
        Span.QUEUE: 5.0, Span.TTFT: 5.0, Span.DURATION: 3.0,
    }  # fmt: skip
    assert spans[Span.TPOT].counts[-1] >= 57.0


async def test_a_client_that_leaves_takes_its_request_out_of_the_engine() -> None:
    async with engine_server(ENDLESS) as server, ClientSession() as session:
        asked = {"prompt": "a", "max_tokens": 1_000_000, "stream": True}
        async with session.post(url(server, "/v1/completions"), json=asked) as answer:
            await answer.content.readany()
            assert len(server.engine.batch.running) == 1
            answer.close()
        await until(lambda: not server.engine.batch.running)
        assert server.engine.book.aborted == 1


async def test_a_crash_resets_streams_and_refuses_connections_until_it_is_healed_and_warm_again() -> None:
    async with engine_server(ENDLESS) as server, ClientSession() as session:
        server.stages = (("weights", 0.05), ("graphs", 0.05))
        asked = {"prompt": "a", "max_tokens": 1_000_000, "stream": True}
        async with session.post(url(server, "/v1/completions"), json=asked) as answer:
            await answer.content.readany()
            async with session.post(fault_url(server), json={"kind": "crash"}) as told:
                assert (await told.json())["fault"] == "crash"
            with pytest.raises(aiohttp.ClientError):
                await answer.content.read()
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url(server, "/health"))
        async with session.delete(fault_url(server)) as told:
            assert (await told.json())["stage"] == "weights"
        await until_open(server.address, server.port)
        async with session.get(url(server, "/health")) as answer:
            assert answer.status == 200
        assert (server.starts, server.engine.book.started) == (2, 0)


async def test_a_server_that_hangs_answers_nothing_not_even_its_health() -> None:
    async with engine_server() as server, ClientSession() as session:
        server.strike(Fault.HANG)
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(session.get(url(server, path))) for path in ("/health", "/metrics")]
            done, _ = await asyncio.wait(waiting, timeout=0.1)
            assert not done
            server.strike(None)
        assert [task.result().status for task in waiting] == [200, 200]


async def test_a_wedged_server_is_well_and_answers_no_request() -> None:
    async with engine_server() as server, ClientSession() as session:
        async with session.post(fault_url(server), json={"kind": "wedge"}) as told:
            assert (await told.json())["fault"] == "wedge"
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(session.post(url(server, "/v1/completions"), json={"prompt": "a"}))
            await until(lambda: server.engine.batch.queue)
            async with session.get(url(server, "/health")) as answer:
                assert answer.status == 200
            server.strike(None)
        assert asked.result().status == 200


async def test_a_fault_with_a_length_heals_by_itself_and_one_that_came_later_stays() -> None:
    async with engine_server() as server, ClientSession() as session:
        async with session.post(fault_url(server), json={"kind": "slow", "factor": 2, "for_s": 0.05}) as told:
            assert (await told.json())["fault"] == "slow"
        await until(lambda: server.fault is None)
        await (await session.post(fault_url(server), json={"kind": "slow", "for_s": 0.01})).read()
        server.strike(Fault.WEDGE)
        await asyncio.sleep(0.1)
        assert server.fault is Fault.WEDGE


@pytest.mark.parametrize("order", [{"kind": "melt"}, {"kind": "slow", "factor": 0}, {"kind": "slow", "factr": 2}, []])
async def test_a_faulty_order_changes_nothing(order: object) -> None:
    async with (
        engine_server() as server,
        ClientSession() as session,
        session.post(fault_url(server), json=order) as told,
    ):
        assert (told.status, server.fault) == (400, None)


async def test_sglang_listens_in_its_last_stage_and_is_unwell() -> None:
    async with engine_server(pages="sglang", stages=(("weights", 0.02), ("graphs", 30.0))) as server:
        await until_open(server.address, server.port)
        async with ClientSession() as session:
            async with session.get(url(server, "/health")) as answer:
                assert (answer.status, server.stage) == (503, "graphs")
            async with session.post(url(server, "/v1/completions"), json={"prompt": "a"}) as answer:
                assert answer.status == 503


async def test_vllm_listens_when_it_is_warm() -> None:
    async with engine_server(stages=(("weights", 30.0),)) as server, ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url(server, "/health"))
        async with session.get(fault_url(server).removesuffix("fault")) as told:
            assert (await told.json())["stage"] == "weights"


@pytest.mark.parametrize("path", sorted((ROOT / "loadtests" / "engines").glob("*.py")), ids=lambda path: path.name)
def test_the_servers_import_nothing_of_the_simulator(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [name for name in names if name.startswith("autoscaler.sim")]
