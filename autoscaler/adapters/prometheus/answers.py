"""What a server of Prometheus' API answered about the past, and what is wrong with it in terms one can act upon.

Enters: status and body. Leaves: series that are whole, or an `AnswerError` that says whether asking again or asking for
less may help. An answer with warnings, or one that calls itself partial, is a part of the truth, and a sum over a part
would pass for a smaller load.
"""

import re
from enum import StrEnum
from typing import Any, Final

import msgspec

from autoscaler.ports import Fault, PortError

CAP_BYTES: Final = 128 << 20
"""Of one answer once inflated: forty series of 11,000 points are 11 MiB."""


IS_PARTIAL: Final = "the server calls it partial (isPartial): see whether a vmstorage node is down"
"""Of a VictoriaMetrics cluster, which leaves out what its storage nodes that are down hold, unless it runs with
-search.denyPartialResponse, and says no more than this."""


class Trouble(StrEnum):
    """Why a part of the past is not known; the names are those of `preflight.history.Gap`."""

    REFUSED = "REFUSED"
    UNREACHABLE = "UNREACHABLE"
    PARTIAL = "PARTIAL"
    TOO_MANY = "TOO_MANY"
    AMBIGUOUS = "AMBIGUOUS"


class AnswerError(PortError):
    """A question about the past that was not answered whole."""

    def __init__(
        self,
        trouble: Trouble,
        fault: Fault,
        message: str,
        *,
        again: bool = False,
        smaller: bool = False,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(fault, message)
        self.trouble = trouble
        self.again = again
        """Whether the same question may be answered later."""
        self.smaller = smaller
        """Whether a question over less time may be answered."""
        self.status = status
        """Of HTTP; None where nobody answered."""
        self.retry_after_s = retry_after_s

    @property
    def answered(self) -> bool:
        """Whether it was the server that spoke, rather than a proxy or nobody."""
        return self.trouble is not Trouble.UNREACHABLE or (self.status is not None and self.smaller)


class Found(msgspec.Struct, frozen=True):
    """A series of a range: its points are left as they came."""

    metric: dict[str, str] = {}
    values: msgspec.Raw = msgspec.Raw(b"[]")


class _Matrix(msgspec.Struct):
    result: list[Found]


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Matrix | list[dict[str, str]] | None = None
    error: str = ""
    warnings: list[str] = []
    is_partial: bool = False


_decoder: Final = msgspec.json.Decoder(_Answer)

_TOO_MANY = re.compile(
    r"too many samples|exceeds the limit|exceeded maximum|max-fetched|too large|limit of", re.IGNORECASE
)
"""What Prometheus, and those that speak its API, say of a question that asks for too much at once."""
_DOUBLE = re.compile(r"same labelset|duplicate|many-to-many|multiple matches", re.IGNORECASE)
_SLOW = re.compile(r"timed out|timeout|canceled|deadline exceeded", re.IGNORECASE)


class Read:
    """An answer as far as the library looks at it: `status_code`, `content` and `json`. Raises AnswerError."""

    def __init__(self, where: str, status: int, body: bytes, retry_after: str | None = None) -> None:
        self.status_code = status
        self.content = body[:300]
        answer = _decoded(where, status, body, _seconds(retry_after))
        _refuse(where, status, answer, _seconds(retry_after))
        self._data = answer.data

    def json(self) -> dict[str, Any]:
        """The data where the library expects it; a matrix has its series under ``result``."""
        return {"data": {"result": self._data.result} if isinstance(self._data, _Matrix) else self._data}


def _decoded(where: str, status: int, body: bytes, retry_after_s: float | None) -> _Answer:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        page = body.lstrip()[:1] == b"<"
        said = "a page of HTML" if page else f"{body[:100]!r}"
        raise _of_status(
            where, status, f"the answer is not Prometheus': {said}", retry_after_s, torn=not page
        ) from error


def _refuse(where: str, status: int, answer: _Answer, retry_after_s: float | None) -> None:
    """Raise for an answer that is not whole."""
    if status != 200 or answer.status != "success" or answer.data is None:
        raise _of_status(where, status, answer.error[:300], retry_after_s)
    if answer.warnings or answer.is_partial:
        why = answer.warnings[0][:300] if answer.warnings else IS_PARTIAL
        said = f"{where}: a part is missing from the answer: {why}"
        raise AnswerError(Trouble.PARTIAL, Fault.INVALID, said, again=True)
    found = answer.data.result if isinstance(answer.data, _Matrix) else ()
    seen: set[tuple[tuple[str, str], ...]] = set()
    for series in found:
        labels = tuple(sorted(series.metric.items()))
        if labels in seen:
            said = f"{where}: two series with the labels {dict(labels)}"
            raise AnswerError(Trouble.AMBIGUOUS, Fault.INVALID, said)
        seen.add(labels)


def _of_status(where: str, status: int, said: str, retry_after_s: float | None, *, torn: bool = False) -> AnswerError:
    """The error of an answer that is none; `torn` where the text looks cut off rather than another program's."""
    text = f"{where}: HTTP {status}: {said}"
    slow = status in {422, 503, 504} and _SLOW.search(said) is not None
    if status in {401, 403}:
        return AnswerError(Trouble.REFUSED, Fault.DENIED, text, status=status)
    if status == 422 and _DOUBLE.search(said):
        return AnswerError(Trouble.AMBIGUOUS, Fault.INVALID, text, status=status)
    if status in {400, 413, 422} and _TOO_MANY.search(said):
        return AnswerError(Trouble.TOO_MANY, Fault.INVALID, text, smaller=True, status=status)
    if slow or status == 429 or status >= 500:
        fault = Fault.TIMEOUT if slow else Fault.UNAVAILABLE
        how = {"again": True, "smaller": slow}
        return AnswerError(Trouble.UNREACHABLE, fault, text, **how, status=status, retry_after_s=retry_after_s)
    if status == 200 and torn:
        return AnswerError(Trouble.UNREACHABLE, Fault.INVALID, text, again=True, status=status)
    return AnswerError(Trouble.REFUSED, Fault.INVALID, text, status=status)


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds; a date, which a proxy may send as well, is not waited for."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
