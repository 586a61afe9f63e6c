"""What the writers of this room share: how they ask, how they read what they are given, how Kubernetes spells instants.

The writers know `Requests` and not the client, so that the same code runs on virtual time against a server in memory.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar

import msgspec

from autoscaler.adapters.kube.answers import UNREADABLE, Answer, KubeError
from autoscaler.ports import Fault

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"

T = TypeVar("T")


class Requests(Protocol):
    """The API server, as `KubeApi` offers it."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
        admit: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """The answer, if it is 2xx, within `timeout_s`; `admit` is asked just before it leaves. Raises KubeError."""
        ...


def decoded(decoder: msgspec.json.Decoder[T], answer: Answer, call: str) -> T:
    """The object in an answer to `call` (method and path). Raises KubeError where it is none, as a proxy's page."""
    try:
        return decoder.decode(answer.body)
    except UNREADABLE as error:
        raise KubeError(Fault.INVALID, f"{call}: {answer.status}, but not the object: {error}") from error


def rfc3339(now_s: float, timespec: str = "seconds") -> str:
    """Seconds since 1970 as Kubernetes writes instants, in UTC; micro times need the timespec "microseconds"."""
    return datetime.fromtimestamp(now_s, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
