"""What the API server answered, and every way in which it did not, as one error.

Enters: status, headers and body. Leaves: `Answer`, or a `KubeError` whose message names the call and repeats the
server's own words, cut short. It opens no connection and retries nothing.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec

from autoscaler.ports import Fault, PortError

MOST_WORDS: Final = 300
"""Characters of the server's words that a message repeats."""

NOT_ADMITTED: Final = 'failed calling webhook "'
"""In what the API server says, with 500, where an admission webhook could not be asked and its failurePolicy is Fail
(k8s.io/apiserver, pkg/admission/plugin/webhook/errors): admission goes before writing."""

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the JSON that was asked for: text that is not UTF-8 and nesting that is
too deep are errors of their own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer (2xx), undecoded. Header names are matched whatever their case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class KubeError(PortError):
    """The API server did not do what was asked; the message names the call and what the server said.

    `status` is the HTTP status (None without an answer), `reason` the ``Status.reason`` of Kubernetes ("" without one),
    `retry_after_s` how long the server asks to be left alone in seconds (None when it does not say; never negative, but
    however large, so that who waits bounds it). `sent` is False where it is certain that nothing left this process.
    """

    def __init__(
        self,
        fault: Fault,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(fault, message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.sent = True

    @property
    def not_admitted(self) -> bool:
        """Whether nothing was written because a webhook could not be asked, which may pass."""
        return self.reason == "InternalError" and NOT_ADMITTED in str(self)


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, rename="camel"):
    """The ``Status`` object with which Kubernetes explains a refusal."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


_status = msgspec.json.Decoder(Status)


def refusal(call: str, status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """The error for an answer that is not 2xx; `call` is method and path."""
    said = read_status(body)
    reason = said.reason or "" if said else ""
    heading = f"{status} {reason}".rstrip()
    return KubeError(
        fault_of(status),
        f"{call}: {heading}: {words(headers.get('Content-Type', ''), body, said)}",
        status=status,
        reason=reason,
        retry_after_s=_retry_after_s(headers.get("Retry-After", ""), said),
    )


def read_status(body: bytes) -> Status | None:
    """The ``Status`` in `body`; None where there is none."""
    try:
        return _status.decode(body)
    except UNREADABLE:
        return None


def fault_of(status: int) -> Fault:
    """The kind of trouble that an HTTP status other than 2xx stands for."""
    if status in {401, 403}:
        return Fault.DENIED
    if status == 429 or status >= 500:
        return Fault.UNAVAILABLE
    return Fault.INVALID


@contextmanager
def translated(call: str, within_s: float) -> Iterator[None]:
    """Turn what the network and the clock throw inside the block into a `KubeError`."""
    try:
        yield
    except TimeoutError as error:
        raise KubeError(Fault.TIMEOUT, f"{call}: no answer within {within_s:g} s") from error
    except aiohttp.ClientResponseError as error:
        raise KubeError(Fault.INVALID, f"{call}: the answer is not HTTP: {_cut(error.message)}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise KubeError(Fault.UNAVAILABLE, f"{call}: {_cut(_cause(error))}") from error


def _cause(error: Exception) -> str:
    """What the network said; where no connection came about, in the system's own words and not in the libraries'."""
    if not isinstance(error, aiohttp.ClientConnectorError) or isinstance(error, aiohttp.ClientSSLError):
        return str(error) or type(error).__name__
    number = error.os_error.errno or 0
    said = os.strerror(number) if number > 0 else error.os_error.strerror or str(error.os_error)
    return f"no connection to {error.host}:{error.port} ({said})"


def words(content_type: str, body: bytes, said: Status | None = None) -> str:
    """What an answer says, for a message: the Status' message, else the text itself unless it is a web page."""
    if said and said.message:
        return _cut(said.message)
    if "html" in content_type.lower() or body.lstrip()[:1] == b"<":
        return f"an HTML page of {len(body)} bytes, so not the API server's own words"
    return _cut(body[: 4 * MOST_WORDS].decode(errors="replace")) or "without a word"


def _cut(words: str) -> str:
    words = "".join(letter if letter.isprintable() else " " for letter in words[: 2 * MOST_WORDS]).strip()
    return words if len(words) <= MOST_WORDS else f"{words[: MOST_WORDS - 3]}..."


def _retry_after_s(header: str, said: Status | None) -> float | None:
    """Seconds from the header (its form as a date is not used by API servers and not read) or from the Status. Less
    than none, which a proxy may write, says nothing: on top of a drawn wait it would make that none."""
    if header.strip().isdecimal():
        return float(header)
    told_s = said.details.retry_after_seconds if said and said.details else None
    return None if told_s is None or told_s < 0.0 else told_s
