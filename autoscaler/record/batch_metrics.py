"""The catalogue of what is told of batch work.

Enters: what one look says. Leaves: families. Labels are queues, shapes and closed sets; no gang has a series.
"""

from collections.abc import Iterator
from typing import Final

from autoscaler.record.batch import BatchTold, OwnersTold, QueueTold
from autoscaler.record.families import Family, Kind, Labels, Metric

_QUEUE: Final = ("queue",)
_OF_SHAPE: Final = ("queue", "shape")
OWNERS: Final = ("serving", "standby", "batch", "loan", "reserved", "foreign", "unavailable", "free")
"""Who may own a unit; they add up to all there are."""


def _gauge(name: str, text: str, labels: Labels) -> Metric:
    return Metric(f"headroom_batch_{name}", Kind.GAUGE, text, labels)


def _counter(name: str, text: str, labels: Labels = ()) -> Metric:
    return Metric(f"headroom_batch_{name}_total", Kind.COUNTER, text, labels)


_ACTING: Final = _gauge("acting", "1 while admissions are carried out, 0 while they are only told.", ())
_UNREAD: Final = _gauge("unread", "Lists that cannot be read, without which nothing is admitted.", ())
_CYCLE: Final = _gauge("cycle_seconds", "How long the last cycle of admission took.", ())
_WAITING: Final = _gauge("queue_waiting_gangs", "Gangs that wait in a queue, those below it included.", _QUEUE)
_RUNNING: Final = _gauge("queue_running_gangs", "Gangs of a queue that hold GPUs, those below it included.", _QUEUE)
_SHARE: Final = _gauge("queue_share_ratio", "A queue's dominant share of the cluster, divided by its weight.", _QUEUE)
_SERVED: Final = _gauge("queue_served", "1 for a queue that is part of the tree, 0 for one that is left out.", _QUEUE)
_HEAD_AGE: Final = _gauge("queue_head_age_seconds", "Since the first gang that waits in a queue was made.", _QUEUE)
_HEAD_LATE: Final = _gauge(
    "queue_head_late_seconds",
    "By how much that gang waits longer than it was first told in nine of ten cases; 0 until then.",
    _QUEUE,
)
_USED: Final = _gauge("queue_used_units", "Units that a queue's gangs hold.", _OF_SHAPE)
_GUARANTEED: Final = _gauge("queue_guaranteed_units", "Units that a queue is guaranteed.", _OF_SHAPE)
_WANTED: Final = _gauge("queue_wanted_units", "Units that a queue's gangs wait for.", _OF_SHAPE)
_QUEUE_UNTAKEN: Final = _gauge(
    "queue_untaken_gangs", "Gangs of a queue that are not looked at, those below it included.", _QUEUE
)
_UNTAKEN: Final = _gauge("untaken_gangs", "Gangs that are not looked at, those of no queue included.", ())
_REASONS: Final = _gauge("waiting_gangs", "Gangs that wait, by what they wait for.", ("reason",))
_REFUSED: Final = _gauge("refused_gangs", "Gangs that cannot be taken in as they stand, by why.", ("reason",))
_UNITS: Final = _gauge("units", "Units by who owns them.", ("shape", "owner"))
_WHOLE: Final = _gauge("whole_free_units", "Free units on nodes that are wholly free.", ("shape",))
_FRAGMENTED: Final = _gauge("fragmented_ratio", "Share of the free units that are on nodes in use.", ("shape",))
_ADMITTED: Final = _counter("admitted_gangs", "Gangs that were admitted, by what let them start.", ("reason",))
_EVICTED: Final = _counter("evicted_gangs", "Gangs that were told to leave, by what for.", ("reason",))
_LOST: Final = _counter("lost_gpu_seconds", "Work that was lost to evictions.")
_RECALLS: Final = _counter("recalls", "Gangs on loan that serving called back and that are gone.")
_RECALL_S: Final = _counter("recall_seconds", "How long those gangs took to be gone, all together.")
_RETURN: Final = _counter("return_gpu_seconds", "What loans cost serving: units called back, times reclaim and start.")
_FAILURES: Final = _counter("write_failures", "Writes for batch work that the API server refused.")

BATCH: Final = (
    _ACTING, _UNREAD, _CYCLE, _WAITING, _RUNNING, _SHARE, _SERVED, _HEAD_AGE, _HEAD_LATE, _USED, _GUARANTEED, _WANTED,
    _QUEUE_UNTAKEN, _UNTAKEN, _REASONS, _REFUSED, _UNITS, _WHOLE, _FRAGMENTED, _ADMITTED, _EVICTED, _LOST, _RECALLS,
    _RECALL_S, _RETURN, _FAILURES,
)  # fmt: skip
"""Every metric of batch work."""


def batch_families(told: BatchTold | None) -> Iterator[Family]:
    """The metrics of one look; none where there was none."""
    if told is None:
        return
    counts = told.counts
    yield Family(_ACTING, {(): float(told.acting)})
    yield Family(_UNREAD, {(): float(told.unread)})
    yield Family(_CYCLE, {} if told.cycle_s is None else {(): told.cycle_s})
    yield from _of_queues(told.queues)
    yield Family(_UNTAKEN, {(): float(told.untaken)})
    yield Family(_REASONS, {(reason,): float(gangs) for reason, gangs in told.waiting})
    yield Family(_REFUSED, {(reason,): float(gangs) for reason, gangs in told.refused})
    yield from _of_shapes(told.owners)
    yield Family(_ADMITTED, {(reason,): float(gangs) for reason, gangs in counts.admitted})
    yield Family(_EVICTED, {(reason,): float(gangs) for reason, gangs in counts.evicted})
    plain = {
        _LOST: counts.lost_gpu_s,
        _RECALLS: float(counts.recalls),
        _RECALL_S: counts.recall_s,
        _RETURN: counts.return_gpu_s,
        _FAILURES: float(counts.write_failures),
    }
    for metric, value in plain.items():
        yield Family(metric, {(): value})


def _of_queues(queues: tuple[QueueTold, ...]) -> Iterator[Family]:
    yield Family(_WAITING, {(queue.name,): float(queue.waiting) for queue in queues})
    yield Family(_RUNNING, {(queue.name,): float(queue.running) for queue in queues})
    yield Family(_SHARE, {(queue.name,): queue.share_ratio for queue in queues if queue.share_ratio is not None})
    yield Family(_SERVED, {(queue.name,): float(queue.served) for queue in queues})
    yield Family(_HEAD_AGE, {(queue.name,): queue.head_age_s for queue in queues if queue.head_age_s is not None})
    yield Family(_HEAD_LATE, {(queue.name,): queue.head_late_s for queue in queues if queue.head_late_s is not None})
    yield Family(_QUEUE_UNTAKEN, {(queue.name,): float(queue.untaken) for queue in queues})
    shapes = [((queue.name, shape.shape), shape) for queue in queues for shape in queue.shapes]
    yield Family(_USED, {labels: float(shape.used) for labels, shape in shapes})
    yield Family(_GUARANTEED, {labels: float(shape.guaranteed) for labels, shape in shapes})
    yield Family(_WANTED, {labels: float(shape.wanted) for labels, shape in shapes})


def _of_shapes(owners: tuple[OwnersTold, ...]) -> Iterator[Family]:
    yield Family(_UNITS, {(one.shape, owner): float(getattr(one, owner)) for one in owners for owner in OWNERS})
    yield Family(_WHOLE, {(one.shape,): float(one.whole_free) for one in owners})
    yield Family(_FRAGMENTED, {(one.shape,): 1.0 - one.whole_free / one.free for one in owners if one.free})
