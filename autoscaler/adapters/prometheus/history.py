"""Past series out of Prometheus, through prometheus-api-client on threads of its own.

The library is synchronous, retries three times with pauses, follows the environment's proxies and credentials, has no
deadline unless it is given one, writes queries into the URL, and drops the warnings that mark an answer as a part. So
it is held here to two connections, one attempt, explicit times, and a session of ours that sends forms, reads no more
than a cap, and looks at every answer before the library sees it. Who asks decides what to do about an `AnswerError`.
"""

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import numpy as np
import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from autoscaler.adapters.prometheus.answers import CAP_BYTES, AnswerError, Found, Read, Trouble
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.core.columns import F64
from autoscaler.ports import Fault

CONNECTIONS: Final = 2
TIMEOUT_S: Final = 60.0
"""Of one answer; a range of 11,000 points over a hundred pods takes a busy Prometheus tens of seconds."""
_PIECE_BYTES: Final = 1 << 17
_OF_NUMBERS: Final = b"0123456789+-.eE,NaInf"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PastSeries:
    """One series of an answer: its labels, its instants in seconds since 1970, and its values, both of shape (n,)."""

    labels: Mapping[str, str]
    t_s: F64
    values: F64


class History:
    """Asks one endpoint about the past; make it inside of `remembering`."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self.url = endpoint.url
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[_Connection] = []

    async def range(self, query: str, *, start_s: int, end_s: int, step_s: int) -> tuple[PastSeries, ...]:
        """The series of `query` at start, start + step, ... up to end, which is included. Raises AnswerError.

        A step for which Prometheus has nothing is left out of a series; values may be NaN and infinite. VictoriaMetrics
        answers at other instants, multiples of the step, unless it is told to use no cache; Prometheus does not mind.
        """
        found = await self._ask(
            lambda library: library.custom_query_range(
                query,
                start_time=datetime.fromtimestamp(start_s, UTC),
                end_time=datetime.fromtimestamp(end_s, UTC),
                step=str(step_s),
                params={"timeout": f"{self._timeout_s:g}", "nocache": "1"},
            )
        )
        return tuple(_past(self.url, series) for series in found)

    async def series(self, selectors: Sequence[str], *, start_s: int, end_s: int) -> list[dict[str, str]]:
        """The labels of all series that match one of `selectors` and have samples in about that time."""
        found: list[dict[str, str]] = await self._ask(
            lambda library: library.get_series(
                datetime.fromtimestamp(start_s, UTC),
                datetime.fromtimestamp(end_s, UTC),
                params={"match[]": list(selectors)},
            )
        )
        return found

    async def _ask(self, question: Callable[[PrometheusConnect], list[T]]) -> list[T]:
        headers = await self._endpoint.headers()
        async with self._free:
            connection = self._idle.pop() if self._idle else _Connection(self._endpoint, self._timeout_s)
            connection.library.headers = headers
            # The library's timeout is one for every read of the socket; this one is for the whole answer.
            whole_s = 2 * self._timeout_s
            try:
                async with asyncio.timeout(whole_s):
                    found = await _in_thread(lambda: connection.ask(question))
            except TimeoutError as error:
                connection.give_up()
                raise _late(self.url, whole_s) from error
            except asyncio.CancelledError:
                connection.give_up()
                raise
            except AnswerError:
                connection.close()
                raise
            self._idle.append(connection)
            return found

    def close(self) -> None:
        """Close what nobody uses."""
        while self._idle:
            self._idle.pop().close()


@asynccontextmanager
async def remembering(endpoint: Endpoint, *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[History]:
    """A history for the length of the block; what is still being answered then is not waited for."""
    history = History(endpoint, timeout_s)
    try:
        yield history
    finally:
        history.close()


class _Connection:
    """The library on a session of ours; used by one thread at a time."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._url, self._timeout_s = endpoint.url, timeout_s
        self._session = _Session(endpoint.url)
        if endpoint.ca_file is not None:
            self._session.verify = str(endpoint.ca_file)
        self.library = PrometheusConnect(
            endpoint.url, headers={}, retry=0, session=self._session, timeout=timeout_s, method="POST"
        )

    def ask(self, question: Callable[[PrometheusConnect], T]) -> T:
        """What the library answers, in a thread. Raises AnswerError."""
        url = self._url
        try:
            return question(self.library)
        except (requests.Timeout, urllib3.exceptions.TimeoutError) as error:
            raise _late(url, self._timeout_s) from error
        except (OSError, urllib3.exceptions.HTTPError) as error:  # requests' errors are OSErrors, and sockets' are
            raise AnswerError(Trouble.UNREACHABLE, Fault.UNAVAILABLE, _broken(url, error), again=True) from error
        except (PrometheusApiClientException, ValueError) as error:
            raise AnswerError(Trouble.REFUSED, Fault.INVALID, f"{url}: {_words(error)}") from error

    def give_up(self) -> None:
        """Nobody waits for the answer any more: let the thread end with the next piece of it."""
        self._session.given_up.set()
        self.close()

    def close(self) -> None:
        """Close the sockets that no thread reads."""
        self._session.close()


class _Session(requests.Session):
    """What the library asks through: forms in place of URLs, no redirects, nothing of the environment, a cap."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.trust_env = False
        self.given_up = threading.Event()
        self._where = where

    def request(self, method: str, url: str, *, params: Any = None, **more: Any) -> Any:  # type: ignore[override]  # what the library calls, and what it looks at in an answer
        """The checked answer."""
        how = {**more, "stream": True, "allow_redirects": False}
        with super().request("POST", url, data=params, **how) as response:
            return Read(self._where, response.status_code, self._body(response), response.headers.get("Retry-After"))

    def _body(self, response: requests.Response) -> bytes:
        parts, size = [], 0
        while part := response.raw.read1(_PIECE_BYTES, decode_content=True):
            size += len(part)
            if self.given_up.is_set():
                raise requests.Timeout("given up")
            if size > CAP_BYTES:
                text = f"{self._where}: the answer is larger than {CAP_BYTES >> 20} MiB"
                raise AnswerError(Trouble.TOO_MANY, Fault.INVALID, text, smaller=True)
            parts.append(part)
        return b"".join(parts)


async def _in_thread(work: Callable[[], T]) -> T:
    """What `work` returns, or the AnswerError it raises, in a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

    def run() -> None:
        result: T | None = None
        error: Exception | None = RuntimeError("the thread broke off")
        try:
            result, error = work(), None
        except AnswerError as told:
            error = told
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="prometheus history", daemon=True).start()
    return await done


def _past(where: str, series: Found) -> PastSeries:
    # A typed decoder would make two Python objects of every point; 50 million of them take minutes.
    text = bytes(series.values).translate(None, b'[]" \n')
    numbers = np.fromstring(text.decode(), sep=",") if text and not text.translate(None, _OF_NUMBERS) else np.empty(0)
    if numbers.size != (text.count(b",") + 1 if text else 0) or numbers.size % 2:
        raise AnswerError(Trouble.REFUSED, Fault.INVALID, f"{where}: {text[:60]!r} are no points of time and value")
    points = numbers.reshape(-1, 2)
    return PastSeries(series.metric, points[:, 0].copy(), points[:, 1].copy())


def _late(url: str, timeout_s: float) -> AnswerError:
    text = f"{url}: no whole answer within {timeout_s:g} s"
    return AnswerError(Trouble.UNREACHABLE, Fault.TIMEOUT, text, again=True, smaller=True)


def _broken(url: str, error: Exception) -> str:
    """What kept an answer from coming: the system's own word for it, which libraries wrap in several of theirs."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return f"connection refused by {url}; is the address right and the server up?"
        if isinstance(cause, socket.gaierror):
            return f"no address is known for the host of {url} ({cause.strerror}); is the name right?"
        if isinstance(cause, OSError) and cause.errno in {errno.EHOSTUNREACH, errno.ENETUNREACH}:
            return f"no way leads to {url} ({cause.strerror}); is the address right and the network up?"
        cause = cause.__cause__ or cause.__context__
    return f"{url}: {_words(error)}"


def _words(error: Exception) -> str:
    return str(error)[:300] or type(error).__name__
