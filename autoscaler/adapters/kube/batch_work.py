"""One piece of batch work, whatever its kind: what it asks for, whether it may run, who manages it, where it was put.

Enters: objects as they are followed. Leaves: `Work`, read once when the object changes. Where a gang was put stands in
an annotation of the object, written with its admission, so that whoever starts anew knows it before a pod is bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.batch_amounts import PodAsks, asks_devices, pod_asks
from autoscaler.adapters.kube.batch_members import Member, Seat
from autoscaler.adapters.kube.batch_objects import Job, JobSpec, WorkPodSpec, WorkTemplate
from autoscaler.adapters.kube.batch_widths import WorkWidth, read_width, with_width
from autoscaler.adapters.kube.meta import Meta
from autoscaler.api.annotations import PREFIX
from autoscaler.api.batch_work import WorkSays, read_work
from autoscaler.api.claims import TargetRef

PLACEMENT: Final = PREFIX + "placement"
"""Annotation: where the gang was put, as JSON: nodes, each with its shape and the pods of each set."""

HOSTS: Final = PREFIX + "hosts"
"""Annotation of a pod: the nodes that it is held to, by their hostnames; a policy of the API server sees to it."""

LOAN: Final = PREFIX + "loan"
"""Annotation: of whom the gang has GPUs on loan, for people, as JSON; the placement says how many where."""

AFFINITY: Final = PREFIX + "affinity"
"""Annotation: the affinity of each pod template as its author wrote it, as JSON; ours is added to it anew each time."""

KUEUE: Final = "kueue.x-k8s.io/"
OWNERS: Final = frozenset({"JobSet", "TrainJob", "PyTorchJob", "TFJob", "MPIJob", "RayJob", "RayCluster", "AppWrapper"})
"""Kinds whose Jobs are a part of a gang and none by themselves."""

SCHEDULERS: Final = {
    "volcano": "Volcano", "kai-scheduler": "KAI", "yunikorn": "YuniKorn", "runai-scheduler": "Run:ai",
}  # fmt: skip
"""Schedulers that admit by themselves, by the name that pods ask for."""

JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
INDEXED: Final = "Indexed"
ENDS: Final = frozenset({"Complete", "Failed"})


class Put(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Pods of one set on one node."""

    node: str
    shape: str
    pod_set: int
    pods: int
    lent: int = 0
    """Units of the node that serving lent the gang, and calls back when it needs them."""


class _Expression(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(msgspec.Struct, rename="camel"):
    match_expressions: list[_Expression] | None = None
    match_fields: list[_Expression] | None = None


class _Required(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(msgspec.Struct):
    required: _Required | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class _Affinity(msgspec.Struct, rename="camel"):
    """What is read of an affinity: the annotation that keeps one is anybody's to edit who may edit the object."""

    node_affinity: _NodeAffinity | None = None


_puts: Final = msgspec.json.Decoder(tuple[Put, ...])
_affinities: Final = msgspec.json.Decoder(tuple[dict[str, Any] | None, ...])
_formed: Final = msgspec.json.Decoder(tuple[_Affinity | None, ...])


@dataclass(frozen=True, slots=True)
class Notes:
    """The annotations of a template whose affinity is nobody's to change: its pods are held by one of them."""

    at: str
    """Where the template's metadata stand."""
    kept: Mapping[str, str] | None
    """None for a template without metadata."""


@dataclass(frozen=True, slots=True)
class WorkSet:
    """Equal pods of a piece of work; `at` is where the specification of their template stands in the object.

    Of pods without one it is their form.
    """

    at: str
    pods: int
    """That run at once; 0 where all of a set have ended well and those of another one have not."""
    template: WorkPodSpec
    asks: PodAsks
    name: str = ""
    notes: Notes | None = None
    """None where its affinity holds the pods."""


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of batch work."""

    ref: TargetRef
    version: str
    """Of the object, for a write that must not meet another one."""
    generation: int
    suspend_at: str
    """Where it stands in the object whether it may run."""
    created_s: float
    suspended: bool
    ended: bool
    """It is over, or is being deleted: its pods go, and no others come."""
    finished: bool
    """It ended well, by itself."""
    manager: str
    """Who else manages it; empty for nobody."""
    says: WorkSays | None
    sets: tuple[WorkSet, ...]
    annotations: Mapping[str, str]
    started_s: float | None = None
    suspend_in: str = ""
    """What that stands in, where it is not there either; empty where it is."""
    members: tuple[Member, ...] = ()
    """The pods themselves that are not over, where no object stands above them."""
    seats: tuple[Seat, ...] = ()
    """Of such pods: where they were put."""
    width: WorkWidth | None = None
    """None for work that starts with as many pods as are written."""
    overrides: tuple[Mapping[str, Any], ...] | None = None
    """What its author overrides of pod templates, where pods are held to nodes by a further one; None elsewhere."""
    held_to: tuple[str, ...] = ()
    """The hosts that such further ones name, as they stand in the object."""

    @property
    def can_be_stopped(self) -> bool:
        """Whether it can be suspended once it runs: pods cannot be gated again, and are nobody's to delete."""
        return not self.members

    @property
    def name(self) -> str:
        """Kind, namespace and name, which nobody else has."""
        return gang_name(self.ref.kind, self.ref.namespace, self.ref.name)

    @property
    def about(self) -> TargetRef:
        """The object that is told of it: of pods the first one, as nothing stands above them."""
        return replace(self.ref, kind="Pod", name=self.members[0].name) if self.members else self.ref

    @property
    def priority_class(self) -> str:
        """The PriorityClass of its pods, empty where they name none."""
        return self.sets[0].template.priority_class_name if self.sets else ""

    @property
    def placed(self) -> tuple[int, ...]:
        """The sets that have pods to place, by number; all of them where none has, so that it is told."""
        return tuple(at for at, each in enumerate(self.sets) if each.pods) or tuple(range(len(self.sets)))

    @property
    def is_held_by_notes(self) -> bool:
        """Whether only a policy of the API server holds its pods to nodes."""
        return any(each.notes is not None for each in self.sets)

    @property
    def put(self) -> tuple[Put, ...]:
        """Where it was put; empty where nobody wrote it, or where it cannot be read any more."""
        if self.members:
            numbers = {each.at: at for at, each in enumerate(self.sets)}
            return tuple(Put(s.node, s.shape, numbers[s.form], 1) for s in self.seats if s.form in numbers)
        return _read(_puts, self.annotations.get(PLACEMENT, ""))

    @property
    def affinities(self) -> tuple[dict[str, Any] | None, ...]:
        """The affinity of each set as its author wrote it."""
        if PLACEMENT not in self.annotations or self.is_held_by_notes:
            return tuple(each.template.affinity for each in self.sets)
        text = self.annotations.get(AFFINITY, "")
        kept: tuple[dict[str, Any] | None, ...] = _read(_affinities, text) if _read(_formed, text) else ()
        return kept if len(kept) == len(self.sets) else (None,) * len(self.sets)


def gang_name(kind: str, namespace: str, name: str) -> str:
    """What a gang is called everywhere."""
    return f"{kind.lower()}/{namespace}/{name}"


def of_job(job: Job, now_s: float) -> Work | None:
    """A Job as a piece of work; None for one that is a part of another, or that nobody put into a queue."""
    meta, spec = job.metadata, job.spec
    known = claimed(meta, (spec.template,), "" if spec.managed_by == JOB_CONTROLLER else spec.managed_by, now_s)
    if known is None:
        return None
    says, manager = known
    pods, wide = width(spec, job.status.succeeded), _width(job, says)
    return Work(
        ref=TargetRef("batch", "v1", "jobs", "Job", meta.namespace, meta.name, meta.uid),
        version=meta.resource_version,
        generation=meta.generation,
        suspend_at="/spec/suspend",
        created_s=epoch_s(meta.creation_timestamp) or now_s,
        suspended=spec.suspend,
        ended=meta.deletion_timestamp is not None
        or any(each.type in ENDS and each.status == "True" for each in job.status.conditions),
        finished=any(each.type == "Complete" and each.status == "True" for each in job.status.conditions),
        manager=manager,
        says=None if says is None else with_width(says, wide),
        sets=(WorkSet("/spec/template/spec", pods, spec.template.spec, pod_asks(spec.template.spec)),),
        annotations=meta.annotations,
        started_s=epoch_s(job.status.start_time),
        width=wide,
    )


def _width(job: Job, says: WorkSays | None) -> WorkWidth | None:
    """How wide a Job may be. An Indexed one whose pods run all at once is as many pods as it has indexes: both change
    together, and neither does once one has ended well."""
    spec, over = job.spec, job.status.succeeded
    pods = 1 if spec.parallelism is None else spec.parallelism
    at = "/spec/parallelism"
    if spec.completion_mode == INDEXED and spec.completions == pods:
        together = (at, "/spec/completions")
        return None if over else read_width(says, job.metadata.annotations, pods, together)
    left = None if spec.completions is None or spec.completions <= over else spec.completions - over
    return read_width(says, job.metadata.annotations, pods, (at,), left=left)


def claimed(
    meta: Meta, templates: Sequence[WorkTemplate], named: str, now_s: float
) -> tuple[WorkSays | None, str] | None:
    """What an object says of itself, and who else manages it, who may be `named` in it; empty for nobody.

    None for one that is a part of other work, and for one of nobody's.
    """
    if any(each.controller and each.kind in OWNERS for each in meta.owner_references):
        return None
    says, manager = read_work(meta.labels, meta.annotations, now_s), _managed_by(meta, templates, named)
    return None if says is None and not manager else (says, manager)


def placed_sets(every: Sequence[tuple[WorkSet, int]]) -> tuple[WorkSet, ...]:
    """The sets whose pods are placed, each with the pods that are left to end, which stand beside it.

    All sets where none asks for anything that is placed, so that it is told what is missing; all pods where none is
    left, since it is about to end.
    """
    asking = [(each, left) for each, left in every if each.pods and asks_devices(each.template)] or every
    is_under_way = any(left for _, left in asking)
    return tuple(replace(each, pods=left) if is_under_way else each for each, left in asking)


def width(spec: JobSpec, succeeded: int = 0) -> int:
    """Pods of a Job that run at once, where so many have ended well: those are not made again.

    Once all have, it is as wide as at first: it is about to end, and wants nothing that could be proven.
    """
    most = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return most
    left = spec.completions - succeeded
    return min(most, left if left > 0 else spec.completions)


def _managed_by(meta: Meta, templates: Sequence[WorkTemplate], named: str) -> str:
    """Who else manages an object: who is `named` in it, Kueue by a label, a scheduler; empty for nobody."""
    if named:
        return named
    if any(key.startswith(KUEUE) for key in meta.labels):
        return "Kueue"
    return next(_schedulers(templates), "")


def _schedulers(templates: Sequence[WorkTemplate]) -> Iterator[str]:
    for template in templates:
        if template.spec.scheduler_name in SCHEDULERS:
            yield SCHEDULERS[template.spec.scheduler_name]


def epoch_s(at: datetime | None) -> float | None:
    """An instant in seconds since 1970; None where there is none."""
    return None if at is None else at.timestamp()


def _read(decoder: msgspec.json.Decoder[tuple[Any, ...]], text: str) -> tuple[Any, ...]:
    """What we wrote; nothing where somebody else edited it beyond reading."""
    try:
        return decoder.decode(text) if text else ()
    except (RecursionError, msgspec.DecodeError):
        return ()
