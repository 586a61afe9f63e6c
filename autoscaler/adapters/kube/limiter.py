"""The client's own limit on requests a second, so that a mistake here cannot become an outage there."""

import asyncio

from autoscaler.ports import Clock


class TokenBucket:
    """Lets `burst` requests through at once and `qps` a second after that, first come first served.

    Raises ValueError unless `qps` is positive and `burst` at least 1.
    """

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        if not (qps > 0 and burst >= 1):
            raise ValueError(f"qps is {qps} and burst {burst}; qps must be positive and burst at least 1")
        self._clock = clock
        self._gap_s = 1.0 / qps
        self._credit_s = (burst - 1) * self._gap_s
        self._next_s = float("-inf")
        """When the next request would be due if all went at an even pace; it may go `credit_s` before that."""

    async def take(self) -> None:
        """Return when a request may be sent. One that is cancelled while it waits gives its place back."""
        now_s = self._clock.monotonic()
        due_s = max(self._next_s, now_s)
        self._next_s = due_s + self._gap_s
        if due_s - self._credit_s <= now_s:
            return
        try:
            await self._clock.sleep_until(due_s - self._credit_s)
        except asyncio.CancelledError:
            self._next_s -= self._gap_s
            raise
