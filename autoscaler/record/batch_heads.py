"""How long the first gang of each queue waits, and by how much longer than it was told at first.

Enters: one look after another. Leaves: the same look with both figures on its queues. A forecast moves with what is
known, so that one that is always missed would never show: what counts is the first that a gang was told since it
waits. It is remembered as long as the process lives; the next leader begins with what it tells itself.
"""

from dataclasses import replace

from autoscaler.record.batch import BatchTold, GangState, GangTold


class Heads:
    """Remembers the latest start that each waiting gang was told first, of those whose start is forecast."""

    def __init__(self) -> None:
        self._latest_s: dict[str, float] = {}

    def seen(self, told: BatchTold) -> BatchTold:
        """`told` with the wait and the lateness of the first gang of each queue."""
        waiting = [gang for gang in told.gangs if gang.state is GangState.WAITING]
        self._latest_s = {gang.key: latest_s for gang in waiting if (latest_s := self._latest(gang)) is not None}
        heads: dict[str, GangTold] = {}
        for gang in waiting:
            if gang.position == 1:
                heads[gang.queue] = min(heads.get(gang.queue, gang), gang, key=lambda one: one.created_s)
        queues = []
        for queue in told.queues:
            head = heads.get(queue.name)
            if head is None:
                queues.append(queue)
                continue
            latest_s = self._latest_s.get(head.key)
            late_s = None if latest_s is None else max(0.0, told.now_s - latest_s)
            queues.append(replace(queue, head_age_s=max(0.0, told.now_s - head.created_s), head_late_s=late_s))
        return replace(told, queues=tuple(queues))

    def _latest(self, gang: GangTold) -> float | None:
        first_s = self._latest_s.get(gang.key)
        return gang.start_p90_s if first_s is None else first_s
