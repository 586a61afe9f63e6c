"""What is written into a BatchQueue's status: counts, units and conditions, each with a reason and a sentence.

Enters: what one look says of a queue, and what outlives a restart. Leaves: the status as its model has it. Conditions
say what to do; a figure that only moves is in no message.
"""

from typing import Final

from autoscaler.api.batch_findings import TreeCode
from autoscaler.api.batch_queue_status import (
    BatchQueueStatus,
    QueueCondition,
    QueueMemory,
    ShapeUse,
    WaitingReason,
)
from autoscaler.api.status import Condition, Truth
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.record.batch import BatchTold, GangState, QueueTold
from autoscaler.record.batch_words import queue_sentence, queue_untaken

ALL_TAKEN: Final = "all of its gangs are looked at"
_LEFT_OUT: Final = frozenset(code.value for code in TreeCode if code.blocks)


def queue_status(queue: QueueTold, told: BatchTold, generation: int, memory: QueueMemory | None) -> BatchQueueStatus:
    """The status of one queue. Condition times are the look's own: whoever writes keeps those of what did not turn."""
    waiting: dict[str, int] = {}
    for gang in told.gangs:
        if gang.queue == queue.name and gang.state is GangState.WAITING:
            waiting[gang.reason] = waiting.get(gang.reason, 0) + 1
    if queue.untaken:
        waiting[BatchReason.UNTAKEN.name] = queue.untaken
    ranked = sorted(waiting.items(), key=lambda item: (-item[1], item[0]))
    return BatchQueueStatus(
        observed_generation=generation,
        waiting_gangs=queue.waiting,
        running_gangs=queue.running,
        used_gpus=sum(shape.used for shape in queue.shapes),
        share_ratio=None if queue.share_ratio is None else round(queue.share_ratio, 4),
        reason=ranked[0][0] if ranked else None,
        text=queue_sentence(queue),
        shapes=tuple(
            ShapeUse(
                shape=each.shape, guaranteed=each.guaranteed, used=each.used, wanted=each.wanted
            )
            for each in queue.shapes
        ),
        waiting=tuple(WaitingReason(reason=reason, gangs=count) for reason, count in ranked),
        memory=memory,
        conditions=tuple(_conditions(queue, told, generation)),
    )  # fmt: skip


def _conditions(queue: QueueTold, told: BatchTold, generation: int) -> list[Condition]:
    def condition(kind: QueueCondition, truth: Truth, reason: str, message: str) -> Condition:
        return Condition(
            type=kind.value, status=truth, observed_generation=generation, last_transition_time_s=told.now_s,
            reason=reason, message=message,
        )  # fmt: skip

    blocking = next(((code, words) for code, words in queue.findings if code in _LEFT_OUT), None)
    others = [(code, words) for code, words in queue.findings if code not in _LEFT_OUT]
    if blocking is not None:
        kept = "it is served as before" if queue.held else "nothing of it is served, and what runs is left alone"
        ready = condition(QueueCondition.READY, Truth.FALSE, blocking[0], f"{blocking[1]}; until then {kept}")
    else:
        ready = condition(QueueCondition.READY, Truth.TRUE, "Served", "the queue is part of the tree as it stands")
    if others:
        words = "; ".join(words for _, words in others)
        consistent = condition(QueueCondition.CONSISTENT, Truth.FALSE, others[0][0], words)
    else:
        fine = "it contradicts no other queue and no namespace"
        consistent = condition(QueueCondition.CONSISTENT, Truth.TRUE, "Consistent", fine)
    if told.acting:
        admitting = condition(QueueCondition.ADMITTING, Truth.TRUE, "Admitting", "gangs that fit are started")
    else:
        why = told.idle_reason or "it is only decided and told"
        admitting = condition(QueueCondition.ADMITTING, Truth.FALSE, "OnlyTold", why)
    if queue.untaken:
        untaken = condition(QueueCondition.TAKEN_IN, Truth.FALSE, "TooMany", queue_untaken(queue))
        return [ready, consistent, admitting, untaken]
    return [ready, consistent, admitting, condition(QueueCondition.TAKEN_IN, Truth.TRUE, "AllTakenIn", ALL_TAKEN)]
