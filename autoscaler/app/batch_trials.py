"""Gangs whose start has to be tried out (a dry run) before they take part: nobody is stopped for one that is refused.

Enters: work, what the server answered. Leaves: which gangs are held back until the server has taken a dry run of their
start. Pods behind our gate are let in by a right that each namespace gives or not, so that those are tried out first;
any other gang once a start of it was refused. A dry run stops nobody and holds nothing. It is one request of each gang
and try, and of a gang that was refused one for each of its pods. After a restart the server is asked again.
"""

from collections.abc import Container
from typing import Final

from autoscaler.adapters.kube.batch_work import Work
from autoscaler.app.batch_gangs import Unfit
from autoscaler.core.batch.ledger import Reservation

MOST_TRIES: Final = 64
"""In one look, lest a namespace of thousands of pods keeps others from their starts; the rest is the next one's."""

UNTRIED: Final = Unfit(
    "UNTRIED",
    "whether the API server would let its pods in is asked first (dry run); no answer is there yet",
    waits=True,
)


class Trials:
    """The gangs of one cluster. `asks` is whether starts are written at all: else nobody is stopped for anyone."""

    def __init__(self, *, asks: bool = True) -> None:
        self._asks = asks
        self._taken: set[str] = set()
        """Gangs whose start the server would take, by the last that it said."""
        self._refused: set[str] = set()
        self._held: dict[str, None] = {}

    def among(self, names: Container[str]) -> "Trials":
        """What is known of these, for books that are written anew."""
        kept = Trials(asks=self._asks)
        kept._taken = {name for name in self._taken if name in names}
        kept._refused = {name for name in self._refused if name in names}
        return kept

    def holds_back(self, work: Work, kept: Reservation | None) -> bool:
        """Whether a gang has to be tried out before it takes part: it is held back until then.

        One for which something is `kept` took part when that was found, and so was tried out before.
        """
        if kept is not None:
            self.took(work.name)
        is_new = bool(work.members) and work.name not in self._taken
        needs = self._asks and (is_new or work.name in self._refused)
        if needs:
            self._held[work.name] = None
        return needs

    def was_refused(self, name: str) -> bool:
        """Whether the last that the server said was no."""
        return name in self._refused

    def release(self, name: str) -> None:
        """A gang is not to be tried out: not any more, or not now."""
        self._held.pop(name, None)

    def held(self) -> tuple[str, ...]:
        """Gangs that are held back, as they were read."""
        return tuple(self._held)

    def took(self, name: str) -> None:
        """The server would take the start of a gang."""
        self._taken.add(name)
        self._refused.discard(name)
        self.release(name)

    def refused(self, name: str) -> None:
        """The server would not take a start, or a dry run of one, or did not answer that."""
        self._refused.add(name)
        self._taken.discard(name)
        self.release(name)

    def forget(self, name: str) -> None:
        """A gang is no more."""
        self._taken.discard(name)
        self._refused.discard(name)
        self.release(name)
