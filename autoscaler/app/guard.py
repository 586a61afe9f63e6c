"""Work that is done for one workload, so that whatever is wrong with its objects ends nobody else's.

Enters: work and whom it is for. Leaves: whether it was done. What it raised is a bug of ours, met by somebody's object,
which would meet it again after a restart: it is logged, the same words once a minute, and the process goes on.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from autoscaler.ports import Clock
from autoscaler.runtime.isolation import Bug
from autoscaler.runtime.supervisor import Catching

AGAIN_S: Final = 60.0
MOST_TOLD: Final = 1000
"""Bugs remembered as told."""

LOG: Final = structlog.get_logger("headroom")

T = TypeVar("T")


class Guard:
    """Runs such work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shield = Catching()
        self._told_s: dict[tuple[str, str], float] = {}

    def run(self, concerned: str, work: Callable[[], None]) -> bool:
        """Do `work` for the `concerned`; False, and a word in the log, where it raised."""
        return not isinstance(self.attempt(concerned, work), Bug)

    def attempt(self, concerned: str, work: Callable[[], T]) -> T | Bug:
        """What `work` for the `concerned` returns; the bug it raised, and a word in the log, where it did."""
        result = self._shield.run(work)
        if isinstance(result, Bug):
            self._tell(concerned, result)
        return result

    async def wait(self, concerned: str, work: Awaitable[T]) -> T | Bug:
        """The same for what is awaited; a cancellation passes."""
        result = await self._shield.wait(work)
        if isinstance(result, Bug):
            self._tell(concerned, result)
        return result

    def _tell(self, concerned: str, bug: Bug) -> None:
        now_s, told = self._clock.monotonic(), (concerned, bug.message)
        if now_s >= self._told_s.get(told, float("-inf")) + AGAIN_S:
            if len(self._told_s) >= MOST_TOLD:
                self._told_s.clear()
            self._told_s[told] = now_s
            LOG.error("a bug was met and passed over", concerned=concerned, bug=bug.message)
