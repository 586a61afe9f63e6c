"""The hub between the record stream and its readers: publishing never waits, a slow reader never slows another.

Frames are gathered and told at most once per interval; a reader that connects, or that fell behind, gets a snapshot of
all that is remembered. The hub lives in one event loop and starts no task of its own.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from autoscaler.adapters.web.history import History
from autoscaler.record.stream import DecisionFrame, Frame, Results, WorkloadFrame

INTERVAL_S = 0.125
"""Frames are told eight times a second at most: a person sees no more, and a page redraws in less."""

BACKLOG = 32
"""Messages a reader may be behind (4 s) before it is given a snapshot in their place."""

_encode = msgspec.json.encode


class Reader:
    """One connected page. `message` waits for what it has not seen yet."""

    def __init__(self) -> None:
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

    async def message(self, hub: "Hub") -> bytes | None:
        """The next message as the bytes of one server-sent event; None when the stream has ended."""
        await self._ready.wait()
        if self._behind:
            snapshot = hub.snapshot()
            self._behind = False
            self._rest()
            return snapshot
        message = self._queue.popleft() if self._queue else None
        self._rest()
        return message

    def _rest(self) -> None:
        if not (self._queue or self._closed):
            self._ready.clear()


class Hub:
    """What was published last and before, and who is told. Call all methods in the event loop's thread."""

    def __init__(self, *, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._readers: set[Reader] = set()
        self._frames: dict[str, WorkloadFrame] = {}
        self._history: dict[str, History] = {}
        self._changed: set[str] = set()
        self._results: list[Results] = []
        self._now_s = 0.0
        self._heard_s = 0.0
        self._speed = 1.0
        self._sequence = 0
        self._ended: str | None = None
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def frames(self) -> int:
        """Workloads that have been seen."""
        return len(self._frames)

    @property
    def readers(self) -> int:
        """Pages that are connected."""
        return len(self._readers)

    def publish(self, frame: Frame) -> None:
        """Take a frame; readers hear of it within the interval."""
        loop = asyncio.get_running_loop()
        self._now_s, self._speed, self._heard_s = frame.now_s, frame.speed, loop.time()
        for workload in frame.workloads:
            name = workload.workload
            self._frames[name] = workload
            if name not in self._history:
                self._history[name] = History()
            self._history[name].add(workload)
            self._changed.add(name)
        if self._timer is None and self._ended is None:
            self._timer = loop.call_later(self._interval_s, self._flush)

    def publish_results(self, results: Results) -> None:
        """Take the table of one workload; it stays on the page."""
        self._results.append(results)
        self._flush()
        self._tell("results", _encode(results))

    def end(self, why: str) -> None:
        """Tell every reader that no frame follows, and why. Results may still follow; new readers get the snapshot."""
        if self._ended is None:
            self._flush()
            self._ended = why
            self._tell("end", _encode({"why": why}))

    def close(self) -> None:
        """End every reader's stream once it has what is queued."""
        self._closed = True
        for reader in self._readers:
            reader.end()

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """A reader for the length of the block; its first message is a snapshot."""
        reader = Reader()
        self._readers.add(reader)
        reader.start_over()
        if self._closed:
            reader.end()
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def snapshot(self) -> bytes:
        """All that is remembered, as one event. What was not told yet is told first, so that nobody hears it twice."""
        self._flush()
        history = self._history.items()
        return self._event(
            "snapshot",
            _encode({
                "now_s": self._now_s,
                "speed": self._speed,
                "quiet_s": asyncio.get_running_loop().time() - self._heard_s,
                "frames": list(self._frames.values()),
                "points": {name: kept.points() for name, kept in history},
                "decisions": {name: list(kept.decisions) for name, kept in history},
                "results": self._results,
                "ended": self._ended,
            }),
        )  # fmt: skip

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._changed:
            return
        frames = [self._frames[name] for name in sorted(self._changed)]
        points: dict[str, list[list[float | None]]] = {}
        decisions: dict[str, list[DecisionFrame]] = {}
        for name in sorted(self._changed):
            kept = self._history[name]
            fresh = kept.take()
            if fresh is None:
                for reader in self._readers:
                    reader.start_over()
            else:
                points[name], decisions[name] = fresh
        self._changed.clear()
        content = {"now_s": self._now_s, "speed": self._speed, "frames": frames}
        self._tell("update", _encode({**content, "points": points, "decisions": decisions}))

    def _tell(self, kind: str, content: bytes) -> None:
        self._sequence += 1
        message = self._event(kind, content)
        for reader in self._readers:
            reader.tell(message)

    def _event(self, kind: str, content: bytes) -> bytes:
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self._sequence, kind.encode(), content)
