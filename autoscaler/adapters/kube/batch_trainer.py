"""A TrainJob of Kubeflow's Trainer as one piece of work: it is let in and stopped itself, the JobSet below it never is.

Enters: a TrainJob of trainer.kubeflow.org/v1alpha1, the runtime that it names. Leaves: `Work`, whose sets are those of
the JobSet that the Trainer makes of both, and while it runs those of the JobSet that was made: the runtime may have
been edited since. Where a runtime cannot be read the sizes are not known, which holds the work back with the reason.
Its pods are told to which nodes they are held by an override of their templates; the Trainer lets overrides be changed
only while the job is suspended, so that another patch than theirs lets it start.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.batch_jobsets import jobset_findings, jobset_sets, resumed_s
from autoscaler.adapters.kube.batch_objects import JobSet, JobSetSpec, JobSetStatus, ReplicatedJobStatus, Toleration
from autoscaler.adapters.kube.batch_runtimes import CLUSTER_RUNTIME, RuntimeRef, TrainingRuntime, TrainJob, jobset_spec
from autoscaler.adapters.kube.batch_widths import fixed
from autoscaler.adapters.kube.batch_work import HOSTS, Put, Work, claimed, epoch_s, gang_name, placed_sets
from autoscaler.adapters.kube.meta import Meta
from autoscaler.api.batch_work import WorkFinding
from autoscaler.api.claims import TargetRef

TRAINJOB: Final = "TrainJob"
GROUP: Final = "trainer.kubeflow.org"
VERSION: Final = "v1alpha1"
RESOURCE: Final = "trainjobs"
ROOT: Final = f"/apis/{GROUP}/{VERSION}"
CONTROLLER: Final = "trainer.kubeflow.org/trainjob-controller"
ENDS: Final = frozenset({"Complete", "Failed"})
OVERRIDES: Final = "/spec/podTemplateOverrides"
UNSIZED: Final = "RUNTIME"
UNKNOWN: Final = "has not been read"


def of_trainjob(found: TrainJob, now_s: float) -> Work | None:
    """A TrainJob of whose runtime nothing is known."""
    return with_runtime(found, now_s, UNKNOWN)


def runtime_key(namespace: str, ref: RuntimeRef) -> str:
    """Under which key the runtime of a TrainJob of this namespace is held: only those of the cluster have no `/`."""
    return ref.name if ref.kind == CLUSTER_RUNTIME else f"{namespace}/{ref.name}"


def maker(meta: Meta) -> str | None:
    """The TrainJob that made an object, as a gang is called; None for one that somebody else made."""
    for each in meta.owner_references:
        if each.controller and each.kind == TRAINJOB and each.api_version.startswith(f"{GROUP}/"):
            return gang_name(TRAINJOB, meta.namespace, each.name)
    return None


def running_jobset(found: TrainJob, jobset: JobSet | None) -> JobSet | None:
    """The JobSet of that name, where it is of this very TrainJob and both run; the Trainer changes none that runs."""
    if jobset is None or found.spec.suspend or jobset.spec.suspend:
        return None
    owners = {each.uid for each in jobset.metadata.owner_references if each.controller and each.kind == TRAINJOB}
    return jobset if found.metadata.uid in owners else None


def with_runtime(
    found: TrainJob, now_s: float, runtime: TrainingRuntime | str, running: JobSet | None = None
) -> Work | None:
    """A TrainJob as a piece of work; None for one that is a part of another, or that nobody put into a queue.

    `runtime` is what it names, or why that is not known; `running` the JobSet by which it runs.
    """
    meta, spec = found.metadata, found.spec
    own = tuple(each for each in spec.pod_template_overrides or () if not _is_ours(each))
    made = runtime if isinstance(runtime, str) else jobset_spec(spec, runtime.spec, own)
    if running is not None and not _trains_by_mpi(runtime):
        made = running.spec
    shown = _as_jobset(found, runtime, JobSetSpec() if isinstance(made, str) else made)
    named = "" if spec.managed_by in {None, "", CONTROLLER} else str(spec.managed_by)
    policy = None if isinstance(runtime, str) else runtime.spec.pod_group_policy
    if policy is not None and policy.volcano is not None:
        named = named or "Volcano"
    templates = [each.template.spec.template for each in shown.spec.replicated_jobs]
    known = claimed(meta, templates, named, now_s)
    if known is None:
        return None
    says, manager = known
    sets = placed_sets(list(jobset_sets(shown)))
    if says is not None:
        says = fixed(says, "JobSet lets nobody change how many pods it has")
        held_up = _unsized(spec.runtime_ref, made) if isinstance(made, str) else jobset_findings(shown, sets)
        says = replace(says, findings=(*says.findings, *held_up))
    true = {each.type for each in found.status.conditions if each.status == "True"}
    created_s = epoch_s(meta.creation_timestamp) or now_s
    return Work(
        ref=TargetRef(GROUP, VERSION, RESOURCE, TRAINJOB, meta.namespace, meta.name, meta.uid),
        version=meta.resource_version,
        generation=meta.generation,
        suspend_at="/spec/suspend",
        created_s=created_s,
        suspended=shown.spec.suspend,
        ended=meta.deletion_timestamp is not None or bool(true & ENDS),
        finished="Complete" in true,
        manager=manager,
        says=says,
        sets=sets,
        annotations=meta.annotations,
        started_s=resumed_s(shown, created_s),
        overrides=own,
        held_to=tuple(_hosts(each) for each in spec.pod_template_overrides or () if _is_ours(each)),
    )


def _trains_by_mpi(runtime: TrainingRuntime | str) -> bool:
    """Whether no start of ours can be counted, and so none is: not by what runs either."""
    policy = None if isinstance(runtime, str) else runtime.spec.ml_policy
    return policy is not None and policy.mpi is not None


def _unsized(ref: RuntimeRef, why: str) -> Iterator[WorkFinding]:
    value = f"{ref.kind} {ref.name} {why}, and so how many GPUs it takes is not known"
    remedy = "make or mend the runtime, or let it be read (config/rbac/train-jobs)"
    yield WorkFinding("spec.runtimeRef", value, remedy, code=UNSIZED, waits=True)


def _as_jobset(found: TrainJob, runtime: TrainingRuntime | str, spec: JobSetSpec) -> JobSet:
    """The JobSet as far as it can be told without it: what it is to be, how far its steps are."""
    theirs = {} if isinstance(runtime, str) else runtime.spec.template.metadata.annotations
    over = tuple(ReplicatedJobStatus(each.name, each.succeeded) for each in found.status.jobs_status)
    return JobSet(
        Meta(annotations={**theirs, **(found.spec.annotations or {})}),
        msgspec.structs.replace(spec, suspend=bool(found.spec.suspend)),
        JobSetStatus(found.status.conditions, over),
    )


def held_overrides(
    work: Work, puts: Sequence[Put], hostnames: Mapping[str, str], tolerated: Sequence[str]
) -> list[Mapping[str, Any]]:
    """What the job overrides of pod templates from now on: what its author wrote, then where each set is held to.

    Tolerations are overridden as a whole, so that those of the template stand among them.
    """
    ours: list[Mapping[str, Any]] = []
    for at in work.placed:
        each = work.sets[at]
        hosts = ",".join(sorted({hostnames[put.node] for put in puts if put.pod_set == at}))
        override: dict[str, Any] = {"targetJobs": [{"name": each.name}], "metadata": {"annotations": {HOSTS: hosts}}}
        given = each.template.tolerations
        more = [Toleration(key, "Exists") for key in tolerated if not any(one.covers(key) for one in given)]
        if more:
            override["spec"] = {"tolerations": [msgspec.to_builtins(one) for one in (*given, *more)]}
        ours.append(override)
    return [*(work.overrides or ()), *ours]


def is_held(work: Work, overrides: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a job as the server has it holds its pods by these overrides: what it does not know it may drop."""
    return work.held_to == tuple(_hosts(each) for each in overrides if _is_ours(each))


def without_ours(work: Work) -> Mapping[str, Any]:
    """What leaves a job the overrides that its author wrote, and no others."""
    own = list(work.overrides or ())
    return {"op": "replace", "path": OVERRIDES, "value": own} if own else {"op": "remove", "path": OVERRIDES}


def _is_ours(override: Mapping[str, Any]) -> bool:
    """Whether an override is one that holds pods to nodes."""
    return bool(_hosts(override))


def _hosts(override: Mapping[str, Any]) -> str:
    meta = override.get("metadata")
    return str((meta.get("annotations") or {}).get(HOSTS, "")) if isinstance(meta, dict) else ""
