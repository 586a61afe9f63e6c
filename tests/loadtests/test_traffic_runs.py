"""Whole runs against servers in processes of their own: results, a run that is cut, and what dies on the way."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loadtests.__main__ import main
from loadtests.engines.command import serving
from loadtests.engines.profile import BUILT_IN
from loadtests.traffic.crew import hired
from loadtests.traffic.lengths import Lengths
from loadtests.traffic.schedule import drawn
from loadtests.traffic.shapes import Shape
from loadtests.traffic.stream import Asking
from loadtests.traffic.target import Target
from loadtests.traffic.worker import Part
from tests.conftest import ROOT
from tests.loadtests.servers import PORT, fresh_address


@contextmanager
def served(**order: object) -> Iterator[str]:
    """The URL of an engine server in a process of its own."""
    address = fresh_address()
    with serving([address], {"port": PORT, "profile": str(BUILT_IN), "model": "m", **order}):
        until(lambda: asked(f"http://{address}:{PORT + 1}/")["ready"])
        yield f"http://{address}:{PORT}"


def until(true: Any) -> None:
    end_s = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def asked(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=20) as answer:
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_an_address_that_is_taken_is_named_with_the_remedy(capfd: pytest.CaptureFixture[str]) -> None:
    address = fresh_address()
    with socket.socket() as taken:
        taken.bind((address, PORT))
        taken.listen()
        assert main(["engines", "--first", address, "--port", str(PORT)]) == 1
    told = capfd.readouterr().err
    assert f"error: cannot listen on {address}:{PORT} (address already in use); choose another --port" in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_two_workers_measure_what_the_profile_says_and_a_seed_asks_the_same_again(tmp_path: Path) -> None:
    path, digests = tmp_path / "t.json", []
    with served() as url:
        for _ in range(2):
            arguments = [
                url, "--rate", "40", "--for", "1s", "--workers", "2", "--output-tokens", "5", "--seed", "7", "--even",
                "--json", str(path),
            ]  # fmt: skip
            assert main(["traffic", *arguments]) == 0
            report = json.loads(path.read_text())
            digests.append(report["schedule"]["sha256"])
    assert digests[0] == digests[1]
    assert report["command"].startswith(f"python3 dev.py loadtests traffic {url} --rate 40")
    assert {**report["requests"], "open_most": 0} == {
        "due": 40, "sent": 40, "completed": 40, "failed": 0, "cut": 0, "open_most": 0, "error_ratio": 0.0,
    }  # fmt: skip
    assert report["tokens"] == {"prompt": 40 * 128, "output": 200, "events": 200}
    assert report["latency_s"]["ttft_s"]["p50"] > 0.049  # a lone prompt of 128 tokens takes as long
    assert report["latency_s"]["tpot_s"]["p50"] > 0.028
    assert report["harness"]["workers"] == 2
    assert sum(second["events"] for second in report["seconds"]) == 200


@pytest.mark.slow
def test_a_run_that_is_interrupted_keeps_what_it_knows_and_ends_with_130(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with served() as url:
        run = subprocess.Popen(
            [sys.executable, "-m", "loadtests", "traffic", url, "--rate", "20", "--for", "1h", "--json", str(path)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until(lambda: "request_success_total" in _page(url) and _finished(url) >= 3.0)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=30)
        until(lambda: asked(f"{url[: -len(str(PORT))]}{PORT + 1}/")["running"] == 0)
    report = json.loads(path.read_text())
    assert (run.returncode, report["ended"]) == (130, "interrupted")
    assert "interrupted:" in out
    requests = report["requests"]
    assert requests["completed"] >= 3
    assert requests["due"] == requests["completed"] + requests["cut"]


def _page(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


def _finished(url: str) -> float:
    (line,) = [line for line in _page(url).splitlines() if 'finished_reason="length"' in line]
    return float(line.split()[-1])


@pytest.mark.slow
def test_a_run_is_ended_by_too_many_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    arguments = ["--model", "other", "--rate", "100", "--for", "1h", "--json", str(path)]
    with served() as url:
        assert main(["traffic", url, *arguments]) == 1
    report = json.loads(path.read_text())
    assert report["ended"] == "errors"
    assert report["requests"]["failed"] >= 50
    assert "HTTP 404" in report["failures"]["status"]["example"]
    assert "The model `other` does not exist." in capsys.readouterr().out


@pytest.mark.slow
async def test_a_worker_that_dies_leaves_what_it_had_told() -> None:
    schedule = drawn(
        Shape("constant", 200.0, 0.0, 60.0, 0.0, 1.0, 1.0), prompts=Lengths("constant", 5),
        outputs=Lengths("constant", 5), tenants=1, seed=0, even=True,
    )  # fmt: skip
    asking = Asking(Target(f"http://{fresh_address()}:{PORT}"), "m")
    parts = [Part(asking, schedule.share(number, 2).packed(), (0, number), 5.0, 100) for number in range(2)]
    async with hired(parts) as crew:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(crew.run())
            async with asyncio.timeout(30):
                while crew.tally.failed < 50:  # noqa: ASYNC110 - nobody is there to answer, and nothing tells of it
                    await asyncio.sleep(0.05)
            crew._processes[0].kill()
            crew.stop()
            await running
        assert crew.died == 1
        assert crew.tally.failures["unreachable"] >= 50


@pytest.mark.slow
async def test_a_worker_that_hangs_when_it_is_told_to_stop_is_killed_and_leaves_what_it_had_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loadtests.traffic.crew.END_S", 0.5)
    schedule = drawn(
        Shape("constant", 20.0, 0.0, 60.0, 0.0, 1.0, 1.0), prompts=Lengths("constant", 1),
        outputs=Lengths("constant", 2), tenants=1, seed=0, even=True,
    )  # fmt: skip
    with served() as url:
        asking = Asking(Target(url), "m")
        async with hired([Part(asking, schedule.packed(), (0, 0), 60.0, 100)]) as crew:
            running = asyncio.create_task(crew.run())
            async with asyncio.timeout(30):
                while not crew.tally.completed:  # noqa: ASYNC110 - the crew tells nobody of what it hears
                    await asyncio.sleep(0.1)
                os.kill(crew._processes[0].pid, signal.SIGSTOP)
                crew.stop()
                await running
            assert crew.died == 1
            assert crew.tally.completed > 0


@pytest.mark.slow
def test_servers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    path, first = tmp_path / "e.json", fresh_address()
    starter = subprocess.Popen(
        [sys.executable, "-m", "loadtests", "engines", "--first", first, "--json", str(path)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    killer = threading.Timer(30, starter.kill)
    killer.start()
    assert starter.stdout is not None
    assert starter.stdout.readline().startswith(f"1 servers at {first}, port 8000")
    until(path.exists)
    (child,) = json.loads(path.read_text())["processes"]
    starter.kill()
    starter.communicate()
    killer.cancel()
    until(lambda: not _lives(child))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
