"""Asking again: how often, after which waits, and when a server is taken to be gone.

Enters: a question as a function. Leaves: its answer, the last `AnswerError`, or a PortError for a server that has said
nothing for too long: holes for all that is left of a run would help nobody.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from autoscaler.adapters.prometheus.answers import AnswerError
from autoscaler.adapters.prometheus.history import History, PastSeries
from autoscaler.ports import Clock, PortError

ATTEMPTS: Final = 5
"""For one question; with the waits between them some 10 s."""
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0
GONE_S: Final = 180.0
"""A server that has answered nothing at all for so long is gone: a restart that reads its log back takes less."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a question is asked, how long is waited between, and for how long nothing may be answered; seconds."""

    attempts: int = ATTEMPTS
    first_wait_s: float = FIRST_WAIT_S
    longest_wait_s: float = LONGEST_WAIT_S
    gone_s: float = GONE_S


class Persistence:
    """Asks one server for the length of a run. `rng` spreads the waits of runs that fail together."""

    def __init__(self, clock: Clock, rng: np.random.Generator, patience: Patience | None = None) -> None:
        self._clock, self._rng = clock, rng
        self._patience = patience or Patience()
        self._answered_s: float | None = None
        """When the server last answered anything, in monotonic seconds."""
        self.asked = 0
        """Requests sent so far."""

    async def ask(self, question: Callable[[], Awaitable[T]], *, divisible: bool = False) -> T:
        """The answer, after as many attempts as make sense; a `divisible` question is better asked in parts at once.

        Raises AnswerError, and PortError for a server that is gone.
        """
        patience, wait_s = self._patience, self._patience.first_wait_s
        for left in reversed(range(patience.attempts)):
            self.asked += 1
            try:
                found = await question()
            except AnswerError as error:
                self._give_up_on_silence(error)
                if not error.again or (error.smaller and divisible) or not left:
                    raise
                drawn_s = float(self._rng.uniform(0.5 * wait_s, wait_s))
                asked_s = min(error.retry_after_s or 0.0, patience.longest_wait_s)
            else:
                self._answered_s = self._clock.monotonic()
                return found
            await self._clock.sleep_until(self._clock.monotonic() + max(drawn_s, asked_s))
            wait_s = min(2 * wait_s, patience.longest_wait_s)
        raise ValueError(f"{patience.attempts} attempts; at least one is needed")

    def _give_up_on_silence(self, error: AnswerError) -> None:
        """Note that the server spoke; raise where it has not for too long, or never did."""
        now_s = self._clock.monotonic()
        if error.answered:
            self._answered_s = now_s
        elif self._answered_s is None:
            if error.status is None:  # more likely a wrong address than an outage
                raise error
            self._answered_s = now_s
        elif now_s - self._answered_s > self._patience.gone_s:
            raise PortError(
                error.fault,
                f"{error}; nothing was answered for {now_s - self._answered_s:.0f} s. What was read is kept: the same "
                "command goes on from there",
            ) from error


class Persistent:
    """A history that is asked again where that may help."""

    def __init__(self, history: History, persistence: Persistence) -> None:
        self.url = history.url
        self._history, self._persistence = history, persistence

    async def range(self, query: str, *, start_s: int, end_s: int, step_s: int) -> tuple[PastSeries, ...]:
        """As `History.range`."""
        return await self._persistence.ask(
            lambda: self._history.range(query, start_s=start_s, end_s=end_s, step_s=step_s)
        )

    async def series(self, selectors: Sequence[str], *, start_s: int, end_s: int) -> list[dict[str, str]]:
        """As `History.series`."""
        return await self._persistence.ask(lambda: self._history.series(selectors, start_s=start_s, end_s=end_s))
