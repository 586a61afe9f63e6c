"""News of a pool's loans: what was lent, called back and came back since it was last told.

Enters: the loans of a pool, look by look, and what its status said before this process began. Leaves: events, each
once: a loan that the status of the WarmPool names was told by whoever wrote it. While loans are not known nothing is
news.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from autoscaler.record.loans import LoanTold, made, recalled, returned

MADE: Final = "LoanMade"
RECALLED: Final = "LoanRecalled"
RETURNED: Final = "LoanReturned"


@dataclass(frozen=True, slots=True)
class LoanEvent:
    """One event: a word for programs, and a sentence."""

    word: str
    words: str


@dataclass(frozen=True, slots=True)
class LoanCounts:
    """Loans of one pool that were made, and those that were called back, since the process began."""

    made: int = 0
    recalled: int = 0


class LoanNews:
    """What was told of the loans of one pool."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        """Begin with what the status of the WarmPool says was told."""
        self._told: dict[str, LoanTold] | None = None
        before = status.get("loans") or ()
        self._before = {str(each.get("gang", "")): bool(each.get("recalledAt")) for each in before}
        """By gang, whether its recall was told."""
        self.counts = LoanCounts()

    def news(self, loans: Sequence[LoanTold] | None, now_s: float) -> Iterator[LoanEvent]:
        """The events of what is new."""
        if loans is None:
            return
        told, self._told = self._told, {each.gang: each for each in loans}
        for loan in loans:
            was_told = loan.gang in (self._before if told is None else told)
            if not was_told:
                self.counts = LoanCounts(self.counts.made + 1, self.counts.recalled)
                yield LoanEvent(MADE, made(loan))
            if loan.recalled_s is not None and not self._was_recalled(loan.gang, told):
                self.counts = LoanCounts(self.counts.made, self.counts.recalled + 1)
                yield LoanEvent(RECALLED, recalled(loan))
        for gang, loan in () if told is None else told.items():
            if gang not in self._told:
                yield LoanEvent(RETURNED, returned(loan, now_s))

    def _was_recalled(self, gang: str, told: Mapping[str, LoanTold] | None) -> bool:
        if told is None:
            return self._before.get(gang, False)
        return gang in told and told[gang].recalled_s is not None
