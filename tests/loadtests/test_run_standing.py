"""What stands around a run: parts that are missing, nodes enough, and the order in which all of it is ended."""

import asyncio
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadtests.__main__ import main
from loadtests.run import standing
from loadtests.run.reading import read_scenario
from loadtests.run.scenario import Policy, Scaling, Seconds
from loadtests.traffic.run import on_signal
from tests.conftest import ROOT

DOUBLING = ROOT / "loadtests" / "scenarios" / "doubling.yaml"


def test_a_comparison_that_lacks_what_its_second_way_needs_begins_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(standing, "_missing", lambda way: None if way is Scaling.DIRECT else "no Prometheus on PATH")
    monkeypatch.setattr(standing, "measured", lambda *_: pytest.fail("it began"))
    html = tmp_path / "out.html"
    assert main(["compare", str(DOUBLING), "--html", str(html)]) == 2
    assert "no Prometheus on PATH" in capsys.readouterr().err
    assert not html.exists()


@pytest.mark.parametrize(
    ("most", "gpus", "nodes"),
    [(1, 1, 2), (8, 1, 2), (9, 1, 3), (4, 2, 2), (6, 3, 4), (10, 5, 11), (3, 8, 4)],
    ids=str,
)
def test_nodes_of_eight_gpus_hold_the_most_replicas_and_one_stays_over(most: int, gpus: int, nodes: int) -> None:
    assert standing.nodes_for(Policy(Seconds(5.0), max_replicas=most), gpus) == nodes


def test_what_a_thread_was_starting_when_it_was_interrupted_is_ended_before_the_control_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    class Plane:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> None:
            order.append("control plane")

        def __exit__(self, *_: object) -> None:
            order.append("control plane ended")

    async def course(*_: object, ended: ExitStack, **__: object) -> None:
        ended.callback(lambda: order.append("scaler ended"))
        loop, waits, interrupted = asyncio.get_running_loop(), threading.Event(), threading.Event()

        def starting() -> None:
            loop.call_soon_threadsafe(waits.set)  # an executor does not know its thread before its start has returned
            assert waits.wait(20)
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupted.wait(20)
            order.append("scaler")

        try:
            await asyncio.to_thread(starting)
        finally:
            interrupted.set()

    monkeypatch.setattr(standing, "Plane", Plane)
    monkeypatch.setattr(standing, "install", lambda _: None)
    monkeypatch.setattr(standing, "course", course)
    with pytest.raises(KeyboardInterrupt):
        standing.measured(read_scenario(DOUBLING), tmp_path, "")
    assert order == ["control plane", "scaler", "scaler ended", "control plane ended"]


async def test_signals_do_after_a_load_what_they_did_before_it() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    with standing.ended_in_order():
        before = [signal.getsignal(number) for number in numbers]
        with on_signal(lambda: None):
            assert [signal.getsignal(number) for number in numbers] != before
        assert [signal.getsignal(number) for number in numbers] == before
        assert before[1] is signal.default_int_handler
