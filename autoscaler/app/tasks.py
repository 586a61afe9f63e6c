"""Tasks that end together, or when a signal says so."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def begin(group: asyncio.TaskGroup, **works: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    """Start works as tasks of `group`, each under its name."""
    return [group.create_task(work, name=name) for name, work in works.items()]


def end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks; their group waits for them."""
    for task in tasks:
        task.cancel()


async def before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Whether `work` came to its end before `stop` was set; it is cancelled otherwise."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work)
        stopped = group.create_task(_wait(stop))
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        done = working.done()
        working.cancel()
        stopped.cancel()
    return done


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()
