"""Fit lines: a model is in the record as bytes that come back as they were."""

import msgspec

from autoscaler.record.audit import audit_line, read_lines
from autoscaler.record.fits import PREFIX, Fit, fit_line
from tests.record.decisions import make_decision


def test_the_bytes_of_version_1_stay_as_they_are() -> None:
    line = fit_line("prod/chat", 60.0, b"\x00\xffmodel")
    assert line == b'{"kind":"fit","version":1,"now_s":60.0,"workload":"prod/chat","model":"AP9tb2RlbA=="}'
    assert line.startswith(PREFIX)
    assert msgspec.json.decode(line, type=Fit).model == b"\x00\xffmodel"


def test_whoever_reads_decisions_does_not_see_the_models_between_them() -> None:
    decision = make_decision()
    lines = [fit_line("prod/chat", 0.0, b"m") + b"\n", audit_line(decision) + b"\n"]
    assert list(read_lines(lines, "audit")) == [decision]
