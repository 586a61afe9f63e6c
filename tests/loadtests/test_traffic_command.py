"""The commands as a person uses them: arguments, exit codes, results, and a run that is cut."""

import asyncio
import json
import os
import signal
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
from loadtests.traffic import run as run_of_traffic
from loadtests.traffic.command import without_secrets
from loadtests.traffic.crew import hired
from loadtests.traffic.lengths import Lengths
from loadtests.traffic.schedule import drawn
from loadtests.traffic.shapes import Shape
from loadtests.traffic.stream import Asking
from loadtests.traffic.target import Target
from loadtests.traffic.worker import Part
from tests.conftest import ROOT
from tests.loadtests.servers import PORT, fresh_address, raw_server


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://example.com"], "--allow-host example.com"),
        (["127.0.0.1:1", "--shape", "trace"], "--shape trace and --trace FILE belong together"),
        (["127.0.0.1:1", "--trace", "/none.csv"], "/none.csv: cannot be read"),
        (["127.0.0.1:1", "--rate", "-1"], "--rate is -1"),
        (["127.0.0.1:1", "--workers", "0"], "--workers is 0"),
        (["127.0.0.1:1", "--max-open", "1000000000"], "needs more files than a process may open"),
        (["127.0.0.1:1", "--output-tokens", "few"], "--output-tokens 'few'"),
        (["127.0.0.1:1", "--header", "nothing"], "write NAME:VALUE"),
        (["127.0.0.1:1", "--json", "/none/x.json"], "/none"),
    ],
    ids=["another host", "no trace", "no file", "rate", "workers", "open streams", "lengths", "header", "json"],
)
def test_arguments_that_cannot_be_used_end_with_2_and_say_why(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--max-open" in arguments and _files_without_end():
        pytest.skip("a process may open any number of files here")
    assert main(["traffic", *arguments]) == 2
    assert words in capsys.readouterr().err


def _files_without_end() -> bool:
    import resource  # noqa: PLC0415 - not on every system

    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] == resource.RLIM_INFINITY


def test_a_key_in_a_header_is_not_in_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["127.0.0.1:1", "--header", "Authorization: Bearer k3y", "--header=X-Key:k3y", "--rate", "2"]
    assert without_secrets(given) == [
        "127.0.0.1:1", "--header", "Authorization:HIDDEN", "--header=X-Key:HIDDEN", "--rate", "2",
    ]  # fmt: skip
    with pytest.raises(SystemExit, match="2"):  # an abbreviation would not be known as a header
        main(["traffic", "127.0.0.1:1", "--head", "X-Key:k3y"])
    assert "unrecognized arguments" in capsys.readouterr().err


def test_a_service_that_is_not_there_ends_with_1_before_anything_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traffic", f"http://{fresh_address()}:{PORT}"]) == 1
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"", "closed without an answer"), (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP 404"),
     (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "no list of models"),
     (b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"data": []}', "lists no model")],
    ids=["hangs up", "no such page", "something else", "no model"],
)  # fmt: skip
def test_a_service_that_does_not_tell_its_models_ends_with_1_and_says_how_to_go_on(
    answer: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async def run() -> int:
        async with raw_server(write) as base:
            return await asyncio.to_thread(_in_thread, ["traffic", base])

    assert asyncio.run(run()) == 1
    told = capsys.readouterr().err
    assert words in told
    assert "--model NAME starts without asking" in told


def test_a_service_that_never_answers_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_of_traffic, "ANSWER_S", 0.1)

    async def silence(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.5)

    async def run() -> int:
        async with raw_server(silence) as base:
            return await asyncio.to_thread(_in_thread, ["traffic", base])

    assert asyncio.run(run()) == 1
    assert "no answer within 0.1 s; --model NAME starts without asking" in capsys.readouterr().err


def _in_thread(arguments: list[str]) -> int:
    return main(arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--first", "10.0.0.1"], "127.0.0.0/8"), (["--first", "here"], "no IPv4 address"), (["--count", "0"], "--count"),
     (["--port", "65535"], "--port"), (["--warm-up", "weights"], "NAME=SECONDS"),
     (["--profile", "/none"], "cannot be read")],
    ids=["elsewhere", "a word", "no server", "port", "stage", "no profile"],
)  # fmt: skip
def test_servers_that_cannot_be_are_refused_with_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["engines", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("name", ["traffic", "engines"])
def test_help_needs_none_of_the_large_packages(name: str) -> None:
    large = "{'aiohttp', 'numpy', 'rich', 'scipy', 'pydantic'}"
    code = (
        f"import sys; from loadtests.__main__ import main\ntry: main(['{name}', '--help'])\n"
        f"except SystemExit: print('loaded', sorted({large} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: loadtests {name}")
    assert done.stdout.endswith("loaded []\n")


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
