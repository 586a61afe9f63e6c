"""The fields that are read of batch work and of what it runs on; see `objects` for the rules.

Jobs are those of batch/v1, JobSets those of jobset.x-k8s.io/v1alpha2. Pods are read here with what they hold and where,
and without what serving pods are asked for; those with the label of a queue as templates are. Affinity is kept as it
was written: it is given back whole, with our part added.
"""

from datetime import datetime
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.meta import Amounts, Meta
from autoscaler.adapters.kube.pool_objects import Said


class _KeptFor(msgspec.Struct, frozen=True, gc=False):
    gang: str = ""


class _Memory(msgspec.Struct, frozen=True, gc=False):
    reservations: tuple[_KeptFor, ...] = ()


class _Status(msgspec.Struct, frozen=True, gc=False):
    memory: _Memory = _Memory()


_status: Final = msgspec.json.Decoder(_Status)


class BatchQueueObject(msgspec.Struct, frozen=True, gc=False):
    """A BatchQueue, its spec and status undecoded: another room reads and words their faults."""

    metadata: Meta = Meta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")

    def kept_for(self) -> tuple[str, ...]:
        """The gangs for which its status says that GPUs are kept; none where it cannot be read."""
        try:
            return tuple(each.gang for each in _status.decode(self.status).memory.reservations)
        except (RecursionError, msgspec.DecodeError):
            return ()


class Toleration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def covers(self, key: str) -> bool:
        """Whether it is enough for a taint of a key, whatever that one's value and effect are."""
        return self.operator == "Exists" and not self.effect and self.key in {key, ""}


class Asks(msgspec.Struct, frozen=True, gc=False):
    """What a container asks for and may use at most."""

    limits: Amounts = {}
    requests: Amounts = {}


class Box(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One container of a pod; an init container that restarts always runs beside the others."""

    resources: Asks = Asks()
    restart_policy: str = ""


class WorkPodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod of a template shall be."""

    containers: tuple[Box, ...] = ()
    init_containers: tuple[Box, ...] = ()
    overhead: Amounts = {}
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] | None = None
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    scheduler_name: str = ""


class Gate(msgspec.Struct, frozen=True, gc=False):
    """A scheduling gate: the scheduler leaves a pod alone that has one."""

    name: str = ""


class QueuedPodSpec(WorkPodSpec, frozen=True, gc=False, rename="camel"):
    """A pod that may be a gang by itself, or one of a group."""

    node_name: str = ""
    scheduling_gates: tuple[Gate, ...] = ()


class QueuedPodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far such a pod is."""

    phase: str = ""
    start_time: datetime | None = None


class QueuedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod with the label of a queue."""

    metadata: Meta = Meta()
    spec: QueuedPodSpec = QueuedPodSpec()
    status: QueuedPodStatus = QueuedPodStatus()


class WorkTemplate(msgspec.Struct, frozen=True, gc=False):
    """The template of a Job's pods; its metadata need not be there."""

    metadata: Meta | None = None
    spec: WorkPodSpec = WorkPodSpec()


class JobSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many pods, of which kind, and whether they may run."""

    suspend: bool = False
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = ""
    managed_by: str = ""
    template: WorkTemplate = WorkTemplate()


class JobStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far a Job is."""

    start_time: datetime | None = None
    succeeded: int = 0
    conditions: tuple[Said, ...] = ()


class Job(msgspec.Struct, frozen=True, gc=False):
    """A Job."""

    metadata: Meta = Meta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(msgspec.Struct, frozen=True, gc=False):
    """What the Jobs of a JobSet shall be."""

    metadata: Meta = Meta()
    spec: JobSpec = JobSpec()


class ReplicatedJob(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Equal Jobs of a JobSet, and what has to happen before they are made."""

    name: str = ""
    replicas: int = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[dict[str, Any], ...] = ()


class StartupPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """In which order the Jobs of a JobSet start."""

    startup_policy_order: str = ""


class JobSetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The Jobs of a JobSet, and whether they may run."""

    suspend: bool = False
    managed_by: str = ""
    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy = StartupPolicy()


class ReplicatedJobStatus(msgspec.Struct, frozen=True, gc=False):
    """How many of the equal Jobs of a JobSet have ended well."""

    name: str = ""
    succeeded: int = 0


class JobSetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far a JobSet is."""

    conditions: tuple[Said, ...] = ()
    replicated_jobs_status: tuple[ReplicatedJobStatus, ...] = ()


class JobSet(msgspec.Struct, frozen=True, gc=False):
    """A JobSet."""

    metadata: Meta = Meta()
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()


class WorkPodPlace(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a pod is and what it holds there."""

    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[Gate, ...] = ()
    containers: tuple[Box, ...] = ()
    init_containers: tuple[Box, ...] = ()
    overhead: Amounts = {}
    node_selector: dict[str, str] | None = None
    """Held while it is not bound."""

    def __post_init__(self) -> None:
        if self.node_name and self.node_selector is not None:
            msgspec.structs.force_setattr(self, "node_selector", None)


class WorkPodStatus(msgspec.Struct, frozen=True, gc=False):
    """How far a pod is."""

    phase: str = ""


class WorkPod(msgspec.Struct, frozen=True, gc=False):
    """Any pod of the cluster."""

    metadata: Meta = Meta()
    spec: WorkPodPlace = WorkPodPlace()
    status: WorkPodStatus = WorkPodStatus()
