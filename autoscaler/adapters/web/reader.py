"""One reader of the hub: what it has not seen yet, and a snapshot in its place where that has become too much."""

import asyncio
from collections import deque
from typing import Protocol

BACKLOG = 32
"""Messages a reader may be behind (4 s) before it is given a snapshot in their place."""

Focus = frozenset[str] | None
"""The workloads that a reader wants whole; None leaves the choice to the hub."""


class Snapshots(Protocol):
    """What a reader that is behind is given."""

    def snapshot(self, focus: Focus = None) -> bytes:
        """All that there is to show, as one event."""
        ...


class Reader:
    """One connected page. `message` waits for what it has not seen yet."""

    def __init__(self, focus: Focus = None) -> None:
        self.focus = focus
        self._ready = asyncio.Event()
        self._queue: deque[bytes] = deque()
        self._behind = True
        self._closed = False

    def tell(self, message: bytes) -> None:
        """Queue a message; a reader that is too far behind will start over from a snapshot."""
        if not self._behind:
            self._queue.append(message)
            if len(self._queue) > BACKLOG:
                self.start_over()
        self._ready.set()

    def start_over(self) -> None:
        """Forget what is queued: the next message is a snapshot."""
        self._queue.clear()
        self._behind = True
        self._ready.set()

    def end(self) -> None:
        """No message follows those that are queued."""
        self._closed = True
        self._ready.set()

    async def message(self, hub: Snapshots) -> bytes | None:
        """The next message as the bytes of one server-sent event; None when the stream has ended."""
        await self._ready.wait()
        if self._behind:
            snapshot = hub.snapshot(self.focus)
            self._behind = False
            self._rest()
            return snapshot
        message = self._queue.popleft() if self._queue else None
        self._rest()
        return message

    def _rest(self) -> None:
        if not (self._queue or self._closed):
            self._ready.clear()
