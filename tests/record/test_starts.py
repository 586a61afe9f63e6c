"""Start lines: what a workload began with is in the record, in a form that can be put back."""

import json
import math

import msgspec
import pytest

from autoscaler.record.audit import audit_line, read_lines
from autoscaler.record.inputs import PREFIX as INPUTS
from autoscaler.record.starts import PREFIX, Start, start_line
from tests.record.decisions import make_decision

SAVED = {"version": 1, "workload": "prod/chat", "columns": {}, "saved_s": 12.5}


@pytest.mark.parametrize(
    ("saved", "asked_s", "golden"),
    [
        (None, -math.inf, '"fit_asked_s":null,"checkpoint":null}'),
        (SAVED, -3500.0,
         '"fit_asked_s":-3500.0,"checkpoint":{"version":1,"workload":"prod/chat","columns":{},"saved_s":12.5}}'),
    ],
    ids=["a workload that begins afresh", "a workload that is back, one of a crowd"],
)  # fmt: skip
def test_the_bytes_of_version_1_stay_as_they_are(saved: dict[str, object] | None, asked_s: float, golden: str) -> None:
    line = start_line("prod/chat", 60.0, saved, asked_s)
    assert line.decode() == '{"kind":"start","version":1,"now_s":60.0,"workload":"prod/chat",' + golden
    assert line.startswith(PREFIX)
    assert not line.startswith(INPUTS)
    assert msgspec.json.decode(line, type=Start).checkpoint == saved == json.loads(line)["checkpoint"]


def test_whoever_reads_decisions_does_not_see_the_starts_between_them() -> None:
    decision = make_decision()
    lines = [start_line("prod/chat", 0.0, SAVED, 0.0) + b"\n", audit_line(decision) + b"\n"]
    assert list(read_lines(lines, "audit")) == [decision]
