"""What one cycle orders, and what is told of a gang that waits: the whole interface to whoever carries it out.

Nodes are names. An admission is carried out as one patch; an eviction is a notice to the whole gang; a reservation is
written down before its victims are told.
"""

from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.core.batch.reasons import BatchReason, Change


class Spots(NamedTuple):
    """Pods of one pod set on one node."""

    node: str
    shape: str
    pod_set: int
    pods: int
    device: int = -1
    """The device of the node on which a share lies, while shares lie on it; -1 for whole units."""


class Admitted(NamedTuple):
    """A whole gang starts now, there. A tuple, as `Spots`: made for each admission, at a third of the time."""

    gang: str
    queue: str
    spots: tuple[Spots, ...]
    reason: BatchReason
    lent_units: int = 0
    """Of its units, those that serving may recall."""
    narrow: Change | None = None
    """Of a gang that may be wider: what one more pod would have taken; None for one that is as wide as it may be."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """A whole gang leaves."""

    gang: str
    queue: str
    reason: BatchReason
    beneficiary: str
    """The gang that gets its place; empty for serving, and where units were lost."""
    cost_gpu_s: float
    """Work lost."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle orders."""

    admitted: tuple[Admitted, ...]
    evicted: tuple[Evicted, ...]
    more: bool
    """Whether the next cycle has work at once, because this one stopped at its bound."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """Units of a node that is on its way, on which an expected start counts."""

    node: str
    shape: str
    units: int
    due_s: float
    """When the node is expected."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is told of a gang that waits."""

    gang: str
    queue: str
    position: int
    """Its place in its queue; 1 is the first."""
    reason: BatchReason
    changes: tuple[Change, ...]
    """What would let it start now; the first one named is what it waits for."""
    p50_s: float | None
    """When it is expected to start; None where nothing that is known lets it."""
    p90_s: float | None
    ebbs: bool = False
    """Whether `p50_s` counts on what serving is expected to leave."""
    unebbed_s: float | None = None
    """Where it does, what it is without; None where nothing else that is known lets it start."""
    awaits: tuple[Awaited, ...] = ()
    """What of its place is on nodes that are on their way; told of the first of a queue."""
