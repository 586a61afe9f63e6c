"""For how long a gang that was let in may look for its places before it is stopped whole.

Enters: gangs that were let in, how many pods of them are there and bound, instants. Leaves: those that are late. What
counts is progress, not the time since the start: of hundreds that are let in within a second the Job controller and
the scheduler come to the last one long after the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

START_WITHIN_S: Final = 30.0
"""Without a pod that came or was bound, its own or of a gang whose turn was no later, a gang is late: controllers that
work show something every second, and nobody holds GPUs in vain for longer."""

START_MOST_S: Final = 900.0
"""A gang is late after so long in sight, whatever moves: kube-controller-manager makes 20 pods a second unless it is
told otherwise, and so the 16,384 pods that a gang may have in 820 s."""

TOGETHER_S: Final = 10.0
"""Gangs that were let in within this time have the same turn: controllers take them in any order."""


@dataclass(slots=True)
class Settling:
    """A gang whose pods are not all bound yet."""

    since_s: float
    nodes: frozenset[str]
    wanders: bool
    """Whether its pods may be bound otherwise than planned."""
    is_new: bool
    """All of its pods are still to come; of one that was met running some may be over and gone."""
    moved_s: float
    """When something moved last that it may be waiting for."""
    most_s: float
    """From when on it is late whatever moves."""
    made: int = 0
    bound: int = 0
    """The most pods of it that were there, and that were bound: one made again for another is no progress."""


class Patience:
    """The gangs that look for their places, in the order in which they were let in."""

    def __init__(self) -> None:
        self.all: dict[str, Settling] = {}

    def begin(
        self, name: str, now_s: float, nodes: frozenset[str] = frozenset(), *, wanders: bool, is_new: bool
    ) -> None:
        """A gang looks for its places from now on."""
        self.all[name] = Settling(now_s, nodes, wanders, is_new, now_s, now_s + START_MOST_S)

    def began(self, name: str, now_s: float) -> None:
        """Its object says that a gang may run: before, nobody could do anything for it."""
        if name in self.all:
            self.all[name].moved_s = now_s

    def end(self, name: str) -> None:
        """A gang has found its places, or looks for none any more."""
        self.all.pop(name, None)

    def saw(self, pods: Mapping[str, tuple[int, int]], now_s: float) -> None:
        """How many pods of each gang are there, and how many of them are bound or over."""
        moved = []
        for name, (made, bound) in pods.items():
            each = self.all[name]
            if made > each.made or bound > each.bound:
                each.made, each.bound = max(made, each.made), max(bound, each.bound)
                moved.append(each.since_s)
        first_s = min(moved, default=float("inf"))
        for each in self.all.values():
            if each.since_s >= first_s - TOGETHER_S:
                each.moved_s = now_s

    def unseen(self, since_s: float, now_s: float) -> None:
        """Nothing could be seen between two instants: what moved is not known, and who moves it may have been cut
        off."""
        for each in self.all.values():
            each.moved_s = now_s
            each.most_s += now_s - since_s

    def late(self, now_s: float) -> dict[str, str]:
        """Gangs that have looked for their places for too long, each with what took it."""
        late = {}
        for name, each in self.all.items():
            if now_s >= each.moved_s + START_WITHIN_S:
                late[name] = f"for {START_WITHIN_S:g} s none more was"
            elif now_s >= each.most_s:
                late[name] = f"that took longer than {START_MOST_S:g} s"
        return late
