"""Checkpoints: what a restart in the middle of a burst must not lose, loaded once and saved now and then.

Enters: the table, a state store, and what somebody who followed the last leader heard from it. Leaves: rows put back
before their first step, and a snapshot of all for a follower. A checkpoint that cannot be used is noted and its
workload starts afresh; a store that cannot be written is noted and tried again.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from autoscaler.core import checkpoint
from autoscaler.core.state import Table
from autoscaler.ports import Clock, PortError, StateStore
from autoscaler.runtime.clock import breathe
from autoscaler.runtime.records import Event, Recorder

Saved = dict[str, Any]

AT_ONCE = 8
"""Rows packed in one turn of the event loop, some 3 ms."""

EVERY_S = 60.0
"""A crash loses at most the last minute of what was learned."""

UNUSABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError)
"""What the core raises for a checkpoint that is not of its shape, or whose numbers no array holds. One that passed here
would end the driver, and the next one's at the same object."""

FARTHEST_S = 1e12
"""No instant is later, or as long before 1970; an integer that no float holds would end the driver."""

AHEAD_S = 10.0
"""Clocks of two leaders are seldom so far apart: when a checkpoint of a later instant was made, nobody knows."""

KEPT_S = 86_400.0
"""A workload that is not back after a day begins afresh: what its checkpoint knows of load is of that day."""


class Checkpoints:
    """Loads and saves the checkpoints of one table. Real time: `load_s` for reading, `timeout_s` for saving."""

    def __init__(
        self,
        *,
        table: Table,
        store: StateStore,
        clock: Clock,
        recorder: Recorder,
        load_s: float,
        timeout_s: float,
    ) -> None:
        self._table = table
        self._store = store
        self._clock = clock
        self._recorder = recorder
        self._load_s = load_s
        self._timeout_s = timeout_s
        self._loaded: dict[str, Saved] = {}
        self._read = asyncio.Event()
        """The store was read, or could not be."""

    def adopt(self, checkpoints: Mapping[str, Saved]) -> None:
        """Take checkpoints that were heard elsewhere, each unless a newer one of its workload is here already."""
        for name, saved in checkpoints.items():
            if name not in self._loaded or _saved_s(saved) >= _saved_s(self._loaded[name]):
                self._loaded[name] = saved

    def latest(self) -> frozenset[str]:
        """The workloads that were decided on when checkpoints were saved last.

        Others that have one went before: theirs is from the time when they did. One of an instant that has not come
        says nothing of the others, and may be of a workload that is there.
        """
        come_s = self._clock.now() + AHEAD_S
        saved_s = {name: _saved_s(saved) for name, saved in self._loaded.items()}
        newest_s = max((at_s for at_s in saved_s.values() if at_s <= come_s), default=0.0)
        return frozenset(name for name, at_s in saved_s.items() if at_s > newest_s - EVERY_S)

    async def load(self) -> None:
        """Read what an earlier run left, once; a store that does not answer is noted and nothing comes from it."""
        if self._read.is_set():
            return
        adopted, self._loaded = self._loaded, {}
        try:
            async with asyncio.timeout(self._load_s):
                self._loaded = dict(await self._store.load())
        except TimeoutError:
            self._recorder.note(Event.CHECKPOINT_REFUSED, f"the store did not answer within {self._load_s:g} s")
        except PortError as error:
            self._recorder.note(Event.CHECKPOINT_REFUSED, str(error))
        self.adopt(adopted)
        self._read.set()

    def restore(self, name: str) -> Saved | None:
        """Put a new row's checkpoint back, if there is one, and return what was used; a name has it once."""
        saved = self._loaded.pop(name, None)
        if saved is None:
            return None
        params = self._table.track(self._table.rows[name]).params
        try:
            saved, strange = checkpoint.known(self._table, saved)
            checkpoint.restore(self._table, name, saved)
        except UNUSABLE as error:
            self._table.remove(name)
            self._table.put(name, params)
            self._recorder.note(Event.CHECKPOINT_REFUSED, f"{type(error).__name__}: {error}", name)
            return None
        left_out = f"; left out, as this build does not know it: {', '.join(strange)}" if strange else ""
        self._recorder.note(Event.RESTORED, f"version {saved.get('version')}{left_out}", name)
        return saved

    async def run(self) -> None:
        """Save every minute until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + EVERY_S)
            await self.save()

    async def snapshot(self) -> dict[str, Saved]:
        """Every row's checkpoint, packed a slice at a time; one of a workload that is not back yet is as it was.

        It waits until the store was read: a follower would else be given less than it has. What is older than `KEPT_S`
        is dropped, or workloads that were deleted between two leaders would be kept for ever; the age of one of an
        instant that has not come begins now.
        """
        await self._read.wait()
        packed: dict[str, Saved] = {}
        names = list(self._table.rows)
        for start in range(0, len(names), AT_ONCE):
            if start:
                await breathe(self._clock)
            for name in names[start : start + AT_ONCE]:
                if name in self._table.rows:
                    packed[name] = checkpoint.checkpoint(self._table, name) | {"saved_s": self._clock.now()}
        now_s = self._clock.now()
        come = {n: s | {"saved_s": now_s} if _saved_s(s) > now_s + AHEAD_S else s for n, s in self._loaded.items()}
        self._loaded = {name: saved for name, saved in come.items() if _saved_s(saved) >= now_s - KEPT_S}
        return packed | self._loaded

    async def save(self) -> bool:
        """Save every row; False, and a note, when the store did not take it."""
        saved = await self.snapshot()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._store.save(saved)
        except TimeoutError:
            self._recorder.note(Event.CHECKPOINT_FAILED, f"the store did not answer within {self._timeout_s:g} s")
        except PortError as error:
            self._recorder.note(Event.CHECKPOINT_FAILED, str(error))
        else:
            return True
        return False


def _saved_s(saved: Saved) -> float:
    """When a checkpoint was made; one that does not say is the oldest."""
    at_s = saved.get("saved_s")
    return float(at_s) if isinstance(at_s, int | float) and abs(at_s) <= FARTHEST_S else float("-inf")
