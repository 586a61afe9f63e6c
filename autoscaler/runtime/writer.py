"""Writes lines to a sink in the background: taking one never waits and never fails.

Lines that the sink does not take are kept and tried again; beyond a bound the oldest are given up, and counted.
"""

import asyncio
from collections import deque

from autoscaler.ports import Clock, PortError, RecordSink

KEPT_LINES = 20_000
"""Lines kept while the sink is away: some ten minutes of a hundred workloads at 5 s, about 40 MB."""

RETRY_S = 1.0
"""Seconds of the clock between two attempts at a sink that failed."""


class Writer:
    """The lines on their way to one sink, in order."""

    def __init__(self, sink: RecordSink, clock: Clock, kept: int = KEPT_LINES) -> None:
        self._sink = sink
        self._clock = clock
        self._kept = kept
        self._lines: deque[bytes] = deque()
        self._bell = asyncio.Event()
        self._closed = False
        self.lost = 0
        """Lines given up so far."""

    def add(self, line: bytes) -> None:
        """Take a line, giving up the oldest when there are too many."""
        self._lines.append(line)
        if len(self._lines) > self._kept:
            self._lines.popleft()
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
                self._lines.popleft()
        return True
