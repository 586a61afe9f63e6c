"""When each workload is looked at next: a heap of instants, and a bell that rings when an earlier one is added."""

import asyncio
import heapq

EARLY_S = 1e-3
"""An instant this near has come: timers of a scaled clock wake by rounding a little before their time."""

IDLE_S = 60.0
"""Longest sleep; only an empty agenda sleeps this long."""


class Agenda:
    """Holds at most one instant per name, on the clock's monotonic time."""

    def __init__(self) -> None:
        self.bell = asyncio.Event()
        self._planned: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def plan(self, name: str, at_s: float) -> None:
        """Look at `name` at `at_s`, unless it is planned for earlier."""
        if self._planned.get(name, float("inf")) <= at_s:
            return
        self._planned[name] = at_s
        heapq.heappush(self._heap, (at_s, name))
        if self._heap[0] == (at_s, name):
            self.bell.set()

    def drop(self, name: str) -> None:
        """Forget `name`."""
        self._planned.pop(name, None)

    def take(self, now_s: float, most: int) -> list[str]:
        """Remove and return the names whose instant has come, earliest first and `most` at a time."""
        names: list[str] = []
        while len(names) < most and self._heap and self._heap[0][0] <= now_s + EARLY_S:
            at_s, name = heapq.heappop(self._heap)
            if self._planned.get(name) == at_s:
                del self._planned[name]
                names.append(name)
        return names

    def next_s(self, now_s: float) -> float:
        """The earliest instant planned, or one minute from now."""
        return min(self._heap[0][0], now_s + IDLE_S) if self._heap else now_s + IDLE_S
