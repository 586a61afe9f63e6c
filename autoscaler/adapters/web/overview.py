"""One line per workload for the page's table: what a person scans a hundred of to find the one to open.

Enters: a frame. Leaves: a row, a twentieth of it in size. None means not known.
"""

from dataclasses import dataclass

from autoscaler.record.status import fit_of
from autoscaler.record.stream import WorkloadFrame

_BLIND = {"held": 1, "unknown": 2}


@dataclass(frozen=True, slots=True)
class TableRow:
    """One workload in the table."""

    workload: str
    now_s: float
    tick_s: float
    mode: str
    load_rps: float | None
    wait_s: float | None
    slo_wait_s: float
    needs: int | None
    ready: int
    starting: int
    desired: int
    before: int
    """The count that the last decision saw."""
    reason: str
    text: str
    overload: str
    blind: int
    """0 while arrivals and queue are fresh, 1 held, 2 unknown."""


def table_row(frame: WorkloadFrame) -> TableRow:
    """The line of one workload."""
    return TableRow(
        workload=frame.workload, now_s=frame.now_s, tick_s=frame.tick_s, mode=frame.mode, load_rps=frame.load_rps,
        wait_s=frame.wait_s, slo_wait_s=frame.slo_wait_s, needs=frame.needs, ready=frame.ready,
        starting=len(frame.starting), desired=frame.desired, before=frame.decision.before, reason=frame.decision.reason,
        text=frame.decision.text, overload=fit_of(frame), blind=blindness(frame),
    )  # fmt: skip


def blindness(frame: WorkloadFrame) -> int:
    """How much is known of demand: 0 while arrivals and queue are fresh, 1 held, 2 unknown."""
    states = [_BLIND.get(signal.state, 0) for signal in frame.signals if signal.signal in {"arrivals", "queue"}]
    return max(states, default=0)
