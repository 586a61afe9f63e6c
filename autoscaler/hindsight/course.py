"""How far a replay is: what was read of its files, and what of that was decided on.

Enters: entries as they are read, steps of the core as they are made. Leaves: shares (0..1) of the whole for whoever
shows them. Of what children do nothing is heard: their parts are as long as the caller's.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from autoscaler.hindsight.recording import Recording, Written

Progress = Callable[[float], None]
Step = TypeVar("Step")
Entry = TypeVar("Entry")

ALL: Final = 1.0
READING: Final = 0.05
"""Share of the time that reading takes where looks are decided on after they were read: two to seven hundredths
(measured)."""

_TOLD_EVERY: Final = 256
"""Entries, a hundredth of a second's reading."""


class Stretch(Protocol):
    """What is decided on in one row."""

    @property
    def entries(self) -> Sequence[object]:
        """What is done in it."""


def untold(share: float) -> None:
    """Nobody wants to know."""


@dataclass(slots=True)
class Course:
    """One replay on its way through a recording."""

    recording: Recording
    tell: Progress
    reading: float = ALL
    """Share of the time that reading takes: all of it where looks are decided on while they are read."""
    _through: float = 0.0
    """Share of the files whose looks were decided on."""

    def read(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The same entries, told of."""
        for number, entry in enumerate(entries):
            if number % _TOLD_EVERY == 0:
                self.tell(self._through + self.reading * max(0.0, self.recording.read_ratio - self._through))
            yield entry

    def told(
        self, step: Callable[[Sequence[Step]], None], stretches: Iterable[Stretch]
    ) -> Callable[[Sequence[Step]], None]:
        """`step`, told of: the looks of these stretches are all that was read since the last ones."""
        looks = sum(isinstance(entry, Written) for each in stretches for entry in each.entries)
        begun, self._through = self._through, self.recording.read_ratio
        decided, rest = self._through - begun, 1.0 - self.reading
        made = 0

        def stepped(turn: Sequence[Step]) -> None:
            nonlocal made
            step(turn)
            made += len(turn)
            self.tell(begun + decided * (self.reading + rest * made / looks))

        return stepped
