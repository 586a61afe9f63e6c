"""Replicas that were never there: orders become replicas after a warm-up, as a Deployment's controller would see to it.

Enters: counts that were decided. Leaves: how many serve from which instant on, and what a reader of the target sees. It
knows no failure: every start lands after the warm-up it was given.
"""

from dataclasses import dataclass, field

from autoscaler.core.types import ReplicaReading, StartingReplica


@dataclass(slots=True)
class Fleet:
    """One target's replicas. All instants are in the time of the readings."""

    desired: int = 0
    starts: int = 0
    """Starts ordered so far."""
    ready: list[tuple[str, float]] = field(default_factory=list)
    """Names and the instants from which they serve, oldest first."""
    _starting: list[tuple[str, float, float]] = field(default_factory=list)
    """Names, when they were ordered, and when they will serve."""
    _named: int = 0
    _shown: ReplicaReading | None = None
    """What a reader saw, while that is the same."""

    @classmethod
    def like(cls, seen: ReplicaReading, now_s: float, warmup_s: float) -> "Fleet":
        """A fleet that begins as the one that is there; starts under way have their age."""
        fleet = cls(desired=seen.desired)
        fleet.ready = [(fleet._name(), now_s) for _ in range(seen.ready)]
        fleet._starting = [
            (fleet._name(), start.since_s, max(now_s, start.since_s + warmup_s)) for start in seen.starting
        ]
        return fleet

    @property
    def held(self) -> int:
        """Replicas that hold their GPUs: those that serve and those that start."""
        return len(self.ready) + len(self._starting)

    def order(self, now_s: float, replicas: int, warmup_s: float) -> None:
        """Set the count. Fewer: starts go first, then those that serve, the youngest first, as a ReplicaSet does."""
        self.desired, self._shown = replicas, None
        while self.held > replicas and self._starting:
            self._starting.pop()
        while self.held > replicas:
            self.ready.pop()
        for _ in range(replicas - self.held):
            self.starts += 1
            self._starting.append((self._name(), now_s, now_s + warmup_s))

    def spans(self, from_s: float, to_s: float) -> list[tuple[float, int]]:
        """Let a span pass; it is cut where starts land: the end of each part and how many serve in it."""
        if not self._starting:
            return [(to_s, len(self.ready))]
        parts, landed = list[tuple[float, int]](), [start for start in self._starting if start[2] <= to_s]
        for start in sorted(landed, key=_landing):
            self._shown = None
            name, _, lands_s = start
            if lands_s > from_s:
                parts.append((lands_s, len(self.ready)))
            self._starting.remove(start)
            self.ready.append((name, max(from_s, lands_s)))
        return [*parts, (to_s, len(self.ready))]

    def reading(self) -> ReplicaReading:
        """The target as its owner would show it."""
        if self._shown is None:
            starting = tuple([StartingReplica(since_s, name) for name, since_s, _ in self._starting])
            self._shown = ReplicaReading(self.desired, len(self.ready), starting)
        return self._shown

    def _name(self) -> str:
        self._named += 1
        return f"replica-{self._named}"


def _landing(start: tuple[str, float, float]) -> float:
    return start[2]
