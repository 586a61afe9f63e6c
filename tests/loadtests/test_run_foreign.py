"""Replicas of Dynamo's make: what they are told, and, where the part is there, that they do as the simulator says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from autoscaler.adapters.engines.facts import PageReader
from autoscaler.adapters.engines.profiles import Fact, Profile, custom
from autoscaler.errors import InputError
from autoscaler.runtime.clock import WallClock
from loadtests.engines.profile import Speed
from loadtests.engines.server import ListenError
from loadtests.run.foreign import NAMES, Foreign, metrics_port, prepare, tables
from loadtests.run.pods import MODEL
from loadtests.run.predicted import simulated_profile
from loadtests.run.reading import read_scenario
from loadtests.run.scenario import Make, Scaling
from loadtests.run.standing import check_parts
from loadtests.traffic.lengths import parse
from loadtests.traffic.sender import Ask
from loadtests.traffic.stream import Asking, Endpoint
from loadtests.traffic.tally import Reply
from loadtests.traffic.target import Target
from tests.conftest import ROOT
from tests.loadtests.servers import PORT, fresh_address, until
from tests.loadtests.test_run_fidelity import FloatArray, by_the_simulator

SCENARIO = ROOT / "loadtests" / "scenarios" / "shortage-dynamo.yaml"
"""Its engine has 16 slots and 40,000 tokens of KV."""


@pytest.fixture
def speed() -> Speed:
    return read_scenario(SCENARIO).speed(SCENARIO.parent)


@pytest.fixture
def folder(tmp_path: Path, speed: Speed) -> Path:
    prepare(tmp_path, speed)
    return tmp_path


@asynccontextmanager
async def replica(speed: Speed, folder: Path) -> AsyncIterator[Foreign]:
    """One that takes requests."""
    made = Foreign(fresh_address(), PORT, MODEL, speed=speed, folder=folder, clock=WallClock())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.run())
        await until(lambda: made.up)
        yield made
        running.cancel()


def asking(made: Foreign, session: aiohttp.ClientSession) -> Endpoint:
    return Endpoint(Asking(Target(f"http://{made.address}:{made.port}"), MODEL), session, np.random.default_rng(0))


async def first_tokens(
    speed: Speed, folder: Path, due_s: FloatArray, prompts: list[int], outputs: list[int]
) -> FloatArray:
    """Seconds to each first token of one replica that is asked at these seconds."""
    loop, replies = asyncio.get_running_loop(), [Reply() for _ in prompts]
    async with replica(speed, folder) as made, session() as client:
        target, start_s = asking(made, client), loop.time() + 0.2

        async def one(number: int) -> None:
            await asyncio.sleep(start_s + due_s[number] - loop.time())
            await target.send(Ask(number, prompts[number], outputs[number], 0), replies[number])

        async with asyncio.TaskGroup() as group:
            for number in range(len(prompts)):
                group.create_task(one(number))
    assert all(reply.failure is None for reply in replies)
    return np.array([(reply.first_s or np.inf) - start_s for reply in replies]) - due_s


async def page(client: aiohttp.ClientSession, made: Foreign) -> bytes:
    async with client.get(f"http://{made.address}:{metrics_port(made.port)}/metrics") as response:
        return await response.read()


def facts(profile: Profile, text: bytes) -> dict[Fact, float]:
    return dict(PageReader(profile).facts(text, ()).values)


def session() -> aiohttp.ClientSession:
    kind = {"Content-Type": "application/json"}
    return aiohttp.ClientSession(headers=kind, connector=aiohttp.TCPConnector(limit=0))


def test_its_tables_say_what_the_profile_says_wherever_a_batch_of_ours_may_be(speed: Speed) -> None:
    told = tables(speed)
    held, lengths = told["decode_active_kv_tokens"], told["decode_context_length"]
    for batch in range(1, speed.slots + 1):
        for length in (200, 700, 2000):
            if batch * length > speed.kv_tokens:
                continue
            rows = [np.interp(length, lengths, row) for row in told["decode_itl"]]
            step_ms = float(np.interp(batch * length, held, rows))
            assert step_ms == pytest.approx(1e3 * speed.decode.at(batch), rel=0.02)
    for tokens in (100, 512, 1024, 2000):
        found_ms = np.interp(tokens, told["prefill_isl"], told["prefill_ttft_ms"])
        assert found_ms == pytest.approx(1e3 * speed.prefill.at(tokens), rel=0.01)


def test_its_page_is_not_chosen_and_nobody_but_headroom_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(SCENARIO.read_text().replace("make: dynamo", "make: dynamo\n  pages: sglang"))
    with pytest.raises(InputError, match=r"line 11, field engine\.pages: 'sglang' is not what Dynamo's engine has"):
        read_scenario(path)
    with pytest.raises(InputError, match=r"engine\.make is dynamo.*scaling is keda-queue"):
        check_parts([Scaling.KEDA_QUEUE], Make.DYNAMO)


def test_without_the_part_it_says_how_to_get_it(
    speed: Speed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"not built: dynamo \(python3 dev\.py parts dynamo\)"):
        Foreign("127.0.0.1", PORT, MODEL, speed=speed, folder=tmp_path, clock=WallClock())


@pytest.mark.real
@pytest.mark.needs("dynamo")
async def test_our_scraper_reads_what_it_has_under_the_names_that_an_owner_annotates(
    speed: Speed, folder: Path
) -> None:  # fmt: skip
    signals = {
        name.removeprefix("metrics-").replace("-", "_"): text for name, text in NAMES.items() if name != "engine"
    }
    profile = custom("dynamo", signals)
    async with replica(speed, folder) as made, session() as client, asyncio.TaskGroup() as group:
        fresh = facts(profile, await page(client, made))
        assert fresh == {Fact.WAITING: 0.0, Fact.RUNNING: 0.0, Fact.REQUESTS: 1.0, Fact.GENERATION_TOKENS: 0.0,
                         Fact.KV_USED: 0.0}, "as soon as it takes requests"  # fmt: skip
        target, replies = asking(made, client), [Reply() for _ in range(20)]
        asked = [group.create_task(target.send(Ask(0, 64, 60, 0), reply)) for reply in replies]
        await until(lambda: (made.running, made.waiting) == (16, 4))
        await asyncio.wait(asked)
        assert [(reply.failure, reply.events) for reply in replies] == [(None, 60)] * 20
        assert {reply.prompt_tokens for reply in replies} == {64}, "a word is a token"
        await until(lambda: (made.running, made.waiting) == (0, 0))
        assert made.busy_s >= 20 / 16 * 60 * speed.decode.at(1) * 0.5
        assert facts(profile, await page(client, made)) == {
            Fact.WAITING: 0.0, Fact.RUNNING: 0.0, Fact.REQUESTS: 21.0, Fact.GENERATION_TOKENS: 20.0 * 59,
            Fact.KV_USED: 0.0,
        }  # fmt: skip


@pytest.mark.real
@pytest.mark.needs("dynamo")
async def test_who_is_in_prefill_waits_by_its_page_as_the_simulator_has_it(speed: Speed, folder: Path) -> None:
    """A prompt of 8,000 tokens takes 0.9 s to compute, on a replica that has nothing else to do."""
    profile = custom("dynamo", {"waiting": NAMES["metrics-waiting"], "running": NAMES["metrics-running"]})
    seen = set[tuple[float, float]]()
    async with replica(speed, folder) as made, session() as client, asyncio.TaskGroup() as group:
        target, reply = asking(made, client), Reply()
        asked = group.create_task(target.send(Ask(0, 8000, 2, 0), reply))
        while not asked.done():
            found = facts(profile, await page(client, made))
            seen.add((found[Fact.WAITING], found[Fact.RUNNING]))
            await asyncio.sleep(0.01)
    assert reply.failure is None
    assert (1.0, 0.0) in seen
    assert simulated_profile(read_scenario(SCENARIO), SCENARIO.parent).prefill_waits


@pytest.mark.real
@pytest.mark.needs("dynamo")
async def test_one_that_ends_by_itself_is_told_of(speed: Speed, folder: Path) -> None:
    async def killed() -> None:
        async with replica(speed, folder) as made:
            assert made.process is not None
            made.process.kill()
            await asyncio.sleep(10)

    with pytest.raises(ExceptionGroup) as raised:
        await killed()
    assert raised.group_contains(ListenError, match="Dynamo's engine at .* ended by itself")


@pytest.mark.real
@pytest.mark.needs("dynamo")
@pytest.mark.timeout(120)
async def test_the_simulator_foretells_its_first_tokens_under_overload_within_a_tenth(
    speed: Speed, folder: Path
) -> None:  # fmt: skip
    """Nothing of the two is shared but the profile."""
    rng = np.random.default_rng(0)
    prompts, outputs = (
        parse("", text).draw(150, rng).tolist() for text in ("lognormal:512:0.8", "lognormal:96:0.6")
    )  # fmt: skip
    due_s = np.cumsum(rng.exponential(1.0, 150)) / 6.0
    measured = await first_tokens(speed, folder, due_s, prompts, outputs)
    foretold, _ = by_the_simulator(due_s, prompts, outputs, SCENARIO)
    for q in (50, 90, 99):
        assert np.percentile(foretold, q) == pytest.approx(np.percentile(measured, q), rel=0.10, abs=0.05)


@pytest.mark.real
@pytest.mark.needs("dynamo")
async def test_prompts_that_come_together_share_its_steps_as_the_simulator_has_it(speed: Speed, folder: Path) -> None:
    """Sixteen prompts of 600 tokens fit into six steps of 2,048, and the last begins after 1.1 s; one in each step, it
    would after 1.55 s. Some 0.1 s is the frontend's, which the simulator does not have."""
    due_s, prompts, outputs = np.zeros(16), [600] * 16, [200] * 16
    measured = await first_tokens(speed, folder, due_s, prompts, outputs)
    foretold, _ = by_the_simulator(due_s, prompts, outputs, SCENARIO)
    assert foretold.max() == pytest.approx(measured.max(), rel=0.15)
    assert foretold.mean() == pytest.approx(measured.mean(), rel=0.15)
