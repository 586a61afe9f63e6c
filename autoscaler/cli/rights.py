"""The rights that the controller's service account needs, each with what it is for.

The roles in ``config/rbac`` grant exactly these; `doctor` asks the API server about every one of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.kube.batch_runtimes import RUNTIMES
from autoscaler.adapters.kube.batch_trainer import GROUP as TRAINER
from autoscaler.adapters.kube.batch_trainer import RESOURCE as TRAINJOBS
from autoscaler.adapters.kube.batch_training import GROUP as KUBEFLOW
from autoscaler.adapters.kube.batch_training import TRAINING
from autoscaler.adapters.kube.store import config_maps
from autoscaler.api.claims import Kind

WATCHED: Final = (
    ("", "pods", "see which replicas are ready"),
    ("", "nodes", "count GPUs"),
    ("", "resourcequotas", "stay within quotas"),
    ("", "limitranges", "stay within limit ranges"),
    ("headroom.dev", "scalingpolicies", "read policies"),
    ("autoscaling", "horizontalpodautoscalers", "leave targets of HPAs alone"),
    ("keda.sh", "scaledobjects", "leave targets of KEDA alone"),
    ("autoscaling.k8s.io", "verticalpodautoscalers", "tell of VPAs on the same target"),
)

WITHOUT_NAMESPACE: Final = frozenset({"nodes"})


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource. `namespace` None means everywhere; `resource` may have a subresource behind a slash."""

    group: str
    resource: str
    verb: str
    why: str
    namespace: str | None = None
    name: str | None = None

    @property
    def words(self) -> str:
        """The right as a message names it: "patch apps/deployments/scale"."""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {f'{self.group}/' if self.group else ''}{self.resource}{where}"


REVIEWING: Final = (
    Right("authentication.k8s.io", "tokenreviews", "create", "know whose token is shown over HTTP"),
    Right("authorization.k8s.io", "subjectaccessreviews", "create", "know whether that account may read"),
)


@dataclass(frozen=True, slots=True)
class Own:
    """Headroom's own namespace, and the names of what is always there."""

    namespace: str
    lease: str
    freeze: str


def rights(
    kinds: Iterable[Kind],
    namespaces: Iterable[str],
    own: Own,
    *,
    keda: bool = True,
    deletion_cost: bool = False,
    slots: str | None = None,
    batch: bool = False,
    authorize: bool = False,
) -> tuple[Right, ...]:
    """All rights for these kinds of targets in these namespaces (none: everywhere), and for Headroom's own one.

    Without `keda` those are left out by which its Service finds the leader. `deletion_cost` adds those of the setting
    of that name, which stand in ``config/rbac/optional``; `slots`, the slots' namespace, those of warm pools, which
    stand in ``config/rbac/warm-pools``; `batch` those of batch admission, which stand in ``config/rbac/batch``;
    `authorize` those to look up who asks over HTTP, which stand in ``config/rbac/http``.
    """
    everywhere = tuple(namespaces) or (None,)
    marking = [Right("", "pods", "patch", "mark the pods that should go first", n) for n in everywhere if deletion_cost]
    pools = () if slots is None else _pools(slots)
    needed: dict[tuple[str, ...], Right] = {}
    for right in (
        *_wide(tuple(kinds), everywhere),
        *marking,
        *_own(own, keda=keda),
        *pools,
        *(_batch(everywhere) if batch else ()),
        *(REVIEWING if authorize else ()),
    ):
        place = (right.group, right.resource, right.verb, right.namespace or "", right.name or "")
        needed.setdefault(place, right)
    return tuple(needed.values())


def of_each_rule(needed: Iterable[Right]) -> tuple[Right, ...]:
    """Of rights that differ in a name alone the first: one rule grants them, and there are hundreds of names."""
    found: dict[tuple[str, ...], Right] = {}
    for right in needed:
        found.setdefault((right.group, right.resource, right.verb, right.namespace or ""), right)
    return tuple(found.values())


def _wide(kinds: tuple[Kind, ...], namespaces: tuple[str | None, ...]) -> Iterator[Right]:
    watched = [*WATCHED, *((kind.group, kind.resource, "see what may be scaled") for kind in kinds)]
    for group, resource, why in watched:
        for namespace in (None,) if resource in WITHOUT_NAMESPACE else namespaces:
            for verb in ("list", "watch"):
                yield Right(group, resource, verb, why, namespace)
    for namespace in namespaces:
        for kind in kinds:
            for verb in ("get", "patch"):
                yield Right(kind.group, f"{kind.resource}/scale", verb, "change replica counts", namespace)
        yield Right("headroom.dev", "scalingpolicies/status", "patch", "write conditions", namespace)
        for verb in ("create", "patch"):
            yield Right("", "events", verb, "tell of changes and refusals", namespace)
        for verb in ("list", "watch"):
            yield Right("", "events", verb, "measure how long images take", namespace)


def _pools(slots: str) -> Iterator[Right]:
    watched = (
        ("headroom.dev", "warmpools", "read warm pools"),
        ("scheduling.k8s.io", "priorityclasses", "see whether slots give way"),
        ("", "pods", "see what is on nodes"),
        ("", "nodes", "see what nodes have"),
        ("", "events", "hear that capacity is missing"),
        ("karpenter.sh", "nodeclaims", "follow nodes from their order on"),
        ("karpenter.sh", "nodepools", "see what tiers may launch"),
    )
    for group, resource, why in watched:
        for verb in ("list", "watch"):
            yield Right(group, resource, verb, why)
    yield Right("headroom.dev", "warmpools/status", "patch", "write conditions of warm pools")
    for verb in ("create", "patch"):
        yield Right("", "events", verb, "tell of warm pools")
        yield Right("karpenter.sh", "nodepools", verb, "keep NodePools of managed warm pools")
    yield Right("karpenter.sh", "nodeclaims", "delete", "give up nodes whose GPUs never come")
    for verb in ("create", "patch", "delete"):
        yield Right("", "pods", verb, "make, mark and give up slots", slots)
    for verb in ("list", "watch"):
        yield Right("", "events", verb, "see on which node a slot will be", slots)


def _batch(namespaces: tuple[str | None, ...]) -> Iterator[Right]:
    watched = (
        ("headroom.dev", "batchqueues", "read the queues of batch work"),
        ("batch", "jobs", "see what waits and what runs"),
        ("kueue.x-k8s.io", "workloads", "leave alone what Kueue manages"),
        ("scheduling.k8s.io", "priorityclasses", "see that batch work gives way to what serves"),
        ("", "pods", "see what is on nodes"),
        ("", "nodes", "see what nodes have"),
    )
    for group, resource, why in watched:
        for verb in ("list", "watch"):
            yield Right(group, resource, verb, why)
    for namespace in namespaces:
        yield Right("batch", "jobs", "patch", "let batch work start and stop", namespace)
    yield Right("headroom.dev", "batchqueues/status", "patch", "write conditions of queues and what is kept")
    for verb in ("create", "patch"):
        yield Right("", "events", verb, "tell batch work why it waits")


def jobset_rights(namespaces: Iterable[str]) -> tuple[Right, ...]:
    """What admission of JobSets takes besides in these namespaces (none: everywhere), where somebody wants it.

    It stands in ``config/rbac/jobsets``.
    """
    holds = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
    return (
        *_work("jobset.x-k8s.io", "jobsets", namespaces),
        *(
            Right("admissionregistration.k8s.io", resource, verb, "see that their pods are held to nodes")
            for resource in holds
            for verb in ("list", "watch")
        ),
    )


def training_rights(namespaces: Iterable[str]) -> tuple[Right, ...]:
    """The same of the jobs of Kubeflow's training operator; it stands in ``config/rbac/training-jobs``."""
    everywhere = tuple(namespaces)
    return tuple(right for each in TRAINING for right in _work(KUBEFLOW, each.resource, everywhere))


def trainjob_rights(namespaces: Iterable[str]) -> tuple[Right, ...]:
    """The same of TrainJobs, besides what JobSets take; it stands in ``config/rbac/train-jobs``."""
    why = "see how large they are"
    runtimes = (Right(TRAINER, each, verb, why) for each in RUNTIMES.values() for verb in ("list", "watch"))
    return (*_work(TRAINER, TRAINJOBS, namespaces), *runtimes)


def pod_rights(namespaces: Iterable[str]) -> tuple[Right, ...]:
    """What it takes to let pods in from behind their gate, in each namespace that opted in (none: nowhere).

    It stands in ``config/rbac/pods``, for one namespace at a time; to read pods is a right of batch admission itself.
    """
    return tuple(Right("", "pods", "patch", "let pods in", namespace) for namespace in namespaces)


def _work(group: str, resource: str, namespaces: Iterable[str]) -> Iterator[Right]:
    """What admission of one kind of work takes: to read it everywhere, and to change it in these namespaces."""
    for verb in ("list", "watch"):
        yield Right(group, resource, verb, "see what waits and what runs")
    for namespace in tuple(namespaces) or (None,):
        yield Right(group, resource, "patch", f"let {resource} start and stop", namespace)


def _own(own: Own, *, keda: bool) -> Iterator[Right]:
    for verb in ("get", "patch"):
        yield Right("coordination.k8s.io", "leases", verb, "lead", own.namespace, own.lease)
    yield Right("coordination.k8s.io", "leases", "create", "lead", own.namespace)
    for verb in ("list", "patch") if keda else ():
        yield Right("", "pods", verb, "label the leader, so that KEDA's Service finds it", own.namespace)
    for verb in ("list", "watch"):
        yield Right("", "configmaps", verb, "see a freeze", own.namespace, own.freeze)
    yield Right("", "configmaps", "create", "keep checkpoints", own.namespace)
    for verb in ("get", "update", "delete"):
        for name in config_maps(own.lease):
            yield Right("", "configmaps", verb, "keep checkpoints", own.namespace, name)
