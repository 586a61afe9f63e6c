"""A JobSet as one piece of work: its replicated Jobs are the sets of one gang, which starts whole.

Enters: a JobSet of jobset.x-k8s.io/v1alpha2. Leaves: `Work`, or None for one that is a part of something else or is in
no queue. Pods that ask for nothing but CPU and memory start with the others and are not placed. A JobSet whose sets
wait for each other, or that asks for domains of its own, is read with a finding that stops it: no proof holds for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from autoscaler.adapters.kube.batch_amounts import pod_asks
from autoscaler.adapters.kube.batch_objects import JobSet
from autoscaler.adapters.kube.batch_widths import fixed
from autoscaler.adapters.kube.batch_work import Notes, Work, WorkSet, claimed, epoch_s, placed_sets, width
from autoscaler.api.batch_work import WorkFinding
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
    templates = [each.template.spec.template for each in spec.replicated_jobs]
    known = claimed(meta, templates, "" if spec.managed_by == CONTROLLER else spec.managed_by, now_s)
    if known is None:
        return None
    says, manager = known
    created_s = epoch_s(meta.creation_timestamp) or now_s
    sets = placed_sets(list(jobset_sets(found)))
    if says is not None:
        says = fixed(says, "JobSet lets nobody change how many pods it has")
        says = replace(says, findings=(*says.findings, *jobset_findings(found, sets)))
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
        sets=sets,
        annotations=meta.annotations,
        started_s=resumed_s(found, created_s),
    )


def jobset_sets(found: JobSet) -> Iterator[tuple[WorkSet, int]]:
    """Each set with all of its pods, and those that are left: Jobs that ended well are not made again."""
    over = {each.name: each.succeeded for each in found.status.replicated_jobs_status}
    for at, each in enumerate(found.spec.replicated_jobs):
        template, root = each.template.spec.template, f"/spec/replicatedJobs/{at}/template/spec/template"
        notes = Notes(f"{root}/metadata", None if template.metadata is None else template.metadata.annotations)
        pods, asks = width(each.template.spec), pod_asks(template.spec)
        left = each.replicas - min(max(0, each.replicas), over.get(each.name, 0))
        yield WorkSet(f"{root}/spec", each.replicas * pods, template.spec, asks, each.name, notes), left * pods


def jobset_findings(found: JobSet, sets: Sequence[WorkSet]) -> Iterator[WorkFinding]:
    """Why no proof holds for a JobSet of which these sets are placed."""
    meta, spec, placed = found.metadata, found.spec, {each.name for each in sets}
    in_order = spec.startup_policy.startup_policy_order == "InOrder"
    for at, each in enumerate(spec.replicated_jobs):
        if each.name in placed and (each.depends_on or (in_order and at)):
            where = f"spec.replicatedJobs[{at}].dependsOn" if each.depends_on else "spec.startupPolicy"
            value = f"{each.name} starts after others, and a gang starts whole"
            yield WorkFinding(where, value, "leave it out, and let the pods wait for each other", code=STAGED)
    carriers = (meta, *(each.template.metadata for each in spec.replicated_jobs))
    if any(EXCLUSIVE in each.annotations for each in carriers):
        value = "a domain for each Job alone, for which no room is proven"
        yield WorkFinding(EXCLUSIVE, value, "leave it out", code=EXCLUDES)


def resumed_s(found: JobSet, created_s: float) -> float | None:
    """Since when it may run, where that is known: one that was never suspended, since it was made."""
    said = next((each for each in found.status.conditions if each.type == "Suspended"), None)
    if said is None:
        return None if found.spec.suspend else created_s
    return epoch_s(said.last_transition_time) if said.status == "False" else None
