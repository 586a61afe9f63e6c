"""Activity as it is pushed: at once on opening and on every change, and again while nobody has acted on it.

KEDA acts on true only, and only from zero; it drops a push for a ScaledObject that it has not finished setting up
(kedacore/keda, pkg/scaling/scale_handler.go). So true is repeated while the target stands at zero, ever more rarely.
A stream that has nothing to say stays open: one that ends in an error is opened again after up to a minute.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from autoscaler.adapters.keda.answers import Refusal, Refused, Served
from autoscaler.ports import Clock

AGAIN_S: Final = 2.0
"""Before true is said a second time; each further time after twice as long."""

AGAIN_MOST_S: Final = 30.0
"""KEDA's own poll is as frequent by default."""

UNKNOWN_S: Final = 5.0
"""A ScaledObject may be known to KEDA before it is known here."""

LOOK_S: Final = 1.0
"""How late the end of a refusal is noticed where no step tells of it."""


class Bells:
    """Rings whoever waits for news of one ScaledObject, ``(namespace, name)``."""

    def __init__(self) -> None:
        self.closed = False
        """Whether streams are to end, in good order."""
        self._listening: defaultdict[tuple[str, str], set[asyncio.Event]] = defaultdict(set)

    def heard(self, namespace: str, name: str) -> bool:
        """Whether anybody listens; may be asked from another thread."""
        return (namespace, name) in self._listening

    def tell(self, namespace: str, name: str) -> None:
        """There may be something new to say."""
        for bell in self._listening.get((namespace, name), ()):
            bell.set()

    def close(self) -> None:
        """End every stream."""
        self.closed = True
        for bells in self._listening.values():
            for bell in bells:
                bell.set()

    @contextmanager
    def listening(self, namespace: str, name: str) -> Iterator[asyncio.Event]:
        """A bell that rings for the length of the block."""
        key, bell = (namespace, name), asyncio.Event()
        self._listening[key].add(bell)
        try:
            yield bell
        finally:
            self._listening[key].discard(bell)
            if not self._listening[key]:
                del self._listening[key]


async def pushes(
    ask: Callable[[], Served | Refused], bells: Bells, bell: asyncio.Event, clock: Clock, lasts_s: float
) -> AsyncIterator[bool | Refused]:
    """What to say, when it is to be said, for `lasts_s`; a refusal is the last thing that is said."""
    begun_s = clock.monotonic()
    said: bool | None = None
    gap_s, again_s = AGAIN_S, math.inf
    while not bells.closed and (now_s := clock.monotonic()) < begun_s + lasts_s:
        bell.clear()
        answer = ask()
        look_s = math.inf
        if isinstance(answer, Refused):
            if _is_final(answer, now_s - begun_s):
                yield answer
                return
            look_s = now_s + LOOK_S
        else:
            active = answer.replicas > 0
            if active != said:
                said, gap_s = active, AGAIN_S
                again_s = now_s + gap_s
                yield active
            elif active and answer.standing == 0 and now_s >= again_s:
                gap_s = min(2 * gap_s, AGAIN_MOST_S)
                again_s = now_s + gap_s
                yield True
            if active and answer.standing == 0:
                look_s = again_s
        await clock.sleep_until(min(look_s, begun_s + lasts_s), bell)


def _is_final(answer: Refused, open_s: float) -> bool:
    match answer.refusal:
        case Refusal.NOT_READY:
            return False
        case Refusal.UNKNOWN:
            return open_s >= UNKNOWN_S
        case Refusal.NOT_LEADING | Refusal.INVALID:
            return True
