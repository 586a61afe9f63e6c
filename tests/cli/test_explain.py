"""`headroom explain`: which records it prints, as text or JSON, and what it says when there is none."""

import codecs
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from autoscaler.cli.stdin import bytes_in
from autoscaler.core.reasons import Reason
from autoscaler.errors import InputError
from autoscaler.record.audit import audit_line
from tests.cli.lines import busy, encode, make_stream
from tests.record.decisions import PER_REASON, make_decision

run = CliRunner().invoke

DECISIONS = [
    make_decision(PER_REASON[reason][0], now_s=second, workload=workload)
    for second, workload, reason in [
        (0.0, "prod/chat", Reason.NO_SIGNAL),
        (0.0, "prod/code", Reason.DEMAND_NOW),
        (5.0, "prod/chat", Reason.FORECAST),
        (10.0, "prod/chat", Reason.MAX),
        (10.0, "test/chat", Reason.FLOOR),
    ]
]


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(audit_line(decision) + b"\n" for decision in DECISIONS))
    return path


@pytest.mark.parametrize(
    ("options", "heads"),
    [
        ([], ["00:00:00  prod/code", "00:00:10  prod/chat", "00:00:10  test/chat"]),
        (["prod/chat"], ["00:00:10  prod/chat"]),
        (["chat"], ["00:00:10  prod/chat", "00:00:10  test/chat"]),
        (["prod/chat", "--last", "2"], ["00:00:05  prod/chat", "00:00:10  prod/chat"]),
        (["prod/chat", "--last", "99"], ["00:00:00  prod/chat", "00:00:05  prod/chat", "00:00:10  prod/chat"]),
        (["prod/chat", "--at", "9.9"], ["00:00:05  prod/chat"]),
        (["--at", "0"], ["00:00:00  prod/chat", "00:00:00  prod/code"]),
    ],
    ids=lambda value: " ".join(value) or "no option",
)
def test_the_records_that_are_asked_for_are_printed(options: list[str], heads: list[str], audit: Path) -> None:
    result = run(app, ["explain", str(audit), *options])
    assert result.exit_code == 0
    firsts = [block.splitlines()[0].split("  ") for block in result.stdout.split("\n\n")]
    assert ["  ".join(first[:2]) for first in firsts] == heads


def test_a_record_shows_its_trace_in_words(audit: Path) -> None:
    result = run(app, ["explain", str(audit), "test/chat"])
    assert result.stdout.splitlines() == [
        "00:00:10  test/chat  1 → 3  SCALE  FLOOR",
        "  bound        1 → 3  FLOOR: 3, not 1: the policy's minimum is 3",
        "                        policy's minimum: 3",
    ]


def test_json_is_the_audit_line_itself(audit: Path) -> None:
    result = run(app, ["explain", str(audit), "prod/chat", "--json", "--last", "2"])
    assert result.stdout_bytes == audit_line(DECISIONS[2]) + b"\n" + audit_line(DECISIONS[3]) + b"\n"


def test_the_answers_of_decide_may_be_piped_into_it() -> None:
    stream = make_stream()
    text = b"".join(stream.answer(encode(line)) + b"\n" for line in (busy(0), busy(5), "bad", busy(10, queued=40)))
    result = run(app, ["explain", "-"], input=text)
    assert result.exit_code == 0
    assert result.stdout.startswith("00:00:10  ns/chat  2 → 4  SCALE  QUEUE_UNCALIBRATED\n")


@pytest.mark.parametrize("at", ["nan", "inf"])
def test_an_instant_that_is_none_is_refused(at: str, audit: Path) -> None:
    result = run(app, ["explain", str(audit), "--at", at])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: --at: {at} is no instant; give seconds as the file counts them\n"


def test_a_file_that_begins_with_the_mark_of_utf_8_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(codecs.BOM_UTF8 + audit_line(DECISIONS[0]) + b"\n")
    result = run(app, ["explain", str(path), "--json"])
    assert (result.exit_code, result.stdout_bytes) == (0, audit_line(DECISIONS[0]) + b"\n")


def test_a_closed_standard_input_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="explain: standard input is closed; send lines to it"):
        bytes_in("explain")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["prod/none"], "no decision on 'prod/none'; it holds prod/chat, prod/code, test/chat"),
        (["test/chat", "--at", "9"], "--at 9: the first decision is at 10; give a later time"),
    ],
)
def test_when_nothing_fits_it_says_what_there_is(options: list[str], message: str, audit: Path) -> None:
    result = run(app, ["explain", str(audit), *options])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {audit}: {message}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": empty; give a file of audit lines"),
        (b"time,load\n1,2\n", ": line 1: not JSON"),
        (b'{"error": "not JSON", "line": 1}\n', ": no decision in it, only errors"),
    ],
    ids=["empty", "another format", "only errors"],
)
def test_a_file_without_decisions_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    result = run(app, ["explain", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {path}{message}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run(app, ["explain", str(tmp_path / "none.jsonl")])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / 'none.jsonl'}: No such file")
