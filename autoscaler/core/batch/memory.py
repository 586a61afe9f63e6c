"""What cycles found out and need not find out again, until what they depend on has changed.

Enters: a room, and what a cycle learnt about it. Leaves: the same as long as it holds. It decides nothing.
"""

import math
from dataclasses import dataclass, field

from autoscaler.core.batch import kept
from autoscaler.core.batch.reasons import Verdict
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.tree import Load


@dataclass(frozen=True, slots=True)
class Tried:
    """A look for the place of a gang that lost GPUs."""

    at_s: float
    version: int
    """Of the estate, after it."""
    usable_units: int
    """What the gang had still on nodes that may be used."""


@dataclass(slots=True)
class Memory:
    """Of the cycles over one room."""

    no_room: dict[int, int] = field(default_factory=dict)
    """By brand: the version of the estate in which it had no room."""
    kept_units: list[int] = field(default_factory=list)
    """By shape: units held for expected starts and units that serving would lend, for the same version."""
    asked_back: tuple[int, int] = (-1, -1)
    """The state of the books at which those aside were last asked back."""
    verdicts: dict[int, tuple[int, Verdict]] = field(default_factory=dict)
    """By brand: the version of the estate, and why it had no room in it."""
    ever: dict[int, bool] = field(default_factory=dict)
    """By brand: whether it fits an empty cluster."""
    epoch: int = -1
    shut: set[int] = field(default_factory=set)
    """Brands that were found to have no room, as long as no room is gained."""
    version: int = -1
    """Of the estate, for which that holds."""
    reviewed: tuple[int, float] = (-1, -math.inf)
    """The room's news, and when reservations were last gone through."""
    kept_at: dict[str, float] = field(default_factory=dict)
    """By gang: when its expected start was last found."""
    searched: dict[str, float] = field(default_factory=dict)
    """By gang that searched for victims in vain: when to search again."""
    let_down: set[str] = field(default_factory=set)
    """Gangs that waiting by what serving would leave has led to nothing."""
    tried: dict[str, Tried] = field(default_factory=dict)
    """By gang that lost GPUs and leaves: the last look for its place."""

    def closed(self, room: Room) -> set[int]:
        """Brands that were found to have no room since room was last gained."""
        version = room.ledger.estate.version
        if self.version != version:
            self.version, self.kept_units = version, kept.units_for_starts(room)
            self.shut.clear()
        return self.shut

    def scarce(self, room: Room, load: Load) -> bool:
        """Whether there are not even as many units, those included that could be used for a while."""
        estate, more = room.ledger.estate, self.kept_units
        if len(load.units) == 1:  # nearly always, and asked for at every attempt
            ((shape, units),) = load.units
            return estate.free_units(shape) + more[shape] < units
        return any(estate.free_units(shape) + more[shape] < units for shape, units in load.units)
