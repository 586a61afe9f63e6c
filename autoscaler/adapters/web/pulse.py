"""How late the event loop comes round to its timers: what one blocking turn costs every other task.

Enters: a clock. Leaves: the worst of the last half minute in seconds.
"""

from collections import deque
from typing import Final

from autoscaler.ports import Clock

EVERY_S: Final = 0.25
KEPT: Final = 120
"""Half a minute: longer than the usual time between two looks at the metrics."""


class Pulse:
    """Measures while `run` is running, in a task of the loop in question."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._late_s: deque[float] = deque(maxlen=KEPT)
        self._due_s: float | None = None

    @property
    def lag_s(self) -> float:
        """The worst delay of late, one that is still lasting included."""
        lasting_s = 0.0 if self._due_s is None else self._clock.monotonic() - self._due_s
        return max(0.0, lasting_s, *self._late_s)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            self._due_s = self._clock.monotonic() + EVERY_S
            await self._clock.sleep_until(self._due_s)
            self._late_s.append(self._clock.monotonic() - self._due_s)
