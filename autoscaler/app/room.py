"""What one replica of a claimed workload is made of, how many GPUs it holds, and how many its namespace lets in.

Enters: a followed cluster. Leaves: numbers, None where nothing says. A LeaderWorkerSet's replica is a whole group: its
leader and its workers.
"""

from collections.abc import Collection
from typing import Final

from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.membership import LWS_NAME
from autoscaler.adapters.kube.pods import MOST_PODS, Pod, Shape
from autoscaler.adapters.kube.shapes import gpus, quota_replicas
from autoscaler.api.claims import Claim

LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
"""An annotation of a group's pods: how many there are, the leader included (kubernetes-sigs/lws)."""


class Room:
    """Answers for claimed workloads."""

    def __init__(self, cluster: Cluster, gpu_resources: Collection[str]) -> None:
        self._cluster = cluster
        self._gpu_resources = gpu_resources

    def gpus(self, claim: Claim) -> int:
        """GPUs of one replica: the policy's word, else its pods'; 1 where neither says."""
        if claim.spec.gpus_per_replica is not None:
            return claim.spec.gpus_per_replica
        shape = self._shape(claim)
        return 1 if shape is None else gpus(shape, self._gpu_resources)

    def grace_s(self, claim: Claim) -> int | None:
        """Seconds that a pod has to end by itself once it is told to; None where its specification does not say."""
        shape = self._shape(claim)
        return None if shape is None else shape[0].termination_grace_period_seconds

    def quota(self, claim: Claim) -> int | None:
        """Replicas that quotas and limit ranges leave room for, those that are there included; None without any."""
        quotas, ranges = self._cluster.limits_of(claim.ref.namespace)
        if not (quotas or ranges):
            return None
        shape = self._shape(claim)
        if shape is None:
            return None
        return quota_replicas(shape, len(self._cluster.members.pods(claim.ref)), quotas, ranges)

    def asked(self, claim: Claim) -> int | None:
        """Replicas that the target asks for; None where it does not say."""
        target = self._cluster.target(claim.ref)
        return None if target is None else target.spec.replicas

    def starting(self, claim: Claim) -> bool:
        """Whether replicas are under way: pods of it that start, or fewer ready ones than are asked for."""
        asked = self.asked(claim) or 0
        reading = self._cluster.reading(claim.ref, asked)
        return bool(reading.starting) or reading.ready < asked

    def priority_class(self, claim: Claim) -> str | None:
        """The PriorityClass of its pods, empty where they name none; None where it is not known what they are."""
        shape = self._shape(claim)
        return None if shape is None else shape[0].priority_class_name

    def uses_resource_claims(self, claim: Claim) -> bool:
        """Whether its pods ask for devices by ResourceClaim (DRA)."""
        shape = self._shape(claim)
        return shape is not None and any(spec.resource_claims for spec in shape)

    def _shape(self, claim: Claim) -> Shape | None:
        """The pods of one replica: the template's, else those that are there."""
        target = self._cluster.target(claim.ref)
        shape = None if target is None else target.spec.shape
        if shape is not None:
            return shape
        return next((_group(pod) for pod in self._cluster.members.pods(claim.ref).values()), None)


def _group(pod: Pod) -> Shape:
    """The replica that a pod is, or leads: workers are taken to be like their leader."""
    said = pod.metadata.annotations.get(LWS_SIZE, "") if LWS_NAME in pod.metadata.labels else ""
    size = int(said) if said.isascii() and said.isdecimal() else 1
    return (pod.spec,) * min(max(size, 1), MOST_PODS)
