"""Recalls of loans: which gangs were called back, for whom and why, and what those that are over took.

Enters: bills of gangs that were told to leave, and the runs that are left. Leaves: what is told of a recall while it
lasts, and counts of those that are over. It calls nobody back itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.batch.loans import Bill
from autoscaler.core.batch.running import Running


@dataclass(frozen=True, slots=True)
class Recall:
    """A gang that was called back, for which pools, and what that costs."""

    gang: str
    pools: tuple[str, ...]
    ordered_s: float
    bill: Bill
    why: str = ""
    """In the words of the pool whose look it was."""


@dataclass(frozen=True, slots=True)
class RecallCount:
    """Recalls that are over, since the process began."""

    gangs: int = 0
    took_s: float = 0.0
    return_gpu_s: float = 0.0


class Recalls:
    """The recalls of one room."""

    def __init__(self) -> None:
        self.all: dict[str, Recall] = {}
        """Gangs that were called back and hold GPUs still."""
        self.told: dict[str, tuple[str, ...]] = {}
        """Gangs that were called back since it was last told, with the pools it was for."""
        self.count = RecallCount()

    def begin(self, bills: Sequence[Bill], pools: Mapping[str, tuple[str, ...]], now_s: float, why: str) -> None:
        """These gangs are told to leave; `pools` are by gang."""
        for bill in bills:
            self.all[bill.gang] = Recall(bill.gang, pools[bill.gang], now_s, bill, why)
            self.told[bill.gang] = pools[bill.gang]

    def follow(self, runs: Mapping[str, Running], now_s: float) -> None:
        """Count the recalls whose gang is gone."""
        for name in [name for name in self.all if name not in runs or runs[name].leaving_s is None]:
            mine, count = self.all.pop(name), self.count
            self.count = RecallCount(
                count.gangs + 1, count.took_s + now_s - mine.ordered_s, count.return_gpu_s + mine.bill.return_gpu_s
            )

    def inherit(self, old: "Recalls") -> None:
        """Go on from another room's."""
        self.all, self.count = old.all, old.count
