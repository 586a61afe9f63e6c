"""One account of how arrivals were served: replicas held, requests late, time waited; summed, never listed.

Enters: spans of time with what arrived, and either what was measured to wait or what could be served. Leaves: sums. It
does not know who ordered the replicas.
"""

from dataclasses import dataclass, field

from autoscaler.hindsight.fluid import FluidQueue, Lateness


@dataclass(slots=True)
class Sums:
    """What an account came to; `late` and `waited_s` are of requests, `held_s` is in replica-seconds."""

    held_s: float = 0.0
    late: float = 0.0
    waited_s: float = 0.0

    def add(self, other: "Sums") -> None:
        """Add what another account, or another span, came to."""
        self.held_s += other.held_s
        self.late += other.late
        self.waited_s += other.waited_s

    def clear(self) -> None:
        """Begin anew."""
        self.held_s = self.late = self.waited_s = 0.0


@dataclass(slots=True)
class Modelled:
    """Arrivals served by a fluid queue."""

    slack_s: float
    sums: Sums = field(default_factory=Sums)
    queue: FluidQueue = field(default_factory=FluidQueue)
    _lateness: Lateness = field(init=False)

    def __post_init__(self) -> None:
        self._lateness = Lateness(self.slack_s)

    def begin(self, at_s: float, waiting: float) -> None:
        """Start from an instant with what waits then."""
        self.queue.waiting = waiting
        self._lateness.begin(at_s, waiting)

    def serve(self, at_s: float, dt_s: float, arrivals: float, capacity_rps: float) -> float:
        """Let the span that ends at `at_s` pass; what was served in it."""
        before, capacity = self.queue.waiting, capacity_rps * dt_s
        if before == 0.0 and arrivals <= capacity:  # nearly always
            self.sums.late += self._lateness.note(at_s, arrivals, 0.0)
            return arrivals
        share = self.queue.until_dry(arrivals, capacity) if before > 0.0 else 1.0
        self.sums.waited_s += self.queue.serve(dt_s, arrivals, capacity)
        waiting, rest = self.queue.waiting, arrivals
        if share < 1.0:
            # Where it runs dry what waits bends, and the count of late requests takes it to move evenly between notes.
            rest = arrivals * (1.0 - share)
            self.sums.late += self._lateness.note(at_s - (1.0 - share) * dt_s, arrivals - rest, 0.0)
        self.sums.late += self._lateness.note(at_s, rest, waiting)
        return before + arrivals - waiting


@dataclass(slots=True)
class Measured:
    """Arrivals with a queue that was read: nothing is modelled but that it is served first come, first served."""

    slack_s: float
    sums: Sums = field(default_factory=Sums)
    waiting: float = 0.0
    """Requests that waited at the last instant."""
    _lateness: Lateness = field(init=False)

    def __post_init__(self) -> None:
        self._lateness = Lateness(self.slack_s)

    def begin(self, at_s: float, waiting: float) -> None:
        """Start from an instant with what waits then."""
        self.waiting = waiting
        self._lateness.begin(at_s, waiting)

    def see(self, at_s: float, dt_s: float, arrivals: float, waiting: float) -> None:
        """Let the span that ends at `at_s` pass; the queue is taken to have moved evenly within it."""
        self.sums.waited_s += 0.5 * (self.waiting + waiting) * dt_s
        self.sums.late += self._lateness.note(at_s, arrivals, waiting)
        self.waiting = waiting
