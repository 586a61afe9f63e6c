"""The body of a request that asks, at the instant its bytes leave, whether they still may.

Between a question asked earlier and the bytes lie a wait for a connection and a turn of the event loop. A process that
is frozen there (a paused machine, a starved container) would, once thawed, send what it no longer has the lead for.
"""

from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractStreamWriter


class WithheldError(Exception):
    """The body was not let go."""


class GuardedBody(aiohttp.BytesPayload):
    """Bytes that leave while `admit` says so. aiohttp holds small headers back until the body, so nothing left before.

    What is left open are the microseconds from the answer to the kernel's own copy, which no client can close: what is
    asked of the server is therefore conditional, too.
    """

    def __init__(self, value: bytes, content_type: str, admit: Callable[[], bool]) -> None:
        super().__init__(value, content_type=content_type)
        self._admit = admit
        self._left = False
        self.withheld = False
        """Its turn came, and it was not let go: nor had it been before, as aiohttp sends a DELETE again by itself."""

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all of it. Raises WithheldError, which aiohttp turns into its own."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write what the request's Content-Length counts. Raises as `write` does."""
        if not self._admit():
            self.withheld = not self._left
            raise WithheldError
        self._left = True
        await super().write_with_length(writer, content_length)
