"""What one replica knows of claims besides their figures, for whoever tells of them: statuses, events, KEDA.

Enters: a followed cluster, the workloads that are driven, the lead. Leaves: answers from memory; it decides nothing.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.lease import Elector
from autoscaler.adapters.kube.replicas import CUT_OFF_S
from autoscaler.api.claims import Claim, Doubt, Rejection, TargetRef
from autoscaler.api.modes import Mode
from autoscaler.app.problems import podless
from autoscaler.app.room import Room
from autoscaler.app.workloads import Workloads
from autoscaler.record.status import Problem


class Known:
    """The answers of the replica `identity`."""

    def __init__(self, *, cluster: Cluster, workloads: Workloads, elector: Elector, room: Room, identity: str) -> None:
        self._cluster = cluster
        self._workloads = workloads
        self._elector = elector
        self._room = room
        self._identity = identity

    def claim(self, workload: str) -> Claim | None:
        """The claim in force."""
        return self._workloads.driven.get(workload)

    def rejections(self, workload: str) -> tuple[Rejection, ...]:
        """Who asks for the workload in vain."""
        return self._cluster.resolution(workload).rejections

    def mode(self, claim: Claim) -> Mode:
        """The mode in force."""
        return self._workloads.mode(claim)

    def doubt(self, claim: Claim) -> Doubt | None:
        """What of a claim may have changed unseen; None while what was read is believed."""
        return self._workloads.doubt(claim)

    def podless(self, claim: Claim) -> Problem | None:
        """Why no pod of the target is found, where its kind is the reason."""
        return next(podless(self._cluster, claim.ref), None)

    def gpus(self, claim: Claim) -> int | None:
        """GPUs that one replica holds; None for one that holds none."""
        return self._room.gpus(claim) or None

    def standing(self, ref: TargetRef) -> int | None:
        """The target's count as it was last seen; None where it does not say."""
        target = self._cluster.target(ref)
        return None if target is None else target.spec.replicas

    def is_cut_off(self, ref: TargetRef) -> bool:
        """Whether that was too long ago to be the count of now."""
        return self._cluster.cut_off_s(ref) > CUT_OFF_S

    def policy_status(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The status that a ScalingPolicy shows; None where it is not followed."""
        found = self._cluster.policy(namespace, name)
        return None if found is None else msgspec.json.decode(found.status, type=dict[str, Any])

    @property
    def frozen(self) -> str | None:
        """Why nothing is acted upon, None while it is."""
        return self._cluster.frozen

    @property
    def leading(self) -> bool:
        """Whether this process may speak for the controller."""
        return self._elector.may_write()

    @property
    def leader(self) -> str:
        """Who else leads; empty while nobody does."""
        holder = self._elector.holder
        return "" if holder is None or holder.identity == self._identity else holder.identity

    @property
    def leader_address(self) -> str:
        """Where who else leads is reached; empty while nobody does."""
        holder = self._elector.holder
        return "" if holder is None or holder.identity == self._identity else holder.address
