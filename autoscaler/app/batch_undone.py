"""Writes that somebody else undoes: a gang that was let in is suspended again, or runs again after it was stopped.

Enters: what was found undone, and instants. Leaves: until when a gang is left alone, longer each time, with the words.
Another controller that means otherwise is met ever more seldom, and not once a second for as long as both are there.
The first time is nobody's fight: a person who stops a gang by hand once sees it wait again.
"""

from typing import Final, Self

from autoscaler.app.batch_notes import RUNS_AGAIN, SUSPENDED, Note
from autoscaler.app.batch_rests import RETRY_MOST_S, RETRY_S, Rest
from autoscaler.core.doubling import doubled
from autoscaler.record.explain import duration

CALM_S: Final = RETRY_MOST_S
"""Who leaves a gang alone for so long after its last rest is no one to fight with: it is counted anew."""


class Undone:
    """Those of one cluster's gangs."""

    def __init__(self) -> None:
        self._suspended: dict[str, Rest] = {}
        self._runs_again: dict[str, Rest] = {}

    def inherit(self, old: Self) -> None:
        """Go on from those of other books."""
        self._suspended, self._runs_again = old._suspended, old._runs_again

    def suspended(self, name: str, now_s: float) -> tuple[Rest, Note] | None:
        """Somebody else suspended a gang that was let in: until when it is left alone, from the second time on."""
        rest = self._suspended[name] = _again(self._suspended.get(name), now_s)
        if rest.times < 2:
            return None
        words = f"somebody else suspended it {rest.times} times after it was let in; {_alone(rest, now_s)}"
        return rest, Note(SUSPENDED, words)

    def stopped(self, name: str, now_s: float) -> Note | None:
        """A stop was taken; a note where it is not the first one of these minutes."""
        rest = self._runs_again[name] = _again(self._runs_again.get(name), now_s)
        if rest.times < 2:
            return None
        words = f"it was told to leave and stopped {rest.times} times, and somebody else lets it run again each time"
        return Note(RUNS_AGAIN, f"{words}; {_alone(rest, now_s)}")

    def may_stop(self, name: str, now_s: float) -> bool:
        """Whether a gang that runs again may be stopped again now."""
        rest = self._runs_again.get(name)
        return rest is None or rest.until_s <= now_s

    def forget(self, name: str) -> None:
        """A gang is no more."""
        self._suspended.pop(name, None)
        self._runs_again.pop(name, None)


def _again(before: Rest | None, now_s: float) -> Rest:
    times = 1 if before is None or now_s > before.until_s + CALM_S else before.times + 1
    return Rest(now_s if times == 1 else now_s + doubled(RETRY_S, times - 2, RETRY_MOST_S), times)


def _alone(rest: Rest, now_s: float) -> str:
    return f"it is left alone for {duration(rest.until_s - now_s)}, longer each time; see whose it is: two write to it"
