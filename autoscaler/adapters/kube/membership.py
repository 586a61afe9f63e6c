"""Which pods are whose replicas, and what they say of a target's count.

Enters: changes of pods. Leaves: the pods of a target and its `ReplicaReading`. A pod belongs to the target whose
controller made it: a Deployment's and a Rollout's through its ReplicaSet, a LeaderWorkerSet's replica is its leader
pod. A label selector alone would let any pod of the namespace pose as a replica and be asked for metrics.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pods import Pod
from autoscaler.api.claims import TargetRef
from autoscaler.core.types import ReplicaReading, StartingReplica

MAKERS: Final = (("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout"))
"""By the label whose value ends their ReplicaSets' names, kinds that make pods through one (argoproj/argo-rollouts:
rollout/sync.go names a ReplicaSet after the Rollout and that label)."""

LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
GATED: Final = "ReadinessGatesNotReady"
OVER: Final = frozenset({"Succeeded", "Failed"})

NO_PODS: Final[Mapping[str, Pod]] = MappingProxyType({})


class Owned(NamedTuple):
    """The target that a pod is a replica of."""

    kind: str
    workload: str


def owner_of(pod: Pod) -> Owned | None:
    """The target of which `pod` is a replica; None for a pod that nothing controls and for the workers of a group."""
    return owner_by(pod.metadata)


def group_of(pod: Pod) -> Owned | None:
    """The target that `pod` is a replica of, or a worker in a group of; None for a pod that nothing controls."""
    name = pod.metadata.labels.get(LWS_NAME)
    return owner_of(pod) if name is None else Owned("LeaderWorkerSet", f"{pod.metadata.namespace}/{name}")


def owner_by(meta: Meta) -> Owned | None:
    """The same, by a pod's metadata alone."""
    owner = next((o for o in meta.owner_references if o.controller), None)
    if owner is None:
        return None
    if LWS_NAME in meta.labels:
        if meta.labels.get(LWS_INDEX, "0") != "0":
            return None
        return Owned("LeaderWorkerSet", f"{meta.namespace}/{meta.labels[LWS_NAME]}")
    for label, kind in MAKERS if owner.kind == "ReplicaSet" else ():
        template = meta.labels.get(label, "")
        if template and owner.name.endswith(f"-{template}"):
            return Owned(kind, f"{meta.namespace}/{owner.name.removesuffix(f'-{template}')}")
    return Owned(owner.kind, f"{meta.namespace}/{owner.name}")


def condition(pod: Pod, kind: str) -> tuple[bool, str, datetime | None]:
    """Whether a condition holds, the reason it gives and since when; a missing one does not hold."""
    for found in pod.status.conditions:
        if found.type == kind:
            return found.status == "True", found.reason, found.last_transition_time
    return False, "", None


def serving_since_s(pod: Pod) -> float | None:
    """When the pod became ready, in seconds since 1970; None while it is not, or is going away."""
    ready, _, since = condition(pod, "Ready")
    if not ready or since is None or pod.metadata.deletion_timestamp is not None:
        return None
    return since.timestamp()


def cut_off(pod: Pod) -> bool:
    """Whether the pod served when its node was last heard: its containers are ready and only the pod is not.

    That is what the control plane leaves of a lost node's pods (kubernetes/kubernetes: MarkPodsNotReady); one that
    waits for a readiness gate looks alike, and says so.
    """
    ready, reason, _ = condition(pod, "Ready")
    containers = pod.status.container_statuses
    return not ready and reason != GATED and bool(containers) and all(container.ready for container in containers)


def ended(pod: Pod) -> bool:
    """Whether the pod is going away, or has run to its end."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in OVER


class Membership:
    """The pods of every target."""

    def __init__(self) -> None:
        self._pods: dict[Owned, dict[str, Pod]] = defaultdict(dict)
        self._served: set[str] = set()
        """UIDs of pods that were ready once: without it, a probe that fails for a moment reads as a start."""

    def note(self, change: Change[Pod]) -> set[Owned]:
        """Take a change; the targets whose pods it touches."""
        touched = set()
        if change.old is not None and (owned := owner_of(change.old)) is not None:
            self._pods[owned].pop(change.key, None)
            if not self._pods[owned]:
                del self._pods[owned]
            touched.add(owned)
            if change.new is None:
                self._served.discard(change.old.metadata.uid)
        if change.new is not None and (owned := owner_of(change.new)) is not None:
            self._pods[owned][change.key] = change.new
            touched.add(owned)
            if serving_since_s(change.new) is not None:
                self._served.add(change.new.metadata.uid)
        return touched

    def pods(self, ref: TargetRef) -> Mapping[str, Pod]:
        """The target's pods by key, those that are going away included."""
        return self._pods.get(Owned(ref.kind, ref.workload), NO_PODS)

    def reading(self, ref: TargetRef, desired: int, failed: Callable[[str], bool] = lambda _: False) -> ReplicaReading:
        """The target's replicas: ready ones, and those under way with the instant each pod was made.

        A pod that was ready and is not is neither: what it will take to come back is not a warm-up. Nor is one that
        has `failed` (asked by ``namespace/name``), whatever its probes say.
        """
        ready = 0
        starting: list[StartingReplica] = []
        for key, pod in self.pods(ref).items():
            meta = pod.metadata
            if ended(pod) or failed(key):
                continue
            if serving_since_s(pod) is not None:
                ready += 1
            elif meta.uid not in self._served and not cut_off(pod) and meta.creation_timestamp is not None:
                placed, reason, _ = condition(pod, "PodScheduled")
                # The scheduler says both at once: there is no room, and on which node it makes some.
                stuck = not placed and reason == "Unschedulable" and not pod.status.nominated_node_name
                starting.append(StartingReplica(meta.creation_timestamp.timestamp(), meta.name, stuck))
        return ReplicaReading(desired, ready, tuple(sorted(starting, key=lambda s: (s.since_s, s.name or ""))))
