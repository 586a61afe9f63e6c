"""Audit lines: one line per decision, the same bytes every time, read back whole or refused by line and field."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.reasons import Reason
from autoscaler.core.types import Decision, Step, Verdict
from autoscaler.errors import InputError
from autoscaler.record.audit import audit_line, read_audit, read_lines
from tests.cli.lines import busy, encode, make_stream
from tests.record.decisions import MOST, PER_REASON, make_decision

GOLDEN = (
    '{"version":1,"now_s":8070.0,"workload":"prod/chat-7b","seen_replicas":12,"replicas":9,"verdict":"SCALE",'
    '"reason":"MAX","text":"12→9: 9, not 12: the policy\'s maximum is 9","next_due_s":8075.0,"trace":[{"stage":"bound",'
    '"before":12,"after":9,"reason":"MAX","evidence":{"max_replicas":9}}]}'
)


def test_the_bytes_of_version_1_stay_as_they_are() -> None:
    assert audit_line(make_decision(MOST)).decode() == GOLDEN


@pytest.mark.parametrize("reason", [pytest.param(reason, id=reason.name) for reason in Reason])
def test_a_decision_of_any_reason_comes_back_whole(reason: Reason) -> None:
    decision = make_decision(PER_REASON[reason][0])
    assert list(read_lines([audit_line(decision) + b"\n"], "audit")) == [decision]


def test_a_figure_that_is_not_known_is_null_and_its_key_is_there() -> None:
    decision = make_decision(Step("demand", 2, 4, Reason.QUEUE_UNCALIBRATED, (("replica_rps", None),)))
    assert json.loads(audit_line(decision))["trace"][0]["evidence"] == {"replica_rps": None}
    assert list(read_lines([audit_line(decision)], "audit")) == [decision]


FINITE = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 10**6)
STEPS = st.builds(
    Step, st.text(min_size=1), COUNTS, COUNTS, st.sampled_from(Reason),
    st.dictionaries(st.text(), st.none() | FINITE | st.integers(-(2**53), 2**53) | st.text(), max_size=4)
    .map(lambda d: tuple((name, value) for name, value in d.items() if name != "now_s")),
)  # fmt: skip


@given(
    st.builds(
        Decision, st.text(min_size=1), FINITE, COUNTS, COUNTS, st.sampled_from(Verdict), st.sampled_from(Reason),
        st.lists(STEPS, min_size=1, max_size=3).map(tuple), FINITE,
    )
)  # fmt: skip
def test_any_decision_is_one_line_that_comes_back_to_the_same_bytes(decision: Decision) -> None:
    line = audit_line(decision)
    assert b"\n" not in line
    (again,) = read_lines([line + b"\n"], "audit")
    assert again == decision
    assert audit_line(again) == line


def test_answers_of_decide_are_read_too_without_its_errors(tmp_path: Path) -> None:
    stream = make_stream()
    lines = [stream.answer(encode(line)) for line in (busy(0), "nonsense", busy(5), busy(10, queued=40))]
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    decisions = list(read_audit(path))
    assert [(d.now_s, d.seen_replicas, d.replicas, d.reason) for d in decisions] == [
        (0.0, 2, 2, Reason.NO_SIGNAL),
        (5.0, 2, 2, Reason.NO_SIGNAL),
        (10.0, 2, 4, Reason.QUEUE_UNCALIBRATED),
    ]
    assert decisions[2].next_due_s == 10.0


def test_a_last_line_that_is_still_being_written_is_left_for_later() -> None:
    line = audit_line(make_decision()) + b"\n"
    assert len(list(read_lines([line, line[:50]], "audit"))) == 1


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda record: record.pop(key)


def setting(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda record: record.__setitem__(key, value)


def in_step(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda record: record["trace"][0].__setitem__(key, value)


BAD: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (setting("version", 2), "version: 2 is not known; this build reads 1"),
    (without("now_s"), "now_s: missing"),
    (without("workload"), "workload: missing"),
    (without("replicas"), "replicas: missing"),
    (without("verdict"), "verdict: missing"),
    (without("reason"), "reason: missing"),
    (without("trace"), "trace: missing"),
    (setting("trace", []), "trace: empty"),
    (setting("replicas", "9"), "replicas: Expected `int | null`, got `str`"),
    (setting("verdict", "MAYBE"), "verdict: 'MAYBE' is not known; known are SCALE, HOLD"),
    (setting("reason", "MOOD"), "reason: 'MOOD' is not a reason of this build"),
    (in_step("reason", "MOOD"), "trace[0].reason: 'MOOD' is not a reason of this build"),
    (in_step("after", None), "trace[0].after: Expected `int`, got `null`"),
    (in_step("evidence", []), "trace[0].evidence: Expected `object`, got `array`"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD, ids=[message for _, message in BAD])
def test_a_faulty_line_is_refused_by_file_line_and_field(
    spoil: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    good = audit_line(make_decision())
    record = json.loads(good)
    spoil(record)
    path = tmp_path / "audit.jsonl"
    path.write_bytes(good + b"\n" + json.dumps(record).encode() + b"\n")
    with pytest.raises(InputError) as caught:
        list(read_audit(path))
    assert str(caught.value).startswith(f"{path}: line 2: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": empty"),
        (b"TIMESTAMP,ContextTokens\n1,2\n", ": line 1: not JSON"),
        (b"\x1f\x8b\x08\x00", ": line 1: not JSON"),
        (b"[1, 2]\n", ": line 1: Expected `object`, got `array`"),
        (b'{"now_s": 1}\n', ": line 1: trace: missing"),
        (b"{" * 10 + b"\n", ": line 1: not JSON"),
    ],
    ids=["empty", "a trace", "compressed", "a list", "readings", "braces"],
)
def test_a_file_of_another_format_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        list(read_audit(path))
    assert str(caught.value).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    "content",
    [b"plain", gzip.compress(b"{}\n")[:-4], gzip.compress(b"x" * 1000)[:12] + b"\0" * 40],
    ids=["not compressed", "cut", "garbled"],
)
def test_a_compressed_file_that_is_not_whole_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "audit-000000000001.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"audit-000000000001.jsonl.gz: "):
        list(read_audit(path))


@pytest.mark.parametrize("name", ["missing.jsonl", ".", "missing.gz"])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"give a readable file of audit lines"):
        list(read_audit(tmp_path / name))
