"""Audit lines: every decision as one line of versioned JSON, the same bytes for the same decision, and back again.

Enters: a `Decision`, or a file of lines. Leaves: bytes without a line end, or decisions. Every key is always there, in
one order; what is not known is null. The answers of `decide` hold the same trace without the version and are read too;
such a decision does not say when its workload is due again and reads as due at its own time. Inputs, start, fit and
memory lines stand between the decisions of an audit stream and are passed over.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from autoscaler.core.params import Params
from autoscaler.core.reasons import Reason
from autoscaler.core.types import Decision, Evidence, Readings, Step, Verdict
from autoscaler.errors import InputError
from autoscaler.record import fits, inputs, memories, starts
from autoscaler.record.explain import sentence

VERSION: Final = 1
"""Raised when a key changes its meaning or goes; a new key does not raise it."""

_BETWEEN: Final = (inputs.PREFIX, starts.PREFIX, fits.PREFIX, memories.PREFIX)

Fields = dict[str, Any]
T = TypeVar("T")


def step_lines(decision: Decision, params: Params, readings: Readings) -> tuple[bytes, ...]:
    """All that the audit stream holds of one step: its inputs, unless they were too old to use, then its decision."""
    if decision.reason is Reason.OUTDATED:
        return (audit_line(decision),)
    return inputs.inputs_line(decision.workload, params, readings), audit_line(decision)


def audit_line(decision: Decision) -> bytes:
    """The decision as one line of JSON, without the line end."""
    fields: Fields = {
        "version": VERSION,
        "now_s": decision.now_s,
        "workload": decision.workload,
        "seen_replicas": decision.seen_replicas,
        "replicas": decision.replicas,
        "verdict": decision.verdict.value,
        "reason": decision.reason.name,
        "text": sentence(decision),
        "next_due_s": decision.next_due_s,
        "trace": trace_fields(decision),
    }
    return msgspec.json.encode(fields)


def trace_fields(decision: Decision) -> list[Fields]:
    """The trace as plain JSON values; evidence is an object in the order a person should read it."""
    return [
        {
            "stage": step.stage,
            "before": step.before,
            "after": step.after,
            "reason": step.reason.name,
            "evidence": dict(step.evidence),
        }
        for step in decision.trace
    ]


def read_audit(path: Path) -> Iterator[Decision]:
    """The decisions of a file, plain or compressed (`.gz`), in its order, read as they are asked for.

    Lines of `decide` that hold an error are passed over, and so is a last line that is still being written. Raises
    InputError naming file, line and field for any other line, for an empty file and for a file that cannot be read.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            yield from read_lines(lines, str(path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a whole gzip file: {error}; give a finished file of audit lines") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; give a readable file of audit lines") from error


def read_lines(lines: Iterable[bytes], name: str) -> Iterator[Decision]:
    """The decisions in `lines`, as `read_audit` reads them; `name` stands for the file in messages."""
    number = 0
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if text.startswith(_BETWEEN):
            continue
        where = f"{name}: line {number}"
        try:
            record = _RECORD.decode(text)
        except msgspec.ValidationError as error:
            raise InputError(f"{where}: {_worded(error)}; give lines of an audit file or of `decide`") from error
        except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
            if number > 1 and not text.endswith(b"\n"):
                break
            raise InputError(f"{where}: not JSON: {error}; give lines of an audit file or of `decide`") from error
        if record.error is None:
            yield _decision(record, where)
    if number == 0:
        raise InputError(f"{name}: empty; give a file of audit lines")


class _Step(msgspec.Struct):
    stage: str
    before: int
    after: int
    reason: str
    evidence: dict[str, float | int | str | None]


class _Record(msgspec.Struct):
    error: str | None = None
    version: int | None = None
    now_s: int | float | None = None
    workload: str | None = None
    seen_replicas: int | None = None
    replicas: int | None = None
    verdict: str | None = None
    reason: str | None = None
    next_due_s: float | None = None
    trace: list[_Step] | None = None


_RECORD: Final = msgspec.json.Decoder(_Record)


def _decision(record: _Record, where: str) -> Decision:
    if record.version not in {None, VERSION}:
        raise InputError(f"{where}: version: {record.version} is not known; this build reads {VERSION}")
    trace = _given(record.trace, "trace", where)
    if not trace:
        raise InputError(f"{where}: trace: empty; a decision has at least one step")
    now_s = float(_given(record.now_s, "now_s", where))
    verdict = _given(record.verdict, "verdict", where)
    if verdict not in Verdict.__members__:
        raise InputError(f"{where}: verdict: {verdict!r} is not known; known are {', '.join(Verdict.__members__)}")
    return Decision(
        workload=_given(record.workload, "workload", where),
        now_s=now_s,
        seen_replicas=trace[0].before if record.seen_replicas is None else record.seen_replicas,
        replicas=_given(record.replicas, "replicas", where),
        verdict=Verdict[verdict],
        reason=_reason(_given(record.reason, "reason", where), f"{where}: reason"),
        trace=tuple(_step(step, f"{where}: trace[{index}]") for index, step in enumerate(trace)),
        next_due_s=now_s if record.next_due_s is None else record.next_due_s,
    )


def _step(step: _Step, where: str) -> Step:
    evidence: Evidence = tuple(step.evidence.items())
    return Step(step.stage, step.before, step.after, _reason(step.reason, f"{where}.reason"), evidence)


def _reason(code: str, where: str) -> Reason:
    if code not in Reason.__members__:
        raise InputError(f"{where}: {code!r} is not a reason of this build; read the file with the build that wrote it")
    return Reason[code]


def _given(value: T | None, key: str, where: str) -> T:
    if value is None:
        raise InputError(f"{where}: {key}: missing; give lines of an audit file or of `decide`")
    return value


def _worded(error: msgspec.ValidationError) -> str:
    """Msgspec's words with the field first: "replicas: Expected `int | null`, got `str`"."""
    what, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    return f"{field}: {what}" if field else what
