"""Connections that end when more comes over them than belongs to a page.

Enters: what a pod sends. Leaves: at most so many bytes beside a page's own, whatever they are: interim answers,
framing, trailers, blank lines, words that nobody asked for. Each costs the processor far more than a page's byte, and
their number is what a deadline alone leaves to the other side. Bytes are handed to the parser a piece at a time, for a
transport hands over a quarter of a megabyte at once.
"""

import asyncio
from functools import partial
from typing import Any, Final

from aiohttp import ClientPayloadError, TCPConnector
from aiohttp.client_proto import ResponseHandler

BESIDE_BYTES: Final = 32 << 10
"""Beside a page, per question: an engine's status line and headers are some 200 bytes, and 20 ms is what the costliest
of such bytes take."""

FRAMING: Final = 16
"""A page may have one byte of framing besides for so many of its own: lines of 100 bytes, each sent as a chunk."""

PIECE_BYTES: Final = 8 << 10


class OverrunError(ClientPayloadError):
    """More came than belongs to a page."""


class _Bounded(ResponseHandler):
    """One connection; its count begins anew with each question, and goes on while none is asked."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._came_bytes = 0
        self._overrun: OverrunError | None = None

    def set_response_params(self, **params: Any) -> None:
        """A question is asked."""
        self._came_bytes = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Take what came, until it is too much. The empty piece is aiohttp's own word to go on."""
        for begin in range(0, max(1, len(data)), PIECE_BYTES):
            if self._overrun is not None:
                return
            piece = data[begin : begin + PIECE_BYTES]
            self._came_bytes += len(piece)
            super().data_received(piece)
            page_bytes = 0 if self._payload is None else self._payload.total_bytes
            if self._came_bytes - page_bytes > BESIDE_BYTES + page_bytes // FRAMING:
                self._stop()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Whoever waits is told why, if it was us."""
        super().connection_lost(exc if self._overrun is None else self._overrun)

    def _stop(self) -> None:
        self._overrun = OverrunError(f"more than {BESIDE_BYTES} bytes came that are no page")
        payload = self._payload
        self.abort()
        self.set_exception(self._overrun)
        if payload is not None:
            payload.set_exception(self._overrun)


class BoundedConnector(TCPConnector):
    """A connector whose connections are bounded."""

    def __init__(self, *, limit: int, limit_per_host: int) -> None:
        super().__init__(limit=limit, limit_per_host=limit_per_host)
        made: type[ResponseHandler] = _Bounded
        self._factory = partial(made, self._loop)
