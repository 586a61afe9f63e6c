"""Past load out of Prometheus, for a history to start from, through prometheus-api-client on threads of its own.

The library is synchronous, retries three times with pauses, follows the environment's proxies and credentials, has no
deadline unless it is given one, and drops the warnings that mark an answer as a part. So it is held here to two
threads, one attempt, explicit times, a session of ours, and a look at every answer before the library sees it.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.live import MAX_POINTS
from autoscaler.core.columns import F64
from autoscaler.ports import Fault, PortError

THREADS = 2
TIMEOUT_S = 20.0
"""Of one chunk; a range of 11,000 points takes a busy Prometheus seconds."""


class History:
    """Asks for ranges; make it inside of `remembering`."""

    def __init__(self, endpoints: Mapping[str, Endpoint], threads: ThreadPoolExecutor, timeout_s: float) -> None:
        self._endpoints = endpoints
        self._threads = threads
        self._timeout_s = timeout_s

    async def rates(
        self, endpoint: str, query: str, *, start_s: int, end_s: int, step_s: int
    ) -> AsyncIterator[tuple[F64, F64]]:
        """Chunks (t, value), oldest first, of a query that is one series; times are whole seconds since 1970.

        Both arrays are of shape (points,), at most `MAX_POINTS`; a step for which Prometheus has nothing is left out.
        Raises PortError, after the chunks before; KeyError for an endpoint that the settings do not name.
        """
        place = self._endpoints[endpoint]
        for from_s in range(start_s, end_s + 1, MAX_POINTS * step_s):
            until_s = min(end_s, from_s + (MAX_POINTS - 1) * step_s)
            yield await self._chunk(place, _Range(query, from_s, until_s, step_s))

    async def _chunk(self, place: Endpoint, wanted: "_Range") -> tuple[F64, F64]:
        headers = await place.headers()
        ask = functools.partial(_ask, place.url, headers, wanted, self._timeout_s)
        # The library's timeout is one for every read of the socket; this one is for the whole answer.
        whole_s = 2 * self._timeout_s
        try:
            async with asyncio.timeout(whole_s):
                return await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except TimeoutError as error:
            raise PortError(Fault.TIMEOUT, f"{place.url}: no whole answer within {whole_s:g} s") from error


@asynccontextmanager
async def remembering(endpoints: Mapping[str, Endpoint], *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[History]:
    """A history with its own threads for the length of the block; what they still wait for is not waited for."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="prometheus history")
    try:
        yield History(endpoints, threads, timeout_s)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Range:
    """What is asked for in one request."""

    query: str
    start_s: int
    end_s: int
    step_s: int


def _ask(url: str, headers: dict[str, str], wanted: _Range, timeout_s: float) -> tuple[F64, F64]:
    """One range, in a thread. Raises PortError."""
    session = requests.Session()
    session.trust_env = False
    session.max_redirects = 0
    session.hooks["response"].append(functools.partial(_inspect, url))
    with PrometheusConnect(url, headers=headers, retry=0, session=session, timeout=timeout_s) as connection:
        try:
            found = connection.custom_query_range(
                wanted.query,
                start_time=datetime.fromtimestamp(wanted.start_s, UTC),
                end_time=datetime.fromtimestamp(wanted.end_s, UTC),
                step=str(wanted.step_s),
                params={"timeout": f"{timeout_s:g}"},
            )
        except requests.Timeout as error:
            raise PortError(Fault.TIMEOUT, f"{url}: no answer within {timeout_s:g} s") from error
        except (requests.JSONDecodeError, KeyError, TypeError) as error:
            raise PortError(Fault.INVALID, f"{url}: the answer is not Prometheus'") from error
        except requests.RequestException as error:
            raise PortError(Fault.UNAVAILABLE, f"{url}: {str(error)[:300]}") from error
        except PrometheusApiClientException as error:
            raise PortError(Fault.INVALID, f"{url}: {str(error)[:300]}") from error
    return _arrays(url, found)


def _inspect(url: str, response: requests.Response, **_: object) -> None:
    """Look at an answer before the library drops what tells a refusal from a failure and a part from the whole."""
    status, body = response.status_code, response.content  # read first: it frees the connection
    if status in {401, 403}:
        raise PortError(Fault.DENIED, f"{url}: HTTP {status}")
    if status == 429 or status >= 500:
        raise PortError(Fault.UNAVAILABLE, f"{url}: HTTP {status}")
    if status == 200 and b'"warnings"' in body:
        warnings = response.json().get("warnings")
        if warnings:
            raise PortError(Fault.INVALID, f"{url}: a part is missing from the answer: {str(warnings[0])[:300]}")


def _arrays(url: str, found: list[dict[str, Any]]) -> tuple[F64, F64]:
    if len(found) > 1:
        raise PortError(Fault.INVALID, f"{url}: {len(found)} series, where the query should be one")
    points = np.array(found[0]["values"] if found else [], dtype=np.float64).reshape(-1, 2)
    usable = points[np.isfinite(points[:, 1])]
    return usable[:, 0].copy(), usable[:, 1].copy()
