"""The commands as a person uses them: arguments, exit codes, results, and a run that is cut."""

import asyncio
import subprocess
import sys

import pytest

from loadtests.__main__ import main
from loadtests.traffic import run as run_of_traffic
from loadtests.traffic.command import without_secrets
from tests.conftest import ROOT
from tests.loadtests.servers import PORT, fresh_address, raw_server


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://example.com"], "--allow-host example.com"),
        (["127.0.0.1:1", "--shape", "trace"], "--shape trace and --trace FILE belong together"),
        (["127.0.0.1:1", "--trace", "/none.csv"], "/none.csv: cannot be read"),
        (["127.0.0.1:1", "--rate", "-1"], "--rate is -1"),
        (["127.0.0.1:1", "--rate", "5", "--to", "20"], "--to says nothing of the shape constant; leave it out, or"),
        (["127.0.0.1:1", "--shape", "ramp", "--at", "5s"], "the shape ramp; leave it out, or choose step"),
        (["127.0.0.1:1", "--shape", "sine", "--burst", "5s"], "--burst says nothing of the shape sine"),
        (["127.0.0.1:1", "--trace", "x.csv", "--period", "5s"], "--period says nothing of the shape trace"),
        (["127.0.0.1:1", "--trace", "x.csv", "--even"], "--even: a trace has its own instants"),
        (["127.0.0.1:1", "--trace", "x.csv", "--for", "0s"], "--for is 0.0; it must be above 0"),
        (["127.0.0.1:1", "--shape", "step", "--for", "1m", "--at", "60s"], "--at 60 s with --ramp 0 s: the step"),
        (["127.0.0.1:1", "--shape", "step", "--for", "1m", "--ramp", "31s"], "--at 30 s with --ramp 31 s: the"),
        (["127.0.0.1:1", "--workers", "0"], "--workers is 0"),
        (["127.0.0.1:1", "--max-open", "1000000000"], "needs more files than a process may open"),
        (["127.0.0.1:1", "--output-tokens", "few"], "--output-tokens 'few'"),
        (["127.0.0.1:1", "--header", "nothing"], "write NAME:VALUE"),
        (["127.0.0.1:1", "--json", "/none/x.json"], "/none"),
    ],
    ids=["another host", "no trace", "no file", "rate", "to", "at", "burst", "period", "even", "nothing of a trace",
         "a step beyond the end", "a step that ends beyond it", "workers", "open streams", "lengths", "header", "json"],
)  # fmt: skip
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
     (["--profile", "/none"], "cannot be read"), (["--kv-tokens", "15"], "blocks of 16"),
     (["--json", "/none/x.json"], "/none/x.json: cannot be written")],
    ids=["elsewhere", "a word", "no server", "port", "stage", "no profile", "no memory", "json"],
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
