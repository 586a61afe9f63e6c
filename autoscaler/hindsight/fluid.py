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

    def until_dry(self, arrivals: float, capacity: float) -> float:
        """The share of a span with these, both even, that passes until nothing waits; 1 where something always does."""
        after = self.waiting + arrivals - capacity
        return self.waiting / (self.waiting - after) if after < 0.0 else 1.0

    def serve(self, dt_s: float, arrivals: float, capacity: float) -> float:
        """Let `dt_s` pass while `arrivals` come evenly and up to `capacity` are served; the request-seconds waited."""
        before, share = self.waiting, self.until_dry(arrivals, capacity)
        self.waiting = max(0.0, before + arrivals - capacity)
        return 0.5 * (before + self.waiting) * dt_s * share


@dataclass(slots=True)
class Lateness:
    """Counts requests whose service had not begun `slack_s` (> 0) after they arrived, from what waits at each instant.

    A request is late when, at its deadline, what waits is more than what arrived after it. Between two notes both are
    taken to move evenly; who knows of a bend notes it. Works alike for a queue that was measured and for one that was
    computed.

    Precision: each request is judged at an instant less than `slack_s / POINTS` from its deadline, and nothing else is
    rounded but floats. Of the arrival curve a note is dropped only where the two points kept beside it are less than
    that apart. The thinned curve meets the true one at both, and neither falls: so it reaches any count between the
    same two instants as the true one. What waits and what has come at that instant are not thinned, and the excess is
    followed from bend to bend of the curve, between which it moves evenly. Hence, where more is never made to wait
    than came (whom it serves it does not take back), the count lies between those that are exact for
    `slack_s * (1 + 1 / POINTS)` and `slack_s * (1 - 1 / POINTS)`, and is exact for `slack_s` where notes are
    `slack_s / POINTS` or more apart.
    """

    slack_s: float
    _curve: deque[tuple[float, float]] = field(default_factory=deque)
    """Instants and the requests that had arrived by then, oldest first; the first is at or before the oldest deadline
    that is still to come."""
    _read_s: float = 0.0
    """Who arrived by then has met the deadline at the last note."""
    _due: float = 0.0
    """Requests whose deadline has passed."""
    _waiting: float = 0.0
    """What waited at the last note."""
    _excess: float = 0.0
    """What waited at the last instant that was looked at, beyond what had arrived within the objective."""

    def begin(self, at_s: float, waiting: float) -> None:
        """Start counting at an instant; what waits then is taken to have just arrived, and is never counted."""
        self._read_s = at_s - self.slack_s
        self._curve = deque([(self._read_s, 0.0), (at_s, 0.0)])
        self._due, self._waiting, self._excess = 0.0, waiting, waiting

    def note(self, at_s: float, arrivals: float, waiting: float) -> float:
        """Move to `at_s`; `arrivals` came since the last note, and `waiting` wait now. The requests found late."""
        curve, before = self._curve, self._curve[-1][1]
        total = before + arrivals
        if len(curve) > 1 and at_s - curve[-2][0] < self.slack_s / POINTS:
            curve[-1] = (at_s, total)
        else:
            curve.append((at_s, total))
        from_s, read_s, late = self._read_s, at_s - self.slack_s, 0.0
        waits = self._waiting > 0.0 or waiting > 0.0 or self._excess > 0.0  # if nothing does nobody is late
        while len(curve) > 1 and curve[1][0] <= read_s:
            curve.popleft()
            bend_s, due = curve[0]
            if waits and bend_s < read_s:
                share = (bend_s - from_s) / (read_s - from_s)
                excess = self._waiting + (waiting - self._waiting) * share - (before + arrivals * share - due)
                late += (due - self._due) * _positive_share(self._excess, excess)
                self._due, self._excess = due, excess
        low_s, due = curve[0]
        if low_s < read_s and len(curve) > 1:
            high_s, most = curve[1]
            due += (most - due) * (read_s - low_s) / (high_s - low_s)
        excess = waiting - (total - due)
        if waits:
            late += (due - self._due) * _positive_share(self._excess, excess)
        self._read_s, self._due, self._waiting, self._excess = read_s, due, waiting, excess
        return late


def _positive_share(first: float, last: float) -> float:
    """The share of a span in which a value that moves evenly from `first` to `last` is above zero."""
    if first > 0.0 and last > 0.0:
        return 1.0
    if first <= 0.0 and last <= 0.0:
        return 0.0
    return max(first, last) / (max(first, last) - min(first, last))
