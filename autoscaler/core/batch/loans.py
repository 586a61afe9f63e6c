"""Idle GPUs of serving, lent to gangs and taken back whole.

Enters: what the demand forecast leaves to lend, and what a recall needs. Leaves: whether a gang may borrow, which loans
go first, and what a return costs. It never looks at demand itself: the bound is the warm pool's. A gang is lent to only
if it can be gone within the bound, and if the loan is expected to last long enough to be worth its start.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.core.batch.gangs import Gang
from autoscaler.core.batch.running import Running

LEAST_GOODPUT: Final = 0.8
"""The share of a loan's time that must be work that lasts."""


@dataclass(frozen=True, slots=True)
class LoanBound:
    """What serving lends of one shape."""

    units: int
    """The most that may be lent at once: idle units less the growth of demand that is covered over the reclaim."""
    reclaim_s: float = 60.0
    """From a recall until the last unit must be free."""
    engine_start_s: float = 0.0
    """From then until an engine serves on it again; billed with the return."""
    expected_s: float = 3600.0
    """How long a loan made now is expected to last, by the same forecast."""
    slot_units: int = 1
    """Units that serving keeps together: of a node so many are lent at once, or a multiple. What is left of a slot
    that was taken in part would be idle, and would not be its pool's."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What a recalled loan cost."""

    gang: str
    units: int
    lost_gpu_s: float
    """Work of the gang that was lost."""
    return_gpu_s: float
    """Units times reclaim and engine start: serving had them back that much later than idle ones."""


def worth(gang: Gang, bound: LoanBound, restart_s: float) -> bool:
    """Whether a gang gains by a loan: it can be gone in time, and enough of the time is work that lasts.

    One restart is lost, and where the loan ends before the gang does, half of the work that may be lost is as well.
    """
    if gang.notice_s > bound.reclaim_s or bound.expected_s <= 0:
        return False
    own_s = gang.lasts_s
    lasts_s = min(bound.expected_s, own_s if own_s is not None else bound.expected_s)
    ends_before = own_s is not None and own_s <= bound.expected_s
    lost_s = restart_s if ends_before else restart_s + lasts_s * (1 - LEAST_GOODPUT) / 2
    return 1.0 - lost_s / max(lasts_s, 1e-9) >= LEAST_GOODPUT


def recall(
    loans: Iterable[Running],
    lent: Mapping[str, Mapping[int, int]],
    needed: int,
    now_s: float,
    nodes: Sequence[int] | None,
) -> tuple[Running, ...]:
    """Whole gangs on loan that free the needed units, at the least work lost for each; all where they are too few.

    `lent` are each gang's units by node; with `nodes`, only units there count. Whoever turns out not to be needed
    beside the others stays, the dearest first.
    """
    wanted = None if nodes is None else set(nodes)
    frees = {
        run.name: sum(units for node, units in lent[run.name].items() if wanted is None or node in wanted)
        for run in loans
    }
    ranked = sorted(
        (run for run in loans if frees[run.name] > 0),
        key=lambda run: (run.cost_gpu_s(now_s) / frees[run.name], run.name),
    )
    chosen: list[Running] = []
    freed = 0
    for run in ranked:
        if freed >= needed:
            break
        chosen.append(run)
        freed += frees[run.name]
    for run in sorted(chosen, key=lambda run: (-run.cost_gpu_s(now_s), run.name)):
        if freed - frees[run.name] >= needed:
            chosen.remove(run)
            freed -= frees[run.name]
    return tuple(chosen)


def bill(run: Running, units: int, bound: LoanBound, now_s: float) -> Bill:
    """What a recall costs, told when it is ordered."""
    return Bill(run.name, units, run.lost_gpu_s(now_s), units * (bound.reclaim_s + bound.engine_start_s))
