"""What may be wrong with a BatchQueue among the others, as a closed set of codes."""

from dataclasses import dataclass
from enum import Enum


class TreeCode(Enum):
    """What may be wrong with a queue among others."""

    INVALID = "Invalid"
    """Its spec cannot be read."""
    UNKNOWN_PARENT = "UnknownParent"
    PARENT_LEFT_OUT = "ParentLeftOut"
    CYCLE = "Cycle"
    TOO_DEEP = "TooDeep"
    UNKNOWN_SHAPE = "UnknownShape"
    PROMISED_TOO_MUCH = "PromisedTooMuch"
    """It promises its children more than it has."""
    NAMESPACE_TAKEN = "NamespaceTaken"
    """A namespace stands in another queue already."""
    NO_NAMESPACE = "NoNamespace"
    """Neither it nor a queue above it names a namespace."""
    BEYOND_CAPACITY = "BeyondCapacity"
    """All queues together are guaranteed more than the cluster has."""

    @property
    def blocks(self) -> bool:
        """Whether it keeps a queue from being served as it stands."""
        return self in {
            TreeCode.INVALID, TreeCode.UNKNOWN_PARENT, TreeCode.PARENT_LEFT_OUT, TreeCode.CYCLE, TreeCode.TOO_DEEP,
            TreeCode.UNKNOWN_SHAPE,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TreeFinding:
    """One contradiction."""

    queue: str
    code: TreeCode
    words: str
    """Field, value and remedy."""
