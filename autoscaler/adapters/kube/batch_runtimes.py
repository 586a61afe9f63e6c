"""The JobSet that Kubeflow's Trainer makes of a TrainJob and its runtime: sizes, templates, what waits for what.

Enters: a TrainJob of trainer.kubeflow.org/v1alpha1, the runtime that it names. Leaves: the JobSet as the Trainer (2.1)
would have it, in counts, resources and overrides, while what pods run is left as it is; or words why none can be told.
It is a copy in our memory: the JobSet itself is the Trainer's, and is never written.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.batch_objects import Asks, JobSetSpec
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_objects import Said

CLUSTER_RUNTIME: Final = "ClusterTrainingRuntime"
RUNTIMES: Final = MappingProxyType({"TrainingRuntime": "trainingruntimes", CLUSTER_RUNTIME: "clustertrainingruntimes"})
"""Kinds of runtimes with their resources."""
STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
"""Label of a replicated Job's template: which step of training it is."""
TRAINER: Final = "trainer"
ALONE: Final = frozenset({TRAINER, "dataset-initializer", "model-initializer"})
"""Steps of which there is one Job, whatever the runtime says."""
NODE: Final = "node"
"""The container that trains."""
PLACING: Final = ("nodeSelector", "affinity", "tolerations")
"""What of an override says where pods go."""


class RuntimeRef(msgspec.Struct, frozen=True, gc=False):
    """Which runtime a TrainJob names."""

    name: str = ""
    kind: str = CLUSTER_RUNTIME


class Training(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """On how many nodes, with what each."""

    num_nodes: int | None = None
    resources_per_node: Asks | None = None


class TrainJobSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a TrainJob shall be."""

    suspend: bool | None = None
    managed_by: str | None = None
    runtime_ref: RuntimeRef = RuntimeRef()
    trainer: Training | None = None
    pod_template_overrides: tuple[dict[str, Any], ...] | None = None
    annotations: dict[str, str] | None = None
    """Of the JobSet."""


class StepStatus(msgspec.Struct, frozen=True, gc=False):
    """How many Jobs of one step ended well."""

    name: str = ""
    succeeded: int = 0


class TrainJobStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far a TrainJob is."""

    conditions: tuple[Said, ...] = ()
    jobs_status: tuple[StepStatus, ...] = ()


class TrainJob(msgspec.Struct, frozen=True, gc=False):
    """A TrainJob."""

    metadata: Meta = Meta()
    spec: TrainJobSpec = TrainJobSpec()
    status: TrainJobStatus = TrainJobStatus()


class MLPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many nodes a runtime trains on, and by what."""

    num_nodes: int | None = None
    mpi: dict[str, Any] | None = None


class PodGroupPolicy(msgspec.Struct, frozen=True, gc=False):
    """Who else schedules gangs."""

    volcano: dict[str, Any] | None = None


class JobSetTemplate(msgspec.Struct, frozen=True, gc=False):
    """The JobSet of a runtime, as it is written."""

    metadata: Meta = Meta()
    spec: dict[str, Any] = {}


class RuntimeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a runtime makes of a TrainJob."""

    ml_policy: MLPolicy | None = msgspec.field(default=None, name="mlPolicy")
    pod_group_policy: PodGroupPolicy | None = None
    template: JobSetTemplate = JobSetTemplate()


class TrainingRuntime(msgspec.Struct, frozen=True, gc=False):
    """A TrainingRuntime or a ClusterTrainingRuntime."""

    metadata: Meta = Meta()
    spec: RuntimeSpec = RuntimeSpec()


def jobset_spec(job: TrainJobSpec, runtime: RuntimeSpec, overrides: Sequence[Mapping[str, Any]]) -> JobSetSpec | str:
    """The JobSet of a TrainJob, with these overrides of pod templates; words where its sizes cannot be foretold."""
    if runtime.ml_policy is not None and runtime.ml_policy.mpi is not None:
        return "trains by MPI, whose launcher and nodes are not counted here"
    made: dict[str, Any] = deepcopy(runtime.template.spec)
    trained = False
    try:
        for each in made.get("replicatedJobs") or ():
            step = ((each["template"].get("metadata") or {}).get("labels") or {}).get(STEP)
            _size(each["template"]["spec"], step, job, runtime, has_nodes=step == TRAINER and not trained)
            trained = trained or step == TRAINER
            if step in ALONE:
                each["replicas"] = 1
            for override in overrides:
                _override(each, override)
        return msgspec.convert(made, JobSetSpec, strict=False)
    except (msgspec.ValidationError, AttributeError, TypeError, KeyError) as error:
        return f"cannot be read: {type(error).__name__}: {error}"


def _size(spec: dict[str, Any], step: str | None, job: TrainJobSpec, runtime: RuntimeSpec, *, has_nodes: bool) -> None:
    """How many pods a step has, and what each asks for. Of several steps that train the first one has the nodes."""
    pods = spec.get("parallelism", 1)
    if step == TRAINER and runtime.ml_policy is not None:
        pods = 1 if runtime.ml_policy.num_nodes is None else runtime.ml_policy.num_nodes
    if job.trainer is not None and job.trainer.num_nodes is not None and has_nodes:
        pods = job.trainer.num_nodes
    spec["parallelism"] = spec["completions"] = pods
    asks = None if job.trainer is None else job.trainer.resources_per_node
    if step != TRAINER or asks is None or not (asks.limits or asks.requests):
        return
    for box in spec["template"]["spec"]["containers"]:
        if box.get("name") == NODE:
            box["resources"] = {"limits": dict(asks.limits), "requests": dict(asks.requests)}


def _override(each: dict[str, Any], override: Mapping[str, Any]) -> None:
    """Where the pods of a step go, where that is overridden."""
    if not any(target.get("name") == each["name"] for target in override.get("targetJobs") or ()):
        return
    pod, given = each["template"]["spec"]["template"]["spec"], override.get("spec") or {}
    for name in PLACING:
        if given.get(name) is not None:
            pod[name] = _merged(pod.get(name), given[name])


def _merged(old: Any, new: Any) -> Any:
    """One value with another put over it: fields one by one, lists whole."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {**old, **{name: _merged(old.get(name), value) for name, value in new.items()}}
