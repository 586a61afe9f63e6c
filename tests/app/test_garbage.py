"""The collector while the controller runs: what a look at everything is spared, and when one is made all the same."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from autoscaler.app.garbage import ALL_S, GROWN_BYTES, WATCH_S, rarely, resident
from autoscaler.runtime.clock import WallClock

pytestmark = pytest.mark.looptime(noop_cycles=1)


class Knot:
    """An object that holds itself: nothing but the collector frees it."""

    def __init__(self) -> None:
        self.self = self


def old_cycle() -> "weakref.ref[Knot]":
    """A cycle that was alive for long, so that no look at young objects meets it, and that nobody holds any more."""
    knot = Knot()
    gc.collect()
    return weakref.ref(knot)


@pytest.fixture(autouse=True)
def _the_collector_is_left_as_it_was() -> Iterator[None]:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    yield
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() in {0, frozen}, "who lets go of what was frozen lets go of all"
    gc.collect(1)  # what tests left open of late is told before it is frozen
    gc.freeze()  # as the suite had it: nobody else asks how much is frozen, for that is counted one by one


async def test_what_stands_at_the_start_is_not_looked_at_again() -> None:
    gc.unfreeze()  # what the suite froze
    gc.collect()  # a first look passes over half of them for good: they lead to nothing
    standing = len(gc.get_objects())
    async with rarely(WallClock()):
        assert len(gc.get_objects()) < standing / 20
        assert gc.get_freeze_count() > standing / 2


async def test_cycles_among_young_objects_are_found_as_they_come() -> None:
    async with rarely(WallClock()):
        knot = weakref.ref(Knot())
        kept: list[list[int]] = [[] for _ in range(10_000)]
        assert knot() is None, "without a look at everything"
        del kept


async def test_cycles_among_old_objects_are_found_within_the_hour() -> None:
    async with rarely(WallClock()):
        knot = old_cycle()
        await asyncio.sleep(ALL_S - WATCH_S)
        kept: list[list[int]] = [[] for _ in range(100_000)]
        assert knot() is not None, "seldom is seldom, however much is made"
        await asyncio.sleep(2 * WATCH_S)
        assert knot() is None
        del kept


async def test_growth_is_not_waited_out() -> None:
    """Cycles by the thousand, as a caller could provoke who opens and drops streams: memory says so."""
    held = 200 * 2**20
    async with rarely(WallClock(), lambda: held):
        first = old_cycle()
        held += GROWN_BYTES - 1
        await asyncio.sleep(2 * WATCH_S)
        assert first() is not None
        held += 1
        await asyncio.sleep(WATCH_S + 0.1)
        assert first() is None
        second = old_cycle()
        await asyncio.sleep(10 * WATCH_S)
        assert second() is not None, "what stayed after a look is no growth any more"


def test_the_resident_memory_is_that_of_this_process() -> None:
    before = resident()
    block = bytearray(b"x" * (64 * 2**20))
    assert 48 * 2**20 < resident() - before < 256 * 2**20
    del block
