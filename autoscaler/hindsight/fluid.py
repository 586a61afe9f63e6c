"""A fluid queue that is served first come, first served, and how many of its requests began too late.

Enters: what arrived in a span of time and what could be served in it. Leaves: what waits, what was late, and the time
spent waiting. Both are exact for rates that are constant within a span; their memory does not grow with time. Nothing
here knows replicas, policies or what a request is.
"""

from collections import deque
from dataclasses import dataclass, field

POINTS = 32
"""Points of the arrival curve kept per objective: the deadline of a request is found to within a 32nd of it."""


@dataclass(slots=True)
class FluidQueue:
    """One queue. `waiting` are requests that arrived and are not being served."""

    waiting: float = 0.0

    def serve(self, dt_s: float, arrivals: float, capacity: float) -> float:
        """Let `dt_s` pass while `arrivals` come evenly and up to `capacity` are served; the request-seconds waited."""
        before = self.waiting
        after = before + arrivals - capacity
        if after >= 0.0:
            self.waiting = after
            return 0.5 * (before + after) * dt_s
        self.waiting = 0.0
        # It runs dry after a share of the span; the area is that of a triangle.
        return 0.5 * before * dt_s * before / (before - after)


@dataclass(slots=True)
class Lateness:
    """Counts requests whose service had not begun `slack_s` after they arrived, from what waits at each instant.

    A request is late when, at its deadline, what waits is more than what arrived after it. Between two notes both are
    taken to move evenly. Works alike for a queue that was measured and for one that was computed.
    """

    slack_s: float
    _curve: deque[tuple[float, float]] = field(default_factory=deque)
    """Instants and the requests that had arrived by then, oldest first; the first is at or before the oldest deadline
    that is still to come."""
    _due: float = 0.0
    """Requests whose deadline has passed."""
    _excess: float = 0.0
    """What waited at the last note beyond what had arrived within the objective."""

    def begin(self, at_s: float, waiting: float) -> None:
        """Start counting at an instant; what waits then is taken to have just arrived, and is never counted."""
        self._curve = deque([(at_s, 0.0)])
        self._due, self._excess = 0.0, waiting

    def note(self, at_s: float, arrivals: float, waiting: float) -> float:
        """Move to `at_s`; `arrivals` came since the last note, and `waiting` wait now. The requests found late."""
        total = self._curve[-1][1]
        total += arrivals
        spacing_s = self.slack_s / POINTS
        if len(self._curve) > 1 and at_s - self._curve[-2][0] < spacing_s:
            self._curve[-1] = (at_s, total)
        else:
            self._curve.append((at_s, total))
        due = self._arrived_by(at_s - self.slack_s)
        excess = waiting - (total - due)
        late = (due - self._due) * _positive_share(self._excess, excess)
        self._due, self._excess = due, excess
        return late

    def _arrived_by(self, at_s: float) -> float:
        curve = self._curve
        while len(curve) > 1 and curve[1][0] <= at_s:
            curve.popleft()
        from_s, least = curve[0]
        if at_s <= from_s or len(curve) == 1:
            return least
        to_s, most = curve[1]
        return least + (most - least) * (at_s - from_s) / (to_s - from_s)


def _positive_share(first: float, last: float) -> float:
    """The share of a span in which a value that moves evenly from `first` to `last` is above zero."""
    if first > 0.0 and last > 0.0:
        return 1.0
    if first <= 0.0 and last <= 0.0:
        return 0.0
    return max(first, last) / (max(first, last) - min(first, last))
