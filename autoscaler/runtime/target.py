"""A workload as the live driver knows it: what its owner asks for, and whether Headroom may act on it."""

from dataclasses import dataclass, field
from enum import Enum

from autoscaler.core.params import Params
from autoscaler.core.types import Limits


class Mode(Enum):
    """What Headroom may do to a target. It decides and records in every mode."""

    SHADOW = "Shadow"
    """Never act."""
    ACTIVE = "Active"
    PAUSED = "Paused"
    PAUSED_SCALE_IN = "PausedScaleIn"
    PAUSED_SCALE_OUT = "PausedScaleOut"

    def allows(self, seen_replicas: int, replicas: int) -> bool:
        """Whether the target may be taken from `seen_replicas` to `replicas`."""
        if replicas > seen_replicas:
            return self in {Mode.ACTIVE, Mode.PAUSED_SCALE_IN}
        return self in {Mode.ACTIVE, Mode.PAUSED_SCALE_OUT}


@dataclass(frozen=True, slots=True)
class Target:
    """One workload, named ``namespace/name``, with its policy and the limits that others set on it."""

    name: str
    params: Params
    mode: Mode = Mode.ACTIVE
    limits: Limits = field(default_factory=Limits)
