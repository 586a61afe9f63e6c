"""The status of a WarmPool as it is written, and what of it must not lag behind.

Enters: what the record says of a pool. Leaves: the status in the words of the API, and a gist: a status is written
anew when that changed, not when a figure within a sentence moved.
"""

import re
from typing import Final

from autoscaler.api.status import Condition as KeptCondition
from autoscaler.api.status import Truth
from autoscaler.api.warm_pool_status import (
    MOST_BREAKERS,
    MOST_LOANS,
    Breaker,
    BreakerState,
    Loan,
    StageCount,
    WarmPoolStatus,
)
from autoscaler.record.loans import LoanState, LoanTold
from autoscaler.record.pool_status import BreakerStatus, PoolStatus

_BREAKERS: Final = {"open": BreakerState.OPEN, "half-open": BreakerState.HALF_OPEN}
_FIGURE: Final = re.compile(r"\d+(\.\d+)?")


def gist_of(status: PoolStatus) -> tuple[object, ...]:
    """What a written status must not lag behind; figures within sentences may."""
    conditions = tuple((c.type, c.status, c.reason, _FIGURE.sub("", c.message)) for c in status.conditions)
    breakers = tuple((b.sku, b.zone, b.capacity_type, b.state) for b in status.breakers)
    loans = None if status.loans is None else [(loan.gang, loan.units, loan.state) for loan in status.loans]
    lent = (status.lent, status.overdue, loans)
    return status.target, status.warm, status.starting, status.reason, status.stages, breakers, lent, conditions


def written_of(status: PoolStatus, generation: int, now_s: float) -> WarmPoolStatus:
    """The status of this generation of the spec."""
    return WarmPoolStatus(
        observed_generation=generation,
        target_slots=status.target,
        warm_slots=status.warm,
        starting_slots=status.starting,
        hit_ratio=status.hit_ratio,
        refill_s=status.refill_s,
        reason=status.reason or None,
        text=status.text,
        stages=tuple(StageCount(stage=stage, slots=count) for stage, count in status.stages),
        breakers=tuple(map(_breaker, sorted(status.breakers, key=lambda each: each.state != "open")[:MOST_BREAKERS])),
        lent_slots=status.lent,
        overdue_slots=status.overdue,
        loans=None if status.loans is None else tuple(map(_loan, status.loans[:MOST_LOANS])),
        loans_left_out=max(0, len(status.loans or ()) - MOST_LOANS) or None,
        conditions=tuple(
            KeptCondition(
                type=c.type, status=Truth(c.status), observed_generation=generation, last_transition_time_s=now_s,
                reason=c.reason, message=c.message,
            )
            for c in status.conditions
        ),
    )  # fmt: skip


def _loan(each: LoanTold) -> Loan:
    return Loan(
        gang=each.gang, units=each.units, since_s=each.since_s, recalled_at_s=each.recalled_s,
        overdue=True if each.state is LoanState.OVERDUE else None,
    )  # fmt: skip


def _breaker(each: BreakerStatus) -> Breaker:
    return Breaker(
        sku=each.sku,
        zone=each.zone,
        capacity_type=each.capacity_type,
        state=_BREAKERS[each.state],
        until_s=each.until_s,
    )
