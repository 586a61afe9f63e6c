"""The hub between the record stream and its readers: publishing never waits, a slow reader never slows another.

Frames are gathered and told at most once per interval; a reader that connects, or that fell behind, gets a snapshot of
what it shows. Every reader hears one line of every workload, and whole frames with their past only of those it asked
for, or of all while they are few: a page of a thousand charts would help nobody. The hub lives in one event loop and
starts no task of its own.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from autoscaler.adapters.web.history import History, share_of
from autoscaler.adapters.web.history import Row as PointRow
from autoscaler.adapters.web.overview import TableRow, table_row
from autoscaler.adapters.web.reader import Focus, Reader
from autoscaler.record.batch_lines import BatchLines, first
from autoscaler.record.pool_status import PoolLine
from autoscaler.record.stream import Frame, Results, WorkloadFrame

INTERVAL_S = 0.125
"""Frames are told eight times a second at most: a person sees no more, and a page redraws in less."""

FEW = 6
"""Workloads up to this many are told whole to a reader that did not choose."""

MOST_GANGS = 60
"""Gangs that a page shows; it is told all of them whenever one changed."""

Fresh = tuple[list[PointRow], list[msgspec.Raw]] | None

_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Standing:
    """What this replica is, above all workloads."""

    leading: bool = True
    """One that does not lead follows the cluster and decides nothing."""
    holder: str = ""
    """Who leads; empty where nobody does."""
    frozen: bool = False
    """Whether all action is stopped in the whole cluster."""


class Hub:
    """What was published last and before, and who is told. Call all methods in the event loop's thread."""

    def __init__(self, *, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._readers: set[Reader] = set()
        self._frames: dict[str, WorkloadFrame] = {}
        self._rows: dict[str, TableRow] = {}
        self._history: dict[str, History] = {}
        self._changed: set[str] = set()
        self._results: list[Results] = []
        self._pools: tuple[PoolLine, ...] = ()
        self._batch: BatchLines | None = None
        self._standing = Standing()
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
            self._rows[name] = table_row(workload)
            if name not in self._history:
                self._history[name] = History()
            self._history[name].add(workload, share_of(len(self._history)))
            self._changed.add(name)
        if self._timer is None and self._ended is None:
            self._timer = loop.call_later(self._interval_s, self._flush)

    def forget(self, workload: str) -> None:
        """Drop a workload that is no longer scaled; an unknown one is no error."""
        if self._frames.pop(workload, None) is not None:
            del self._rows[workload], self._history[workload]
            self._changed.discard(workload)
            self._tell("gone", _encode({"workload": workload}))

    def stand(self, standing: Standing) -> None:
        """Say what this replica is; readers are told when that changed."""
        if standing != self._standing:
            self._standing = standing
            self._tell("standing", _encode(standing))

    def publish_pools(self, pools: tuple[PoolLine, ...]) -> None:
        """Take all warm pools as they are now; readers are told when one changed."""
        if pools != self._pools:
            self._pools = pools
            self._tell("pools", _encode(pools))

    def publish_batch(self, lines: BatchLines | None) -> None:
        """Take batch work as it is now, None where none is admitted; readers are told when it changed."""
        shown = None if lines is None else first(lines, MOST_GANGS)
        if shown != self._batch:
            self._batch = shown
            self._tell("batch", _encode(shown))

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
    def reader(self, focus: Focus = None) -> Iterator[Reader]:
        """A reader for the length of the block; its first message is a snapshot."""
        reader = Reader(focus)
        self._readers.add(reader)
        reader.start_over()
        if self._closed:
            reader.end()
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def snapshot(self, focus: Focus = None) -> bytes:
        """All that a reader shows, as one event. What was not told yet is told first, so that nobody hears it twice."""
        self._flush()
        shown = self._shown(self._frames, focus)
        content = self._content(self._rows, shown)
        content |= {
            "quiet_s": asyncio.get_running_loop().time() - self._heard_s,
            "points": {name: self._history[name].points() for name in shown},
            "decisions": {name: list(self._history[name].decisions) for name in shown},
            "standing": self._standing,
            "results": self._results,
            "pools": self._pools,
            "batch": self._batch,
            "ended": self._ended,
        }
        return self._event("snapshot", _encode(content))

    def _shown(self, names: Iterable[str], focus: Focus) -> list[str]:
        """Those of `names` that a reader with this focus is told whole, in their order."""
        if focus is None:
            return list(names) if len(self._frames) <= FEW else []
        return [name for name in names if name in focus]

    def _content(self, rows: Iterable[str], shown: Iterable[str]) -> dict[str, Any]:
        return {
            "now_s": self._now_s,
            "speed": self._speed,
            "rows": [self._rows[name] for name in rows],
            "frames": [self._frames[name] for name in shown],
        }

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        changed = sorted(self._changed)
        self._changed.clear()
        if not changed:
            return
        fresh = {name: self._history[name].take() for name in changed}
        for focus in {reader.focus for reader in self._readers}:
            self._update([reader for reader in self._readers if reader.focus == focus], focus, fresh)

    def _update(self, readers: list[Reader], focus: Focus, fresh: dict[str, Fresh]) -> None:
        """Tell the readers with one focus what is new, or let them start over where older points changed."""
        shown = self._shown(fresh, focus)
        added = {name: rows for name in shown if (rows := fresh[name]) is not None}
        if len(added) < len(shown):
            for reader in readers:
                reader.start_over()
            return
        content = self._content(fresh, shown)
        content |= {
            "points": {name: points for name, (points, _) in added.items()},
            "decisions": {name: decisions for name, (_, decisions) in added.items()},
        }
        self._tell("update", _encode(content), readers)

    def _tell(self, kind: str, content: bytes, readers: Iterable[Reader] | None = None) -> None:
        self._sequence += 1
        message = self._event(kind, content)
        for reader in self._readers if readers is None else readers:
            reader.tell(message)

    def _event(self, kind: str, content: bytes) -> bytes:
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self._sequence, kind.encode(), content)
