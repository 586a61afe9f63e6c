"""When Python looks for garbage: in small portions as it goes, and seldom among everything that is held alive.

Enters: a clock and what the process holds in memory. Leaves: a collector set for the length of a block. Reference
counts free what the controller drops; the collector is for cycles, of which some 20 objects arise a second, nearly all
of them dead while young. Left to itself it walks over every living object ten times a minute, and all threads wait for
it, the one that answers KEDA included: 100-180 ms at a thousand workloads. Here what stands at the start, two thirds of
all, is never walked over; young objects are, some thousand at a time (1-2 ms); and the rest is once an hour, or as soon
as memory has grown, which is what bounds a leak of cycles whoever provokes it. That look takes 20 ms at a thousand
workloads, 100 ms with a thousand streams beside them. To freeze more would not shorten it: the workloads' objects are
new every five seconds, the streams' every five minutes. At 200 calls a second no moment is quiet for so long.
"""

import asyncio
import gc
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from autoscaler.ports import Clock

YOUNG: Final = 500
"""Objects made and not yet freed before the youngest are looked at."""

MIDDLE: Final = 4
"""Such looks before those that outlived one are looked at again: at most some 2,000 objects."""

NEVER: Final = 2**31 - 1
"""For looks at all that is alive: `rarely` makes them."""

ALL_S: Final = 3600.0
"""Between two looks at everything: at 200 calls a second, 20 late answers of 720,000."""

GROWN_BYTES: Final = 128 * 2**20
"""Growth since the last look at everything for which the next does not wait; a start with a thousand workloads and as
many streams is 60 to 103 MiB, and no time for it."""

WATCH_S: Final = 5.0
"""Between two looks at the process's own memory."""


@asynccontextmanager
async def rarely(clock: Clock, resident_bytes: Callable[[], int] | None = None) -> AsyncIterator[None]:
    """Collect as this module says for the length of the block; enter it once modules are imported."""
    before, held = gc.get_threshold(), resident_bytes or resident
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(_watch(clock, held, held()), name="garbage")
        try:
            yield
        finally:
            watching.cancel()
            gc.set_threshold(*before)
            gc.unfreeze()


async def _watch(clock: Clock, held: Callable[[], int], last_bytes: int) -> None:
    """Look at everything now and then, until cancelled."""
    last_s = clock.monotonic()
    while True:
        await clock.sleep_until(clock.monotonic() + WATCH_S)
        if clock.monotonic() < last_s + ALL_S and held() < last_bytes + GROWN_BYTES:
            continue
        gc.collect()
        last_s, last_bytes = clock.monotonic(), held()


def resident() -> int:
    """The resident memory of this process in bytes; where the system does not tell, the most it ever had."""
    listed = Path("/proc/self/statm")
    if listed.exists():
        return int(listed.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
