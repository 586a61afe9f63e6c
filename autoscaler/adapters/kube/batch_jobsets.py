"""A JobSet as one piece of work: its replicated Jobs are the sets of one gang, which starts whole.

Enters: a JobSet of jobset.x-k8s.io/v1alpha2. Leaves: `Work`, or None for one that is a part of something else or is in
no queue. Pods that ask for nothing but CPU and memory start with the others and are not placed. A JobSet whose sets
wait for each other, or that asks for domains of its own, is read with a finding that stops it: no proof holds for it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from autoscaler.adapters.kube.batch_amounts import pod_asks
from autoscaler.adapters.kube.batch_objects import JobSet, JobSetSpec, ReplicatedJob, WorkPodSpec
from autoscaler.adapters.kube.batch_work import Notes, Work, WorkSet, epoch_s, is_part, managed_by, width
from autoscaler.adapters.kube.meta import Meta
from autoscaler.api.batch_work import WorkFinding, read_work
from autoscaler.api.claims import TargetRef

JOBSET: Final = "JobSet"
GROUP: Final = "jobset.x-k8s.io"
VERSION: Final = "v1alpha2"
RESOURCE: Final = "jobsets"
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
"""Label of every pod of a JobSet."""

CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"
EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
ENDS: Final = frozenset({"Completed", "Failed"})
STAGED: Final = "STAGED"
EXCLUDES: Final = "EXCLUSIVE"


def of_jobset(found: JobSet, now_s: float) -> Work | None:
    """A JobSet as a piece of work; None for one that is a part of another, or that nobody put into a queue."""
    meta, spec = found.metadata, found.spec
    if is_part(meta):
        return None
    templates = tuple(each.template.spec.template for each in spec.replicated_jobs)
    says = read_work(meta.labels, meta.annotations, now_s)
    created_s = epoch_s(meta.creation_timestamp) or now_s
    manager = managed_by(meta, templates, "" if spec.managed_by == CONTROLLER else spec.managed_by)
    if says is None and not manager:
        return None
    if says is not None:
        says = replace(says, findings=(*says.findings, *_findings(meta, spec)))
    ends = {each.type for each in found.status.conditions if each.status == "True"} & ENDS
    return Work(
        ref=TargetRef(GROUP, VERSION, RESOURCE, JOBSET, meta.namespace, meta.name, meta.uid),
        version=meta.resource_version,
        generation=meta.generation,
        suspend_at="/spec/suspend",
        created_s=created_s,
        suspended=spec.suspend,
        ended=meta.deletion_timestamp is not None or bool(ends),
        finished="Completed" in ends,
        manager=manager,
        says=says,
        sets=tuple(_sets(found)),
        annotations=meta.annotations,
        started_s=_resumed_s(found, created_s),
    )


def _placed(spec: JobSetSpec) -> list[tuple[int, ReplicatedJob]]:
    """The replicated Jobs whose pods are placed; all of them where none is, so that it is told what is missing."""
    every = list(enumerate(spec.replicated_jobs))
    asking = [
        (at, each)
        for at, each in every
        if each.replicas * width(each.template.spec) and _asks(each.template.spec.template.spec)
    ]
    return asking or every


def _asks(pod: WorkPodSpec) -> bool:
    """Whether a pod asks for anything that only some nodes have; an amount that cannot be read is one."""
    boxes = (*pod.containers, *pod.init_containers)
    given = [pair for box in boxes for pair in (*box.resources.limits.items(), *box.resources.requests.items())]
    return any("/" in name and str(amount) != "0" for name, amount in given)


def _sets(found: JobSet) -> Iterator[WorkSet]:
    """The sets with the pods that are left of each; all of their pods where none is left, since it is about to end."""
    placed = _placed(found.spec)
    over = {each.name: each.succeeded for each in found.status.replicated_jobs_status}
    left = [each.replicas - min(max(0, each.replicas), over.get(each.name, 0)) for _, each in placed]
    for (at, each), jobs in zip(placed, left, strict=True):
        yield _set(at, each, jobs if any(left) else each.replicas)


def _set(at: int, each: ReplicatedJob, jobs: int) -> WorkSet:
    template, root = each.template.spec.template, f"/spec/replicatedJobs/{at}/template/spec/template"
    notes = Notes(f"{root}/metadata", None if template.metadata is None else template.metadata.annotations)
    return WorkSet(
        f"{root}/spec", jobs * width(each.template.spec), template.spec, pod_asks(template.spec), each.name, notes
    )


def _findings(meta: Meta, spec: JobSetSpec) -> Iterator[WorkFinding]:
    in_order = spec.startup_policy.startup_policy_order == "InOrder"
    for at, each in _placed(spec):
        if each.depends_on or (in_order and at):
            where = f"spec.replicatedJobs[{at}].dependsOn" if each.depends_on else "spec.startupPolicy"
            value = f"{each.name} starts after others, and a gang starts whole"
            yield WorkFinding(where, value, "leave it out, and let the pods wait for each other", code=STAGED)
    carriers = (meta, *(each.template.metadata for each in spec.replicated_jobs))
    if any(EXCLUSIVE in each.annotations for each in carriers):
        value = "a domain for each Job alone, for which no room is proven"
        yield WorkFinding(EXCLUSIVE, value, "leave it out", code=EXCLUDES)


def _resumed_s(found: JobSet, created_s: float) -> float | None:
    """Since when it may run, where that is known: one that was never suspended, since it was made."""
    said = next((each for each in found.status.conditions if each.type == "Suspended"), None)
    if said is None:
        return None if found.spec.suspend else created_s
    return epoch_s(said.last_transition_time) if said.status == "False" else None
