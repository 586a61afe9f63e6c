"""Asks another replica of the controller over HTTP.

Enters: an address that its lease gives. Leaves: the bytes of its answer, or a PortError. It follows no redirect, uses
no proxy, and takes no more than a bound.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from autoscaler.adapters.web.hosts import NO_PAGE
from autoscaler.ports import Fault, PortError

MOST_BYTES: Final = 64 * 2**20
"""Ten thousand checkpoints of 4 KiB, with room."""


class Peer:
    """The other replicas. Made by `peers`."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def get(self, address: str, path: str) -> bytes:
        """What ``host:port`` answers to `path`. Raises PortError."""
        call = f"GET {address}{path}"
        try:
            async with self._session.get(f"http://{address}{path}", allow_redirects=False) as response:
                body = await response.content.read(MOST_BYTES + 1)
                if response.status != 200:
                    raise PortError(Fault.UNAVAILABLE, f"{call}: {response.status}")
                while not response.content.at_eof() and len(body) <= MOST_BYTES:
                    body += await response.content.read(MOST_BYTES + 1 - len(body))
        except TimeoutError as error:
            raise PortError(Fault.TIMEOUT, f"{call}: no answer") from error
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise PortError(Fault.UNAVAILABLE, f"{call}: {error}") from error
        if len(body) > MOST_BYTES:
            raise PortError(Fault.INVALID, f"{call}: more than {MOST_BYTES} bytes")
        return body


@asynccontextmanager
async def peers(timeout_s: float = 5.0) -> AsyncIterator[Peer]:
    """A client whose every call ends within `timeout_s`."""
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False, headers=NO_PAGE) as session:
        yield Peer(session)
