"""What was decided about gangs: counted since the process began, and gathered until it is told.

Enters: admissions and evictions as the books decide them, and whose stop is not written yet. Leaves: counts by reason,
work lost, news. Who leaves for another counts once its object says so: it may be let run on before, and a count that
goes back would be taken for a restart.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
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
        self._open: dict[str, Evicted] = {}
        """Those that leave for another and whose objects did not say so when they were last looked at."""

    def let_in(self, admitted: Admitted) -> None:
        """A gang was let in."""
        self.admitted[admitted.reason.name] += 1
        self.news.append(admitted)

    def stopped(self, gone: Sequence[Evicted]) -> None:
        """Gangs have to go."""
        for each in gone:
            self.news.append(each)
            if each.beneficiary:
                self._open[each.gang] = each
            else:
                self._count(each)

    def run_on(self, names: Iterable[str]) -> None:
        """Gangs were asked to leave for others and need not: they were not stopped."""
        for name in names:
            self._open.pop(name, None)

    def written(self, unstopped: Container[str]) -> None:
        """All that were to leave have been told so, but for those that are `unstopped`."""
        for name in [name for name in self._open if name not in unstopped]:
            self._count(self._open.pop(name))

    def _count(self, gone: Evicted) -> None:
        self.evicted[gone.reason.name] += 1
        self.lost_gpu_s += gone.cost_gpu_s

    def inherit(self, old: "Tally") -> None:
        """Go on counting from another one's; what that has not told is told by nobody, its gangs stand in no books, and
        those that were not told to leave run on."""
        self.admitted, self.evicted, self.lost_gpu_s = old.admitted, old.evicted, old.lost_gpu_s
