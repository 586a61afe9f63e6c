"""Which pieces of work Kueue has taken, where the objects themselves do not say so.

Enters: changes of Kueue's Workloads. Leaves: whom a Workload belongs to. With `manageJobsWithoutQueueName` Kueue takes
Jobs that name no queue of its own, and writes nothing into one before it lets it start: all that tells is the Workload,
which the Job controls. Verbs: list and watch on workloads.
"""

from collections import defaultdict
from typing import Final

import msgspec

from autoscaler.adapters.kube.batch_work import gang_name
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.meta import Meta

PATHS: Final = ("/apis/kueue.x-k8s.io/v1beta1/workloads", "/apis/kueue.x-k8s.io/v1beta2/workloads")
"""A server has the one, the other or both, by the age of its Kueue."""


class Workload(msgspec.Struct, frozen=True, gc=False):
    """Kueue's word for a piece of work; what it asks for is read of the piece itself."""

    metadata: Meta = Meta()


class Claims:
    """Who belongs to Kueue."""

    def __init__(self) -> None:
        self._of: dict[str, set[tuple[str, str]]] = defaultdict(set)
        """Gang -> UIDs of the objects that were taken, each with where that stands."""

    def note(self, path: str, change: Change[Workload]) -> tuple[str, str, str] | None:
        """A Workload came, changed or went; kind, namespace and name of whose it is.

        None for nobody's, and where that was known: Kueue writes its progress into a Workload again and again.
        """
        known = change.new or change.old
        assert known is not None
        meta = known.metadata
        owner = next((each for each in meta.owner_references if each.controller), None)
        if owner is None:
            return None
        gang, claim = gang_name(owner.kind, meta.namespace, owner.name), (owner.uid, f"{path}/{change.key}")
        claims = self._of[gang]
        before = len(claims)
        if change.new is not None:
            claims.add(claim)
        else:
            claims.discard(claim)
        if not claims:
            del self._of[gang]
        return None if len(claims) == before else (owner.kind, meta.namespace, owner.name)

    def has(self, gang: str, uid: str) -> bool:
        """Whether Kueue has taken this very object."""
        return any(taken == uid for taken, _ in self._of.get(gang, ()))
