"""The product's own batch admission behind the simulator's policy: core/batch as it is, nothing added.

Enters: what happens in a plant. Leaves: the cycles' orders. Each tenant is a queue, with what it is guaranteed or, all
of them borrowing, by fair share alone; or all stand in one queue, for who wants to see what fairness costs. The driver
looks once more when a gang has waited long enough to hold a reservation, when its grace is over, and each minute while
anybody waits; the live one does every few seconds.
"""

import heapq
from enum import Enum
from typing import Final

from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.gangs import Form, Gang, PodSet
from autoscaler.core.batch.params import UNLIMITED, BatchParams, QueueSpec, Quota, Shape
from autoscaler.core.batch.room import Room
from autoscaler.errors import HeadroomError
from autoscaler.sim.batch.plant import Orders
from autoscaler.sim.batch.work import Case, Job

LOOK_EVERY_S: Final = 60.0
"""While a gang waits: searches for victims that were in vain are made again after as long."""

ALL: Final = "all"
"""The one queue, where there is one."""


class Queues(Enum):
    """How tenants become queues."""

    FAIR = "fair"
    GUARANTEED = "guaranteed"
    ONE = "one"


class Headroom:
    """Our policy for one case and one run."""

    lendable = False
    """Whether gangs offer to run on GPUs that serving lends."""

    def __init__(self, name: str, case: Case, queues: Queues) -> None:
        self.name, self._case = name, case
        self._one = queues is Queues.ONE
        self.room = Room(params_of(case, queues))
        self.room.see(case.nodes, (), 0.0)
        self.cycles = Cycles(self.room)
        self._index = {node.name: at for at, node in enumerate(case.nodes)}
        self._gpus = {job.name: job.gpus for job in case.jobs}
        self._looks: list[tuple[float, str]] = []
        self._looks_after_s = self.room.params.reserve_after_s, case.grace_s

    def submit(self, job: Job, now_s: float) -> None:
        """A gang is submitted. HeadroomError where it is refused, which no case's job is."""
        recovery = self._case.recovery
        form = Form((PodSet(job.pods, job.gpus, job.shape),))
        gang = Gang(
            job.name, ALL if self._one else job.tenant, form, job.submit_s, job.priority, job.expected_s,
            notice_s=recovery.notice_s, restart_s=recovery.restart_s, lendable=self.lendable,
        )  # fmt: skip
        refused = self.room.submit(gang, now_s)
        if refused is not None:
            raise HeadroomError(f"{self.name} refuses {job.name}: {refused.what}; {refused.remedy}")
        for after_s in self._looks_after_s:
            heapq.heappush(self._looks, (now_s + after_s, job.name))

    def ended(self, job: Job, now_s: float) -> None:
        """A gang ended."""
        self.room.finish(job.name, now_s)

    def left(self, job: Job, now_s: float) -> None:
        """A gang left as it was asked to."""
        self.room.left(job.name, now_s)

    def saved(self, job: Job, now_s: float) -> None:
        """A gang wrote a checkpoint."""
        self.room.checkpointed(job.name, now_s)

    def decide(self, now_s: float) -> Orders:
        """One cycle."""
        while True:
            done = self.cycles.cycle(now_s)
            if done.admitted or done.evicted or not done.more:
                break
        starts = []
        for admitted in done.admitted:
            gpus = self._gpus[admitted.gang]
            spots: dict[int, int] = {}
            for spot in admitted.spots:
                node = self._index[spot.node]
                spots[node] = spots.get(node, 0) + spot.pods * gpus
            starts.append((admitted.gang, tuple(spots.items())))
        return Orders(tuple(starts), tuple(each.gang for each in done.evicted), self._again_s(now_s))

    def _again_s(self, now_s: float) -> float | None:
        waiting = self.room.backlog.waiting
        while self._looks and (self._looks[0][0] <= now_s or self._looks[0][1] not in waiting):
            heapq.heappop(self._looks)
        soon_s = now_s + LOOK_EVERY_S
        return min(soon_s, self._looks[0][0]) if self._looks else soon_s if waiting else None


def params_of(case: Case, how: Queues) -> BatchParams:
    """The case's tenants as queues, below their cohorts if they have any; all else at its default."""
    shapes = tuple(Shape(name) for name in case.gpus)
    if how is Queues.ONE:
        return BatchParams(shapes, (QueueSpec(ALL),))
    guarantees = how is Queues.GUARANTEED
    queues: dict[str, QueueSpec] = {}
    for tenant in case.tenants:
        if tenant.cohort is not None and tenant.cohort not in queues:
            mine = sum(each.guaranteed for each in case.tenants if each.cohort == tenant.cohort)
            quota = Quota(mine if guarantees else 0, mine)
            queues[tenant.cohort] = QueueSpec(tenant.cohort, quotas=dict.fromkeys(case.gpus, quota))
        most = UNLIMITED if tenant.borrowable is None else tenant.guaranteed + tenant.borrowable
        quotas = {
            shape: Quota(tenant.guaranteed * gpus // case.total_gpus if guarantees else 0, most)
            for shape, gpus in case.gpus.items()
        }
        queues[tenant.name] = QueueSpec(tenant.name, tenant.cohort, quotas=quotas, grace_s=case.grace_s)
    return BatchParams(shapes, tuple(queues.values()))
