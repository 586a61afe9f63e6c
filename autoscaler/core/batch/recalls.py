"""Serving takes lent units back: which gangs on loan leave for it, and what that costs it.

Enters: a room, units of a shape, nodes. Leaves: evictions, in the books at once, and a bill for each.
"""

from collections.abc import Sequence

from autoscaler.core.batch.loans import Bill, LoanBound, bill, recall
from autoscaler.core.batch.outcome import Evicted
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.room import Room


def call_back(
    room: Room, shape: str, units: int, now_s: float, nodes: Sequence[str] | None = None
) -> tuple[tuple[Evicted, ...], tuple[Bill, ...]]:
    """Serving takes units back: whole gangs on loan, the cheapest first.

    Loans that leave already count, but for those that should be gone: others are recalled in their place.
    """
    index = room.ledger.estate.index
    at = None if nodes is None else [index[name, shape] for name in nodes if (name, shape) in index]
    wanted = room.tree.shapes[shape]
    on_loan = [run for run in room.runs.all.values() if run.on_loan and run.load.units[0][0] == wanted]
    lent = {run.name: room.ledger.holdings[run.name].lent for run in on_loan}
    leaving = sum(
        number
        for run in on_loan
        if run.is_going(room.params.stuck_s, now_s)
        for node, number in lent[run.name].items()
        if at is None or node in at
    )
    stay = [run for run in on_loan if run.leaving_s is None]
    bound = room.bounds.get(shape, LoanBound(0))
    evicted, bills = [], []
    for run in recall(stay, lent, units - leaving, now_s, at):
        bills.append(bill(run, sum(lent[run.name].values()), bound, now_s))
        evicted.append(room.evict(run, BatchReason.RECALLED, "", now_s))
    return tuple(evicted), tuple(bills)
