"""One page over HTTP/1.1, or why there is none. Whatever the other side does, it costs a second, a megabyte and some
hundredths of a second of the processor's time at most.

Plain HTTP, no redirects, no cookies, no proxies from the environment, no credentials, no decompression: a compressed
answer that nobody asked for is refused, so that the cap on the bytes read is also the cap on the bytes held.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar
from yarl import URL

from autoscaler.adapters.engines.bounded import BoundedConnector, OverrunError
from autoscaler.adapters.engines.targets import Place, objection, url
from autoscaler.errors import printable
from autoscaler.ports import Fault

TIMEOUT_S = 1.0
CAP_BYTES = 1 << 20
CONNECTIONS = 4096
"""Kept open at most; each is a file of this process."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a target has no page now."""

    fault: Fault
    message: str


class Fetcher:
    """Gets pages; make it inside of `fetching`."""

    def __init__(self, session: ClientSession, *, timeout_s: float, cap_bytes: int, allow_loopback: bool) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._cap_bytes = cap_bytes
        self._allow_loopback = allow_loopback

    async def get(self, place: Place) -> bytes | Trouble:
        """The page, or what is wrong with it. Never raises but for cancellation."""
        address = _address(place, self._allow_loopback)
        if isinstance(address, Trouble):
            return address
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._session.get(address, allow_redirects=False) as response:
                    refused = _refusal(response)
                    return refused if refused is not None else await self._body(response)
        except TimeoutError:
            return Trouble(Fault.TIMEOUT, f"no whole page within {self._timeout_s:g} s")
        except OverrunError as error:
            return Trouble(Fault.INVALID, str(error))
        except (ClientError, OSError, ValueError) as error:  # ValueError: a URL or header that aiohttp will not have
            return Trouble(Fault.UNAVAILABLE, _short(str(error) or type(error).__name__))

    async def _body(self, response: ClientResponse) -> bytes | Trouble:
        too_large = Trouble(Fault.INVALID, f"the page is larger than {self._cap_bytes} bytes")
        if (response.content_length or 0) > self._cap_bytes:
            return too_large
        parts, size = [], 0
        while part := await response.content.readany():
            size += len(part)
            if size > self._cap_bytes:
                return too_large
            parts.append(part)
        page = b"".join(parts)
        if not page.strip():
            return Trouble(Fault.INVALID, "the page is empty")
        if response.content_type == "text/html" or page.lstrip()[:1] == b"<":
            return Trouble(Fault.INVALID, "the page is HTML, not metrics")
        return page


@asynccontextmanager
async def fetching(
    *,
    timeout_s: float = TIMEOUT_S,
    cap_bytes: int = CAP_BYTES,
    allow_loopback: bool = False,
    connections: int = CONNECTIONS,
) -> AsyncIterator[Fetcher]:
    """A fetcher with its own session for the length of the block."""
    session = ClientSession(
        connector=BoundedConnector(limit=connections, limit_per_host=1),
        timeout=ClientTimeout(total=None, sock_connect=None, sock_read=None),
        headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"},
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        read_bufsize=1 << 18,
    )
    async with session:
        yield Fetcher(session, timeout_s=timeout_s, cap_bytes=cap_bytes, allow_loopback=allow_loopback)


@lru_cache(maxsize=8192)
def _address(place: Place, allow_loopback: bool) -> URL | Trouble:
    """Where to ask, or why not to; remembered, because a place is asked every second."""
    wrong = objection(place, allow_loopback=allow_loopback)
    return url(place) if wrong is None else Trouble(Fault.DENIED, f"not asked: {wrong}")


def _refusal(response: ClientResponse) -> Trouble | None:
    """What status and headers say against reading on."""
    status = response.status
    if status in {401, 403}:
        remedy = "credentials are never sent to pods; let it serve its metrics without them"
        return Trouble(Fault.DENIED, f"HTTP {status}: {remedy}")
    if status == 429 or status >= 500:
        return Trouble(Fault.UNAVAILABLE, f"HTTP {status}")
    if status != 200:
        return Trouble(Fault.INVALID, f"HTTP {status}")
    coding = response.headers.get("Content-Encoding", "identity")
    if coding.lower() not in {"identity", ""}:
        return Trouble(Fault.INVALID, f"compressed ({_short(coding)}), though plain text was asked for")
    return None


def _short(text: str, limit: int = 200) -> str:
    shown = printable(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
