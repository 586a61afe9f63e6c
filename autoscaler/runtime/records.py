"""What the live driver tells the world: steps, acts and notes, to whoever watches and to two sinks.

The audit holds every decision, what it was made from, what a workload began with, its models, and now and then all that
the core remembers of it; the journal holds what was done about decisions and what went wrong around them. Recording
never waits and never fails, so that nothing a reader or a disk does can delay a decision: a reader that falls behind
loses the oldest entries and is told how many.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.params import Params
from autoscaler.core.recall import remember
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Readings
from autoscaler.core.view import View
from autoscaler.ports import Clock, RecordSink
from autoscaler.record.audit import step_lines
from autoscaler.record.fits import fit_line
from autoscaler.record.memories import Models, memory_line
from autoscaler.record.starts import start_line
from autoscaler.runtime.actuator import Act
from autoscaler.runtime.fit_wire import pack_answer
from autoscaler.runtime.triggers import Cause
from autoscaler.runtime.writer import Writer

KEPT_ENTRIES = 2_000
"""Entries kept for a reader that is slow."""


class Event(Enum):
    """What a note is about."""

    SOURCE_LOST = "source lost"
    SOURCE_BACK = "source back"
    WATCH_BROKEN = "watch broken"
    BROKEN = "a step raised"
    COUNT_EDITED = "count set by somebody else"
    FROZEN = "frozen: nothing is acted upon"
    UNFROZEN = "freeze ended"
    FIT_FAILED = "fit failed"
    FIT_LATE = "fit came after the instant it was due in force"
    RESTORED = "restored from a checkpoint"
    CHECKPOINT_REFUSED = "checkpoint not usable"
    CHECKPOINT_FAILED = "checkpoint not saved"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person on call may want to know; `workload` is None where it concerns all."""

    now_s: float
    event: Event
    workload: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Stepped:
    """One step of one workload: the decision, what it was made from, and the core's figures after it."""

    decision: Decision
    readings: Readings
    view: View
    cause: Cause
    params: Params


Entry = Stepped | Act | Note


class Feed:
    """One reader's end of the stream: an asynchronous iterator over entries."""

    def __init__(self, kept: int) -> None:
        self._entries: deque[Entry] = deque(maxlen=kept)
        self._bell = asyncio.Event()
        self._closed = False
        self.lost = 0
        """Entries dropped because the reader was slow."""

    def push(self, entry: Entry) -> None:
        """Append, dropping the oldest entry when full."""
        self.lost += len(self._entries) == self._entries.maxlen
        self._entries.append(entry)
        self._bell.set()

    def close(self) -> None:
        """End the iteration after what is already here."""
        self._closed = True
        self._bell.set()

    def __aiter__(self) -> AsyncIterator[Entry]:
        return self

    async def __anext__(self) -> Entry:
        while not self._entries:
            if self._closed:
                raise StopAsyncIteration
            self._bell.clear()
            await self._bell.wait()
        return self._entries.popleft()

    def take(self) -> Entry | None:
        """The next entry if there is one now."""
        return self._entries.popleft() if self._entries else None


class Recorder:
    """Takes entries, hands them to every open feed, and their lines to the two writers."""

    def __init__(self, *, audit: RecordSink, journal: RecordSink, clock: Clock) -> None:
        self.audit = Writer(audit, clock)
        self.journal = Writer(journal, clock)
        self._clock = clock
        self._feeds: set[Feed] = set()
        self._ended = False

    def put(self, entry: Entry) -> None:
        """Record an entry."""
        for feed in self._feeds:
            feed.push(entry)
        if isinstance(entry, Stepped):
            for line in step_lines(entry.decision, entry.params, entry.readings):
                self.audit.add(line)
        else:
            kind = "act" if isinstance(entry, Act) else "note"
            self.journal.add(msgspec.json.encode({"kind": kind} | msgspec.to_builtins(entry)))

    def started(self, workload: str, checkpoint: Mapping[str, Any] | None, fit_asked_s: float) -> None:
        """Record what a workload's row began with; its steps count from there, and its models are recorded."""
        self.audit.add(start_line(workload, self._clock.now(), checkpoint, fit_asked_s, models=True))

    def fitted(self, workload: str, model: FittedModel) -> None:
        """Record a model that was just handed to the core."""
        self.audit.add(fit_line(workload, self._clock.now(), pack_answer(model)))

    def remembered(self, table: Table, decision: Decision) -> None:
        """Record all that the core remembers of a workload right after a decision."""
        name = decision.workload
        row = table.rows[name]
        fitted, coming = table.fitted.get(row), table.track(row).coming
        packed = Models(*(None if model is None else pack_answer(model) for model in (fitted, coming)))
        self.audit.add(memory_line(name, decision.now_s, remember(table, name), packed))

    def note(self, event: Event, message: str, workload: str | None = None) -> None:
        """Record a note of this moment."""
        self.put(Note(self._clock.now(), event, workload, message))

    @contextmanager
    def feed(self, kept: int = KEPT_ENTRIES) -> Iterator[Feed]:
        """A feed of all entries from now on, open for the length of the block."""
        feed = Feed(kept)
        self._feeds.add(feed)
        if self._ended:
            feed.close()
        try:
            yield feed
        finally:
            self._feeds.discard(feed)

    def close_writers(self) -> None:
        """Let the writers' tasks end once everything up to now is written."""
        self.audit.close()
        self.journal.close()

    def end_feeds(self) -> None:
        """End every feed after what it holds: nothing more will come."""
        self._ended = True
        for feed in self._feeds:
            feed.close()
