"""The closed sets a policy chooses from that other rooms read too: what Headroom may do, and who gives way first."""

from enum import Enum


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


class Tier(Enum):
    """How important a workload is when GPUs are short: a later one gives way to an earlier one."""

    CRITICAL = "critical"
    NORMAL = "normal"
    SCAVENGER = "scavenger"
