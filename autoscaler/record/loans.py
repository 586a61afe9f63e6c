"""Loans of a warm pool's slots, gang by gang, in words: who has what, since when, and whether it was called back.

Enters: nothing; the batch room of the live driver fills these. Leaves: values, and a sentence of each, the same for the
same instant. Units are those of the pool's resource, instants epoch seconds.
"""

from dataclasses import dataclass
from enum import Enum

from autoscaler.record.explain import clock, duration, number


class LoanState(Enum):
    """Where a loan stands."""

    LENT = "lent"
    RECALLED = "called back"
    """The gang was told to leave because the pool wants its units, and holds them still."""
    LEAVING = "leaving"
    """The gang leaves for another reason, and holds them still."""
    OVERDUE = "overdue"
    """The gang was told to leave, should long be gone, and holds them still: nobody counts on them."""


@dataclass(frozen=True, slots=True)
class LoanTold:
    """What one gang has on loan of one pool."""

    gang: str
    """Kind, namespace and name."""
    units: int
    since_s: float
    """When the gang was let in."""
    state: LoanState = LoanState.LENT
    reclaim_s: float = 60.0
    """Within this long of a recall the gang is to be gone."""
    notice_s: float = 0.0
    """What of that it says to need, its checkpoint included."""
    until_s: float | None = None
    """Until when the loan was expected to last when it was made; None where that is not known."""
    recalled_s: float | None = None
    why: str = ""
    """Of a recall: the pool's own words."""


@dataclass(frozen=True, slots=True)
class LoanLine:
    """One loan as a row."""

    gang: str
    units: int
    state: str
    text: str


def loan_line(loan: LoanTold, now_s: float) -> LoanLine:
    """The row of a loan."""
    return LoanLine(loan.gang, loan.units, loan.state.value, loan_sentence(loan, now_s))


def loan_sentence(loan: LoanTold, now_s: float) -> str:
    """How a loan does: who has how much, or since when and why it is called back and how long that may take."""
    units = number(loan.units)
    if loan.state is LoanState.RECALLED and loan.recalled_s is not None:
        left_s = loan.recalled_s + loan.reclaim_s - now_s
        due = f"to be gone within {duration(left_s)}" if left_s > 0 else f"{duration(-left_s)} late"
        ago = duration(max(0.0, now_s - loan.recalled_s))
        why = f": {loan.why}" if loan.why else ""
        return f"{units} units called back from {loan.gang} {ago} ago{why}; it {_checkpoint(loan)}, {due}"
    if loan.state is LoanState.OVERDUE:
        when = "" if loan.recalled_s is None else f" {duration(max(0.0, now_s - loan.recalled_s))} ago"
        stays = f"was told to leave{when} and holds them still"
        return f"{units} units are overdue from {loan.gang}, which {stays}: nobody counts on them; look at its pods"
    if loan.state is not LoanState.LENT:
        return f"{units} units come back from {loan.gang}, which leaves"
    until = "" if loan.until_s is None else f", until {clock(loan.until_s)} as demand went so far"
    since = duration(max(0.0, now_s - loan.since_s))
    return f"{units} units lent to {loan.gang} since {since}{until}; back within {duration(loan.reclaim_s)} of a recall"


def made(loan: LoanTold) -> str:
    """The event of a loan that was made."""
    until = "" if loan.until_s is None else f" until {clock(loan.until_s)}"
    return f"{number(loan.units)} units lent to {loan.gang}{until}; back within {duration(loan.reclaim_s)} of a recall"


def recalled(loan: LoanTold) -> str:
    """The event of a loan that is called back."""
    why = f": {loan.why}" if loan.why else ""
    return f"{number(loan.units)} units called back from {loan.gang}{why}; it {_checkpoint(loan)}"


def returned(loan: LoanTold, now_s: float) -> str:
    """The event of a loan that is over."""
    if loan.recalled_s is None:
        return f"{number(loan.units)} units are back from {loan.gang}, which was not called back"
    after = duration(max(0.0, now_s - loan.recalled_s))
    return f"{number(loan.units)} units are back from {loan.gang}, {after} after they were called back"


def _checkpoint(loan: LoanTold) -> str:
    return f"has {duration(loan.notice_s)} to write its checkpoint"
