"""Writes lines to a sink in the background: taking one never waits and never fails.

Lines that the sink does not take are kept and tried again; beyond a bound the oldest are given up, and counted.
"""

import asyncio
from collections import deque

from autoscaler.ports import Clock, PortError, RecordSink

KEPT_BYTES = 40_000_000
"""Kept while the sink is away: some ten minutes of a hundred workloads of ten pods at 5 s."""

RETRY_S = 1.0
"""Seconds of the clock between two attempts at a sink that failed."""


class Writer:
    """The lines on their way to one sink, in order."""

    def __init__(self, sink: RecordSink, clock: Clock, kept_bytes: int = KEPT_BYTES) -> None:
        self._sink = sink
        self._clock = clock
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._lines: deque[bytes] = deque()
        self._bell = asyncio.Event()
        self._closed = False
        self.lost = 0
        """Lines given up so far."""

    def add(self, line: bytes) -> None:
        """Take a line, giving up the oldest when they have become too much."""
        self._lines.append(line)
        self._bytes += len(line)
        while self._bytes > self._kept_bytes:
            self._bytes -= len(self._lines.popleft())
            self.lost += 1
        self._bell.set()

    @property
    def waiting(self) -> int:
        """Lines that the sink has not taken."""
        return len(self._lines)

    def close(self) -> None:
        """No line follows; `run` returns when all are written."""
        self._closed = True
        self._bell.set()

    async def run(self) -> None:
        """Write lines as they come, until closed."""
        while self._lines or not self._closed:
            await self._bell.wait()
            self._bell.clear()
            while not await self.flush():
                await self._clock.sleep_until(self._clock.monotonic() + RETRY_S)

    async def flush(self) -> bool:
        """Write what is here; False when the sink failed, and then nothing was lost by it."""
        while self._lines:
            lines, lost_before = tuple(self._lines), self.lost
            try:
                await self._sink.write(lines)
            except PortError:
                return False
            # While the sink was writing, lines were added at the end, and some of these may have been given up.
            for _ in range(len(lines) - (self.lost - lost_before)):
                self._bytes -= len(self._lines.popleft())
        return True
