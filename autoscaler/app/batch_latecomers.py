"""Pods that belong to a gang that was let in and stand behind the gate still: made anew, or not written.

Enters: work as it is read. Leaves: which pods are to be let in now, each onto the place that was kept for it. A gang of
pods cannot be undone, so that what was begun is finished.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from autoscaler.adapters.kube.batch_members import Member, Seat, free_seats
from autoscaler.adapters.kube.batch_work import Work

AGAIN_S: Final = 5.0
"""Between two times that a pod is tried to be let in."""


class Latecomers:
    """The gangs that miss pods which are there."""

    def __init__(self) -> None:
        self._all: dict[str, float] = {}
        """With from when on they are tried again."""

    def note(self, work: Work) -> None:
        """A gang was read anew."""
        if not work.suspended and not work.manager and any(each.waits for each in work.members):
            self._all.setdefault(work.name, 0.0)
        else:
            self.forget(work.name)

    def forget(self, name: str) -> None:
        """Nothing of a gang is to be let in any more."""
        self._all.pop(name, None)

    def has(self, name: str) -> bool:
        """Whether pods of a gang are to be let in still."""
        return name in self._all

    def tried(self, name: str, now_s: float) -> None:
        """Not all pods of a gang were let in: the others are tried a while later."""
        if name in self._all:
            self._all[name] = now_s + AGAIN_S

    def due(self, works: Mapping[str, Work], now_s: float) -> Iterator[tuple[Work, tuple[tuple[Member, Seat], ...]]]:
        """Gangs with the pods of theirs that are to be let in now, each with its place."""
        for name, again_s in self._all.items():
            work = works.get(name)  # one that went just now is forgotten by the next look
            pairs = () if work is None or now_s < again_s else tuple(free_seats(work.members, work.seats))
            if work is not None and pairs:
                yield work, pairs
