"""Instant and range queries on aiohttp: the query in the body, one deadline, and no answer that is only a part.

Prometheus marks an answer from which something is missing with `warnings`, a VictoriaMetrics cluster with `isPartial`.
Such an answer is refused: a sum over a part of the pods is a smaller load, and nobody could tell. The file of an
endpoint's authority is looked at again with every query, as its token's is: both are renewed while this runs.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, StreamReader, TCPConnector

from autoscaler.adapters.pem import PemFiles
from autoscaler.adapters.prometheus.answers import IS_PARTIAL
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.errors import printable
from autoscaler.ports import Fault, PortError

TIMEOUT_S = 1.5
"""Of a query; below the two seconds that a look at a workload may take."""

CAP_BYTES = 16 << 20
CONNECTIONS = 8
"""At once to each endpoint: what waits here does not queue up in Prometheus."""

MAX_POINTS = 11_000
"""Per series in one answer; Prometheus refuses a range of more."""


class Series(msgspec.Struct, frozen=True):
    """One series of an answer: its labels, and its samples as (seconds since 1970, value as text)."""

    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: tuple[tuple[float, str], ...] = ()

    @property
    def samples(self) -> tuple[tuple[float, str], ...]:
        """All its samples, oldest first."""
        return self.values if self.value is None else (self.value,)


class _Result(msgspec.Struct):
    result: list[Series] = []


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Result | None = None
    error: str = ""
    warnings: list[str] = []
    is_partial: bool = False


_decoder = msgspec.json.Decoder(_Answer)


class _Trust:
    """What an endpoint's certificate is checked with: its file, as it is now, or the system's own."""

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        files = () if endpoint.ca_file is None else (endpoint.ca_file,)
        self._files = PemFiles(f"prometheus.{name}.ca_file", files, endpoint.tls)
        self._context = self._files.first

    def now(self) -> ssl.SSLContext | bool:
        """As aiohttp takes it."""
        self._context = self._files.newer() or self._context
        return self._context or True


class LivePrometheus:
    """Asks the endpoints of the settings; make it inside of `querying`."""

    def __init__(self, session: ClientSession, endpoints: Mapping[str, Endpoint], timeout_s: float) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._trust = {name: _Trust(name, endpoint) for name, endpoint in endpoints.items()}
        self.endpoints = endpoints

    async def instant(self, endpoint: str, query: str) -> list[Series]:
        """The series of `query` now. Raises PortError; KeyError for an endpoint that the settings do not name."""
        return await self._ask(endpoint, "query", {"query": query})

    async def range(self, endpoint: str, query: str, *, start_s: float, end_s: float, step_s: float) -> list[Series]:
        """The series of `query` over a time. Raises PortError; ValueError for more than `MAX_POINTS` points."""
        if not 0 <= end_s - start_s <= (MAX_POINTS - 1) * step_s:
            raise ValueError(f"{end_s - start_s:g} s in steps of {step_s:g} s are not 1 to {MAX_POINTS} points")
        given = {"query": query, "start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
        return await self._ask(endpoint, "query_range", given)

    async def _ask(self, name: str, path: str, form: dict[str, str]) -> list[Series]:
        endpoint, trust = self.endpoints[name], self._trust[name].now()
        where = endpoint.url
        form = {**form, "timeout": f"{self._timeout_s:g}"}
        try:
            async with asyncio.timeout(self._timeout_s):
                headers = await endpoint.headers()
                async with self._session.post(
                    endpoint.api(path), data=form, headers=headers, allow_redirects=False, ssl=trust
                ) as response:
                    status, body = response.status, await _body(response.content, where)
        except TimeoutError as error:
            raise PortError(Fault.TIMEOUT, f"{where}: no answer within {self._timeout_s:g} s") from error
        except (ClientError, OSError, ValueError) as error:
            raise PortError(Fault.UNAVAILABLE, f"{where}: {str(error)[:200] or type(error).__name__}") from error
        return _series(where, status, body)


@asynccontextmanager
async def querying(endpoints: Mapping[str, Endpoint], *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[LivePrometheus]:
    """A client with its own session for the length of the block."""
    session = ClientSession(
        connector=TCPConnector(limit_per_host=CONNECTIONS),
        timeout=ClientTimeout(total=None, sock_connect=None, sock_read=None),
        headers={"Accept": "application/json"},
        cookie_jar=DummyCookieJar(),
        trust_env=False,
    )
    async with session:
        yield LivePrometheus(session, endpoints, timeout_s)


async def _body(content: StreamReader, where: str) -> bytes:
    parts, size = [], 0
    while part := await content.readany():
        size += len(part)
        if size > CAP_BYTES:
            raise PortError(Fault.INVALID, f"{where}: the answer is larger than {CAP_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _series(where: str, status: int, body: bytes) -> list[Series]:
    """The series of an answer. Raises PortError when it is none, or one from which something is missing."""
    try:
        answer = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = "HTML" if body.lstrip()[:1] == b"<" else f"{body[:100]!r}"
        fault = _FAULTS.get(status, Fault.UNAVAILABLE if status >= 500 else Fault.INVALID)
        raise PortError(fault, f"{where}: HTTP {status}, and the answer is not Prometheus': {said}") from error
    if status != 200 or answer.status != "success" or answer.data is None:
        fault = _FAULTS.get(status, Fault.UNAVAILABLE if status >= 500 else Fault.INVALID)
        raise PortError(fault, f"{where}: HTTP {status}: {printable(answer.error[:300])}")
    if answer.warnings or answer.is_partial:
        said = printable(answer.warnings[0][:300]) if answer.warnings else IS_PARTIAL
        raise PortError(Fault.INVALID, f"{where}: a part is missing from the answer: {said}")
    return answer.data.result


_FAULTS = {401: Fault.DENIED, 403: Fault.DENIED, 429: Fault.UNAVAILABLE}
