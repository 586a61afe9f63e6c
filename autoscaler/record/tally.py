"""What was counted since the process started: decisions, what became of them, notes, and how long things took."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BOUNDS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the classes of durations, closest where a reaction is promised: 0.6 s in half, 1.2 s in 99 %."""


@dataclass(frozen=True, slots=True)
class Lags:
    """Durations by size: `counts` of each class of `BOUNDS_S` and of those beyond, and their sum."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    sum_s: float = 0.0

    def with_one(self, seconds: float) -> "Lags":
        """The same and one more duration; one below zero, of two clocks that differ, counts as none."""
        lasted_s = max(0.0, seconds)
        counts = list(self.counts)
        counts[bisect_left(BOUNDS_S, lasted_s)] += 1
        return Lags(tuple(counts), self.sum_s + lasted_s)


@dataclass(frozen=True, slots=True)
class Counts:
    """A tally as it stood at one moment."""

    decisions: Mapping[tuple[str, str, str], int]
    """By workload, verdict and reason."""
    acts: Mapping[tuple[str, str], int]
    """By workload and outcome."""
    notes: Mapping[str, int]
    step_lag: Lags
    patch_lag: Lags


class Tally:
    """Counts as things happen. All codes are names of closed sets, so that what is kept is bounded."""

    def __init__(self) -> None:
        self._decisions: Counter[tuple[str, str, str]] = Counter()
        self._acts: Counter[tuple[str, str]] = Counter()
        self._notes: Counter[str] = Counter()
        self._step_lag = Lags()
        self._patch_lag = Lags()

    def decided(self, workload: str, verdict: str, reason: str, lag_s: float) -> None:
        """Count a decision that came `lag_s` after its readings."""
        self._decisions[workload, verdict, reason] += 1
        self._step_lag = self._step_lag.with_one(lag_s)

    def acted(self, workload: str, outcome: str, lag_s: float | None = None) -> None:
        """Count what became of a decision; `lag_s` from its readings to the patch, where one was made."""
        self._acts[workload, outcome] += 1
        if lag_s is not None:
            self._patch_lag = self._patch_lag.with_one(lag_s)

    def noted(self, event: str) -> None:
        """Count a note of the journal."""
        self._notes[event] += 1

    def forget(self, workload: str) -> None:
        """Drop what was counted of one workload: a metric of what is gone would stay for ever."""
        for key in [key for key in self._decisions if key[0] == workload]:
            del self._decisions[key]
        for act in [act for act in self._acts if act[0] == workload]:
            del self._acts[act]

    def counts(self) -> Counts:
        """The tally as it stands, for readers in other threads."""
        return Counts(dict(self._decisions), dict(self._acts), dict(self._notes), self._step_lag, self._patch_lag)
