"""Batch work as rows: of a table in a terminal, and of the page.

Enters: what one look says. Leaves: rows with their sentence and their whole explanation left to whoever asks for one.
"""

from dataclasses import dataclass, replace

from autoscaler.record.batch import BatchTold, GangState, GangTold, OwnersTold, QueueTold, ShapeTold
from autoscaler.record.batch_words import change, means, queue_sentence, queue_untaken, sentence, units


@dataclass(frozen=True, slots=True)
class GangLine:
    """One gang as a row."""

    gang: str
    """Kind, namespace and name."""
    queue: str
    state: str
    asks: str
    """What it asks for, in words."""
    position: int | None
    wait_p50_s: float | None
    """From now to its expected start; None where that is not known, or where it does not wait."""
    wait_p90_s: float | None
    age_s: float
    """Since it was made while it waits, since it was admitted while it holds GPUs."""
    reason: str
    changes: tuple[str, ...]
    """What would let it start, as phrases."""
    text: str


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue as a row."""

    queue: str
    parent: str | None
    depth: int
    """0 at the top."""
    state: str
    """served, held (as before its last change), contradicts, not served."""
    waiting: int
    running: int
    share_ratio: float | None
    shapes: tuple[ShapeTold, ...]
    text: str
    findings: tuple[str, ...]
    untaken: int = 0
    """Gangs that are not looked at."""


@dataclass(frozen=True, slots=True)
class WaitLine:
    """How many gangs wait for one thing; `reason` is its code, `means` says it."""

    reason: str
    means: str
    gangs: int


@dataclass(frozen=True, slots=True)
class BatchLines:
    """All of batch as rows."""

    now_s: float
    acting: bool
    idle_reason: str
    queues: tuple[QueueLine, ...]
    gangs: tuple[GangLine, ...]
    """Those that hold GPUs or are refused, then those that wait, by queue and place."""
    more: int
    """Gangs that would follow and are left out here."""
    owners: tuple[OwnersTold, ...]
    waiting: tuple[WaitLine, ...]
    lost_gpu_h: float
    """Work that was lost to evictions since the process began."""
    remarks: tuple[str, ...] = ()
    """What cannot be read now and stops nobody else."""
    refused: tuple[WaitLine, ...] = ()
    """Gangs that cannot be taken in as they stand."""


def batch_lines(told: BatchTold) -> BatchLines:
    """The rows of one look."""
    depths: dict[str | None, int] = {None: -1}
    queues = []
    for queue in told.queues:
        depths[queue.name] = depths.get(queue.parent, -1) + 1
        queues.append(_queue(queue, depths[queue.name]))
    ranked = sorted(told.gangs, key=_rank)
    return BatchLines(
        now_s=told.now_s,
        acting=told.acting,
        idle_reason=told.idle_reason,
        queues=tuple(queues),
        gangs=tuple(gang_line(gang, told.now_s) for gang in ranked),
        more=0,
        owners=told.owners,
        waiting=tuple(WaitLine(reason, means(reason), gangs) for reason, gangs in told.waiting),
        lost_gpu_h=round(told.counts.lost_gpu_s / 3600.0, 2),
        remarks=told.remarks,
        refused=tuple(WaitLine(reason, means(reason), gangs) for reason, gangs in told.refused),
    )


def first(lines: BatchLines, most: int) -> BatchLines:
    """The same with so many gangs at most."""
    left_out = len(lines.gangs) - most
    return lines if left_out <= 0 else replace(lines, gangs=lines.gangs[:most], more=lines.more + left_out)


def gang_line(gang: GangTold, now_s: float) -> GangLine:
    """The row of a gang."""
    since_s = gang.created_s if gang.started_s is None else gang.started_s
    return GangLine(
        gang=gang.key,
        queue=gang.queue,
        state=gang.state.value,
        asks=units(gang),
        position=gang.position,
        wait_p50_s=_wait(gang.start_p50_s, now_s),
        wait_p90_s=_wait(gang.start_p90_s, now_s),
        age_s=max(0.0, now_s - since_s),
        reason=gang.reason,
        changes=tuple(map(change, gang.changes)),
        text=sentence(gang, now_s),
    )


def _queue(queue: QueueTold, depth: int) -> QueueLine:
    state = "held" if queue.held else "contradicts" if queue.findings else "served"
    return QueueLine(
        queue=queue.name,
        parent=queue.parent,
        depth=depth,
        state=state if queue.served else "not served",
        waiting=queue.waiting,
        running=queue.running,
        share_ratio=queue.share_ratio,
        shapes=queue.shapes,
        text=queue_sentence(queue),
        findings=(*(words for _, words in queue.findings), *([queue_untaken(queue)] if queue.untaken else [])),
        untaken=queue.untaken,
    )


def _rank(gang: GangTold) -> tuple[int, str, int, str]:
    order = (GangState.REFUSED, GangState.LEAVING, GangState.STARTING, GangState.RUNNING, GangState.WAITING)
    place = order.index(gang.state) if gang.state in order else len(order)
    return place, gang.queue, gang.position or 0, gang.key


def _wait(start_s: float | None, now_s: float) -> float | None:
    return None if start_s is None else max(0.0, start_s - now_s)
