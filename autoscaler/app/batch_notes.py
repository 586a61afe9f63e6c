"""What a person should know of one gang, besides what the core says."""

from dataclasses import dataclass
from typing import Final

UNBOUND: Final = "UNBOUND"
REFUSED_WRITE: Final = "WRITE_REFUSED"
STOP_DENIED: Final = "STOP_DENIED"
SUSPENDED: Final = "SUSPENDED_BY_OTHERS"
RUNS_AGAIN: Final = "RUN_BY_OTHERS"
STAYS: Final = "CANNOT_STOP"
UNSTOPPABLE: Final = "pods cannot be stopped but by whoever may delete them"


@dataclass(frozen=True, slots=True)
class Note:
    """A word, and a sentence."""

    reason: str
    words: str
