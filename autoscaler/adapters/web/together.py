"""Work that a crowd asks for at once and that is done for one at a time: whoever comes meanwhile shares the next.

Enters: what is to be made, and under which key. Leaves: a result whose making began after it was asked for, so that
nobody is told what was true before. A crowd costs two makings however many it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class _Made(NamedTuple, Generic[T]):
    key: Hashable
    number: int
    result: T


class Together(Generic[T]):
    """One thing that is made at a time; of results only the newest is kept."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._begun = 0
        self._newest: _Made[T] | None = None

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` makes, by this call or by another one for the same `key` that began after this one came."""
        came = self._begun
        async with self._turn:
            newest = self._newest
            if newest is not None and newest.key == key and newest.number > came:
                return newest.result
            self._begun += 1
            number = self._begun
            result = await make()
            self._newest = _Made(key, number, result)
            return result
