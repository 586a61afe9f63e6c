"""Who may own units of a node, and a pod that holds some."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Owner(IntEnum):
    """Who owns a unit; what is owned by nobody is free."""

    SERVING = 0
    STANDBY = 1
    BATCH = 2
    LOAN = 3
    """Kept by serving, used by a gang until it is recalled."""
    RESERVED = 4
    """Kept for one gang until it starts."""
    FOREIGN = 5
    """Pods nobody told us about."""
    UNAVAILABLE = 6
    """Nobody uses it and nobody may: cordoned, not ready, not there yet, or its GPU fails."""


OCCUPYING: Final = (Owner.SERVING, Owner.STANDBY, Owner.FOREIGN, Owner.BATCH, Owner.LOAN)
"""Owners who have something running on what is theirs."""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """One pod that holds units."""

    node: str
    shape: str
    units: int
    owner: Owner = Owner.FOREIGN
    """SERVING, STANDBY or FOREIGN; LOAN for a pod of a gang on units that serving lent it; RESERVED for one that holds
    a place for a gang, which no ledger takes in."""
    gang: str | None = None
    cpu: float = 0.0
    """Cores that it asks for, of a pod of a gang; what others hold is not in what their node has."""
    memory_gib: float = 0.0
