"""The demonstration's session: every number comes from its entries, and cut metrics are seen as held, then unknown."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from autoscaler.app.demo import DemoSession, DemoWorkload, demo_session
from autoscaler.core.params import Params
from autoscaler.errors import InputError
from autoscaler.fitting.fit import fit
from autoscaler.record.audit import read_lines
from autoscaler.record.stream import Aim, WorkloadFrame, workload_frame
from autoscaler.runtime.actuator import Act
from autoscaler.runtime.records import Entry, Note, Stepped
from autoscaler.runtime.refit import InlineFitter
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup
from tests.runtime.fakes import Lines

pytestmark = pytest.mark.looptime(noop_cycles=1)

SPEED = 60.0
LENGTH_S = 600


def workload(name: str, rps: float = 5.0) -> DemoWorkload:
    arrivals = np.random.default_rng(2).poisson(rps, LENGTH_S).astype(np.float64)
    traffic = Traffic(name=name, step_s=1.0, arrivals=arrivals, source="test")
    return DemoWorkload(name, traffic, PlantSpec(1.0, Warmup(60.0)), Params(max_replicas=40, tick_s=5.0))


AIM = Aim(slo_wait_s=10.0, min_replicas=0, max_replicas=40, tick_s=5.0)


async def play(session: DemoSession) -> list[WorkloadFrame]:
    """What a page would show of every step of a session, from its beginning to its end."""
    shown: list[WorkloadFrame] = []

    async def watch() -> None:
        async for entries in session.entries():
            steps = [entry for entry in entries if isinstance(entry, Stepped)]
            shown.extend(workload_frame(step.view, step.decision, step.readings, AIM) for step in steps)

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        await asyncio.sleep(0)
        group.create_task(session.run())
    return shown


def of(shown: list[WorkloadFrame], name: str) -> list[WorkloadFrame]:
    return [frame for frame in shown if frame.workload == name]


async def test_a_session_plays_its_traffic_and_ends_by_itself() -> None:
    began_s = asyncio.get_running_loop().time()
    audit = Lines()
    services = [workload("demo/chat"), workload("demo/code", 9.0)]
    async with demo_session(services, speed=SPEED, fitter=InlineFitter(fit), audit=audit) as session:
        shown = await play(session)
        assert session.now_s == pytest.approx(LENGTH_S, abs=1.0)
        for name in ("demo/chat", "demo/code"):
            run = session.played(name)
            assert run is not None
            assert run.traffic.arrivals.size == run.timeline.ready.size == LENGTH_S
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(LENGTH_S / SPEED, abs=0.1)
    assert {frame.workload for frame in shown} == {"demo/chat", "demo/code"}
    chat = of(shown, "demo/chat")
    assert len(chat) >= LENGTH_S / 5
    assert len(list(read_lines(audit.lines, "audit"))) == len(chat) + len(of(shown, "demo/code"))
    assert chat[-1].load_rps == pytest.approx(5.0, rel=0.5)
    assert chat[-1].decision.text


async def test_cut_metrics_are_shown_as_held_and_then_as_unknown_and_come_back() -> None:
    async with demo_session([workload("demo/chat")], speed=SPEED, fitter=InlineFitter(fit)) as session:

        async def cut() -> None:
            await asyncio.sleep(300.0 / SPEED)
            session.cut_metrics("demo/chat", 60.0)

        async with asyncio.TaskGroup() as group:
            group.create_task(cut())
            shown = await play(session)
    seen = [(frame.now_s, {s.signal: s.state for s in frame.signals}["arrivals"]) for frame in shown]
    story = [state for i, (_, state) in enumerate(seen) if i == 0 or state != seen[i - 1][1]]
    assert story in (["fresh", "held", "unknown", "fresh"], ["absent", "fresh", "held", "unknown", "fresh"])
    blind = [frame for frame in shown if 325.0 <= frame.now_s < 360.0]
    assert blind
    assert all(frame.load_rps is None and frame.queue is None for frame in blind), "no stale figure is shown"
    assert all(frame.desired >= blind[0].desired for frame in blind), "nothing shrinks on what is not known"


async def test_a_session_that_is_stopped_shuts_down_and_keeps_what_was_played() -> None:
    async with demo_session([workload("demo/chat")], speed=SPEED, fitter=InlineFitter(fit)) as session:
        assert session.played("demo/chat") is None
        entries: list[Entry] = []

        async def watch() -> None:
            async for group in session.entries():
                entries.extend(group)

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            group.create_task(session.run())
            await asyncio.sleep(100.0 / SPEED)
            session.stop()
        run = session.played("demo/chat")
    assert run is not None
    assert run.timeline.ready.size == pytest.approx(100, abs=2)
    assert isinstance(entries[-1], Note)
    assert any(isinstance(entry, Act) for entry in entries)


async def test_unusable_sessions_are_refused() -> None:
    twice = [workload("demo/chat"), workload("demo/chat")]
    coarse = replace(twice[0], traffic=Traffic(name="coarse", step_s=5.0, arrivals=np.ones(9), source="test"))
    for services, words in ((twice, "each name once"), ([], "one or more"), ([coarse], "bins of 5.0 s")):
        with pytest.raises(InputError, match=words):
            async with demo_session(services, speed=SPEED, fitter=InlineFitter(fit)):
                pytest.fail("it was made")
    with pytest.raises(ValueError, match="speed is 0"):
        async with demo_session([workload("demo/chat")], speed=0.0, fitter=InlineFitter(fit)):
            pytest.fail("it was made")
