"""What every measurement of this room ends in: a number with its window and its uncertainty, or why there is none.

An answer is never a bare number. `Measured` carries unit, interval, count and window; `Stated` is one that a person
gave in its place; `CannotTell` carries a reason code, words, and what would have to be recorded. No number stands for
"not known".
"""

from dataclasses import dataclass
from enum import StrEnum

COVERAGE = 0.9
"""Intervals are meant to hold the true value nine times in ten."""


class Why(StrEnum):
    """Why a question has no answer; a closed set."""

    NOT_RECORDED = "NOT_RECORDED"  # the signal is not there at all
    TOO_SHORT = "TOO_SHORT"  # less history than the question needs
    TOO_MANY_HOLES = "TOO_MANY_HOLES"  # the history is there, most of it is not known
    TOO_FEW = "TOO_FEW"  # too few cases happened to say how the next one goes
    NO_COLD_START = "NO_COLD_START"  # neither measured nor given
    NO_CAPACITY = "NO_CAPACITY"  # what one replica carries was neither seen nor given
    NO_GPUS = "NO_GPUS"  # how many GPUs a replica holds is not known
    NO_PRICE = "NO_PRICE"
    NO_LOAD = "NO_LOAD"  # nothing was asked of the workload in the whole window
    NOT_NAMED = "NOT_NAMED"  # a fact that people decide and nobody wrote down
    MIXED = "MIXED"  # workloads that cannot be added up


@dataclass(frozen=True, slots=True)
class Window:
    """The part of the record that a measurement rests on: [from_s, until_s), of which `unknown_s` are holes."""

    from_s: float
    until_s: float
    unknown_s: float = 0.0

    @property
    def known_s(self) -> float:
        """Seconds for which the signal is known."""
        return self.until_s - self.from_s - self.unknown_s


@dataclass(frozen=True, slots=True)
class Measured:
    """A number from the record.

    `low` and `high` hold the true value with the chance `sure`, 1 where they are bounds; both are None where the record
    is too short to say. `count` is how many `counted` stand behind it. `how` says in words what was computed from what.
    """

    value: float
    unit: str
    window: Window
    count: int
    counted: str
    how: str
    low: float | None = None
    high: float | None = None
    sure: float = COVERAGE


@dataclass(frozen=True, slots=True)
class Stated(Measured):
    """A number that a person gave and that is used as if measured: nothing was counted, and there is no interval."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """A question without an answer: the reason, in words, and what would have to be recorded or given."""

    why: Why
    text: str
    needed: str


Answer = Measured | CannotTell
