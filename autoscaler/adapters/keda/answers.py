"""What the external scaler is answered from: values that others keep in memory.

Unknown is never a number here. KEDA turns a number into replicas and an error into its own fallback, so an outage that
read as 0 would scale to zero (kedacore/keda#1850, #8036).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Refusal(Enum):
    """Why there is no number; a closed set, so that it can be counted."""

    NOT_LEADING = "not leading"
    """Another replica of the controller answers."""
    NOT_READY = "not ready"
    """Not known yet, or known too long ago."""
    UNKNOWN = "unknown"
    """No ScaledObject of that name has a trigger that points here."""
    INVALID = "invalid"
    """It cannot be served as it is written."""


@dataclass(frozen=True, slots=True)
class Refused:
    """No number, and why in words for whoever reads KEDA's events."""

    refusal: Refusal
    message: str


@dataclass(frozen=True, slots=True)
class Served:
    """What one ScaledObject's target should have, as of `age_s` ago."""

    replicas: int
    """Within all bounds, 0 or more."""
    standing: int
    """Replicas that the target has on its ``/scale``, 0 or more."""
    demand: int | None = None
    """Requests in flight and waiting; None while any part of them is not known."""
    age_s: float = 0.0
    held: bool = False
    """Whether it is the last good word because the signals cannot be read now."""


class Answers(Protocol):
    """Asked in the event loop; answers at once."""

    def served(self, namespace: str, name: str) -> Served | Refused:
        """The number for the ScaledObject `name`."""
        ...

    def told(self, namespace: str, name: str, metric: str, value: int) -> None:
        """`value` was told for the ScaledObject `name`, under the name of the metric."""
        ...

    def ready(self) -> bool:
        """Whether numbers are given at all: this replica leads and knows its cluster."""
        ...
