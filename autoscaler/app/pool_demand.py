"""What workloads want of a warm pool: the demand that pools are sized by.

Enters: claims in force, the newest frames of their decisions, what their pods are made of. Leaves: a `ModelDemand` for
every workload of the pool's models, and the lowest priority among them. A workload is of the model that its label
``headroom.dev/model`` names, else of the one that is called as it is. It decides nothing.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.api.claims import Claim
from autoscaler.api.modes import Mode
from autoscaler.app.room import Room
from autoscaler.core.pool.params import SlotForm
from autoscaler.core.pool.world import ModelDemand
from autoscaler.record.stream import WorkloadFrame

MODEL: Final = "headroom.dev/model"

ACTING: Final = frozenset({Mode.ACTIVE, Mode.PAUSED_SCALE_IN})
"""Modes in which what is decided on comes true when it is more; in the others the count that stands is the demand."""


class Demands:
    """Answers for pools. `frame` gives a workload's newest frame."""

    def __init__(
        self,
        *,
        claims: Callable[[], Mapping[str, Claim]],
        mode: Callable[[Claim], Mode],
        frame: Callable[[str], WorkloadFrame | None],
        cluster: Cluster,
        room: Room,
    ) -> None:
        self._claims = claims
        self._mode = mode
        self._frame = frame
        self._cluster = cluster
        self._room = room

    def of(
        self, models: Collection[str], form: SlotForm, preempts: Callable[[str], bool] = lambda _: True
    ) -> tuple[ModelDemand, ...]:
        """What the workloads of these models want, in replicas of so many slots; `preempts` says whether pods of a
        PriorityClass take the place of lower ones."""
        return tuple(self._demand(claim, form, preempts) for claim in self._chosen(models))

    def priority(self, models: Collection[str], value: Callable[[str], int | None]) -> int:
        """The lowest priority of these workloads' pods; `value` gives that of a PriorityClass, the default's for ""."""
        names = {name for claim in self._chosen(models) if (name := self._room.priority_class(claim)) is not None}
        return min((found for name in names or {""} if (found := value(name)) is not None), default=0)

    def _chosen(self, models: Collection[str]) -> Iterator[Claim]:
        return (claim for claim in self._claims().values() if model_of(self._cluster, claim) in models)

    def _demand(self, claim: Claim, form: SlotForm, preempts: Callable[[str], bool]) -> ModelDemand:
        workload = claim.ref.workload
        frame, asked = self._frame(workload), self._room.asked(claim)
        acting = self._mode(claim) in ACTING
        wanted = asked if not acting else None if frame is None else max(frame.decision.after, asked or 0)
        reading = self._cluster.reading(claim.ref, asked or 0)
        return ModelDemand(
            workload=workload,
            model=model_of(self._cluster, claim),
            replicas=None if wanted is None else float(wanted),
            waiting=sum(start.unschedulable for start in reading.starting),
            forecast=None if frame is None else forecast_replicas(frame),
            slots_per_replica=max(1, math.ceil(self._room.gpus(claim) / form.count)),
            uses_claims=self._room.uses_resource_claims(claim),
            preempts=preempts(self._room.priority_class(claim) or ""),
        )


def model_of(cluster: Cluster, claim: Claim) -> str:
    """The model that a claimed workload serves: what its label names, else its own name."""
    target = cluster.target(claim.ref)
    labels = {} if target is None else target.metadata.labels
    return labels.get(MODEL, claim.ref.name)


def forecast_replicas(frame: WorkloadFrame) -> float | None:
    """The most replicas that the forecast's upper bound asks for, within the policy's maximum; None without one."""
    if frame.forecast_rps is None or not frame.replica_rps:
        return None
    return float(min(frame.max_replicas, math.ceil(frame.forecast_rps / frame.replica_rps - 1e-9)))
