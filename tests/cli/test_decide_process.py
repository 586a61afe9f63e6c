"""`headroom decide` as a program: exit codes, an answer at once, the same bytes again, a reader that goes away."""

import codecs
import json
import subprocess
import sys

import pytest

from tests.cli.lines import answers, busy, encode, make_stream

COMMAND = [sys.executable, "-m", "autoscaler", "decide", "--jsonl"]
GOOD = [busy(5.0 * i, queued=30.0 * (i > 5)) for i in range(12)]
TEXT = b"".join(encode(line) for line in GOOD)


def run(text: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(COMMAND, input=text, capture_output=True, check=False, timeout=50)


def test_the_same_lines_give_the_same_bytes_in_any_process() -> None:
    first, second = run(TEXT), run(TEXT)
    stream = make_stream()
    assert first.stdout == second.stdout == b"".join(stream.answer(encode(line)) + b"\n" for line in GOOD)
    assert (first.returncode, first.stderr) == (0, b"")


def noted(i: int) -> bytes:
    """A line with fields of its writer's own, of 30 workloads; 40 names of them."""
    own = {"demand": 7, "queue": None, f"note {i}": "x"}
    return encode(busy(5.0 * i) | {"workload": f"ns/{i % 30}"} | own)


def test_fields_that_nothing_reads_are_named_once_on_standard_error_and_change_no_answer() -> None:
    """A plant's own notes pass, and so would a misspelled reading, unseen."""
    text = b"".join(noted(i) for i in range(40))
    plain = b"".join(encode(busy(5.0 * i) | {"workload": f"ns/{i % 30}"}) for i in range(40))
    done = run(text)
    assert (done.returncode, done.stdout) == (0, run(plain).stdout)
    told = done.stderr.decode().splitlines()
    known = "now_s, workload, policy, replicas, pods, gateway, latency, limits"
    assert told[:2] == [
        f"note: line 1, 'ns/0': field 'demand' is not read; a line's fields are {known}",
        f"note: line 1, 'ns/0': field 'note 0' is not read; a line's fields are {known}",
    ]
    assert len(told) == len(set(told)) == 20


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_a_standard_error_that_takes_nothing_costs_no_answer(closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND]
    done = subprocess.run(command, input=noted(1) + noted(2), capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 2)
    assert b"note:" not in done.stdout


@pytest.mark.parametrize(
    ("text", "code", "lines"),
    [
        (b"", 0, 0),
        (b"nonsense\n", 2, 1),
        (b"\n\n", 2, 2),
        (b"nonsense\n" + TEXT[: TEXT.index(b"\n")], 0, 2),
    ],
    ids=["no line", "one bad line", "empty lines", "one good line without its end"],
)
def test_the_exit_code_says_whether_anything_was_decided(text: bytes, code: int, lines: int) -> None:
    done = run(text)
    assert (done.returncode, done.stdout.count(b"\n")) == (code, lines)


def test_without_a_format_it_says_which_one_there_is() -> None:
    done = subprocess.run(COMMAND[:-1], input=TEXT, capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"error: decide: no format given; say `headroom decide --jsonl`\n"


def test_a_text_that_begins_with_the_mark_of_utf_8_loses_no_line() -> None:
    """With its first line a workload would lose its policy, and with that every line."""
    assert run(codecs.BOM_UTF8 + TEXT).stdout == run(TEXT).stdout


@pytest.mark.parametrize(
    ("closed", "message"),
    [
        ("<&-", "decide: standard input is closed; send lines to it"),
        (">&-", "decide: standard output is closed; nobody would read an answer"),
    ],
    ids=["input", "output"],
)
def test_a_closed_end_is_said_in_a_line(closed: str, message: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND]
    done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"error: {message}\n")


def test_a_plant_gets_each_answer_before_it_sends_the_next_line() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        seen = []
        for line in GOOD:
            program.stdin.write(encode(line))
            program.stdin.flush()
            seen.append(json.loads(program.stdout.readline()))
        program.stdin.close()
        assert program.wait(timeout=50) == 0
    assert seen == answers(*GOOD)


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdin.write(encode(GOOD[0]))
        program.stdin.flush()
        program.stdout.readline()
        program.stdout.close()
        program.stdin.write(encode(GOOD[1]))
        program.stdin.close()
        assert program.wait(timeout=50) == 0
        assert program.stderr.read() == b""


def test_scikit_learn_is_not_loaded_before_a_model_is_asked_for() -> None:
    script = (
        "import sys; from autoscaler.cli.main import app; app(['decide', '--jsonl'], standalone_mode=False); "
        "print(sorted({'sklearn', 'scipy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=TEXT, capture_output=True, check=True, timeout=50)
    assert done.stdout.splitlines()[-1] == b"[]"
