"""What a run sees of the cluster: pods that cannot be made ready are told of, and so is an address that is taken."""

import asyncio
import socket
import time
from collections.abc import Coroutine, Mapping
from typing import Any, cast

import pytest

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.ports import Fault
from autoscaler.runtime.clock import WallClock
from loadtests.engines.engine import Engine
from loadtests.engines.server import ListenError, Server
from loadtests.run.course import CourseError, beside, set_clock
from loadtests.run.pods import ours
from loadtests.run.reading import read_scenario
from loadtests.run.scalers import Scaler, Signal
from loadtests.run.watched import LIFTS, Watched
from tests.conftest import ROOT
from tests.loadtests.servers import PORT, fresh_address
from tests.loadtests.test_run_pods import SPEED

DOUBLING = ROOT / "loadtests" / "scenarios" / "doubling.yaml"


class Api:
    """An API server that answers every patch in one way."""

    def __init__(self, *answers: KubeError | None) -> None:
        self.answers = list(answers)

    async def request(self, *_: object, **__: object) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


class Told:
    """A scaler whose signals are given."""

    def __init__(self, *signals: Signal | None) -> None:
        self.signals = list(signals)

    def serve(self, pods: Mapping[str, str]) -> None:
        pass

    def signalled(self) -> Signal | None:
        return self.signals.pop(0)


def watched(api: Api, scaler: Told) -> Watched:
    scenario = read_scenario(DOUBLING)
    return Watched(
        scenario, ours(scenario.speed(DOUBLING.parent), WallClock(), "vllm"), cast("KubeApi", api), WallClock(),
        port=PORT, scaler=cast("Scaler", scaler),
    )  # fmt: skip


@pytest.mark.looptime
async def test_a_pod_that_cannot_be_made_ready_is_told_of_with_the_reason() -> None:
    made = watched(
        Api(*[KubeError(Fault.UNAVAILABLE, "PATCH pods/chat-1: 503 etcd is slow", status=503)] * LIFTS), Told()
    )
    await made.lift("chat-1")
    (note,) = made.notes
    assert "chat-1 never became ready" in note
    assert "503 etcd is slow" in note
    assert "run the scenario again" in note


@pytest.mark.looptime
@pytest.mark.parametrize(
    "answers",
    [
        (None,),
        (KubeError(Fault.INVALID, "gone", status=404),),
        (KubeError(Fault.UNAVAILABLE, "busy", status=429), None),
    ],
    ids=["at once", "it was told to go meanwhile", "the second time"],
)
async def test_a_pod_that_is_made_ready_or_gone_leaves_no_note(answers: tuple[KubeError | None, ...]) -> None:
    made = watched(Api(*answers), Told())
    await made.lift("chat-1")
    assert made.notes == []


@pytest.mark.looptime
async def test_a_scaler_that_signals_nothing_is_asked_once() -> None:
    made = watched(Api(), Told(None))
    await made.listen()
    assert made.signal is None


async def test_an_address_that_is_taken_is_named_with_the_remedy() -> None:
    address = fresh_address()
    with socket.socket() as taken:
        taken.bind((address, PORT + 1))
        taken.listen()
        server = Server(address, PORT, Engine(SPEED, WallClock()), "m", "vllm")
        with pytest.raises(CourseError) as raised:
            await _run(server.run())
    assert f"cannot listen on {address}:{PORT + 1} (address already in use)" in str(raised.value)
    assert "run it again" in str(raised.value)
    assert isinstance(raised.value.__cause__, ListenError)


async def _run(work: Coroutine[Any, Any, None]) -> None:
    async def in_a_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(work)

    async with beside() as start:
        start(in_a_group())
        await asyncio.Event().wait()


@pytest.mark.parametrize(("by_s", "told"), [(300.0, "forward by 300 s"), (-7200.0, "back by 7200 s"), (0.1, None)])
def test_a_machines_clock_that_is_set_during_the_run_is_told_of(
    by_s: float, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, began_s = WallClock(), time.time()
    monkeypatch.setattr("time.time", lambda: began_s + by_s)
    notes = set_clock(clock)
    assert clock.now() == pytest.approx(began_s, abs=1.0), "decisions are placed by this"
    assert [told in note for note in notes if told] == ([True] if told else [])
    assert bool(notes) is (told is not None)
