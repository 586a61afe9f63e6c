"""What was decided about gangs: counted since the process began, and gathered until it is told.

Enters: admissions and evictions as the books decide them. Leaves: counts by reason, work lost, news.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from autoscaler.core.batch.outcome import Admitted, Evicted
from autoscaler.core.batch.reasons import Change


class Began(NamedTuple):
    """How a gang was let in."""

    at_s: float
    reason: str = ""
    """Empty for one that was met running."""
    narrow: Change | None = None
    """What one more pod would have taken, of one that may have more."""


class Tally:
    """The decisions of one cluster's books."""

    def __init__(self) -> None:
        self.admitted: Counter[str] = Counter()
        self.evicted: Counter[str] = Counter()
        self.lost_gpu_s = 0.0
        self.news: list[Admitted | Evicted] = []
        """What was decided since it was last told."""

    def let_in(self, admitted: Admitted) -> None:
        """A gang was let in."""
        self.admitted[admitted.reason.name] += 1
        self.news.append(admitted)

    def stopped(self, gone: Sequence[Evicted]) -> None:
        """Gangs have to go."""
        for each in gone:
            self.evicted[each.reason.name] += 1
            self.lost_gpu_s += each.cost_gpu_s
            self.news.append(each)

    def inherit(self, old: "Tally") -> None:
        """Go on counting from another one's; what that has not told is told by nobody, its gangs stand in no books."""
        self.admitted, self.evicted, self.lost_gpu_s = old.admitted, old.evicted, old.lost_gpu_s
