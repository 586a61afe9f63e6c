"""Asks another replica of the controller over HTTP.

Enters: an address that its lease gives. Leaves: the bytes of its answer, or a PortError. It follows no redirect, uses
no proxy, and takes no more than a bound. Where replicas have certificates, none is asked that shows none, and a token
is shown to nobody else: the address is whatever stands in the lease.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from autoscaler.adapters.web.hosts import NO_PAGE
from autoscaler.adapters.web.tls import Tls, trusting
from autoscaler.errors import InputError
from autoscaler.ports import Fault, PortError

MOST_BYTES: Final = 64 * 2**20
"""Ten thousand checkpoints of 4 KiB, with room."""


SECURE: Final = "https://"
"""Before the address of a replica that shows a certificate."""


def address_of(host: str, port: int, *, secure: bool) -> str:
    """Where a replica is asked, as it stands in the lease. `host` is a name or an address; one of IPv6 may be without
    the brackets that a URL wants, as Kubernetes tells a pod's."""
    literal = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{SECURE if secure else ''}{literal}:{port}"


Introduction = Callable[[], Awaitable[str | None]]
"""Makes the ``Authorization`` header that says who asks; None where there is none."""


class Peer:
    """The other replicas. Made by `peers`."""

    def __init__(self, session: aiohttp.ClientSession, tls: Tls | None, introduction: Introduction | None) -> None:
        self._session = session
        self._tls = tls
        self._introduction = introduction

    async def get(self, address: str, path: str) -> bytes:
        """What the replica at `address`, one of `address_of`, answers to `path`. Raises PortError."""
        call = f"GET {address}{path}"
        try:
            async with self._session.get(allow_redirects=False, **await self._asking(address, path, call)) as response:
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

    async def _asking(self, address: str, path: str, call: str) -> dict[str, Any]:
        """How it is asked. Raises PortError where it may not be."""
        if self._tls is None and address.startswith(SECURE):
            raise PortError(Fault.DENIED, f"{call}: not asked: it speaks TLS, and http.tls is not set")
        if self._tls is None:
            return {"url": f"http://{address}{path}"}
        if not address.startswith(SECURE):
            raise PortError(Fault.DENIED, f"{call}: not asked: it shows no certificate, and http.tls is set")
        introduction = None if self._introduction is None else await self._introduction()
        try:
            context = trusting(self._tls)
        except InputError as error:
            raise PortError(Fault.INVALID, f"{call}: not asked: {error}") from error
        return {
            "url": f"{address}{path}", "ssl": context, "server_hostname": self._tls.server_name,
            "headers": {} if introduction is None else {"Authorization": introduction},
        }  # fmt: skip


@asynccontextmanager
async def peers(
    timeout_s: float = 5.0, *, tls: Tls | None = None, introduction: Introduction | None = None
) -> AsyncIterator[Peer]:
    """A client whose every call ends within `timeout_s`.

    With `tls` others are asked over TLS only, and told the `introduction`, if there is one.
    """
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False, headers=NO_PAGE) as session:
        yield Peer(session, tls, introduction)
