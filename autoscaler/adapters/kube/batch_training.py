"""A job of Kubeflow's training operator as one piece of work: its replicas are the sets of a gang, which starts whole.

Enters: a PyTorchJob or TFJob of kubeflow.org/v1. Leaves: `Work`, or None for one that is a part of something else or is
in no queue. Pods that ask for nothing but CPU and memory, such as parameter servers, start with the others and are not
placed. The operator lets templates be changed, so that affinity holds the pods. A stop takes away all pods, those that
have ended well too: whoever waits wants all of them again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.batch_amounts import pod_asks
from autoscaler.adapters.kube.batch_objects import WorkTemplate
from autoscaler.adapters.kube.batch_widths import WorkWidth, fixed, read_width, with_width
from autoscaler.adapters.kube.batch_work import Work, WorkSet, claimed, epoch_s, placed_sets
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_objects import Said
from autoscaler.api.batch_work import WorkFinding, WorkSays
from autoscaler.api.claims import TargetRef

GROUP: Final = "kubeflow.org"
VERSION: Final = "v1"
CONTROLLER: Final = "kubeflow.org/training-operator"
ENDS: Final = frozenset({"Succeeded", "Failed"})
ELASTIC: Final = "ELASTIC"
WORKERS: Final = "Worker"
"""The replicas of which there may be more or fewer."""


class Replica(msgspec.Struct, frozen=True, gc=False):
    """Equal pods of a job; left out, one."""

    replicas: int | None = None
    template: WorkTemplate = WorkTemplate()


class SchedulingPolicy(msgspec.Struct, frozen=True, gc=False):
    """What a scheduler of gangs is told."""

    queue: str = ""


class RunPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whether a job may run, and who sees to it."""

    suspend: bool = False
    managed_by: str = ""
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()


class ElasticPolicy(msgspec.Struct, frozen=True, gc=False):
    """By what the operator has the workers of a PyTorchJob scaled."""

    metrics: tuple[dict[str, Any], ...] = ()


class TrainingSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a job shall be. Only that field of replicas is there that its kind has."""

    run_policy: RunPolicy | None = None
    elastic_policy: ElasticPolicy = ElasticPolicy()
    pytorch_replica_specs: dict[str, Replica] = {}
    tf_replica_specs: dict[str, Replica] = {}


class ReplicaStatus(msgspec.Struct, frozen=True, gc=False):
    """How many of equal pods have ended well."""

    succeeded: int = 0


class TrainingStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far a job is. The start is that of its last resumption."""

    start_time: datetime | None = None
    conditions: tuple[Said, ...] = ()
    replica_statuses: dict[str, ReplicaStatus] = {}


class TrainingJob(msgspec.Struct, frozen=True, gc=False):
    """A job of any kind of the operator's."""

    metadata: Meta = Meta()
    spec: TrainingSpec = TrainingSpec()
    status: TrainingStatus = TrainingStatus()


@dataclass(frozen=True, slots=True)
class TrainingKind:
    """One kind of job: its names, and where its replicas stand."""

    kind: str
    resource: str
    replicas_at: str
    replicas: Callable[[TrainingSpec], Mapping[str, Replica]]

    @property
    def path(self) -> str:
        """Where all of its objects are listed."""
        return f"/apis/{GROUP}/{VERSION}/{self.resource}"

    def read(self, found: TrainingJob, now_s: float) -> Work | None:
        """A job as a piece of work; None for one that is a part of another, or that nobody put into a queue."""
        meta, spec, policy = found.metadata, found.spec, found.spec.run_policy or RunPolicy()
        replicas = sorted(self.replicas(spec).items())
        known = claimed(meta, [each.template for _, each in replicas], _manager(policy), now_s)
        if known is None:
            return None
        says, manager = known
        sets = placed_sets([self._set(name, each, found, is_over=policy.suspend) for name, each in replicas])
        wide = self._width(found, sets, says)
        if says is not None:
            says = fixed(says, f"it has no {WORKERS}s with GPUs") if wide is None else with_width(says, wide)
            says = replace(says, findings=(*says.findings, *self._findings(spec)))
        true = {each.type for each in found.status.conditions if each.status == "True"}
        return Work(
            ref=TargetRef(GROUP, VERSION, self.resource, self.kind, meta.namespace, meta.name, meta.uid),
            version=meta.resource_version,
            generation=meta.generation,
            suspend_at="/spec/runPolicy/suspend",
            suspend_in="" if spec.run_policy is not None else "/spec/runPolicy",
            created_s=epoch_s(meta.creation_timestamp) or now_s,
            suspended=policy.suspend,
            ended=meta.deletion_timestamp is not None or bool(true & ENDS),
            finished="Succeeded" in true,
            manager=manager,
            says=says,
            sets=sets,
            annotations=meta.annotations,
            started_s=None if "Suspended" in true else epoch_s(found.status.start_time),
            width=wide,
        )

    def _width(self, found: TrainingJob, sets: Sequence[WorkSet], says: WorkSays | None) -> WorkWidth | None:
        """How many workers it may have; the other replicas are as many as are written."""
        at = next((at for at, each in enumerate(sets) if each.name == WORKERS), None)
        if at is None:
            return None
        replicas = self.replicas(found.spec)[WORKERS].replicas
        path = f"/spec/{self.replicas_at}/{WORKERS}/replicas"
        return read_width(says, found.metadata.annotations, 1 if replicas is None else replicas, (path,), pod_set=at)

    def _findings(self, spec: TrainingSpec) -> Iterator[WorkFinding]:
        if not self.replicas(spec):
            yield WorkFinding(f"spec.{self.replicas_at}", "there are none", "give replicas with a template")
        if spec.elastic_policy.metrics:
            value = "the operator has an HPA scale its workers, and a gang is as wide as it was proven to fit"
            yield WorkFinding("spec.elasticPolicy.metrics", value, "leave it out, and give replicas", code=ELASTIC)

    def _set(self, name: str, each: Replica, found: TrainingJob, *, is_over: bool) -> tuple[WorkSet, int]:
        """The pods of one template, with how many are left to end; all of them where a stop has taken them away."""
        at = f"/spec/{self.replicas_at}/{name.replace('~', '~0').replace('/', '~1')}/template/spec"
        pods = 1 if each.replicas is None else each.replicas
        status = found.status.replica_statuses.get(name)
        ended = 0 if is_over or status is None else min(max(0, pods), status.succeeded)
        return WorkSet(at, pods, each.template.spec, pod_asks(each.template.spec), name), pods - ended


TRAINING: Final = (
    TrainingKind("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs", lambda spec: spec.pytorch_replica_specs),
    TrainingKind("TFJob", "tfjobs", "tfReplicaSpecs", lambda spec: spec.tf_replica_specs),
)
"""The kinds that are read."""

KINDS: Final = frozenset(each.kind for each in TRAINING)


def _manager(policy: RunPolicy) -> str:
    """Who else manages a job by its own word: only Volcano has the queue that a scheduling policy names."""
    named = "" if policy.managed_by == CONTROLLER else policy.managed_by
    return named or ("Volcano" if policy.scheduling_policy.queue else "")
