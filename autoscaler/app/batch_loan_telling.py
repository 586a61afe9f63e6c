"""What is told of loans of idle slots: by the object of the gang, and to the pools that lent them.

Enters: what gangs have on loan by the books, recalls, the terms of the pools. Leaves: an annotation, and a row of each
loan. It reads the annotation for nothing but how long a loan was expected to last: whoever may edit the object may
edit that.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_work import LOAN
from autoscaler.app.batch_recalls import Recalls
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.core.batch.room import Room
from autoscaler.record.loans import LoanState, LoanTold

Place = tuple[str, str]
"""A node and a shape of it."""

SHORTEST_S: Final = 5.0


class _Note(msgspec.Struct, frozen=True, rename="camel"):
    expected_until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """With its offset: of one without it is not known which instant it is, and for some Python raises."""


class LoanTelling:
    """Tells of the loans of one room."""

    def __init__(self, cluster: BatchCluster, room: Room, desk: LoanDesk, recalls: Recalls) -> None:
        self._cluster, self._room, self._desk, self._recalls = cluster, room, desk, recalls

    def note(self, mine: Mapping[Place, int], lenders: tuple[str, ...], now_s: float) -> dict[str, Any] | None:
        """What the object of a gang says of its loan, for people; None for one without."""
        if not mine:
            return None
        shapes = {shape for _, shape in mine}
        bounds = [self._room.bounds[shape] for shape in shapes if shape in self._room.bounds]
        until_s = now_s + min((each.expected_s for each in bounds), default=0.0)
        return {
            "lenders": [f"WarmPool/{pool}" for pool in lenders],
            "units": sum(mine.values()),
            "reclaimS": min((each.reclaim_s for each in bounds), default=SHORTEST_S),
            "expectedUntil": datetime.fromtimestamp(until_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }

    def told(
        self, held: Mapping[str, Mapping[Place, int]], lender: Callable[[Place], str | None], now_s: float
    ) -> dict[str, tuple[LoanTold, ...]]:
        """What is told of each loan, by pool; nothing of one whose object does not say yet that it may run, or whose
        gang is not in the books."""
        rows: dict[str, list[LoanTold]] = defaultdict(list)
        for name, mine in sorted(held.items()):
            units = Counter[str]()
            for at, number in mine.items():
                units[lender(at) or ""] += number
            for pool in sorted(units.keys() - {""}):
                loan = self._loan(name, units[pool], pool, now_s)
                rows[pool] += [] if loan is None else [loan]
        return {pool: tuple(mine) for pool, mine in rows.items()}

    def _loan(self, name: str, units: int, pool: str, now_s: float) -> LoanTold | None:
        run, work, recall = self._room.runs.all.get(name), self._cluster.works.get(name), self._recalls.all.get(name)
        is_leaving = run is not None and run.leaving_s is not None
        if run is None or work is None or (work.suspended and not is_leaving):
            return None
        if not is_leaving:
            state = LoanState.LENT
        elif self._room.is_overdue(run, now_s):
            state = LoanState.OVERDUE
        else:
            state = LoanState.LEAVING if recall is None else LoanState.RECALLED
        reclaim_s, until_s = self._desk.offers[pool].terms.reclaim_s, _until_s(work.annotations.get(LOAN, ""))
        ordered_s, why = (None, "") if recall is None else (recall.ordered_s, recall.why)
        return LoanTold(
            name, units, run.started_s, state, reclaim_s=reclaim_s, notice_s=run.gang.notice_s, until_s=until_s,
            recalled_s=ordered_s, why=why,
        )  # fmt: skip


def _until_s(text: str) -> float | None:
    """Until when a loan was expected to last, by the annotation of its gang; None where it does not say."""
    try:
        until = msgspec.json.decode(text, type=_Note).expected_until if text else None
    except (RecursionError, msgspec.DecodeError):
        return None
    return None if until is None else until.timestamp()
